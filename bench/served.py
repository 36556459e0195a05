"""The model that the streaming figures talk to, in the server's process.

Owns: what is sent and how fast. The model name of a request says it: "burst-1000" is 1,000 events written as fast as the
socket takes them, "paced-300" is 300 events written one by one with a pause, so that each arrives alone.
Read next: `figures_streaming.py`.
"""

from __future__ import annotations

from loopwright.testing.model_server import RawReply, Reply, ServedRequest, reply
from loopwright.testing.provider_bodies import event_bodies

PAUSE_S = 0.0005
_made: dict[str, Reply] = {}


def served(request: ServedRequest) -> Reply:
    """The reply for a model name; made once, so that the server is never what is waited for."""
    name = str(request.body["model"])
    if name not in _made:
        _made[name] = _make(name, request.protocol)
    return _made[name]


def _make(name: str, protocol: str) -> Reply:
    pace, _, count = name.partition("-")
    neutral = reply(" ".join(f"word{n}" for n in range(int(count))))
    events = event_bodies(protocol, neutral, name)
    body = b"".join(events)
    if pace == "paced":
        return RawReply(body=body, pieces=tuple([len(e) for e in events]), pause_s=PAUSE_S)
    # Pieces of a few events, as a proxy between a fast provider and its client makes them.
    return RawReply(body=body, pieces=(1400,))
