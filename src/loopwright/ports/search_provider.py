"""The seam to whatever searches the web.

Owns: what is asked and what is answered. Must not know: services, HTTP.
Read next: `../tools/search_services.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class WebResult(Struct, frozen=True):
    """One thing that was found; all of it was written by strangers."""

    title: str
    url: str
    snippet: str = ""
    """A few sentences of plain text."""
    published: str = ""
    """When, as the service says it; "" when it does not."""


class SearchProvider(Protocol):
    """Searches the web."""

    @property
    def name(self) -> str:
        """How messages name it."""
        ...

    async def search(self, query: str, limit: int) -> Sequence[WebResult]:
        """At most `limit` results, the best first; none is no error.

        Raises: `WebServiceError` when the service refuses, fails, or answers what is not of its protocol, with its
        `retry_after_s` where it names one. Concurrency: any number of calls, from any event loop. Cancel: at any await.
        """
        ...
