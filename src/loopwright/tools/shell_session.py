"""A shell that lives on between the commands of one session.

Owns: starting it, one command after the other, what tells the end of a command from its output, when it ends. Must not know:
the tool (`shell.py`), where shells run (`ports/shell.py`).

The backend runs a small program in the language of the shell, which reads commands from its input and evaluates them in
itself: so folder, variables, functions and background jobs last. Around each command it writes a mark, with the exit code; it is made anew for each command from the system's randomness, so nothing that a command prints can be taken for it.
Read next: `shell.py`, `process.py`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import weakref
from typing import NamedTuple

from ..model.call_errors import ToolFailure
from ..model.errors import CancellationRequested
from ..ports.cancellation import CancellationToken
from ..ports.shell import ShellBackend
from .process import BoundedOutput, Started, kill_now, start, talk

IDLE_S = 1800.0
"""A shell without commands for so long is ended."""
MAX_OPEN = 64
"""Shells of one process; one more ends the one that was used least recently."""
_PIPE_BYTES = 65_536
_LONGEST_CODE = 8

# Descriptor 8 brings commands, 9 takes output; commands have neither, and no input. Errors of the program itself (a trace
# that a command switched on) go nowhere. `break` leaves the inner loop only. Options that would end the shell are set back.
_DRIVER = r"""
exec 8<&0 9>&1 </dev/null 2>/dev/null
_lw_nl='
'
while IFS= command read -r _lw_mark <&8 && IFS= command read -r _lw_lines <&8; do
  _lw_text=
  while [ "$_lw_lines" -gt 0 ]; do
    IFS= command read -r _lw_line <&8 || exit 0
    _lw_text=$_lw_text$_lw_line$_lw_nl
    _lw_lines=$((_lw_lines - 1))
  done
  command printf '%s+;' "$_lw_mark" >&9
  _lw_code=0
  for _lw_once in 1; do
    eval "$_lw_text" >&9 2>&1 </dev/null 8<&- 9>&-
    _lw_code=$?
  done
  set +eux
  command printf '%s%s;' "$_lw_mark" "$_lw_code" >&9
done
"""


class Answer(NamedTuple):
    """How a command ended."""

    exit_code: int
    """Negative: the signal that ended the shell."""
    timed_out: bool
    alive: bool
    """The shell lives on."""
    new: bool
    """The command was the first of its shell."""
    lost: str
    """What became of the shell before it; empty when there was none that this process knows of."""


class ShellSession:
    """One shell at a time, begun by its first command and again after it ended.

    Concurrency: commands run one after the other, in any event loop; `close` from any thread. When the object goes, or the
    process ends in order, the shell and all of its group are killed.
    """

    def __init__(self, backend: ShellBackend, workspace: str, *, idle_s: float = IDLE_S) -> None:
        self._backend = backend
        self._workspace = workspace
        self._idle_s = idle_s
        self._started: Started | None = None
        self._ending: weakref.finalize[[int, Started], ShellSession] | None = None
        self._lost = ""
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._busy = False
        self._uses = 0

    @property
    def pid(self) -> int | None:
        """Of the shell, or of the client of its sandbox; None when there is none."""
        return None if self._started is None else self._started.process.pid

    async def run(
        self, command: str, output: BoundedOutput, *, timeout_s: float, cancellation: CancellationToken
    ) -> Answer:
        """Runs one command; its output, and what jobs said since the last one, goes into `output`.

        When the time is over, or the run is stopped or cancelled, the shell ends with everything it started.
        Raises: `ToolFailure` for a command that cannot be given to a shell and when no shell can be started;
        `CancellationRequested`.
        """
        if "\0" in command:
            raise ToolFailure("the command holds a NUL character, which no shell can read; write it as \\0 in printf")
        async with self._lock():
            if cancellation.cancelled:
                raise CancellationRequested(cancellation.reason)
            if self._started is not None and _has_ended(self._started):
                self.close("ended between two commands")
            new, lost = self._started is None, self._lost
            started = self._started or self._start()
            self._busy = True
            self._uses += 1
            try:
                return await self._talk(started, command, output, timeout_s, cancellation, (new, lost))
            finally:
                self._busy = False
                self._used()

    def close(self, why: str) -> None:
        """Kills the shell with its group, if there is one; `why` is told with the next command."""
        if self._ending is not None and self._ending():
            self._gone(why)

    async def _talk(
        self,
        started: Started,
        command: str,
        output: BoundedOutput,
        timeout_s: float,
        cancellation: CancellationToken,
        begun: tuple[bool, str],
    ) -> Answer:
        mark = os.urandom(16).hex()
        until = _UntilMark(mark.encode(), output)
        alive = False
        why = "was stopped"
        try:
            ended = await talk(started, _frame(mark, command), until, timeout_s=timeout_s, cancellation=cancellation)
            alive = ended.enough
            why = (
                f"was stopped after {timeout_s:g} s"
                if ended.timed_out
                else f"ended with exit code {ended.exit_code}"
                if ended.exit_code >= 0
                else f"was ended by signal {-ended.exit_code}"
            )
        finally:
            if not alive:
                _forget(started)
                self._gone(why)
        until.finish()
        if not until.begun and not ended.timed_out:
            raise ToolFailure(
                f"the shell did not take the command and {why}; where it runs, standard input has to reach it: "
                f"{output.text().strip()[-2000:] or '(no output)'}"
            )
        code = until.code if until.code is not None else ended.exit_code
        return Answer(code, ended.timed_out, alive, *begun)

    def _start(self) -> Started:
        _make_room(self)
        started = start(self._backend.launch(_DRIVER, self._workspace), stdin=subprocess.PIPE)
        assert started.process.stdin is not None
        os.set_blocking(started.process.stdin.fileno(), False)
        self._started = started
        self._ending = weakref.finalize(self, _kill, os.getpid(), started)
        return started

    def _gone(self, why: str) -> None:
        if self._ending is not None:
            self._ending.detach()
        self._started = self._ending = None
        self._lost = why
        with _MUTEX:
            _OPEN.pop(self, None)

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        return self._turn[1]

    def _used(self) -> None:
        """Watched for idleness only where this event loop lives that long; else the object's end is the shell's."""
        if self._started is not None:
            with _MUTEX:
                _OPEN.pop(self, None)
                _OPEN[self] = None
            found: weakref.ref[ShellSession] = weakref.ref(self)
            asyncio.get_running_loop().call_later(self._idle_s, _close_idle, found, self._uses)

    def close_idle(self, uses: int) -> None:
        """Ends the shell unless it was used since it had been so often."""
        if not self._busy and self._uses == uses:
            self.close(f"was not used for {self._idle_s:g} s")

    @property
    def busy(self) -> bool:
        """True while a command runs."""
        return self._busy


class _UntilMark:
    """A sink that hands on what comes before the second mark, and has enough behind it.

    What comes before the first is of the shell's start, or of jobs since the last command.
    """

    def __init__(self, mark: bytes, output: BoundedOutput) -> None:
        self._mark = mark
        self._output = output
        self._held = b""
        self.begun = False
        """The shell took the command."""
        self.code: int | None = None

    def __call__(self, data: bytes) -> bool:
        self._held += data
        while (at := self._held.find(self._mark)) >= 0:
            word, ended, rest = self._held[at + len(self._mark) :].partition(b";")
            if not ended and len(word) < _LONGEST_CODE:
                return True
            self._output(self._held[:at])
            self._held = rest
            if word != b"+":
                self.code = int(word) if word.isdigit() else None
                self.finish()  # a job in the background was quick
                return False
            self.begun = True
        # The beginning of a mark may be at the end.
        cut = max(0, len(self._held) - len(self._mark) + 1)
        self._output(self._held[:cut])
        self._held = self._held[cut:]
        return True

    def finish(self) -> None:
        """Hands on what was held back."""
        self._output(self._held)
        self._held = b""


def _frame(mark: str, command: str) -> bytes:
    lines = command.split("\n")
    return "\n".join((mark, str(len(lines)), *lines, "")).encode("utf-8", "replace")


def _has_ended(started: Started) -> bool:
    """Without reaping it, so that its group can still be signalled."""
    return os.waitid(os.P_PID, started.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _forget(started: Started) -> None:
    """`talk` has ended and released the process; a stop before it began to has not."""
    if started.process.returncode is None:
        kill_now(started)


def _kill(owner: int, started: Started) -> bool:
    """True when it was killed: not by a fork of the process that started it."""
    if os.getpid() != owner:
        return False
    kill_now(started)
    return True


def _close_idle(session: weakref.ref[ShellSession], uses: int) -> None:
    found = session()
    if found is not None:
        found.close_idle(uses)


_MUTEX = threading.Lock()
_OPEN: weakref.WeakKeyDictionary[ShellSession, None] = weakref.WeakKeyDictionary()
"""Sessions with a shell, the least recently used in front."""


def _make_room(wanting: ShellSession) -> None:
    with _MUTEX:
        idle = [one for one in _OPEN if one is not wanting and not one.busy]
        full = len(_OPEN) >= MAX_OPEN
    if full and idle:
        idle[0].close("made room for another")
