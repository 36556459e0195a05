"""One folder that nothing leaves: paths are walked by folder descriptors, never handed to the system as a whole.

Owns: descending component by component, and the file operations at the end of a descent. Must not know: how a model
writes paths, what a tool does with a file.

Why not resolve and compare: between the comparison and the use somebody can swap a component for a symbolic link. Here each
component is opened relative to the descriptor of its parent with O_NOFOLLOW; links are read and their target walked in the
same way; `..` goes back along the descriptors that led here. So whatever is swapped, what is opened lies below the root.
Read next: `tools/workspace.py`.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

MAX_LINKS = 40
"""Symbolic links on one way; more is a circle. The same limit as Linux has."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe that took the file's place must not wait for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideError(Exception):
    """The way leads out of the folder; `tools/workspace.py` turns it into a `PathRefusedError`."""


class NotRegularError(Exception):
    """What is there is a device, a pipe or a socket; `tools/workspace.py` turns it into a `PathRefusedError`."""


class Spot(NamedTuple):
    """Where a walk ended: an entry of a folder that is held open. The entry itself may not exist."""

    folder: int
    """Descriptor of the folder."""
    name: str
    """The entry's name; "." for the root itself. Never a symbolic link when the walk ended."""
    way: tuple[str, ...]
    """The components from the root to the entry, links resolved; empty for the root."""


class Jail:
    """A folder by its real path; every operation descends anew, so a folder that was replaced is seen."""

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        """The folder, links resolved."""

    @contextmanager
    def spot(self, parts: tuple[str, ...], *, make_folders: bool = False) -> Generator[Spot, None, None]:
        """Walks to the entry named by `parts` (no empty part, "." or "/" in one) and holds its folder open.

        Raises: `OutsideError` when the way leaves the root, `OSError` as the system does (a missing folder on the way,
        a file where a folder should be, a circle of links).
        """
        walk = _Walk(self.root, make_folders)
        try:
            yield walk.run(parts)
        finally:
            walk.close()

    def way(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The components from the root with links resolved; from the first missing folder on as they are written.

        Raises: as `spot`, but not for missing folders.
        """
        walk = _Walk(self.root, make_folders=False)
        try:
            return walk.run(parts, missing_is_fine=True).way
        finally:
            walk.close()

    def open_file(self, parts: tuple[str, ...]) -> int:
        """A descriptor for reading a regular file; the caller closes it.

        Raises: `IsADirectoryError`, `NotRegularError`, and what `spot` raises.
        """
        with self.spot(parts) as spot:
            _require_regular(os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False))
            handle = os.open(spot.name, _READ, dir_fd=spot.folder)
        try:
            _require_regular(os.fstat(handle))
        except (OSError, NotRegularError):
            os.close(handle)
            raise
        return handle

    def open_folder(self, parts: tuple[str, ...]) -> int:
        """A descriptor of a folder; the caller closes it. Raises: `NotADirectoryError`, and what `spot` raises."""
        with self.spot(parts) as spot:
            return os.open(spot.name, _FOLDER, dir_fd=spot.folder)

    def status(self, parts: tuple[str, ...]) -> os.stat_result:
        """The state of what a walk ends at; never that of a link. Raises: what `spot` raises."""
        with self.spot(parts) as spot:
            return os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)

    def replace_file(self, parts: tuple[str, ...], data: bytes) -> None:
        """Writes a whole file or nothing: beside it, synced, then renamed over it; its mode is kept, folders are made.

        Raises: `IsADirectoryError`, `NotRegularError`, `OSError`; the file is untouched then and nothing is left beside it.
        """
        with self.spot(parts, make_folders=True) as spot:
            mode = _mode_of(spot)
            beside = f".{spot.name[:100]}.{secrets.token_hex(6)}.tmp"
            handle = os.open(beside, _CREATE, 0o666, dir_fd=spot.folder)
            try:
                try:
                    _write_all(handle, data)
                    if mode is not None:
                        os.fchmod(handle, mode)
                    os.fsync(handle)
                finally:
                    os.close(handle)
                os.replace(beside, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
            except BaseException:
                # Also on cancellation and interrupt: a half-written file must not stay behind. It is raised on.
                os.unlink(beside, dir_fd=spot.folder)
                raise
            os.fsync(spot.folder)


class _Walk:
    """One descent: the descriptors from the root to where it stands."""

    def __init__(self, root: str, make_folders: bool) -> None:
        self._root = root
        self._make = make_folders
        self._folders: list[int] = [os.open(root, _FOLDER)]
        self._way: list[str] = []
        self._links = 0

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)
        self._folders.clear()

    def run(self, parts: tuple[str, ...], *, missing_is_fine: bool = False) -> Spot:
        todo = list(reversed(parts))
        while todo:
            part = todo.pop()
            if part == "..":
                self._up()
                continue
            target = self._link_target(part)
            if target is not None:
                todo.extend(reversed(self._follow(target)))
            elif not todo:
                return Spot(self._folders[-1], part, (*self._way, part))
            else:
                try:
                    self._down(part)
                except FileNotFoundError:
                    # Below a folder that is not there nothing can be a link; only going back up cannot be answered.
                    if not missing_is_fine or ".." in todo:
                        raise
                    return Spot(self._folders[-1], part, (*self._way, part, *reversed(todo)))
        return Spot(self._folders[-1], ".", tuple(self._way))

    def _up(self) -> None:
        if not self._way:
            raise OutsideError
        self._way.pop()
        os.close(self._folders.pop())

    def _down(self, part: str) -> None:
        folder = self._folders[-1]
        try:
            opened = os.open(part, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            if not self._make:
                raise
            try:
                os.mkdir(part, dir_fd=folder)
            except FileExistsError:
                pass  # another writer was faster; whatever it made is opened without following links
            opened = os.open(part, _FOLDER, dir_fd=folder)
        self._folders.append(opened)
        self._way.append(part)

    def _link_target(self, part: str) -> str | None:
        """The target of the link `part`; None when it is no link or nothing."""
        try:
            if not stat.S_ISLNK(os.stat(part, dir_fd=self._folders[-1], follow_symlinks=False).st_mode):
                return None
            return os.readlink(part, dir_fd=self._folders[-1])
        except FileNotFoundError:
            return None

    def _follow(self, target: str) -> list[str]:
        """The parts to walk for a link's target; an absolute one starts again at the root, or leads outside."""
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not target.startswith("/"):
            return split(target)
        # Compared as text: a link that reaches the root through another link is refused, which is the safe side.
        inside = os.path.relpath(os.path.normpath(target), self._root)
        if inside == ".." or inside.startswith("../"):
            raise OutsideError
        while self._way:
            self._up()
        return split(inside)


def split(path: str) -> list[str]:
    """The components of a relative path, without empty ones and "."."""
    return [part for part in path.split("/") if part not in ("", ".")]


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError


def _mode_of(spot: Spot) -> int | None:
    """Permission bits of the file to be replaced; None when there is none yet."""
    try:
        status = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_regular(status)
    return stat.S_IMODE(status.st_mode)


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
