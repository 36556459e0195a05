"""One private database server: its data in a folder of its own, on a free port, gone with its owner.

Owns: start, stop, restart and kill of a server process, and the user it runs as.
Must not know: which server it is; who asks for it.
Read next: `postgres.py` and `mariadb.py`, the two servers.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

START_S = 40.0
STOP_S = 10.0
PING_EVERY_S = 0.02
PORTS_TRIED = 5
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class ServerFailedError(Exception):
    """A server did not start or stop; the text ends with what it wrote to its log."""


def _die_with_parent() -> None:
    """Runs in the child: the kernel kills the server when the process that started it is gone."""
    if _LIBC is not None:
        _LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def adopt_orphans() -> None:
    """Makes this process the parent of what a killed server leaves, on Linux; `Server.kill` buries them."""
    if _LIBC is not None:
        _LIBC.prctl(_ADOPT_ORPHANS, 1)


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def children_of(pid: int) -> list[int]:
    """The process ids of a process's children, on Linux; elsewhere none are found."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended meanwhile
            continue
        if parent == pid:
            found.append(int(path.parent.name))
    return found


class Server(ABC):
    """A server process on data of its own.

    `durable=False` leaves out every wait for the disk; a killed process loses nothing by that, a power failure would.
    `settings` are words for its command line, of MariaDB only. `made` is a folder that servers of one kind share: the
    first one leaves there what `prepare` made, and the others copy it, which is several times as fast.
    The calls block, and the process that calls `start` has to live as long as the server.
    """

    kind: str
    accounts: tuple[str, ...]
    stop_signal: signal.Signals

    def __init__(self, programs: Path, folder: Path, *, durable: bool = False, settings: Sequence[str] = ()) -> None:
        self.programs = programs
        self.folder = folder
        self.durable = durable
        self.settings = settings
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.data = folder / "data"
        self.made: Path | None = None
        self.log = folder / "log"

    @abstractmethod
    def prepare(self) -> None:
        """Makes the data folder; called once, before the first start."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The words that start the server in the foreground."""

    @abstractmethod
    def dsn(self, database: str | None = None) -> str:
        """The address of a database; without a name, of the one for the administrator."""

    @abstractmethod
    async def ping(self) -> None:
        """Connects and asks for 1; raises when the server does not answer."""

    def start(self) -> None:
        """Starts the server and returns when it answers; the first time it also makes the data and takes a port."""
        if self.process is not None:
            return
        if self.port:
            self._start()
            return
        self._new_folder(self.folder)
        if self.made is None:
            self.prepare()
        else:
            self._copy_or_prepare(self.made / "data")
        for attempt in range(PORTS_TRIED):
            self.port = free_port()
            try:
                self._start()
            except ServerFailedError:  # somebody may have taken the port meanwhile
                if attempt == PORTS_TRIED - 1:
                    raise
            else:
                return

    def stop(self) -> None:
        """Stops the server in order; one that does not stop is killed."""
        if self.process is None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_S)
            self.process = None
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends every process of the server at once, as a crash would."""
        if self.process is None:
            return
        pids = [self.process.pid, *children_of(self.process.pid)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process = None
        for pid in pids[1:]:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:  # only a process that adopts orphans has them to bury
                pass

    def restart(self, *, abrupt: bool = False) -> None:
        """Stops (or kills) the server and starts it again on the same port with the same data."""
        if abrupt:
            self.kill()
        else:
            self.stop()
        self.start()

    def account(self) -> dict[str, Any]:
        """For root: the account that the server runs as, in the words of `subprocess`."""
        if os.getuid() != 0:
            return {}
        for name in self.accounts:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        raise ServerFailedError(
            f"{self.kind} does not run as root and there is no account {' or '.join(self.accounts)}"
        )

    def environment(self) -> Mapping[str, str]:
        """Ours without the variables that would lead a server's program elsewhere."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MYSQL", "MARIADB"))}
        # Files of two servers that are made at once have the same names.
        return kept | {"LC_ALL": "C", "TMPDIR": str(self.folder)}

    def run(self, *words: str) -> None:
        """Runs one of the server's programs to its end."""
        with self.log.open("ab") as log:
            done = subprocess.run(words, stdout=log, stderr=log, check=False, **self._around())
        if done.returncode:
            raise ServerFailedError(f"{words[0]} ended with {done.returncode}: {self._last_words()}")

    def _new_folder(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        account = self.account()
        if account:
            os.chown(folder, account["user"], account["group"])

    def _copy_or_prepare(self, made: Path) -> None:
        if made.exists():
            self.run("cp", "-a", str(made), str(self.data))
            return
        self.prepare()
        if not made.parent.exists():
            self._new_folder(made.parent)
        whole = made.with_name(f"{made.name}-{self.folder.name}")
        self.run("cp", "-a", str(self.data), str(whole))
        whole.rename(made)

    def _around(self) -> dict[str, Any]:
        return {"stdin": subprocess.DEVNULL, "cwd": self.folder, "env": self.environment(), **self.account()}

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, and the starting process has no thread at work beside it
                **self._around(),
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                asyncio.run(self.ping())
            except Exception:  # noqa: BLE001 - every way in which a server that is not up yet may refuse
                if self._ended():
                    self.process = None
                    raise ServerFailedError(f"{self.kind} did not start: {self._last_words()}") from None
                if time.monotonic() > deadline:
                    self.kill()
                    raise ServerFailedError(f"{self.kind} does not answer: {self._last_words()}") from None
            else:
                return

    def _ended(self) -> bool:
        assert self.process is not None
        try:
            self.process.wait(PING_EVERY_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]
