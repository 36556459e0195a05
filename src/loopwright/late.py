"""Modules that are loaded when something in them is first used, so that a new process starts with what it needs.

Owns: the stand-in for such a module. Must not know: any module. It stands beside the real import, which checkers read:

    if TYPE_CHECKING:
        from . import recovery
    else:
        recovery = Late("loopwright.engine.recovery")
"""

from __future__ import annotations

import importlib
from typing import Any


class Late:
    """A module by name; its parts are looked up in it at first use, and kept."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, part: str) -> Any:
        value = getattr(importlib.import_module(self._name), part)
        setattr(self, part, value)
        return value
