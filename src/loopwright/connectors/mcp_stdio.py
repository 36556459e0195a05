"""A server that runs as a program of ours and speaks in lines on its standard input and output.

Owns: its process group, its environment, bounds on what it sends, the end of what it prints to standard error.
Must not know: what the messages mean.

Why not the SDK's own transport: it keeps a line of any length, and leaves standard error to whoever has our terminal.
Read next: `mcp_connection.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from ..model.connection_errors import McpUnavailableError
from ..ports.ambient import Ambient, RealAmbient
from .mcp_file import McpServerSpec
from .mcp_sdk import MemoryObjectReceiveStream, MemoryObjectSendStream, SessionMessage, ValidationError, anyio, types
from .mcp_streams import (
    MAX_JUNK_LINES,
    MAX_MESSAGE_BYTES,
    MAX_MESSAGES_BETWEEN,
    MAX_MESSAGES_PER_SECOND,
    MAX_TAIL_CHARS,
    Streams,
)

HARMLESS: Final = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
)
"""What a server gets of this process's environment; keys and passwords are not in it. More comes from `env` of its entry."""

LEAVE_S: Final = 0.5
"""How long a server may take to end after its input was closed. Few wait for that, so it is short."""
TERM_S: Final = 2.0
"""Between SIGTERM and SIGKILL."""
WRITE_S: Final = 30.0
"""How long it may leave what we send unread."""
_CHUNK: Final = 65_536
_POLL_S: Final = 0.01


def environment(spec: McpServerSpec, env: Mapping[str, str]) -> dict[str, str]:
    """What the program of `spec` sees."""
    kept = {name: env[name] for name in HARMLESS if name in env and not env[name].startswith("()")}
    return {**kept, **spec.env}


class StdioRoute:
    """See `McpRoute`. The whole process group is dead when the block ends; only what left the group on purpose survives."""

    def __init__(
        self,
        spec: McpServerSpec,
        *,
        env: Mapping[str, str] | None = None,
        ambient: Ambient | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._spec = spec
        self._env = os.environ if env is None else env
        self._ambient = RealAmbient() if ambient is None else ambient
        self._max_message_bytes = max_message_bytes
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._ended: str | None = None
        self._is_refused = False
        self.is_forgotten = False
        """A program has one session, and knows it until it ends."""

    @property
    def is_refused(self) -> bool:
        """True when the program could not be started."""
        return self._is_refused

    @property
    def why_it_ended(self) -> str | None:
        """Flooding, a message that is too long, its exit code."""
        return self._ended

    @property
    def last_words(self) -> str:
        """The last characters of its standard error, and of lines on standard output that are no messages."""
        return "".join(self._tail)[-MAX_TAIL_CHARS:].strip()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Streams]:
        """Starts the program. Raises: `McpUnavailableError` when it cannot be started."""
        process = await self._started()
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.ensure_future(self._read(process, incoming)),
            asyncio.ensure_future(self._listen(process)),
            asyncio.ensure_future(self._write(process, outgoing, incoming)),
        ]
        try:
            yield Streams(read, write)
        finally:
            for stream in (read, write):
                stream.close()
            # The program has to go, whatever stops us: the work is done in a task that no cancellation of ours reaches.
            ending = asyncio.ensure_future(self._end(process, tasks))
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                _kill(process)
                raise
            finally:
                for stream in (incoming, outgoing):
                    stream.close()

    async def _started(self) -> asyncio.subprocess.Process:
        spec = self._spec
        try:
            return await asyncio.create_subprocess_exec(
                spec.command or "",
                *spec.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment(spec, self._env),
                cwd=spec.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._is_refused = True
            why = getattr(error, "strerror", None) or str(error)
            raise McpUnavailableError(spec.name, f"{spec.command} could not be started: {why}") from error

    async def _read(
        self, process: asyncio.subprocess.Process, into: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Lines to messages, one at a time: what is not taken yet stays in the pipe."""
        assert process.stdout is not None
        pieces: list[bytes] = []
        size = junk = 0
        flood = _Flood()
        try:
            while data := await process.stdout.read(_CHUNK):
                *lines, rest = data.split(b"\n")
                for line in lines:
                    message = self._message(b"".join([*pieces, line]))
                    pieces, size = [], 0
                    if message is None:
                        junk += 1
                        if junk > MAX_JUNK_LINES:
                            return self._give_up(f"printed {junk} lines to standard output that are no messages")
                        continue
                    junk = 0
                    if flood.is_one(message, self._ambient.monotonic()):
                        return self._give_up(f"flooded us with {flood.between} messages that nobody asked for")
                    await into.send(SessionMessage(message))
                pieces.append(rest)
                size += len(rest)
                if size > self._max_message_bytes:
                    return self._give_up(f"sent a message of more than {self._max_message_bytes} bytes")
            if self._ended is None:
                self._ended = "ended"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody reads any more: the connection is being closed
        finally:
            into.close()
        return None

    def _message(self, line: bytes) -> types.JSONRPCMessage | None:
        """What a line says; None for a line that says nothing, which is kept for error texts."""
        if len(line) > self._max_message_bytes:
            return None
        try:
            return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValidationError, ValueError, RecursionError):
            pass
        value: Any = None
        try:
            # Values that are nested deeply are refused above; they may stand in one tool of many.
            value = json.loads(line)
            return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
        except (ValidationError, ValueError, RecursionError):
            pass
        if line.strip():
            self._keep(line[:MAX_TAIL_CHARS].decode("utf-8", "replace") + "\n")
        return _broken_answer(value)

    def _give_up(self, why: str) -> None:
        if self._ended is None:
            self._ended = why

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while data := await process.stderr.read(_CHUNK):
            self._keep(data[-MAX_TAIL_CHARS * 4 :].decode("utf-8", "replace"))

    def _keep(self, text: str) -> None:
        self._tail.append(text[-MAX_TAIL_CHARS:])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= MAX_TAIL_CHARS:
            self._tail_size -= len(self._tail.popleft())

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        outgoing: MemoryObjectReceiveStream[SessionMessage],
        incoming: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdin is not None
        try:
            async for message in outgoing:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(line.encode("utf-8", "replace") + b"\n")
                async with asyncio.timeout(WRITE_S):
                    await process.stdin.drain()
        except TimeoutError:
            self._give_up(f"did not read its input for {WRITE_S:g} s")
            incoming.close()
        except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            incoming.close()  # it does not read any more; who waits for an answer learns it at once

    async def _end(self, process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Future[None]]) -> None:
        """Input closed, SIGTERM, SIGKILL, each after its time; then nothing of the group is left."""
        if process.stdin is not None:
            process.stdin.close()
        if self._ended in (None, "ended"):
            await _gone(process, LEAVE_S)
        if process.returncode is None:
            _signal(process, signal.SIGTERM)
            await _gone(process, TERM_S)
        _kill(process)
        await _gone(process, TERM_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._ended == "ended" and process.returncode is not None:
            code = process.returncode
            self._ended = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        transport: Any = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()  # a process that left the group may hold the pipes open for ever


def _broken_answer(value: Any) -> types.JSONRPCError | None:
    """What an answer that cannot be read comes to, so that nobody waits for it; None for what is no answer."""
    answer = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if "method" in answer or type(answer.get("id")) is not int:
        return None
    error = types.ErrorData(code=types.INTERNAL_ERROR, message="its answer is not as the protocol has it")
    return types.JSONRPCError(jsonrpc="2.0", id=answer["id"], error=error)


class _Flood:
    """Counts what a server sends without being asked."""

    def __init__(self) -> None:
        self.between = 0
        """Since the last answer."""
        self._second = 0.0
        self._in_second = 0

    def is_one(self, message: types.JSONRPCMessage, now: float) -> bool:
        """Whether, with this message at this time, it is too much."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self.between = 0
            return False
        if now - self._second >= 1.0:
            self._second, self._in_second = now, 0
        self._in_second += 1
        self.between += 1
        return self._in_second > MAX_MESSAGES_PER_SECOND or self.between > MAX_MESSAGES_BETWEEN


async def _gone(process: asyncio.subprocess.Process, within_s: float) -> None:
    """Waits until the program has ended. Not `wait`: that waits for its pipes too, and a grandchild may
    have them."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while process.returncode is None and loop.time() < until:
        done: asyncio.Future[None] = loop.create_future()
        loop.call_later(_POLL_S, _settle, done)
        await done


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in the group


def _kill(process: asyncio.subprocess.Process) -> None:
    _signal(process, signal.SIGKILL)
