"""Where leaves run: the implementers of `ports/executor.py`.

Owns: the names for hosts, resolved on first use. Must not know: engines, stores, tools.
Read next: `in_process.py`, `subprocess.py`, `bubblewrap.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bubblewrap import BubblewrapLauncher
    from .in_process import InProcessExecutor
    from .subprocess import SubprocessExecutor
    from .worker_job import LoopOrder, WorkerBootstrap, WorkerLauncher

_HOME = {
    "BubblewrapLauncher": "bubblewrap",
    "InProcessExecutor": "in_process",
    "LoopOrder": "worker_job",
    "SubprocessExecutor": "subprocess",
    "WorkerBootstrap": "worker_job",
    "WorkerLauncher": "worker_job",
}

__all__ = [
    "BubblewrapLauncher",
    "InProcessExecutor",
    "LoopOrder",
    "SubprocessExecutor",
    "WorkerBootstrap",
    "WorkerLauncher",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
