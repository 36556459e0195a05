"""The tool that searches the web.

Owns: `web_search`: how results are shown. Must not know: who searches (`search_services.py`).
Read next: `../ports/search_provider.py`, `web_fetch.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, to_builtins

from ..core.fencing import from_outside
from ..model.visible import visible
from ..ports.search_provider import SearchProvider, WebResult
from ..ports.tool import ToolDefinition, ToolHandlerResult
from .decorator import tool
from .descriptions import description_of
from .search_services import search_provider_from_env

MAX_RESULTS = 20
_MAX_TITLE = 200
_MAX_URL = 2_000
_MAX_SNIPPET = 600


def web_search_tool(provider: SearchProvider | None = None) -> ToolDefinition:
    """`web_search` through a provider; None takes the one that the environment names. Effect pure.

    Raises: `ConfigError` when the environment names none.
    """
    searcher = provider or search_provider_from_env()

    @tool(description=description_of("web_search"), effect="pure", timeout_s=60, source="the web")
    async def web_search(
        query: Annotated[str, Meta(min_length=1, max_length=400)],
        max_results: Annotated[int, Meta(ge=1, le=MAX_RESULTS)] = 8,
    ) -> ToolHandlerResult:
        """Search the web.

        Args:
            query: What to look for: words, or a question.
            max_results: Results to show.
        """
        # A provider may be anybody's: what it gives is bounded here too.
        found = list(await searcher.search(query, max_results))[:max_results]
        data = {"provider": searcher.name, "results": [to_builtins(one) for one in found]}
        if not found:
            return ToolHandlerResult(f"{searcher.name} found nothing for {query!r}; try other words", data=data)
        return ToolHandlerResult(_shown(searcher.name, query, found), data=data)

    return web_search


def _shown(name: str, query: str, found: Sequence[WebResult]) -> str:
    lines: list[str] = []
    for number, one in enumerate(found, 1):
        when = f" ({_line(one.published, 40)})" if one.published else ""
        lines.append(f"{number}. {_line(one.title, _MAX_TITLE) or '(no title)'}{when}\n   {_line(one.url, _MAX_URL)}")
        if one.snippet:
            lines.append(f"   {_line(one.snippet, _MAX_SNIPPET)}")
    source = f"{name} search for {query}"
    return f"{len(found)} results of {name}:\n{from_outside(source, chr(10).join(lines))}"


def _line(text: str, limit: int) -> str:
    """A text of strangers on one line."""
    line = visible(" ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
