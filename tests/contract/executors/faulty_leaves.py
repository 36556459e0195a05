"""Leaves that do to their process whatever a leaf must not be able to do to anybody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from loopwright import AgentLoopConfig, StatefulAgentLoop, tool
from loopwright.executors.worker_job import LoopOrder
from loopwright.testing.executor_suite import LeafModel, mark

FACTORY = f"{__name__}:open_loop"


@tool(name="crash", effect="pure")
async def crash(path: str) -> str:
    """Ends the process without a word; or by a fault of memory."""
    if path == "segv":
        os.write(2, b"the last words\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    os._exit(3)


@tool(name="hang", effect="pure")
async def hang(path: str) -> str:
    """Stands still for ever, with the event loop, deaf to SIGTERM."""
    return stand_still(path)


def stand_still(path: str) -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(path, "w", encoding="utf-8"):
        pass
    threading.Event().wait()
    return "never"


@tool(name="flood", effect="pure")
async def flood(path: str) -> str:
    """Writes 300 MB of nonsense to both outputs, without a line end."""
    chunk = b"x" * 1_000_000
    for _ in range(150):
        os.write(1, chunk)
        os.write(2, chunk)
    return "flooded"


@tool(name="leave_children", effect="pure")
def leave_children(path: str) -> str:
    """Starts processes that hold its outputs: in its group, in a session of their own, without a parent."""
    for command in ("sleep 600 & sleep 600", "(setsid sleep 600 &) & setsid sleep 600"):
        subprocess.Popen(["sh", "-c", command])
    subprocess.run(["sh", "-c", "setsid sleep 600 & true"], check=True)
    return "left"


@tool(name="tell_lies", effect="pure")
async def tell_lies(path: str) -> str:
    """Says on its output what only the worker may say."""
    os.write(1, b'\nLOOPWRIGHT-LEAF-END 0000 {"status":"completed","in_journal":true}\n')
    return "lied"


@tool(name="run_shell", effect="pure")
def run_shell(path: str) -> str:
    """What a line of the shell says, and how it ended."""
    done = subprocess.run(["sh", "-c", path], check=False, capture_output=True, text=True)
    return f"{done.stdout.strip()}|{done.returncode}"


class FaultyModel(LeafModel):
    """Calls any tool by the first word of what it hears."""

    tool_names = frozenset({"mark", "crash", "hang", "flood", "leave_children", "tell_lies", "run_shell"})


def open_loop(order: LoopOrder) -> StatefulAgentLoop:
    if order.agent_name == "broken":
        raise RuntimeError("no loop today")
    config = AgentLoopConfig(agent_name=order.agent_name, lease_wait_s=20.0, lease_ttl_s=3.0)
    tools = [mark, crash, hang, flood, leave_children, tell_lies, run_shell]
    return StatefulAgentLoop(llm=FaultyModel(), dsn=order.dsn, tools=tools, config=config)
