"""One process group: started, read, and dead before the call returns.

Owns: starting, reading without blocking the event loop, stopping the whole group. Must not know: shells, tools.

Why not asyncio's own subprocess: its wait can depend on a pipe that a grandchild keeps open, and it reaps the leader before
we can signal the group, after which the group's number could belong to others. Here the leader's end is watched through a
pidfd, the group is signalled while the leader is still a zombie, and only then it is reaped.
Read next: `shell.py`, `grep.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ..model.call_errors import ToolFailure
from ..model.errors import CancellationRequested
from ..ports.cancellation import CancellationToken
from ..ports.shell import ShellLaunch

TERM_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when the time limit is over."""
CANCEL_GRACE_S = 0.3
"""The same when the run is being stopped, which has to be quick."""
_DRAIN_S = 0.5
"""How long output is awaited after the group's end; only a process that left the group can keep it from ending."""
_POLL_S = 0.01
_CHUNK = 65_536

Sink = Callable[[bytes], bool]
"""Takes output as it comes, in the event loop's thread; False: enough, stop the process."""


class Ended(NamedTuple):
    """How a process ended."""

    exit_code: int
    """Negative: the signal that ended it."""
    timed_out: bool
    enough: bool
    """The sink had enough and the process was stopped."""


class BoundedOutput:
    """Keeps the first and the last bytes of an output of any length; it is a `Sink`."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit // 2
        self._tail_limit = limit - limit // 2
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0
        """Bytes seen."""

    def __call__(self, data: bytes) -> bool:
        """Takes output; always wants more."""
        self.total += len(data)
        if self._head_room:
            self._head.append(data[: self._head_room])
            data = data[self._head_room :]
            self._head_room -= len(self._head[-1])
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= self._tail_limit:
                self._tail_size -= len(self._tail.popleft())
        return True

    def text(self) -> str:
        """The output as text; what was dropped in the middle is counted where it stood."""
        head, tail = b"".join(self._head), b"".join(self._tail)[-self._tail_limit :]
        dropped = self.total - len(head) - len(tail)
        if dropped <= 0:
            return (head + tail).decode("utf-8", "replace")
        return f"{head.decode('utf-8', 'replace')}\n... {dropped} bytes not kept ...\n{tail.decode('utf-8', 'replace')}"


async def run_process(launch: ShellLaunch, sink: Sink, *, timeout_s: float, cancellation: CancellationToken) -> Ended:
    """Runs a process in a session and group of its own, standard input closed, both outputs into `sink` as they come.

    However it ends (by itself, time limit, stop, task cancellation), the whole group is dead before this returns, background
    children included. Only a process that left the group on purpose (setsid) survives; it cannot delay the return.
    Raises: `ToolFailure` when it cannot be started, `CancellationRequested` when the token was cancelled.
    """
    if _is_cancelled(cancellation):
        raise CancellationRequested(cancellation.reason)
    group = _Group(launch, sink)
    stopped = asyncio.ensure_future(cancellation.wait())
    grace_s = CANCEL_GRACE_S
    try:
        ends: set[asyncio.Future[Any]] = {group.exited, group.enough, stopped}
        await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        timed_out = not (group.exited.done() or group.enough.done() or stopped.done())
        if timed_out:
            grace_s = TERM_GRACE_S
    except asyncio.CancelledError:
        await _ended(group, grace_s, cancelled=True)
        raise
    finally:
        stopped.cancel()
    await _ended(group, grace_s, cancelled=False)
    if _is_cancelled(cancellation) and not group.ended_by_itself:
        raise CancellationRequested(cancellation.reason)
    return Ended(group.exit_code, timed_out, group.enough.done())


async def _ended(group: _Group, grace_s: float, *, cancelled: bool) -> None:
    """Ends the group. The first cancellation leaves it its grace, the second ends it at once.

    A stopped run cancels its token and right after that the task; taken for impatience, that would make every stop a SIGKILL.
    """
    ending = asyncio.ensure_future(group.end(grace_s))
    owed = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            if ending.cancelled():
                break
            if cancelled:
                ending.cancel()
            owed = cancelled = True
    if owed:
        raise asyncio.CancelledError
    if not ending.cancelled():
        ending.result()


def _is_cancelled(token: CancellationToken) -> bool:
    return token.cancelled  # a call, so that type checkers know that the answer can change


class _Group:
    """The process, its group and its output."""

    def __init__(self, launch: ShellLaunch, sink: Sink) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._output, theirs = os.pipe()
        try:
            self._process = subprocess.Popen(
                launch.argv,
                cwd=launch.cwd,
                env=dict(launch.env),
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            os.close(self._output)
            raise ToolFailure(f"{launch.argv[0]} could not be started: {error}") from error
        finally:
            os.close(theirs)
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self.enough: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self.ended_by_itself = False
        os.set_blocking(self._output, False)
        self._loop.add_reader(self._output, self._read)
        self._watch()

    @property
    def exit_code(self) -> int:
        return self._process.returncode

    async def end(self, grace_s: float) -> None:
        """Ends every process of the group and reads what is left; safe to be cancelled, then it is done at once."""
        self.ended_by_itself = self.exited.done()
        try:
            self._signal(signal.SIGTERM)
            await asyncio.wait({self.exited}, timeout=grace_s)
            if self.exited.done():
                self._process.wait()
                await self._until_empty(grace_s)
                self._signal(signal.SIGKILL)
            else:
                self._signal(signal.SIGKILL)
                await asyncio.wait({self.exited}, timeout=1.0)
                self._process.wait()
                await self._until_empty(_DRAIN_S)
            await asyncio.wait({self._closed}, timeout=_DRAIN_S)
        finally:
            self._signal(signal.SIGKILL)
            # SIGKILL is on its way, so this is a matter of a millisecond; a zombie left behind would be for ever.
            self._process.wait()
            self._release()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # nobody is left in it (macOS says "permission" for a group of zombies)

    async def _until_empty(self, within_s: float) -> None:
        """Waits until the group has no member; members whose new parent never reaps them are waited for in vain."""
        until = self._loop.time() + within_s
        while self._loop.time() < until:
            try:
                os.killpg(self._process.pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            await self._pause()

    async def _pause(self) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._loop.call_later(_POLL_S, _settle, done)
        await done

    def _read(self) -> None:
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._output)
            _settle(self._closed)
        elif not self._sink(data):
            _settle(self.enough)

    def _watch(self) -> None:
        """Settles `exited` when the leader has ended, without reaping it where the system can say so."""
        self._pidfd: int | None = None
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            self._poll()
        else:
            self._loop.add_reader(self._pidfd, lambda: _settle(self.exited))

    def _poll(self) -> None:
        if self._process.poll() is not None:
            _settle(self.exited)
        elif not self.exited.done():
            self._loop.call_later(_POLL_S, self._poll)

    def _release(self) -> None:
        self._loop.remove_reader(self._output)
        os.close(self._output)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
