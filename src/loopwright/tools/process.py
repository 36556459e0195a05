"""One process group: started, read, and dead before the call returns.

Owns: starting, feeding and reading without blocking the event loop, stopping the whole group. Must not know: shells, tools.

Why not asyncio's own subprocess: its wait can depend on a pipe that a grandchild keeps open, and it reaps the leader before
we can signal the group, after which the group's number could belong to others. Here the leader's end is watched through a
pidfd, the group is signalled while the leader is still a zombie, and only then it is reaped.
Read next: `shell.py`, `shell_session.py`, `grep.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable
from typing import IO, Any, NamedTuple

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


class Started(NamedTuple):
    """A process in a session and group of its own, and what of it is ours."""

    process: subprocess.Popen[bytes]
    output: int
    """The reading end of its standard output and errors, without blocking."""


def start(launch: ShellLaunch, *, stdin: int | IO[bytes] = subprocess.DEVNULL) -> Started:
    """Starts it. Raises: `ToolFailure` when it cannot be started."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            launch.argv,
            cwd=launch.cwd,
            env=dict(launch.env),
            stdin=stdin,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        os.close(ours)
        raise ToolFailure(f"{launch.argv[0]} could not be started: {error}") from error
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    return Started(process, ours)


async def run_process(launch: ShellLaunch, sink: Sink, *, timeout_s: float, cancellation: CancellationToken) -> Ended:
    """Runs a process in a session and group of its own, standard input closed, both outputs into `sink` as they come.

    However it ends (by itself, time limit, stop, task cancellation), the whole group is dead before this returns, background
    children included. Only a process that left the group on purpose (setsid) survives; it cannot delay the return.
    Raises: `ToolFailure` when it cannot be started, `CancellationRequested` when the token was cancelled.
    """
    if _is_cancelled(cancellation):
        raise CancellationRequested(cancellation.reason)
    return await _raced(_Group(start(launch), sink), timeout_s, cancellation, keep=False)


async def talk(
    started: Started, feed: bytes, sink: Sink, *, timeout_s: float, cancellation: CancellationToken
) -> Ended:
    """Writes `feed` to a running process and reads until the sink has enough: then the process lives on (`enough`).

    In every other case, as when it ended, its time is over or it is stopped, its whole group is dead before this returns.
    Raises: `CancellationRequested` when the token was cancelled.
    """
    if _is_cancelled(cancellation):
        raise CancellationRequested(cancellation.reason)
    return await _raced(_Group(started, sink, feed), timeout_s, cancellation, keep=True)


def kill_now(started: Started) -> None:
    """Kills the group and releases what is ours, from any thread and without an event loop; blocks for a millisecond."""
    signal_group(started.process, signal.SIGKILL)
    started.process.wait()
    os.close(started.output)
    if started.process.stdin is not None:
        started.process.stdin.close()


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Signals the group of a process that was not reaped yet, so that its number cannot have passed to others."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it (macOS says "permission" for a group of zombies)


async def _raced(group: _Group, timeout_s: float, cancellation: CancellationToken, *, keep: bool) -> Ended:
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
    if keep and group.enough.done():
        group.leave()
        return Ended(0, timed_out=False, enough=True)
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
    """The process, its group and its output, watched by one event loop."""

    def __init__(self, started: Started, sink: Sink, feed: bytes = b"") -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._process, self._output = started
        self._feed = memoryview(feed)
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self.enough: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self.ended_by_itself = False
        self._loop.add_reader(self._output, self._read)
        if feed and self._process.stdin is not None:
            self._loop.add_writer(self._process.stdin, self._write)
        self._watch()

    @property
    def exit_code(self) -> int:
        return self._process.returncode

    async def end(self, grace_s: float) -> None:
        """Ends every process of the group and reads what is left; safe to be cancelled, then it is done at once."""
        self.ended_by_itself = self.exited.done()
        try:
            signal_group(self._process, signal.SIGTERM)
            await asyncio.wait({self.exited}, timeout=grace_s)
            if self.exited.done():
                self._process.wait()
                await self._until_empty(grace_s)
                signal_group(self._process, signal.SIGKILL)
            else:
                signal_group(self._process, signal.SIGKILL)
                await asyncio.wait({self.exited}, timeout=1.0)
                self._process.wait()
                await self._until_empty(_DRAIN_S)
            await asyncio.wait({self._closed}, timeout=_DRAIN_S)
        finally:
            signal_group(self._process, signal.SIGKILL)
            # SIGKILL is on its way, so this is a matter of a millisecond; a zombie left behind would be for ever.
            self._process.wait()
            self._release()

    async def _until_empty(self, within_s: float) -> None:
        """Waits until the group has no member; members whose new parent never reaps them are waited for in vain."""
        until = self._loop.time() + within_s
        while self._loop.time() < until:
            try:
                os.killpg(self._process.pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            await pause()

    def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            self._feed = self._feed[os.write(stdin.fileno(), self._feed) :]
        except BlockingIOError:
            return
        except OSError:
            self._feed = self._feed[:0]  # it reads no more; how it ended is told by its exit code
        if not self._feed:
            self._loop.remove_writer(stdin)

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

    def leave(self) -> None:
        """Watches it no longer and lets it live."""
        self._loop.remove_reader(self._output)
        if self._process.stdin is not None:
            self._loop.remove_writer(self._process.stdin)
        _settle(self.exited)  # for `_poll`
        self._forget_end()

    def _release(self) -> None:
        self._loop.remove_reader(self._output)
        os.close(self._output)
        if self._process.stdin is not None:
            self._loop.remove_writer(self._process.stdin)
            self._process.stdin.close()
        self._forget_end()

    def _forget_end(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


async def pause() -> None:
    """A moment, between two looks at what cannot be waited for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    loop.call_later(_POLL_S, _settle, done)
    await done


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
