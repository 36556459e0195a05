"""What a person types while a run goes on.

Owns: the keyboard during a run: no echo, keys collected to a line. Must not know: sessions, screens.
Read next: `chat_command.py`.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import termios
import tty
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

_ERASE = "\x7f\b"
_KILL_LINE = "\x15"
_KILL_WORD = "\x17"


class TypeAhead:
    """A context in which keys do not reach the screen by themselves; Enter hands the line over. Ctrl-C stays a signal."""

    def __init__(
        self, fd: int, shown: Callable[[str], None], entered: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        self._fd = fd
        self._shown = shown
        self._entered = entered
        self._line = ""
        self._saved: list[Any] | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> TypeAhead:
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    @contextmanager
    def paused(self) -> Generator[None]:
        """The keyboard as it was before, for as long as somebody else reads it."""
        self._give_back()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        try:
            self._saved = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd, termios.TCSADRAIN)
        except termios.error:
            self._saved = None
            return
        asyncio.get_running_loop().add_reader(self._fd, self._keys)

    def _give_back(self) -> None:
        if self._saved is None:
            return
        asyncio.get_running_loop().remove_reader(self._fd)
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)
        self._saved = None

    def _keys(self) -> None:
        try:
            data = os.read(self._fd, 4096)
        except OSError:
            data = b""
        if not data:
            return self._give_back()
        for key in self._decode(data):
            self._key(key)
        self._shown(self._line)
        return None

    def _key(self, key: str) -> None:
        if key in "\r\n":
            line, self._line = self._line.strip(), ""
            if line:
                task = asyncio.get_running_loop().create_task(self._entered(line))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        elif key in _ERASE:
            self._line = self._line[:-1]
        elif key == _KILL_LINE:
            self._line = ""
        elif key == _KILL_WORD:
            self._line = self._line.rstrip().rpartition(" ")[0]
        elif key.isprintable():
            self._line += key
