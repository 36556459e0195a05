"""Shipped for everybody who tests with Loopwright: suites, fakes, servers with faults.

Owns: test tools that a user may want as well. Must not know: pytest, except where a module says so.
Read next: `scripted.py`, `model_server.py`.
"""

from .scripted import ScriptedLLM, ScriptError, calls, gated
from .transport_suite import TransportSuite, run_transport_suite

__all__ = [
    "ScriptError",
    "ScriptedLLM",
    "TransportSuite",
    "calls",
    "gated",
    "run_transport_suite",
]
