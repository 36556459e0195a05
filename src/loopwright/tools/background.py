"""Commands in the background: started, looked at and stopped, by this process or any later one.

Owns: where their files are, what is known of a command. Must not know: the tools (`shell.py`, `background_tool.py`), what a keeper
does (`background_keeper.py`).
The files are in `.loopwright/background/` of the workspace, which sandboxes cannot write to; a folder for each session.
Read next: `background_keeper.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ..model.call_errors import ToolFailure
from ..ports.shell import ShellLaunch
from .background_keeper import CUT, HEAD, STATUS, TAILS, boot, ticks_of
from .process import pause

MAX_RUNNING = 8
"""Of one session at once."""
MAX_KEPT = 32
"""Folders of one session; of those that ended the oldest go."""
LONGEST_S = 86_400.0
"""Then a command is stopped."""
_STOP_S = 5.0
_START_S = 20.0
_KEEPER = str(Path(__file__).with_name("background_keeper.py"))
_ID = re.compile(r"[0-9a-f]{8}")

CommandState = Literal["running", "exited", "stopped", "timed_out", "lost"]


class BackgroundCommand(Struct, frozen=True, kw_only=True):
    """What is known of one command."""

    id: str = ""
    command: str
    state: CommandState
    """`lost`: its keeper is gone, so how it ended cannot be known."""
    exit_code: int | None
    """Negative: the signal that ended it; None unless it has ended."""
    started_at: float
    """UTC epoch seconds."""
    ended_at: float | None
    output_bytes: int
    """Of all of its output; while it runs, 0."""
    pid: int
    """Of the keeper."""
    ticks: int
    child: int
    child_ticks: int
    boot: str


class BackgroundCommands:
    """The commands of one session in one workspace. Concurrency: any number of processes; methods block unless async."""

    def __init__(self, workspace: str, session_id: str) -> None:
        self._root = Path(workspace, ".loopwright", "background")
        self._folder = self._root / hashlib.sha256(session_id.encode()).hexdigest()[:16]

    def start(self, launch: ShellLaunch, command: str) -> str:
        """Starts a command and answers its id. Raises: `ToolFailure` when too many run, or it cannot be started."""
        known = self.all()
        running = [one.id for one in known if one.state == "running"]
        if len(running) >= MAX_RUNNING:
            raise ToolFailure(f"{MAX_RUNNING} commands run in the background already ({', '.join(running)}); stop one")
        for old in [one for one in known if one.state != "running"][: max(0, len(known) - MAX_KEPT + 1)]:
            shutil.rmtree(self._folder / old.id, ignore_errors=True)
        command_id = os.urandom(4).hex()
        folder = self._folder / command_id
        try:
            folder.mkdir(parents=True, mode=0o700)
            (self._root / ".gitignore").write_text("*\n")
        except OSError as error:
            raise ToolFailure(f"no folder for a command in the background can be made: {error}") from error
        said = _kept(folder, launch, command)
        if said != "ok":
            shutil.rmtree(folder, ignore_errors=True)
            raise ToolFailure(f"the command could not be started in the background: {said}")
        return command_id

    def all(self) -> list[BackgroundCommand]:
        """Every command whose files are still there, the one that was started first in front."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        found = [self._read(name) for name in names if _ID.fullmatch(name)]
        return sorted([one for one in found if one is not None], key=lambda one: one.started_at)

    def get(self, command_id: str) -> BackgroundCommand:
        """What is known of one. Raises: `ToolFailure` naming those that there are."""
        found = self._read(command_id) if _ID.fullmatch(command_id) else None
        if found is None:
            known = ", ".join(one.id for one in self.all()) or "none"
            raise ToolFailure(f"no command {command_id!r} in the background of this session; there are: {known}")
        return found

    def output(self, command_id: str) -> str:
        """Its output so far; what was dropped from the middle is said there."""
        folder = self._folder / self.get(command_id).id
        head = _bytes(folder / HEAD)
        tail = b"".join([_bytes(folder / name) for name in reversed(TAILS)])
        if not (folder / CUT).exists():
            return (head + tail).decode("utf-8", "replace")
        return f"{head.decode('utf-8', 'replace')}\n... the middle was not kept ...\n{tail.decode('utf-8', 'replace')}"

    async def ended(self, command_id: str, within_s: float) -> BackgroundCommand:
        """Waits until it has ended, at most so long; answers what is known then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        while (found := self.get(command_id)).state == "running" and loop.time() < until:
            await pause()
        return found

    async def stop(self, command_id: str) -> BackgroundCommand:
        """Stops it with everything it started, if it runs, and answers how it ended; within five seconds."""
        found = self.get(command_id)
        if found.state == "running":
            os.kill(found.pid, signal.SIGTERM)
            found = await self.ended(command_id, _STOP_S)
        if found.state == "lost" and found.child_ticks and ticks_of(found.child) == found.child_ticks:
            os.killpg(found.child, signal.SIGKILL)
        return found

    def _read(self, name: str) -> BackgroundCommand | None:
        try:
            found = msgspec.json.decode((self._folder / name / STATUS).read_bytes(), type=BackgroundCommand)
        except (OSError, msgspec.DecodeError):
            return None
        lost = found.state == "running" and not self._is_kept(found, name)
        return msgspec.structs.replace(found, id=name, state="lost" if lost else found.state)

    def _is_kept(self, found: BackgroundCommand, name: str) -> bool:
        """True when its keeper lives: the same process, of the same start of the machine, with this very folder."""
        if found.ticks == 0:  # no /proc here
            return _can_signal(found.pid)
        line = _bytes(Path(f"/proc/{found.pid}/cmdline")).split(b"\0")
        return found.boot == boot() and ticks_of(found.pid) == found.ticks and str(self._folder / name).encode() in line


def _kept(folder: Path, launch: ShellLaunch, command: str) -> str:
    """What the keeper says once the command runs, or why it does not."""
    order = {
        "argv": launch.argv,
        "cwd": launch.cwd,
        "env": dict(launch.env),
        "command": command,
        "longest_s": LONGEST_S,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", _KEEPER, str(folder)],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=False,
            cwd="/",
            env={},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.strip() or done.stderr.strip()[-500:] or f"exit code {done.returncode}"


def _can_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
