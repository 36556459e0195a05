"""Server-sent events out of bytes that arrive in any pieces.

Owns: line ends, comments, joining of `data` lines, the bound on what is buffered.
Must not know: JSON, HTTP, providers; event names, since all three protocols repeat them inside the data.
Read next: `http_service.py`.
"""

from __future__ import annotations

from ..model.errors import LLMTransientError

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""Upper limit of one event; a generated image inside a Responses event is a few MiB."""

_BOM = b"\xef\xbb\xbf"


class EventReader:
    """Turns pieces of a byte stream into the `data` of whole events.

    Source: WHATWG HTML, section 9.2 (server-sent events). `event`, `id` and `retry` fields are skipped.
    Cost: linear in the bytes, whatever the pieces; one `split` per piece, no text decoding.
    """

    __slots__ = ("_data", "_fresh", "_max_bytes", "_size", "_skip_lf", "_tail")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_event_bytes
        self._tail: list[bytes] = []
        """Pieces of the line that has not ended yet."""
        self._data: list[bytes] = []
        """`data` lines of the event that has not ended yet."""
        self._size = 0
        """Bytes in `_tail` and `_data`."""
        self._skip_lf = False
        """The last piece ended with CR, so that a LF at the start of the next belongs to it."""
        self._fresh = True

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that `piece` completes, in order.

        Raises: `LLMTransientError` when one event exceeds the bound.
        """
        if self._skip_lf and piece:
            self._skip_lf = False
            if piece[0] == 10:
                piece = piece[1:]
        if b"\r" in piece:
            self._skip_lf = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in piece:
            if piece:
                self._tail.append(piece)
                self._grow(len(piece))
            return []
        lines = piece.split(b"\n")
        if self._tail:
            self._tail.append(lines[0])
            lines[0] = b"".join(self._tail)
            self._tail.clear()
        rest = lines.pop()
        events = self._take(lines)
        self._size = sum(map(len, self._data))
        if rest:
            self._tail.append(rest)
            self._grow(len(rest))
        elif self._data:
            self._grow(0)
        return events

    def finish(self) -> list[bytes]:
        """The data of an event that the stream's end cut short of its blank line; some vendors forget it."""
        lines = [b"".join(self._tail)] if self._tail else []
        self._tail.clear()
        return self._take([*lines, b""])

    def _take(self, lines: list[bytes]) -> list[bytes]:
        if self._fresh and lines:
            self._fresh = False
            if lines[0].startswith(_BOM):
                lines[0] = lines[0][3:]
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line.startswith(b"data:"):
                # One leading space belongs to the syntax.
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line == b"data":
                data.append(b"")
        return events

    def _grow(self, count: int) -> None:
        self._size += count
        if self._size > self._max_bytes:
            raise LLMTransientError(
                f"the provider sent an event of more than {self._max_bytes} bytes without an end; the stream was dropped"
            )
