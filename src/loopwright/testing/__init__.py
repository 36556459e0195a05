"""Shipped for everybody who tests with Loopwright: suites, fakes, servers with faults.

Owns: test tools that a user may want as well. Must not know: pytest, except where a module says so.
Read next: `scripted.py`, `model_server.py`.
"""

from .canonical import canonical
from .crash_matrix import CrashMatrixError, CrashScenario, crash_matrix
from .crash_points import CrashPoints, EffectLog, StopAt
from .fake_tools import FakeTool
from .scripted import ScriptedLLM, ScriptError, calls, gated
from .transport_suite import TransportSuite, run_transport_suite
from .virtual import VirtualAmbient

__all__ = [
    "CrashMatrixError",
    "CrashPoints",
    "CrashScenario",
    "EffectLog",
    "FakeTool",
    "ScriptError",
    "ScriptedLLM",
    "StopAt",
    "TransportSuite",
    "VirtualAmbient",
    "calls",
    "canonical",
    "crash_matrix",
    "gated",
    "run_transport_suite",
]
