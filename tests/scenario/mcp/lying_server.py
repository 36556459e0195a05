"""A small MCP server that misbehaves: JSON-RPC in lines, standard library only. The first argument says how.

Owns: one lie a mode. Run with `python -S -E`, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

MODE = sys.argv[1]
MARK = sys.argv[2] if len(sys.argv) > 2 else ""
OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}
DEEP: dict[str, Any] = {"type": "object"}
for _ in range(200):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
LIES: list[Any] = [
    {"name": "good", "description": "fine", "inputSchema": OBJECT},
    {"name": "no schema", "description": "none"},
    {"name": "list schema", "inputSchema": []},
    {"name": "text schema", "inputSchema": {"type": "string"}},
    {"name": "bad schema", "inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
    {"name": "far schema", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1:9/x"}},
    {"name": "huge schema", "inputSchema": {"type": "object", "description": "x" * 100_000}},
    {"name": "deep schema", "inputSchema": DEEP},
    {"description": "no name", "inputSchema": OBJECT},
    "no tool at all",
    {"name": "pro mise", "inputSchema": OBJECT, "outputSchema": {"type": "object", "required": ["n"]}},
]


def say(message: Any) -> None:
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


def answer(to: Any, result: Any) -> None:
    say({"jsonrpc": "2.0", "id": to, "result": result})


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def started() -> int:
    """How often this server was started, counted in the file `MARK`."""
    with open(MARK, "a+") as file:
        file.write(".")
        file.seek(0)
        return len(file.read())


def call(to: Any, params: dict[str, Any], starts: int) -> None:
    token = params.get("_meta", {}).get("progressToken")
    if MODE == "dies" or (MODE == "dies_once" and starts == 1):
        sys.stderr.write("fatal: out of cheese\n")
        sys.stderr.flush()
        os._exit(3)
    elif MODE == "silent":
        pass
    elif MODE == "twice":
        answer(to, text("one"))
        answer(to, text("two"))
    elif MODE == "wrong_id":
        answer("nobody", text("not for you"))
        answer(to + 1000, text("nor this"))
        answer(None, text("nor that"))
        answer(to, text("for you"))
    elif MODE == "huge":
        answer(to, text("x" * 9_000_000))
    elif MODE == "endless":
        while True:
            sys.stdout.write("x" * 65_536)
    elif MODE == "junk":
        say("this is no JSON")
        say("{" * 2_000)
        say({"hello": "there"})
        say({"jsonrpc": "2.0", "method": "notifications/of/nobody", "params": {"a": 1}})
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": "x"}})
        say({"jsonrpc": "2.0", "id": 77, "method": "do/something"})
        answer(to, text("after the junk"))
    elif MODE == "prints":
        while True:
            say("a log line that went to the wrong place")
    elif MODE == "notifies":
        while True:
            say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
    elif MODE == "stderr":
        for _ in range(200):
            sys.stderr.write("e" * 65_536)
        sys.stderr.write("\nthe last line\n")
        sys.stderr.flush()
        answer(to, text("after the noise"))
    elif MODE == "no_result":
        answer(to, {"content": "not a list"})
    elif MODE == "odd":
        answer(to, [1])
    elif MODE == "error":
        say({"jsonrpc": "2.0", "id": to, "error": {"code": -32000, "message": "no\nway"}})
    elif MODE == "environment":
        answer(to, text(json.dumps(dict(os.environ))))
    elif MODE == "cancelled":
        line = json.loads(sys.stdin.readline())
        with open(MARK, "w") as file:
            file.write(f"{line['method']} {line['params']['requestId'] == to}")
    elif MODE == "lies":
        answer(to, {"content": [], "structuredContent": {"m": 1}})
    else:
        answer(to, text(f"start {starts}"))


def main() -> None:
    starts = started() if MARK and MODE != "cancelled" else 1
    if MODE == "mute":
        threading.Event().wait()
    if MODE == "exits":
        sys.stderr.write("cannot open the door\n")
        sys.exit(4)
    changed = False
    for line in sys.stdin:
        message = json.loads(line)
        method, to, params = message.get("method"), message.get("id"), message.get("params", {})
        if method == "initialize":
            about = {"name": MODE, "version": "1"}
            can = {"tools": {"listChanged": True}}
            answer(to, {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": about})
        elif method == "tools/list":
            plain = {
                "name": "work",
                "description": "does",
                "inputSchema": OBJECT,
                "annotations": {"readOnlyHint": True},
            }
            other = {"name": "more", "inputSchema": OBJECT}
            answer(to, {"tools": LIES if MODE == "lies" else [plain, other] if changed else [plain]})
        elif method == "tools/call":
            call(to, params, starts)
            if MODE == "changes":
                changed = True
                say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        elif method == "ping":
            answer(to, {})


main()
