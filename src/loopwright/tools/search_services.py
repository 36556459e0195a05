"""Services that search the web: Brave, Tavily and SearXNG.

Owns: their requests and answers. Must not know: the tool.
Sources, November 2026: Brave Search API, "Web Search" (GET /res/v1/web/search, at most 20 results, header
X-Subscription-Token); Tavily API, "Search" (POST /search, at most 20 results, bearer key); SearXNG documentation, "Search API"
(GET /search with format=json, which the server's settings have to allow).
Read next: `web_search.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any, Final

from ..model.errors import ConfigError
from ..ports.search_provider import SearchProvider, WebResult
from .web_services import JsonCall, WebService, list_in, object_in, text_in

BRAVE_URL: Final = "https://api.search.brave.com/res/v1"
TAVILY_URL: Final = "https://api.tavily.com"
SEARCH_TIMEOUT_S: Final = 20.0
_MAX_BYTES: Final = 5_000_000
_MOST: Final = 20
_BRAVE_KEYS: Final = ("BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY")
_TAVILY_KEY: Final = "TAVILY_API_KEY"
_SEARXNG: Final = "SEARXNG_URL"


class BraveSearch:
    """Brave Search. `base_url`: another address for the same protocol."""

    name = "brave"

    def __init__(
        self, api_key: str | None = None, *, base_url: str = BRAVE_URL, timeout_s: float = SEARCH_TIMEOUT_S
    ) -> None:
        """`api_key`: None takes it from BRAVE_API_KEY or BRAVE_SEARCH_API_KEY. Raises: `ConfigError` without one."""
        self._key = _key(self.name, api_key, _BRAVE_KEYS, os.environ)
        self._service = WebService(self.name, base_url, self._key, timeout_s=timeout_s, max_bytes=_MAX_BYTES)

    async def search(self, query: str, limit: int) -> Sequence[WebResult]:
        """See `SearchProvider.search`; at most 20 results."""
        params = {"q": query, "count": str(min(limit, _MOST)), "text_decorations": "false"}
        url = f"{self._service.base_url}/web/search"
        answer = await self._service.ask(JsonCall("GET", url, {"x-subscription-token": self._key}, params))
        web = object_in(answer.get("web"))  # absent when nothing was found
        found: Any = [] if web is None else web.get("results")
        return _results(self._service, found, "description", "page_age")[:limit]


class TavilySearch:
    """Tavily. `base_url`: another address for the same protocol."""

    name = "tavily"

    def __init__(
        self, api_key: str | None = None, *, base_url: str = TAVILY_URL, timeout_s: float = SEARCH_TIMEOUT_S
    ) -> None:
        """`api_key`: None takes it from TAVILY_API_KEY. Raises: `ConfigError` without one."""
        self._key = _key(self.name, api_key, (_TAVILY_KEY,), os.environ)
        self._service = WebService(self.name, base_url, self._key, timeout_s=timeout_s, max_bytes=_MAX_BYTES)

    async def search(self, query: str, limit: int) -> Sequence[WebResult]:
        """See `SearchProvider.search`; at most 20 results."""
        body = {"query": query, "max_results": min(limit, _MOST), "search_depth": "basic"}
        url = f"{self._service.base_url}/search"
        headers = {"authorization": f"Bearer {self._key}"}
        answer = await self._service.ask(JsonCall("POST", url, headers, body=body))
        return _results(self._service, answer.get("results"), "content", "published_date")[:limit]


class SearxngSearch:
    """A SearXNG server of one's own; its settings have to list `json` among `search.formats`."""

    name = "searxng"

    def __init__(self, base_url: str, *, timeout_s: float = SEARCH_TIMEOUT_S) -> None:
        """Raises: `ConfigError` when `base_url` is no http address."""
        self._service = WebService(self.name, base_url, timeout_s=timeout_s, max_bytes=_MAX_BYTES)

    async def search(self, query: str, limit: int) -> Sequence[WebResult]:
        """See `SearchProvider.search`; the first page of what the server found."""
        params = {"q": query, "format": "json"}
        answer = await self._service.ask(JsonCall("GET", f"{self._service.base_url}/search", {}, params))
        return _results(self._service, answer.get("results"), "content", "publishedDate")[:limit]


def search_provider_from_env(env: Mapping[str, str] | None = None) -> SearchProvider:
    """The provider that the environment names: SEARXNG_URL, BRAVE_API_KEY or TAVILY_API_KEY, the first that is set.

    Raises: `ConfigError` when none is.
    """
    known = os.environ if env is None else env
    if known.get(_SEARXNG):
        return SearxngSearch(known[_SEARXNG])
    if any(known.get(name) for name in _BRAVE_KEYS):
        return BraveSearch(_key("brave", None, _BRAVE_KEYS, known))
    if known.get(_TAVILY_KEY):
        return TavilySearch(known[_TAVILY_KEY])
    raise ConfigError(
        f"web_search needs a provider: pass one (BraveSearch, TavilySearch, SearxngSearch) or set {_SEARXNG},"
        f" {_BRAVE_KEYS[0]} or {_TAVILY_KEY}"
    )


def _key(name: str, given: str | None, variables: tuple[str, ...], env: Mapping[str, str]) -> str:
    key = (given or next((env[one] for one in variables if env.get(one)), "")).strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigError(f"{name} needs a key: pass api_key= or set {variables[0]}")
    return key


def _results(service: WebService, found: Any, snippet: str, published: str) -> list[WebResult]:
    listed = list_in(found)
    if listed is None:
        raise service.failed("its answer has no list of results")
    results: list[WebResult] = []
    for one in map(object_in, listed):
        if one is None or not text_in(one.get("url")):
            continue  # an answer without an address is of no use to anybody
        results.append(
            WebResult(
                title=unescape(text_in(one.get("title"))),
                url=text_in(one.get("url")),
                snippet=unescape(text_in(one.get(snippet))),
                published=text_in(one.get(published)),
            )
        )
    return results
