"""Offline models for the commands, one request at a time; served by `python -m loopwright.testing.model_server`."""

from __future__ import annotations

from loopwright.testing.model_server import RawReply, Reply, ServedRequest, reply
from loopwright.testing.provider_bodies import event_bodies

LONG = "The quick brown fox jumps over the lazy dog, again and again. " * 6


TABLE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "On whose name?"},
        "seats": {"type": "integer", "minimum": 1, "maximum": 9},
        "meal": {"enum": ["lunch", "dinner"]},
        "inside": {"type": "boolean", "default": True},
    },
    "required": ["name", "seats"],
}


def slowly(request: ServedRequest, said: object, *, pause_s: float) -> RawReply:
    """A reply whose events come one after the other."""
    events = event_bodies(request.protocol, said, "offline")  # type: ignore[arg-type]
    body = b"".join(events)
    return RawReply(body=body, pieces=(max(len(body) // 60, 1),), pause_s=pause_s)


def playful(request: ServedRequest) -> Reply:
    """Does what the newest user message says: files, bash, ask, form, both, endless, slow; else it repeats it."""
    turns = request.turns
    asked = [text for role, text in turns if role == "user"][-1]
    since = turns[max(i for i, (role, _) in enumerate(turns) if role == "user") + 1 :]
    results = [text for role, text in since if role == "tool"]
    if asked == "files" and not results:
        return reply("I look.", ("glob", {"pattern": "*.md"}), ("read_file", {"path": "missing.md"}))
    if asked.startswith("bash ") and not results:
        return reply("", ("bash", {"command": asked[5:]}))
    if asked == "ask" and not results:
        return reply(
            "", ("request_user_input", {"prompt": "Which colour?", "kind": "choice", "options": ["red", "blue"]})
        )
    if asked == "form" and not results:
        return reply("", ("request_user_input", {"prompt": "Book \x1b[31ma table", "kind": "form", "schema": TABLE}))
    if asked == "both" and not results:
        sure = ("request_user_input", {"prompt": "Sure?", "kind": "confirm"})
        return reply("", sure, ("request_user_input", {"prompt": "Your name?"}))
    if asked == "endless":
        return reply("again", ("glob", {"pattern": "*"}))
    if asked == "slow":
        return slowly(request, reply(LONG), pause_s=0.05)
    if asked == "refuse":
        return RawReply(status=400, body=b'{"error": {"message": "no such model"}}', headers={})
    return reply(f"you said {asked}" + (f"; results: {' | '.join(results)}" if results else ""))
