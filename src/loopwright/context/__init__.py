"""Context: what a model is given beside the conversation itself.

Owns: the public names of `loopwright.context`, resolved on first use. Must not know: the engine, stores, transports.
Read next: `store_memory.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .store_memory import StoreMemory

_HOME = {
    "StoreMemory": "store_memory",
}

__all__ = ["StoreMemory"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)
