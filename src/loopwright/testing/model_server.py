"""A model server on the loopback interface: recorded bodies, an offline model, and faults.

Owns: a small HTTP/1.1 server that speaks Chat Completions, Responses and Anthropic Messages.
Must not know: the transports that call it. Also a program: `python -m loopwright.testing.model_server --help`.
Read next: `transport_suite.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import pkgutil
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from ..model.messages import ToolCall
from ..model.usage import Usage
from ..ports.llm import LLMResponse
from .provider_bodies import asked_tools, asked_turns, error_body, event_bodies, protocol_of, whole_body


class ServedRequest(Struct, frozen=True, kw_only=True):
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    protocol: str
    """"chat", "responses" or "messages"."""

    @property
    def streamed(self) -> bool:
        """True when events were asked for."""
        return bool(self.body.get("stream"))

    @property
    def turns(self) -> list[tuple[str, str]]:
        """The conversation as (role, text); tool results have the role "tool"."""
        return asked_turns(self.protocol, self.body)

    @property
    def tools(self) -> list[str]:
        """Names of the offered tools."""
        return asked_tools(self.body)


class RawReply(Struct, frozen=True, kw_only=True):
    """Bytes to send as they are, in given pieces, with a fault where wanted."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    pieces: tuple[int, ...] = ()
    """Sizes of the pieces in which the body is written; the last size repeats; () writes it at once."""
    pause_s: float = 0.0
    """Wait before each piece."""
    first_pause_s: float = 0.0
    """Wait before the status line."""
    reset_after: int | None = None
    """Reset the connection after so many bytes of the body; None sends all of it."""
    stall: bool = False
    """Stay silent after the body instead of ending it."""


Reply: TypeAlias = LLMResponse | RawReply | str
"""A reply in neutral form (written in the protocol that was asked for), raw bytes, or a text."""

Model: TypeAlias = Callable[[ServedRequest], Reply]
"""An offline model: a plain function of the request. It may be called from the server's thread."""


def reply(text: str = "", *calls: tuple[str, dict[str, Any]], reasoning: str = "") -> LLMResponse:
    """A neutral reply; each of `calls` is (tool name, arguments)."""
    made = tuple([ToolCall(f"call_{i}", name, json.dumps(args)) for i, (name, args) in enumerate(calls)])
    usage = Usage(input_tokens=10, output_tokens=max(len(text.split()), 1), calls=1)
    return LLMResponse(
        text=text, reasoning=reasoning, tool_calls=made, finish_reason="tool_calls" if made else "stop", usage=usage
    )


def refusal(status: int, message: str = "refused by the test", **headers: str) -> RawReply:
    """A reply with an error status; keywords become headers, `retry_after="2"` is `retry-after: 2`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}.get(status, "api_error")
    body = error_body("chat", message, "invalid_request_error" if status == 400 else kind)
    return RawReply(status=status, body=body, headers={"content-type": "application/json", **given})


def echo_model(request: ServedRequest) -> Reply:
    """Says the last text of the request."""
    return reply(request.turns[-1][1] if request.turns else "")


class ModelServer:
    """Serves a script of replies, or a model, from a thread of its own.

    A script is used up in order; a request beyond its end gets status 500 and is listed in `unexpected`.
    """

    def __init__(self, script: Model | Sequence[Reply], *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._model: Model | None = script if callable(script) else None
        self._steps: Iterator[Reply] = iter(() if callable(script) else tuple(script))
        self._host = host
        self._port = port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self.requests: list[ServedRequest] = []
        """Everything that was asked, in order of arrival."""
        self.unexpected: list[ServedRequest] = []
        self.open_connections = 0

    @property
    def base_url(self) -> str:
        """The address to put into a config of any of the three protocols."""
        return f"http://{self._host}:{self._port}/v1"

    def __enter__(self) -> ModelServer:
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), name="model-server", daemon=True)
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the model server did not start within 10 s")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread is not None:
            self._thread.join(10)

    async def serve(self, announce: Callable[[str], object] | None = None) -> None:
        """Serves until `__exit__`; `announce` gets the base URL once the socket listens."""
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, self._host, self._port)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        if announce is not None:
            announce(self.base_url)
        try:
            await self._stopping.wait()
        finally:
            server.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        raw = writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open_connections -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its reply; False when the connection is over."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        protocol = protocol_of(path)
        request = ServedRequest(path=path, headers=headers, body=json.loads(body or b"{}"), protocol=protocol or "")
        self.requests.append(request)
        answer = self._answer(request) if protocol else refusal(404, f"no such path: {path}")
        return await self._write(writer, reader, self._raw(request, answer))

    def _answer(self, request: ServedRequest) -> Reply:
        if self._model is not None:
            return self._model(request)
        try:
            return next(self._steps)
        except StopIteration:
            self.unexpected.append(request)
            return refusal(500, "the script of the model server is used up")

    def _raw(self, request: ServedRequest, answer: Reply) -> list[bytes] | RawReply:
        if isinstance(answer, RawReply):
            return answer
        neutral = reply(answer) if isinstance(answer, str) else answer
        model = str(request.body.get("model", "model"))
        if request.streamed:
            return event_bodies(request.protocol, neutral, model)
        body = whole_body(request.protocol, neutral, model)
        return RawReply(body=body, headers={"content-type": "application/json"})

    async def _write(
        self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader, answer: list[bytes] | RawReply
    ) -> bool:
        if isinstance(answer, list):
            writer.write(_head(200, {"content-type": "text/event-stream"}, None))
            for event in answer:
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        await _pause(answer.first_pause_s)
        whole = not answer.pieces and answer.reset_after is None and not answer.stall and not answer.pause_s
        writer.write(_head(answer.status, answer.headers, len(answer.body) if whole else None))
        if whole:
            writer.write(answer.body)
            await writer.drain()
            return True
        body = answer.body if answer.reset_after is None else answer.body[: answer.reset_after]
        for piece in _cut(body, answer.pieces):
            await _pause(answer.pause_s)
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if answer.pause_s:
                await writer.drain()
        await writer.drain()
        if answer.reset_after is not None:
            _reset(writer)
            return False
        if answer.stall:
            await reader.read(1)  # ends when the client hangs up
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _head(status: int, headers: dict[str, str], length: int | None) -> bytes:
    kept = {
        k: v for k, v in headers.items() if k.lower() not in ("content-length", "content-encoding", "transfer-encoding")
    }
    kept["transfer-encoding" if length is None else "content-length"] = "chunked" if length is None else str(length)
    lines = [f"HTTP/1.1 {status} -", *[f"{name}: {value}" for name, value in kept.items()], "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _cut(body: bytes, sizes: tuple[int, ...]) -> Iterator[bytes]:
    position, index = 0, 0
    while position < len(body):
        size = max(sizes[min(index, len(sizes) - 1)], 1) if sizes else len(body)
        yield body[position : position + size]
        position += size
        index += 1


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends the connection with RST instead of FIN, as a crashed machine does."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _pause(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)  # noqa: TID251 - a slow provider is what is played here, in real time


def _load(name: str) -> Model:
    """The model that `module:function` names."""
    model: Model = pkgutil.resolve_name(name)
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves until it is stopped; the first line on standard output is the base URL."""
    parser = argparse.ArgumentParser(prog="python -m loopwright.testing.model_server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--model", default="loopwright.testing.model_server:echo_model", help="module:function")
    parser.add_argument("--words", type=int, help="instead of a model: each reply is so many words, one an event")
    given = parser.parse_args(arguments)
    steady = reply(" ".join(["word"] * (given.words or 0)))
    model: Model = _load(given.model) if given.words is None else lambda _: steady

    def announce(base_url: str) -> None:
        sys.stdout.write(base_url + "\n")
        sys.stdout.flush()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(ModelServer(model, port=given.port).serve(announce))


if __name__ == "__main__":
    main()
