"""A SQLite file system with faults: it counts writes and syncs, and at a chosen one fails, stops or forgets.

Owns: the faults. Must not know: the store, tables. Needs only `apsw`.
Read next: `tests/crash/sqlite`, which goes through every point of a script.

The log and the database go through here. The `-shm` file does not: it is memory, shared by the processes of one machine,
so a simulated power failure leaves none, as a machine that starts anew has none.
"""

from __future__ import annotations

import itertools
from enum import StrEnum
from pathlib import Path
from typing import Any

import apsw


class Fault(StrEnum):
    """What happens at the chosen point."""

    NONE = "none"
    """Nothing: for counting the points."""
    IO_ERROR = "io_error"
    """This one operation fails; later ones work."""
    FULL = "full"
    """This write, and every later one that makes a file longer, finds no space."""
    KILL = "kill"
    """Neither this nor any later operation happens, and each raises: the process is gone."""


_numbers = itertools.count()


class FaultyVfs(apsw.VFS):
    """The system's own file system with one fault, at the `point`-th write, truncate, sync or delete (from 1)."""

    def __init__(self, fault: Fault = Fault.NONE, point: int = 0) -> None:
        self.vfs_name = f"faulty-{next(_numbers)}"
        """What to open a store with."""
        self.fault = fault
        self.point = point
        self.count = 0
        """Operations so far."""
        self.armed = False
        """Operations are counted, and fail, only while this is true."""
        self.is_dead = False
        self.is_full = False
        self._synced: dict[str, bytes] = {}
        super().__init__(self.vfs_name, "")

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:  # noqa: N802 - the name SQLite calls
        """A file whose writes and syncs are counted."""
        return FaultyFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - the name SQLite calls
        """Deleting counts as an operation."""
        self.reach(growing=False)
        super().xDelete(filename, False)
        self._synced.pop(filename, None)

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        """An error that SQLite has no use for is not worth a word: it was asked for."""
        return True

    def reach(self, *, growing: bool) -> None:
        """One operation is about to happen; raises when it must not."""
        if not self.armed:
            return
        if self.is_dead:
            raise apsw.IOError("the process was stopped before this operation")
        self.count += 1
        if self.fault is not Fault.NONE and self.count == self.point:
            if self.fault is Fault.KILL:
                self.is_dead = True
            if self.fault is Fault.FULL:
                self.is_full = True
            else:
                raise apsw.IOError(f"operation {self.point} was made to fail")
        if self.is_full and growing:
            raise apsw.FullError("no space left on the device that does not exist")

    def note_synced(self, path: str) -> None:
        """What the file holds now survives a power failure."""
        self._synced[path] = Path(path).read_bytes()

    def lose_power(self, saved: Path) -> None:
        """Writes the files as a power failure leaves them into the folder `saved`: synced content only, no `-shm`."""
        for path, content in self._synced.items():
            (saved / Path(path).name).write_bytes(content)


class FaultyFile(apsw.VFSFile):
    """A file of `FaultyVfs`."""

    def __init__(self, vfs: FaultyVfs, name: Any, flags: list[int]) -> None:
        self._vfs = vfs
        self._path = str(name.filename() if isinstance(name, apsw.URIFilename) else name)
        super().__init__("", name, flags)

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        """See `FaultyVfs.excepthook`."""
        return True

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - the name SQLite calls
        """Counted; fails when the disk is full and the file would grow."""
        self._vfs.reach(growing=offset + len(data) > self.xFileSize())
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - the name SQLite calls
        """Counted."""
        self._vfs.reach(growing=False)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - the name SQLite calls
        """Counted; afterwards the content survives a simulated power failure. The real disk is left in peace: it is slow."""
        self._vfs.reach(growing=False)
        self._vfs.note_synced(self._path)
