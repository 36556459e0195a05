"""Real processes that start in a tenth of the time: copies of one that has already imported what they need.

Owns: starting `python -m MODULE` as such a copy, and its `subprocess.Popen`-like handle. Must not know: what it does.
A copy has an id, signals, files, folder and environment of its own and ends as any other process does; it can be paused
and killed. What the start of an interpreter itself does (its options, its choice of an encoding) is for `subprocess`.
`subprocess` also starts all of them without Linux. Read next: `quick_origin.py`, the process that is copied.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
IS_LINUX = sys.platform == "linux" and hasattr(os, "pidfd_open")
AT_START = ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONOPTIMIZE", "PYTHONUTF8")
"""What only the start of an interpreter heeds: where it is another than here, no copy will do."""
START_S = 60.0


class Copied:
    """A copy that runs, or has ended. Its pipes are text; those that nobody asked for are None."""

    def __init__(self, origin: Origin, pid: int, pipes: Sequence[IO[str] | None]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = pipes
        self._origin = origin
        self._lock = threading.Lock()
        # It is not reaped before its end was asked for, so that this is about it and no other process.
        self._ended = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with self._lock:
            if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
                self.returncode = int(self._origin.ask({"ended": self.pid})[0])
                os.close(self._ended)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end. Raises: `subprocess.TimeoutExpired`; it runs on then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            select.select([self._ended], [], [], left)
        return code

    def is_paused(self) -> bool:
        """True while it is stopped by a signal."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it was seen to end."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Writes all of `given`, reads both pipes to their ends and waits; as of `subprocess`."""
        read: dict[IO[str], str] = {}
        pipes = [pipe for pipe in (self.stdout, self.stderr) if pipe is not None and not pipe.closed]
        readers = [threading.Thread(target=lambda pipe=pipe: read.update({pipe: pipe.read()})) for pipe in pipes]
        for reader in readers:
            reader.start()
        if self.stdin is not None and not self.stdin.closed:
            _written(self.stdin, given or "")
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            for reader in readers:
                reader.join(START_S)
        for pipe in pipes:
            pipe.close()
        out, err = [read.get(pipe, "") if pipe is not None else "" for pipe in (self.stdout, self.stderr)]
        return out, err


def _written(pipe: IO[str], given: str) -> None:
    try:
        pipe.write(given)
        pipe.close()
    except BrokenPipeError:  # it ended without reading
        pass


Process = Copied | subprocess.Popen[str]


def can_copy(env: Mapping[str, str]) -> bool:
    """Whether a copy is what a new interpreter in this environment would be."""
    return IS_LINUX and all(env.get(name) == os.environ.get(name) for name in AT_START)


class Origin:
    """The process that is copied; it ends with the one that started it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            words = [sys.executable, "-m", "tests.quick_origin", str(there.fileno())]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
            self._process = subprocess.Popen(
                words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], start_new_session=True
            )  # fmt: skip
        self._here.settimeout(START_S)

    def ask(self, request: Mapping[str, Any], files: Sequence[int] = ()) -> list[int]:
        """One request and its answer, one after the other whoever asks."""
        with self._lock:
            socket.send_fds(self._here, [json.dumps(request).encode()], files)
            answer: list[int] = json.loads(self._here.recv(4096))
        return answer

    def close(self) -> None:
        """Ends it."""
        self._here.close()
        self._process.wait(START_S)


@functools.cache
def origin() -> Origin:
    """The one of this process, started when it is first needed."""
    made = Origin()
    atexit.register(made.close)
    return made


def started(
    module: str,
    *words: str,
    cwd: Path | str,
    env: Mapping[str, str],
    pipes: Sequence[str] = (),
) -> Process:
    """Runs `python -m MODULE WORDS`, or the file that MODULE is; `pipes` are those of "stdin", "stdout", "stderr" that the caller holds the other end of.

    Input that is no pipe is empty; output goes where this process's goes.
    """
    if not can_copy(env):
        given = dict.fromkeys(pipes, subprocess.PIPE)
        command = [sys.executable, *([] if module.endswith(".py") else ["-m"]), module, *words]
        return subprocess.Popen(command, cwd=cwd, env=env, text=True, **({"stdin": subprocess.DEVNULL} | given))
    theirs: list[int] = []
    ours: list[IO[str] | None] = []
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if name in pipes:
            reading, writing = os.pipe()
            theirs.append(writing if number else reading)
            ours.append(os.fdopen(reading if number else writing, "r" if number else "w", encoding="utf-8"))
        else:
            theirs.append(os.dup(number) if number else os.open(os.devnull, os.O_RDONLY))
            ours.append(None)
    return Copied(origin(), copied(module, words, cwd, env, theirs), ours)


def on_terminal(module: str, *words: str, cwd: Path | str, env: Mapping[str, str], terminal: int) -> Process:
    """The same with this end of a pseudo-terminal as its terminal; the caller's file is closed."""
    if can_copy(env):
        files = [terminal, os.dup(terminal), os.dup(terminal)]
        return Copied(origin(), copied(module, words, cwd, env, files), [None] * 3)
    command = [sys.executable, "-m", "tests.quick_origin", "terminal", module, *words]
    ends = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    process = subprocess.Popen(command, cwd=cwd, env=env, text=True, start_new_session=True, **ends)
    os.close(terminal)
    return process


def copied(module: str, words: Sequence[str], cwd: Path | str, env: Mapping[str, str], files: Sequence[int]) -> int:
    """Starts a copy with these files as its streams, which are closed here; its id."""
    request = {"module": module, "words": words, "cwd": str(cwd), "env": dict(env)}
    try:
        return origin().ask(request, files)[0]
    finally:
        for file in files:
            os.close(file)


def ended(
    module: str, *words: str, cwd: Path | str, env: Mapping[str, str], stdin: str = "", timeout: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m MODULE WORDS` to its end, in pipes. Raises: `subprocess.TimeoutExpired`; it is killed then."""
    process = started(module, *words, cwd=cwd, env=env, pipes=("stdin", "stdout", "stderr"))
    out, err = process.communicate(stdin, timeout)
    return subprocess.CompletedProcess([module, *words], process.wait(), out, err)
