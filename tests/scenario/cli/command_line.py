"""Running the command as a person or a script does: as a process, in a pipe or on a terminal of its own."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.quick_processes import Process, ended, on_terminal, started

from loopwright.cli.application import run_application

COMMAND = [sys.executable, "-m", "loopwright"]
OURS = ("LOOPWRIGHT_", "OPENAI_", "ANTHROPIC_")
WITHOUT_POWER = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0);"  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
    " os.execv(sys.executable, [sys.executable, '-m', 'loopwright', *sys.argv[1:]])"
)
"""A program that becomes the command for which the modes of files count, also when root runs it."""
DRAWING = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([^\x1b]+)")
"""A movement of the cursor with its number, or plain text."""
WIDTH = 80
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


@dataclass
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


@dataclass
class CommandLine:
    """A folder to work in, and the model that answers."""

    folder: Path
    base_url: str | None = None
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Without any setting of whoever runs the tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        settings = {"LOOPWRIGHT_MODEL": "openai:offline", "LOOPWRIGHT_BASE_URL": self.base_url} if self.base_url else {}
        return {**kept, "NO_PROXY": "127.0.0.1", "COLUMNS": "100", "PYTHONWARNINGS": "error", **settings, **self.env}

    def __call__(self, *words: str, stdin: str = "") -> Ended:
        """Runs a command in this very process, with streams, folder and environment of its own."""
        out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            os.environ.clear()
            os.environ.update(self.environment())
            kept, sys.stdin = sys.stdin, io.StringIO(stdin)
            try:
                run_application(list(words))
                code = 0
            except SystemExit as leaving:
                code = int(leaving.code or 0)
            finally:
                sys.stdin = kept
                os.environ.clear()
                os.environ.update(before)
        return Ended(code, out.getvalue(), err.getvalue())

    def process(self, *words: str, stdin: str = "", command: Sequence[str] = COMMAND) -> Ended:
        """Runs a command as a process of its own, in pipes."""
        if command is COMMAND:
            done = ended("loopwright", *words, cwd=self.folder, env=self.environment(), stdin=stdin)
        else:
            done = subprocess.run(
                [*command, *words], cwd=self.folder, env=self.environment(), input=stdin, capture_output=True, text=True, timeout=120, check=False
            )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    def without_power(self, *words: str) -> Ended:
        """Runs a command that may write only where the modes of files allow it."""
        return self.process(*words, command=[sys.executable, "-c", WITHOUT_POWER])

    def start(self, *words: str) -> Process:
        """Starts a command in pipes."""
        return started("loopwright", *words, cwd=self.folder, env=self.environment(), pipes=["stdout", "stderr"])

    def terminal(self, *words: str, term: str = "xterm-256color") -> Terminal:
        """Starts a command on a terminal."""
        return Terminal(self, words, term)


class Terminal:
    """A command with a terminal: what it draws and what is typed."""

    def __init__(self, line: CommandLine, words: tuple[str, ...], term: str) -> None:
        self.drawn = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._fd, theirs = pty.openpty()
        environment = {**line.environment(), "TERM": term}
        self._process = on_terminal("loopwright", *words, cwd=line.folder, env=environment, terminal=theirs)
        self.pid = self._process.pid

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._fd)

    @property
    def text(self) -> str:
        """What was drawn, without the movements of the cursor."""
        return ESCAPES.sub("", self.drawn)

    @property
    def screen(self) -> str:
        """What stands on it at the end, scrolled lines included: what was drawn over is gone."""
        lines, row, column = [""], 0, 0
        for count, move, plain in DRAWING.findall(self.drawn):
            number = int(count) if count.isdecimal() else 0
            if move == "A":
                row = max(row - (number or 1), 0)
            elif move == "K":
                lines[row] = "" if number == 2 else lines[row][:column]
            elif move == "J":
                lines[row:] = [lines[row][:column]]
            for char in plain:
                if char == "\r":
                    column = 0
                    continue
                if char == "\n" or column == WIDTH:
                    row, column = row + 1, 0 if column == WIDTH else column
                    lines += [""] * (row + 1 - len(lines))
                if char != "\n":
                    lines[row] = lines[row][:column].ljust(column) + char + lines[row][column + 1 :]
                    column += 1
        return "\n".join(lines)

    def type(self, keys: str) -> None:
        """Types."""
        os.write(self._fd, keys.encode())

    def until(self, words: str, *, times: int = 1) -> None:
        """Waits until something was drawn so many times."""
        deadline = time.monotonic() + 60
        while self.text.count(words) < times:
            alive = time.monotonic() < deadline and self._read()
            assert alive, f"{words!r} was not drawn: {self.text[-2000:]}"

    def end(self) -> int:
        """Waits for the end; the exit code."""
        while self._read():
            pass
        return self._process.wait()

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], 60)[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the terminal of a process that ended
            return False
        self.drawn += self._decode(data)
        return bool(data)


def until_exists(path: Path) -> None:
    """Waits for a file."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was not made"
        select.select([], [], [], 0.01)


def session_of(ended: Ended) -> str:
    """The session id that a run said."""
    found = re.search(r"session (\S+)", ended.err)
    assert found, ended.err
    return found[1]
