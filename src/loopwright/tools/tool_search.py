"""The tool through which a model finds tools that are not listed, and the source that keeps them back.

Owns: `tool_search`, `SearchableTools`. Must not know: what was found in which session (`engine/found_tools.py`).
Read next: `../core/tool_ranking.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from ..ports.tool import TOOL_SEARCH, ToolDefinition, ToolSource
from ..ports.tools_sought import ToolsSought
from .decorator import tool
from .descriptions import description_of
from .registry import ToolRegistry


def tool_search_tool() -> ToolDefinition:
    """`tool_search`: finds deferred tools by words and lists them from the next round on. Effect idempotent."""

    @tool(name=TOOL_SEARCH, description=description_of(TOOL_SEARCH), effect="idempotent", touches="session")
    async def tool_search(query: str, limit: Annotated[int, Meta(ge=1, le=20)] = 5) -> ToolsSought:
        """Find tools.

        Args:
            query: Words for what is to be done, or names of tools.
            limit: Tools to show.
        """
        return ToolsSought(query, limit)

    return tool_search


class SearchableTools:
    """A host's tools, and `tool_search` behind them while any of them is kept back; a host's own of this name stays.

    `beyond`: so many are listed, in their order, and the others are kept back as if they were deferred; tools that touch
    nothing but the session are always listed and not counted. None keeps back what is declared so.
    """

    def __init__(self, tools: ToolSource, beyond: int | None = None) -> None:
        self._tools = tools
        self._beyond = beyond
        self._own = ToolRegistry.of(tool_search_tool())
        self._seen: tuple[str, ...] | None = None
        self._late: frozenset[str] = frozenset()

    def get(self, name: str) -> ToolDefinition | None:
        """The host's tool of this name, deferred where it is kept back; else `tool_search`, else None."""
        found = self._tools.get(name)
        if found is None:
            return self._own.get(name)
        return replace(found, deferred=True) if name in self._kept_back(self._tools.names()) else found

    def names(self) -> tuple[str, ...]:
        """The host's names and, where something is kept back, `tool_search`."""
        given = self._tools.names()
        if TOOL_SEARCH in given or not (self._kept_back(given) or any(map(self._is_deferred, given))):
            return given
        return (*given, TOOL_SEARCH)

    def problems(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """What the owner of the tool says."""
        owner = self._own if self._tools.get(name) is None and name in self._own else self._tools
        return owner.problems(name, arguments)

    def _is_deferred(self, name: str) -> bool:
        found = self._tools.get(name)
        return found is not None and found.deferred

    def _kept_back(self, names: tuple[str, ...]) -> frozenset[str]:
        """Names of those that are beyond the number of listed ones."""
        if self._beyond is not None and names != self._seen:
            found = [one for name in names if (one := self._tools.get(name)) is not None]
            counted = [one.name for one in found if one.touches == "world" and not one.deferred]
            self._seen, self._late = names, frozenset(counted[self._beyond :])
        return self._late
