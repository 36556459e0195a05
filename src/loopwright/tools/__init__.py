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
    from .bubblewrap_shell import BubblewrapShellBackend
    from .choosing_shell import ChosenShell, shell_backend_for_here
    from .decorator import tool
    from .docker_shell import DockerShellBackend
    from .generate_image import generate_image_tool
    from .image_endpoint import ImageEndpoint
    from .local_shell import LocalShellBackend
    from .presets import create_default_tool_registry
    from .registry import ToolRegistry
    from .sandbox_limits import SandboxLimits
    from .search_services import BraveSearch, SearxngSearch, TavilySearch, search_provider_from_env
    from .tool_search import tool_search_tool
    from .view_image import view_image_tool
    from .web_access import WebAccess
    from .web_fetch import web_fetch_tool
    from .web_search import web_search_tool
    from .workspace import Workspace

_HOME = {
    "BraveSearch": "search_services",
    "BubblewrapShellBackend": "bubblewrap_shell",
    "ChosenShell": "choosing_shell",
    "DockerShellBackend": "docker_shell",
    "ImageEndpoint": "image_endpoint",
    "LocalShellBackend": "local_shell",
    "SandboxLimits": "sandbox_limits",
    "SearxngSearch": "search_services",
    "TavilySearch": "search_services",
    "ToolRegistry": "registry",
    "WebAccess": "web_access",
    "Workspace": "workspace",
    "agents_tool": "agents",
    "board_tools": "board",
    "create_default_tool_registry": "presets",
    "generate_image_tool": "generate_image",
    "hand_off_tool": "agents",
    "search_provider_from_env": "search_services",
    "shell_backend_for_here": "choosing_shell",
    "spawn_agent_tool": "agents",
    "tool": "decorator",
    "tool_search_tool": "tool_search",
    "view_image_tool": "view_image",
    "web_fetch_tool": "web_fetch",
    "web_search_tool": "web_search",
}

__all__ = [
    "BraveSearch",
    "BubblewrapShellBackend",
    "ChosenShell",
    "DockerShellBackend",
    "ImageEndpoint",
    "LocalShellBackend",
    "SandboxLimits",
    "SearxngSearch",
    "TavilySearch",
    "ToolRegistry",
    "WebAccess",
    "Workspace",
    "agents_tool",
    "board_tools",
    "create_default_tool_registry",
    "generate_image_tool",
    "hand_off_tool",
    "search_provider_from_env",
    "shell_backend_for_here",
    "spawn_agent_tool",
    "tool",
    "tool_search_tool",
    "view_image_tool",
    "web_fetch_tool",
    "web_search_tool",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
