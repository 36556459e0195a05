"""A server that answers streamable HTTP.

Owns: the client with the headers of its entry, bounds on answers, what a status means. Must not know: what messages mean.
Read next: `mcp_connection.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from .mcp_file import McpServerSpec
from .mcp_sdk import httpx2, streamable_http_client
from .mcp_streams import MAX_MESSAGE_BYTES, Streams

CONNECT_S: Final = 30.0
SILENCE_S: Final = 300.0
"""Between two pieces of an answer."""

_REFUSED: Final = {
    401: "it answered 401: it wants credentials; set the header Authorization of its entry",
    403: "it answered 403: the credentials of its entry are not enough",
}
_FORGOTTEN: Final = (400, 404)
_SESSION: Final = "mcp-session-id"


class HttpRoute:
    """See `McpRoute`. Redirects are followed only within the server's own origin, so headers go nowhere else."""

    def __init__(
        self,
        spec: McpServerSpec,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._spec = spec
        self._inner = transport
        self._max_message_bytes = max_message_bytes
        self._seen = _Seen()

    @property
    def why_it_ended(self) -> str | None:
        """A status that says why; that the server forgot the session; an answer that was too long."""
        return self._seen.why

    @property
    def is_refused(self) -> bool:
        """True when trying again cannot help before something is set."""
        return self._seen.is_refused

    @property
    def is_forgotten(self) -> bool:
        """True when a request with our session was answered 404, or 400, which some servers say instead."""
        return self._seen.is_forgotten

    @property
    def last_words(self) -> str:
        """Nothing: only answers can be read."""
        return ""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Streams]:
        """Opens no connection yet; the first request does."""
        inner = httpx2.AsyncHTTPTransport() if self._inner is None else self._inner
        watched = _Watched(inner, self._seen, self._max_message_bytes)
        client = httpx2.AsyncClient(
            transport=watched,
            headers=self._spec.headers,
            timeout=httpx2.Timeout(CONNECT_S, read=SILENCE_S),
            follow_redirects=False,
        )
        async with (
            client,
            streamable_http_client(
                self._spec.url or "", http_client=client, max_sse_event_size=self._max_message_bytes
            ) as (read, write),
        ):
            yield Streams(read, write)


class _Seen:
    """What the answers of one route said."""

    def __init__(self) -> None:
        self.why: str | None = None
        self.is_refused = False
        self.is_forgotten = False


class _Watched(httpx2.AsyncBaseTransport):
    """Notes what a status means, and cuts answers that are too long. A stream of events is bounded an event at a time."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, seen: _Seen, limit: int) -> None:
        self._inner = inner
        self._seen = seen
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer of the server; its body is read through a bound."""
        response = await self._inner.handle_async_request(request)
        if response.status_code in _REFUSED:
            self._seen.why, self._seen.is_refused = _REFUSED[response.status_code], True
        elif response.status_code in _FORGOTTEN and _SESSION in request.headers:
            self._seen.why, self._seen.is_forgotten = "it does not know our session any more", True
        elif response.status_code >= httpx2.codes.INTERNAL_SERVER_ERROR:
            self._seen.why = f"it answered {response.status_code}"
        else:
            self._seen.why = None
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream, self._seen, self._limit)
        return response

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, seen: _Seen, limit: int) -> None:
        self._inner = inner
        self._seen = seen
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limit:
                self._seen.why = f"it sent an answer of more than {self._limit} bytes"
                raise httpx2.ReadError(self._seen.why)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
