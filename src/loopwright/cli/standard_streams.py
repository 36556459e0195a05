"""Standard input, output and error that cannot stop the work: closed ones, full devices, bytes that are no text.

Owns: taking the three streams' place for the life of the process, what could not be written. Must not know: any command.
A pipe whose reader is gone is left as it is: commands end early there, and quietly.
Read next: `application.py`.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


class GuardedOutput(io.TextIOWrapper):
    """Goes on where nothing can be written, and remembers why."""

    failure: str = ""
    """Why something was not written; "" when everything was."""
    closed_before: bool = False
    """True when there was no such stream to begin with."""

    def write(self, text: str, /) -> int:
        """Writes, or notes that it could not."""
        if self.closed_before:
            self.failure = "it is closed"
            return len(text)
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Writes what waits, or notes that it could not."""
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.failure = error.strerror or type(error).__name__
        # What waits in the buffers has to go somewhere, now and at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def guard_streams() -> None:
    """Puts streams that cannot fail in the place of this process's three."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened, such as the store, would be the standard output of every child.
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - lives as long as we
    elif isinstance(stdin, io.TextIOWrapper):
        stdin.reconfigure(errors="replace")
    sys.stdout = _guarded(sys.stdout, 1)
    sys.stderr = _guarded(sys.stderr, 2)


def _guarded(stream: TextIO | None, number: int) -> GuardedOutput:
    raw = open(number, "wb", closefd=False)  # noqa: SIM115 - lives as long as we
    guarded = GuardedOutput(
        raw,
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace" if stream is None or number == 2 else stream.errors,
        line_buffering=number == 2 or os.isatty(number),
    )
    guarded.closed_before = stream is None
    return guarded


def unwritten() -> str:
    """What of standard output or error could not be written, in words; "" when nothing was lost.

    A standard error that was closed on purpose is no loss.
    """
    out, err = sys.stdout, sys.stderr
    if isinstance(out, GuardedOutput) and out.failure:
        return f"standard output cannot be written: {out.failure}"
    if isinstance(err, GuardedOutput) and err.failure and not err.closed_before:
        return f"standard error cannot be written: {err.failure}"
    return ""


def text_of_argument(words: str) -> str:
    """An argument of the command line as text; bytes that are not UTF-8 become U+FFFD."""
    return words.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
