"""Tools: from functions, by name, and a first set of built-in ones.

Owns: the public names of `loopwright.tools`, resolved on first use. Must not know: the engine.
Read next: `decorator.py`, `registry.py`, `presets.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agents import agents_tool, hand_off_tool, spawn_agent_tool
    from .board import board_tools
    from .decorator import tool
    from .local_shell import LocalShellBackend
    from .presets import create_default_tool_registry
    from .registry import ToolRegistry
    from .tool_search import tool_search_tool
    from .workspace import Workspace

_HOME = {
    "LocalShellBackend": "local_shell",
    "ToolRegistry": "registry",
    "Workspace": "workspace",
    "agents_tool": "agents",
    "board_tools": "board",
    "create_default_tool_registry": "presets",
    "hand_off_tool": "agents",
    "spawn_agent_tool": "agents",
    "tool": "decorator",
    "tool_search_tool": "tool_search",
}

__all__ = [
    "LocalShellBackend",
    "ToolRegistry",
    "Workspace",
    "agents_tool",
    "board_tools",
    "create_default_tool_registry",
    "hand_off_tool",
    "spawn_agent_tool",
    "tool",
    "tool_search_tool",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
