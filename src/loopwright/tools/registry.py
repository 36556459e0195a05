"""The tools of an agent, by name.

Owns: `ToolRegistry`. Must not know: runs, sessions, providers.
Read next: `decorator.py`, `presets.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, cast

from ..model.errors import ConfigError, ToolNotFound
from ..ports.tool import ToolDefinition, ToolSource
from .decorator import TOOL_NAME, tool
from .settings_problems import settings_problems


class _Compiled(Protocol):
    def problems(self, value: Any) -> str | None: ...


class _Entry:
    """A tool and its compiled schema, shared by every subset that holds it."""

    __slots__ = ("_compiled", "definition")

    def __init__(self, definition: ToolDefinition) -> None:
        self.definition = definition
        self._compiled: _Compiled | None = None

    @property
    def compiled(self) -> _Compiled:
        """Made at first use. Raises: `ConfigError` when the schema is not valid."""
        if self._compiled is None:
            # The validator takes longer to load than everything else together; a process that calls no tool never pays.
            adapter = importlib.import_module("..validation", __name__)
            self._compiled = cast("_Compiled", adapter.CompiledSchema(self.definition.parameters))
        return self._compiled


class ToolRegistry:
    """Tools in the order in which they were registered, which is the order in which the model sees them.

    Reading is safe from any thread; register before a run starts, for a running prompt epoch has its tools frozen.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    @classmethod
    def of(cls, *tools: ToolDefinition | ToolSource | Callable[..., Any]) -> ToolRegistry:
        """A registry of definitions, of plain functions (as `@tool` would make them) and of other registries' tools.

        Raises: `ConfigError` for a name that occurs twice, and what `tool` raises.
        """
        registry = cls()
        for item in tools:
            for definition in _definitions(item):
                registry.register(definition)
        return registry

    def register(self, definition: ToolDefinition, *, overwrite: bool = False, check: bool = False) -> None:
        """Adds a tool; with `overwrite` it takes the place of the one of that name.

        Raises: `ConfigError` for a taken or unusable name and for settings that contradict each other, and with `check` for a schema that does not compile; without it
        the schema is compiled at the first call, so that start-up stays fast.
        """
        if not TOOL_NAME.fullmatch(definition.name):
            raise ConfigError(
                f"tool name {definition.name!r} must be 1 to 64 characters of A-Z, a-z, 0-9, _ and -: providers refuse others"
            )
        if definition.name in self._entries and not overwrite:
            raise ConfigError(
                f"a tool named {definition.name!r} is registered already; pass overwrite=True to replace it"
            )
        if problems := settings_problems(definition):
            raise ConfigError(problems)
        entry = _Entry(definition)
        if check:
            _ = entry.compiled
        self._entries[definition.name] = entry

    def unregister(self, name: str) -> ToolDefinition:
        """Removes and returns a tool. Raises: `ToolNotFound`."""
        if name not in self._entries:
            raise ToolNotFound(name, self.names())
        return self._entries.pop(name).definition

    def get(self, name: str) -> ToolDefinition | None:
        """The tool, or None."""
        entry = self._entries.get(name)
        return entry.definition if entry else None

    def has(self, name: str) -> bool:
        """True when a tool of this name is registered."""
        return name in self._entries

    def names(self) -> tuple[str, ...]:
        """All names in order."""
        return tuple(self._entries)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """All tools in order."""
        return tuple([entry.definition for entry in self._entries.values()])

    def subset(self, names: Iterable[str]) -> ToolRegistry:
        """A registry of those of `names` that are here, in this registry's order; unknown names are left out."""
        wanted = frozenset(names)
        narrowed = ToolRegistry()
        narrowed._entries = {name: entry for name, entry in self._entries.items() if name in wanted}
        return narrowed

    def problems(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Why `arguments` do not fit the tool's schema, naming each path; None when they do.

        A schema that does not compile is answered as a problem too: the model reads that the tool cannot be used.
        Raises: `ToolNotFound`.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise ToolNotFound(name, self.names())
        try:
            compiled = entry.compiled
        except ConfigError as error:
            return f"$: the tool cannot be used, its parameter schema is broken ({error})"
        return compiled.problems(arguments if isinstance(arguments, dict) else dict(arguments))

    def check(self) -> None:
        """Compiles every schema now, for tests and for `doctor`. Raises: `ConfigError` listing all that do not compile."""
        problems: list[str] = []
        for name, entry in self._entries.items():
            try:
                _ = entry.compiled
            except ConfigError as error:
                problems.extend(f"tool {name!r}: {problem}" for problem in error.problems)
        if problems:
            raise ConfigError(problems)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ToolDefinition]:
        return iter(self.definitions())

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __repr__(self) -> str:
        return f"ToolRegistry({', '.join(self._entries)})"


def _definitions(item: ToolDefinition | ToolSource | Callable[..., Any]) -> tuple[ToolDefinition, ...]:
    if isinstance(item, ToolDefinition):
        return (item,)
    if isinstance(item, ToolRegistry):
        return item.definitions()
    names = getattr(item, "names", None)
    get = getattr(item, "get", None)
    if callable(names) and callable(get):
        source = cast("ToolSource", item)
        return tuple([found for name in source.names() if (found := source.get(name)) is not None])
    if callable(item):
        return (tool(item),)
    raise ConfigError(f"{item!r} is no tool; pass functions, ToolDefinitions or registries")
