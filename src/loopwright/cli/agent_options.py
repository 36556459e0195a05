"""The options of all commands that run an agent, as one parameter of theirs.

Owns: which options those are, and the settings that they make. Must not know: what commands do with settings.
Read next: `options.py`, `agent_setup.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from .agent_setup import DEFAULT_AGENT, AgentSettings
from .options import (
    AgentName,
    AllowBash,
    BaseUrl,
    Db,
    MaxRounds,
    Mcp,
    McpConfig,
    Mode,
    Model,
    NoStream,
    Preset,
    Sandbox,
    System,
    Workspace,
)
from .shell_setup import AUTO
from .standard_streams import text_of_argument
from .store_place import DEFAULT_DB

_OPTIONS: Final[Mapping[str, tuple[Any, Any]]] = {
    "model": (Model, None),
    "base_url": (BaseUrl, None),
    "db": (Db, DEFAULT_DB),
    "workspace": (Workspace, None),
    "preset": (Preset, None),
    "allow_bash": (AllowBash, False),
    "sandbox": (Sandbox, AUTO),
    "mcp": (Mcp, False),
    "mcp_config": (McpConfig, None),
    "mode": (Mode, None),
    "max_rounds": (MaxRounds, None),
    "no_stream": (NoStream, False),
    "system": (System, None),
    "agent": (AgentName, DEFAULT_AGENT),
}
"""Name of a parameter → its option and its default, in the order of a help text."""

SETTINGS: Final = AgentSettings()
"""The default of the parameter `settings`; what a command gets is made of its options."""


def takes_agent(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with a parameter `settings: AgentSettings` has these options in its place, except those of `without`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        taken = [name for name in _OPTIONS if name not in without]

        @functools.wraps(command)
        def with_settings(**given: Any) -> None:
            said = {name: given.pop(name) for name in taken}
            command(**given, settings=_settings_of(said))

        parameters = list[inspect.Parameter]()
        for one in inspect.signature(command, eval_str=True).parameters.values():
            parameters += [_option(name) for name in taken] if one.name == "settings" else [_by_name(one)]
        with_settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_settings.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_settings

    return decorate


def _option(name: str) -> inspect.Parameter:
    annotation, default = _OPTIONS[name]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _by_name(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _settings_of(said: dict[str, Any]) -> AgentSettings:
    stream = not said.pop("no_stream", False)
    for name in ("workspace", "mcp_config"):
        if said.get(name) is not None:
            said[name] = str(said[name])
    if said.get("system") is not None:
        said["system"] = text_of_argument(said["system"])
    return AgentSettings(**said, stream=stream)
