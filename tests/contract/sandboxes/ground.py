"""What attempts to escape are aimed at: canaries that the test made.

Owns: files, a process, sockets, a key; what can be seen of them afterwards. Must not know: the attempts.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.contract.sandboxes.escapes import Escape

ADD_KEY = {"x86_64": 248, "aarch64": 217}
SESSION_KEYRING = -3
PATIENCE_S = 5.0


class Ground:
    """One outside world; `workspace` makes the inside anew for each attempt."""

    def __init__(self, folder: Path, bwrap: Path) -> None:
        self.canary = f"canary-{uuid.uuid4().hex}"
        self.mark = f"lw-{uuid.uuid4().hex[:12]}"
        self._folder = folder
        self.bwrap = bwrap
        self.home = folder / "home"
        self.shared = [Path(place, self.mark) for place in ("/tmp", "/var/tmp", "/dev/shm")]
        for file in (self.home / ".ssh/id_rsa", self.home / ".aws/credentials", self.shared[0] / "secret"):
            file.parent.mkdir(parents=True)
            file.write_text(self.canary)
        self._tcp, self._udp, self._file, self._abstract = (
            socket.create_server(("0.0.0.0", 0)),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
        )
        self._udp.bind(("127.0.0.1", 0))
        self._socket = Path("/tmp", self.mark, "socket")
        self._file.bind(str(self._socket))
        self._abstract.bind(f"\0{self.mark}")
        for one in (self._file, self._abstract):
            one.listen()
        for one in (self._tcp, self._udp, self._file, self._abstract):
            one.setblocking(False)
        self._inherited = os.open(self.home / ".ssh/id_rsa", os.O_RDONLY)
        os.set_inheritable(self._inherited, True)
        key = self.canary.encode()
        libc = ctypes.CDLL(None)
        libc.syscall(
            ADD_KEY.get(os.uname().machine, -1),
            b"user",
            self.mark.encode(),
            key,
            len(key),
            ctypes.c_long(SESSION_KEYRING),
        )

    def prepared(self, number: int) -> Path:
        """A fresh workspace with a repository and a folder of ours, beside a fresh `outside` with a canary process in it."""
        place = self._folder / f"{number}"
        self.outside = place / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "secret").write_text(self.canary)
        workspace = place / "workspace"
        for name in (".git/hooks", ".loopwright"):
            (workspace / name).mkdir(parents=True)
        (workspace / ".git/config").write_text("[core]\n")
        self.seconds = str(100_000 + uuid.uuid4().int % 100_000)
        with (self.outside / "secret").open() as secret:
            self.process = subprocess.Popen(
                [self.canary, "1000"],
                executable="/bin/sleep",
                stdin=secret,
                cwd=self.outside,
                env={"CANARY": self.canary},
                start_new_session=True,
            )
        return workspace

    def fill(self, script: str) -> str:
        words = {
            "HOME": self.home, "OUTSIDE": self.outside, "TMP": self.shared[0], "VARTMP": self.shared[1],
            "SHM": self.shared[2], "MARK": self.mark, "PID": self.process.pid, "SECONDS": self.seconds,
            "PORT": self._tcp.getsockname()[1], "UDP": self._udp.getsockname()[1], "SOCKET": self._socket,
            "BWRAP": self.bwrap,
        }  # fmt: skip
        for name, value in words.items():
            script = script.replace(f"@{name}@", str(value))
        return script

    def worked(self, escape: Escape, output: str, workspace: Path, *, expected: bool) -> bool:
        """True when the attempt did what it was for. `expected`: what is waited for a while, where it may be late."""
        match escape.proof:
            case "leak":
                return self.canary in output
            case "said":
                return "ESCAPED" in output
            case "outside":
                return any((place / "written").exists() for place in (self.outside, self.home, *self.shared))
            case "program":
                return self.bwrap.read_bytes()[:4] != b"\x7fELF"
            case "workspace":
                hook, ours = workspace / ".git/hooks/pre-commit", workspace / ".loopwright/permissions.toml"
                return hook.exists() or ours.exists() or (workspace / ".git/config").read_text() != "[core]\n"
            case "killed":
                return self._settled(lambda: self.process.poll() is not None, expected)
            case "connected":
                return any(map(_heard, (self._tcp, self._udp, self._file, self._abstract)))
            case "outlived":
                return self._settled(lambda: bool(self.left()), expected)

    def _settled(self, happened: Callable[[], bool], expected: bool) -> bool:
        """Waits for what is expected: the kernel kills, and takes a sandbox down, a little after its call has returned."""
        until = time.monotonic() + PATIENCE_S
        while happened() != expected and time.monotonic() < until:
            pass
        return happened()

    def left(self) -> list[int]:
        """Processes that sleep for the seconds of this attempt."""
        found: list[int] = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if self.seconds.encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found

    def clear(self) -> None:
        """Ends and removes what an attempt may have left."""
        self.process.kill()
        self.process.wait()
        for pid in self.left():
            os.kill(pid, 9)
        for place in (self.outside, self.home, *self.shared):
            (place / "written").unlink(missing_ok=True)
        for place in ("/usr", "/usr/bin", "/bin", "/etc", "/opt", "/"):
            Path(place, self.mark).unlink(missing_ok=True)

    def close(self) -> None:
        for one in (self._tcp, self._udp, self._file, self._abstract):
            one.close()
        os.close(self._inherited)
        for place in self.shared:
            shutil.rmtree(place, ignore_errors=True)


def _heard(server: socket.socket) -> bool:
    try:
        if server.type == socket.SOCK_DGRAM:
            server.recv(10)
        else:
            server.accept()[0].close()
    except BlockingIOError:
        return False
    return True
