"""The process of one leaf: started, spoken to, read within bounds, dead before its end is told.

Owns: pipes, process group, signals. Must not know: leaves, what is said on the pipes.
Like the processes of tools, and for the same reasons (`tools/process.py`), its end is watched through a pidfd, and its group is
signalled while its leader is not reaped, so that the group's number cannot have passed to others.
Read next: `subprocess.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .tagged import end_tagged

_CHUNK: Final = 65_536
_POLL_S: Final = 0.01
_DRAIN_S: Final = 0.5
"""How long output is awaited after everything that could be found was killed; only who escaped can keep it open."""

TAIL_BYTES: Final = 8_192
"""Of the error output that is kept: its last ones, for the reason of a crash."""


class LeafProcess:
    """A process in a session and group of its own. Concurrency: one event loop."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, *, tag: str, take: Callable[[bytes], None]
    ) -> None:
        """Starts it. `take` gets its standard output as it comes. Raises: `OSError`, `ValueError` when it cannot be started."""
        self._loop = asyncio.get_running_loop()
        self._tag = tag
        self._tail = bytearray()
        self._over = False
        self._readers: dict[int, Callable[[bytes], None]] = {}
        self._drained: asyncio.Future[None] = self._loop.create_future()
        theirs, ours = os.pipe()
        self._input: int | None = ours
        output, their_output = os.pipe()
        errors, their_errors = os.pipe()
        try:
            self._process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=dict(env),
                stdin=theirs,
                stdout=their_output,
                stderr=their_errors,
                start_new_session=True,
            )
        except BaseException:
            for pipe in (ours, output, errors):
                os.close(pipe)
            raise
        finally:
            for pipe in (theirs, their_output, their_errors):
                os.close(pipe)
        os.set_blocking(ours, False)
        for pipe, sink in ((output, take), (errors, self._keep_tail)):
            os.set_blocking(pipe, False)
            self._readers[pipe] = sink
            self._loop.add_reader(pipe, self._read, pipe)
        self.exited: asyncio.Future[None] = self._loop.create_future()
        """Done when the process itself has ended; what it started may still run."""
        self._pidfd: int | None = None
        self._watch()

    @property
    def exit_code(self) -> int:
        """After `end`; negative: the signal that ended it."""
        return self._process.returncode

    @property
    def tail(self) -> str:
        """The last of the error output."""
        return self._tail.decode("utf-8", "replace").strip()

    def say(self, line: bytes) -> None:
        """Writes a line to it. One that ended, or does not read, hears nothing: its end is told in another way."""
        if self._input is None:
            return
        try:
            os.write(self._input, line)
        except (BlockingIOError, BrokenPipeError):
            pass

    def hang_up(self) -> None:
        """Ends its standard input, which tells it that nobody waits for it."""
        if self._input is not None:
            os.close(self._input)
            self._input = None

    def terminate(self) -> None:
        """SIGTERM to the whole group."""
        self._signal(signal.SIGTERM)

    async def end(self) -> None:
        """Kills whatever of it is left, group and tagged processes, and reads the rest; within about two seconds.

        Cancel: the same is done at once, without reading.
        """
        try:
            self._signal(signal.SIGKILL)
            await asyncio.wait({self.exited}, timeout=1.0)
            self._process.wait()
            self._over = True
            await self._loop.run_in_executor(None, end_tagged, self._tag)
            await asyncio.wait({self._drained}, timeout=_DRAIN_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends it all now, without an event loop's help; safe to call twice."""
        if not self._over:
            self._signal(signal.SIGKILL)
            self._process.wait()  # a millisecond, since SIGKILL is on its way; a zombie left behind would be for ever
            self._over = True
            end_tagged(self._tag)
        self.hang_up()
        for own in list(self._readers):
            self._close(own)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _signal(self, number: int) -> None:
        if self._over:
            return
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # nobody is left in it (macOS says "permission" for a group of zombies)

    def _keep_tail(self, data: bytes) -> None:
        self._tail += data[-TAIL_BYTES:]
        del self._tail[:-TAIL_BYTES]

    def _read(self, own: int) -> None:
        try:
            data = os.read(own, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._readers[own](data)
        else:
            self._close(own)

    def _close(self, own: int) -> None:
        self._loop.remove_reader(own)
        del self._readers[own]
        os.close(own)
        if not self._readers:
            _settle(self._drained)

    def _watch(self) -> None:
        """Settles `exited` when the leader has ended, without reaping it where the system can say so."""
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            self._poll()
        else:
            self._loop.add_reader(self._pidfd, self._leader_ended)

    def _leader_ended(self) -> None:
        assert self._pidfd is not None
        self._loop.remove_reader(self._pidfd)  # it stays readable, and would be reported again and again
        _settle(self.exited)

    def _poll(self) -> None:
        if self._process.poll() is not None:
            _settle(self.exited)
        elif not self.exited.done():
            self._loop.call_later(_POLL_S, self._poll)


def _settle(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
