"""One model behind HTTP: sends a rendered request, reads the reply whole or as it comes.

Owns: the HTTP client, time limits, status and network failures, the life of a connection.
Must not know: a protocol; `Wire` says how one is written and read.
Read next: `openai_chat.py`, the first implementer of `Wire`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import httpx2

from ..model.errors import ConfigError, LLMError, LLMTransientError
from ..ports.ambient import RealAmbient
from ..ports.llm import LLMRequest, LLMResponse, LLMStreamChunk
from .kept_reasoning import with_asked_model
from .model_capabilities import ModelCapabilities
from .provider_config import LLMProviderConfig
from .provider_failures import FailureReader
from .reply_chunks import chunks_of
from .sse import EventReader
from .vendors import vendor_of
from .wire_parts import RenderedRequest, RenderSettings, encode_body

_DRAIN_S = 0.25
"""Wait for the end of a body whose reply has ended."""
_TAIL_S = 3.0
"""Wait for usage after a finish reason."""
_MAX_BODY_BYTES = 64 * 1024 * 1024


class StreamReader(Protocol):
    """Puts one streamed reply together."""

    ended: bool
    """The reply is complete: nothing that still comes can change it."""
    complete: bool
    """The protocol's terminal mark was seen; what still comes (usage) is optional."""

    def read(self, data: bytes) -> list[LLMStreamChunk]:
        """The chunks in one event. Raises: `LLMError` for an error event, `ValueError` for garbage."""
        ...

    def response(self) -> LLMResponse:
        """The whole reply; called once `complete`."""
        ...


class Wire(Protocol):
    """How one protocol is written and read."""

    path: str
    """Appended to the base URL."""

    def render(self, request: LLMRequest, settings: RenderSettings, *, stream: bool) -> RenderedRequest:
        """The body to send."""
        ...

    def read(self, body: bytes, host_names: Mapping[str, str], failures: FailureReader) -> LLMResponse:
        """A whole reply. Raises: `LLMError` for an error in it, `ValueError` for garbage."""
        ...

    def reader(self, host_names: Mapping[str, str], failures: FailureReader) -> StreamReader:
        """A reader for one streamed reply."""
        ...

    def headers(self, config: LLMProviderConfig) -> dict[str, str]:
        """Headers beside the key's."""
        ...


class HTTPModelService:
    """An `LLMService` over HTTP.

    Guarantees: those of the port; the connection of a cancelled or abandoned stream is closed at once.
    Concurrency: any number of calls, from any event loop; each loop has its own connections.
    """

    def __init__(self, config: LLMProviderConfig, wire: Wire) -> None:
        self.config = config
        self._wire = wire
        self._url = _join(config.url, wire.path)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()
        """One client for each event loop, since connections cannot leave theirs; empty with a host's own client."""
        self._headers = self._all_headers()
        secrets = [
            (config.api_key or "").strip(),
            *[v for k, v in config.headers.items() if k.lower() not in _PLAIN_HEADERS],
        ]
        if config.proxy:
            secrets.append(urlsplit(config.proxy).password or "")
        self._failures = FailureReader(config.provider, config.key_hint, secrets)
        self._clock = RealAmbient()
        self._timeout = httpx2.Timeout(config.timeout_s, connect=config.connect_timeout_s, pool=None)

    @property
    def model(self) -> str:
        """The model that is asked where a request names none."""
        return self.config.model

    @property
    def provider(self) -> str:
        """The tag of who serves it, by which prices are found."""
        return self.config.provider

    @property
    def capabilities(self) -> ModelCapabilities:
        """What is declared or known of the model."""
        return self.config.capabilities_of(self.config.model)

    def __repr__(self) -> str:
        return f"HTTPModelService({self.config!r})"

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """The whole reply at once."""
        rendered = self._render(request, stream=False)
        response = await self._send(rendered)
        try:
            body = await self._body(response)
        finally:
            await response.aclose()
        try:
            reply = self._wire.read(body, rendered.host_names, self._failures)
            return with_asked_model(reply, rendered.body.get("model"))
        except (ValueError, RecursionError) as error:
            what = "an empty body" if not body.strip() else "a body that is not a reply of its protocol"
            raise self._failures.transient(f"{what} with status 200 ({error})", status=200) from error

    async def stream(self, request: LLMRequest) -> AsyncGenerator[LLMStreamChunk, None]:
        """The reply as it comes; the last chunk carries `.response`."""
        rendered = self._render(request, stream=True)
        response = await self._send(rendered)
        pieces = _pieces(response)
        try:
            if "json" in response.headers.get("content-type", ""):
                # Some servers answer with a document although a stream was asked for.
                whole = self._wire.read(await self._body(response), rendered.host_names, self._failures)
                for chunk in chunks_of(with_asked_model(whole, rendered.body.get("model"))):
                    yield chunk
                return
            reader = self._wire.reader(rendered.host_names, self._failures)
            events = EventReader()
            read = reader.read
            try:
                async for piece in pieces:
                    for data in events.feed(piece):
                        for chunk in read(data):
                            yield chunk
                    if reader.complete:
                        break
                else:
                    for data in events.finish():
                        for chunk in read(data):
                            yield chunk
            except httpx2.HTTPError as error:
                raise self._network(error) from error
            if not reader.complete:
                raise self._failures.transient("the stream ended before the reply did", status=200)
            for chunk in await _read_tail(pieces, events, reader):
                yield chunk
            yield LLMStreamChunk(response=with_asked_model(reader.response(), rendered.body.get("model")))
        except (ValueError, RecursionError) as error:
            raise self._failures.transient(
                f"the stream holds what is not of its protocol ({error})", status=200
            ) from error
        finally:
            await pieces.aclose()
            await response.aclose()

    async def aclose(self) -> None:
        """Closes the connections, unless the host brought its own client; safe to call twice."""
        here = asyncio.get_running_loop()
        clients = list(self._clients.items())
        self._clients.clear()
        for loop, client in clients:
            if loop is here:
                await client.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop)

    def _render(self, request: LLMRequest, *, stream: bool) -> RenderedRequest:
        model = request.model or self.config.model
        settings = RenderSettings(
            model=model,
            vendor=self.config.vendor,
            host=self.config.host,
            capabilities=self.config.capabilities_of(model),
            max_output_tokens=self.config.max_output_tokens,
            temperature=self.config.temperature,
            extra=self.config.extra,
        )
        return self._wire.render(request, settings, stream=stream)

    async def _send(self, rendered: RenderedRequest) -> httpx2.Response:
        own: httpx2.AsyncClient | None = self.config.http_client
        client = own or self._clients.get(asyncio.get_running_loop()) or self._open_client()
        auth: Any = self.config.auth if self.config.auth is not None else httpx2.USE_CLIENT_DEFAULT
        try:
            request = client.build_request(
                "POST",
                self._url,
                content=encode_body(rendered.body),
                headers=self._headers_of(rendered),
                timeout=self._timeout,
            )
            response = await client.send(request, stream=True, auth=auth)
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise ConfigError(f"base_url cannot be used: {self._failures.clean(str(error))}") from error
        except httpx2.HTTPError as error:
            raise self._network(error) from error
        if 200 <= response.status_code < 300:
            return response
        try:
            body = await self._body(response)
        except LLMError:
            body = b""
        finally:
            await response.aclose()
        raise self._failures.of_status(response.status_code, response.headers, body, self._clock.now())

    async def _body(self, response: httpx2.Response) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > _MAX_BODY_BYTES:
                    raise self._failures.transient(f"a body of more than {_MAX_BODY_BYTES} bytes", status=200)
                pieces.append(piece)
        except httpx2.HTTPError as error:
            raise self._network(error) from error
        return b"".join(pieces)

    def _open_client(self) -> httpx2.AsyncClient:
        proxy = self.config.proxy
        try:
            # A proxy of the config stands in for those of the environment; NO_PROXY would otherwise undo it.
            client = httpx2.AsyncClient(proxy=proxy, trust_env=proxy is None, limits=_LIMITS)
        except (ValueError, ImportError, httpx2.InvalidURL) as error:
            raise ConfigError(f"proxy cannot be used: {self._failures.clean(str(error))}") from error
        self._clients[asyncio.get_running_loop()] = client
        return client

    def _network(self, error: httpx2.HTTPError) -> LLMTransientError:
        kind = type(error).__name__
        if isinstance(error, httpx2.ReadTimeout):
            return self._failures.transient(f"nothing came for {self.config.timeout_s:g} s ({kind})")
        return self._failures.transient(f"network fault at {self.config.host}: {kind} {error}".rstrip())

    def _headers_of(self, rendered: RenderedRequest) -> dict[str, str]:
        """The service's headers and those of this body; a list that both name holds the words of both."""
        if not rendered.headers:
            return self._headers
        both = {
            name: ",".join([self._headers[name], value])
            for name, value in rendered.headers.items()
            if name in self._headers
        }
        return {**self._headers, **rendered.headers, **both}

    def _all_headers(self) -> dict[str, str]:
        # Compression would make a proxy collect several events before it sends them on.
        headers = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "loopwright"}
        config = self.config
        if config.api_key and config.auth is None:
            name = vendor_of(config.provider).key_header
            headers[name] = f"Bearer {config.api_key}" if name == "authorization" else config.api_key
        headers.update(self._wire.headers(config))
        headers.update({name.lower(): value for name, value in config.headers.items()})
        return headers


_PLAIN_HEADERS = frozenset(
    ("user-agent", "accept", "content-type", "anthropic-version", "anthropic-beta", "http-referer", "x-title")
)
# A fan-out of hundreds of children must not wait for a connection; the loop's own limits bound it.
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60.0)


def _join(base_url: str, path: str) -> str:
    """The base URL with `path` appended to its path; a query such as `api-version=` stays at the end."""
    parts = urlsplit(base_url)
    base = parts.path.rstrip("/")
    if path == "/v1/messages" and base.endswith("/v1"):
        path = "/messages"
    if not base.endswith(path):
        base += path
    return urlunsplit(parts._replace(path=base))


def _pieces(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    encoding = response.headers.get("content-encoding", "identity")
    return response.aiter_raw() if encoding in ("", "identity") else response.aiter_bytes()


async def _read_tail(
    pieces: AsyncGenerator[bytes, None], events: EventReader, reader: StreamReader
) -> list[LLMStreamChunk]:
    """What still comes after the terminal mark: usage, `[DONE]`, the end of the body.

    Only with the body read to its end can the connection be used again. A server that keeps it open, or a fault, costs
    a short wait and the optional facts, never the reply.
    """
    chunks: list[LLMStreamChunk] = []
    try:
        async with asyncio.timeout(_DRAIN_S if reader.ended else _TAIL_S) as limit:
            async for piece in pieces:
                for data in events.feed(piece):
                    chunks.extend(reader.read(data))
                if reader.ended:
                    limit.reschedule(asyncio.get_running_loop().time() + _DRAIN_S)
            for data in events.finish():
                chunks.extend(reader.read(data))
    except (TimeoutError, ValueError, RecursionError, httpx2.HTTPError, httpx2.StreamError):
        pass
    return chunks
