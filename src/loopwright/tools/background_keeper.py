"""Program that keeps one command in the background: its parent, its reader, its memory. Runs on its own, outside of any sandbox.

Owns: the files of one command (`STATUS`, `HEAD`, `TAILS`). Must not know: anything of this package; it is started by path, with
`python -I -S`, gets the folder as its argument and the launch as JSON on its standard input, and lives on when whoever started
it ends. It says "ok" or what is wrong on its standard output. A sandbox that dies with its parent dies with this process.
Read next: `background.py`, which starts it and reads the files.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

STATUS = "status.json"
HEAD = "output.head"
TAILS = ("output.tail", "output.before")
"""The end of the output; when the first is full it takes the place of the second."""
CUT = "output.cut"
"""Is there once something was dropped between head and tail."""
HEAD_BYTES = 524_288
TAIL_BYTES = 262_144
"""Of each of the two."""
GRACE_S = 2.0
_CHUNK = 65_536


def ticks_of(pid: int) -> int:
    """When a process was started, in ticks since the machine was; 0 when that cannot be known: it ended, or there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *rest = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0
    return 0 if state == "Z" else int(rest[18])


def boot() -> str:
    """Which start of the machine this is; "" where that cannot be known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


class _Files:
    """The output of one command, bounded."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._left = HEAD_BYTES
        self._file = self._opened(HEAD)
        self._size = 0
        self.total = 0

    def _opened(self, name: str) -> Any:
        return open(os.path.join(self._folder, name), "wb", buffering=0)

    def write(self, data: bytes) -> None:
        """Never raises for a full disk: the command goes on, and `total` says what is missing."""
        self.total += len(data)
        try:
            if self._left:
                head, data = data[: self._left], data[self._left :]
                self._left -= len(head)
                self._file.write(head)
                if not self._left:
                    self._file = self._opened(TAILS[0])
            if data:
                self._file.write(data)
                self._size += len(data)
            if self._size >= TAIL_BYTES:
                if os.path.exists(os.path.join(self._folder, TAILS[1])):
                    self._opened(CUT).close()
                os.replace(*(os.path.join(self._folder, name) for name in TAILS))
                self._file, self._size = self._opened(TAILS[0]), 0
        except OSError:
            pass


class _Keeper:
    def __init__(self, folder: str, launch: dict[str, Any]) -> None:
        self._folder = folder
        self._ends_at = time.monotonic() + launch["longest_s"]
        self._why = "exited"
        self._output, theirs = os.pipe()
        self._files = _Files(folder)
        try:
            self._process = subprocess.Popen(
                launch["argv"],
                cwd=launch["cwd"],
                env=launch["env"],
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        self._status: dict[str, Any] = {
            "command": launch["command"],
            "state": "running",
            "pid": os.getpid(),
            "ticks": ticks_of(os.getpid()),
            "child": self._process.pid,
            "child_ticks": ticks_of(self._process.pid),
            "boot": boot(),
            "started_at": time.time(),
            "ended_at": None,
            "exit_code": None,
            "output_bytes": 0,
        }
        self._store()

    def keep(self) -> None:
        """Until the command has ended, by itself or by a signal to this process."""
        asked, ask = os.pipe()
        os.set_blocking(ask, False)
        signal.set_wakeup_fd(ask, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, _noticed)
        watched = [self._output, asked]
        while not self._has_ended():
            ready = select.select(watched, [], [], max(0.0, self._ends_at - time.monotonic()))[0]
            if self._output in ready and not self._take():
                watched.remove(self._output)
            got = os.read(asked, 64) if asked in ready else b""
            if set(got) - {signal.SIGCHLD}:
                self._stop("stopped")
            elif not ready:
                self._stop("timed_out")
        self._close()

    def _has_ended(self) -> bool:
        """Without reaping it: its group is signalled before its number can pass to others."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _stop(self, why: str) -> None:
        self._why = why
        self._signal(signal.SIGTERM)
        reading = [self._output]
        until = time.monotonic() + GRACE_S
        while not self._has_ended() and time.monotonic() < until:
            if select.select(reading, [], [], 0.02)[0] and not self._take():
                reading = []
        self._signal(signal.SIGKILL)
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _take(self) -> bool:
        data = os.read(self._output, _CHUNK)
        self._files.write(data)
        return bool(data)

    def _close(self) -> None:
        self._signal(signal.SIGKILL)  # what it left in its group
        self._process.wait()
        # A process that left the group may hold the pipe for ever.
        until = time.monotonic() + 0.5
        while select.select([self._output], [], [], max(0.0, until - time.monotonic()))[0] and self._take():
            pass
        code = self._process.returncode
        self._status |= {"state": self._why, "exit_code": code, "ended_at": time.time()}
        self._status["output_bytes"] = self._files.total
        self._store()

    def _store(self) -> None:
        path = os.path.join(self._folder, STATUS)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(self._status, file)
        os.replace(f"{path}.new", path)


def _noticed(number: int, frame: object) -> None:
    """The wakeup descriptor has told it already."""


def main() -> None:
    """Leaves its parent behind as soon as the command runs."""
    folder = sys.argv[1]
    launch = json.load(sys.stdin)
    ours, theirs = os.pipe()
    if os.fork():
        os.close(theirs)
        with os.fdopen(ours, encoding="utf-8", errors="replace") as told:
            sys.stdout.write(told.read())
        return
    os.close(ours)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    try:
        keeper = _Keeper(folder, launch)
    except (OSError, ValueError) as error:
        os.write(theirs, str(error).encode())
        os._exit(1)
    os.write(theirs, b"ok")
    os.close(theirs)
    keeper.keep()


if __name__ == "__main__":
    main()
