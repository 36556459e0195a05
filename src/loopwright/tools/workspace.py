"""The folder that file tools and the shell work in, and how a model names places in it.

Owns: reading path texts (`~`, `@workspace/`, `@home/`, absolute, `..`), refusals that say the way out, file access below the
root. Must not know: what tools do with files.
Read next: `../jail.py` (how escaping is prevented), `read_file.py`.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..jail import Jail, NotRegularError, OutsideError, split
from ..model.call_errors import PathRefusedError, ToolFailure
from ..model.errors import ConfigError

HOME_FOLDERS = (".cache", "logs", "skills")
"""What of the home folder may be read; nothing in it may be written."""


class Place(NamedTuple):
    """A path text, read: which folder it starts from and the components from there."""

    jail: Jail
    parts: tuple[str, ...]
    text: str
    """As the model wrote it, for messages."""
    writable: bool


def _absolute_text(path: str | Path) -> str:
    return os.path.abspath(os.path.expanduser(str(path)))


class Workspace:
    """A folder that paths stay inside, links and races included.

    Symbolic links that lead to other places inside work; all others are refused. Safe to use from several threads.
    """

    def __init__(self, root: str | Path, *, home: str | Path | None = None) -> None:
        given = _absolute_text(root)
        if not os.path.isdir(given):
            raise ConfigError(f"the workspace {given!r} is not an existing folder")
        self._given = given
        self._jail = Jail(given)
        self._home_given = _absolute_text(home) if home is not None else None
        self._home = Jail(self._home_given) if self._home_given is not None else None
        self.editing = threading.RLock()
        """Held by tools from reading a file to replacing it, so that parallel calls do not lose each other's edits."""

    @property
    def root(self) -> Path:
        """The folder, links resolved."""
        return Path(self._jail.root)

    def resolve(self, path: str) -> str:
        """The place as a path relative to the root, links resolved; "." for the root itself. It need not exist.

        Raises: `PathRefusedError` when it leads outside or is not usable.
        """
        place = self._place(path)
        if place.jail is not self._jail:
            raise self._refused(path, "is in the home folder")
        with self._explained(place):
            return "/".join(place.jail.way(place.parts)) or "."

    def display(self, path: str) -> str:
        """How messages name a path: its resolved form, or the text itself where that cannot be had."""
        try:
            return self.resolve(path)
        except (PathRefusedError, ToolFailure):
            return path

    def read_bytes(self, path: str, *, limit: int | None = None) -> bytes:
        """The bytes of a regular file, at most `limit`. Raises: `PathRefusedError`, `ToolFailure`."""
        with self.open_file(path) as handle, os.fdopen(os.dup(handle), "rb") as file:
            return file.read() if limit is None else file.read(limit)

    @contextmanager
    def open_file(self, path: str) -> Generator[int, None, None]:
        """A descriptor for reading a regular file. Raises: `PathRefusedError`, `ToolFailure`."""
        place = self._place(path)
        with self._explained(place):
            self._readable(place)
            handle = place.jail.open_file(place.parts)
        try:
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def open_folder(self, path: str) -> Generator[int, None, None]:
        """A descriptor of a folder. Raises: `PathRefusedError`, `ToolFailure`."""
        place = self._place(path)
        with self._explained(place):
            self._readable(place)
            handle = place.jail.open_folder(place.parts)
        try:
            yield handle
        finally:
            os.close(handle)

    def kind(self, path: str) -> str | None:
        """ "file", "folder", "other", or None when nothing is there. Raises: `PathRefusedError`."""
        place = self._place(path)
        try:
            with self._explained(place, missing_is_error=False):
                mode = place.jail.status(place.parts).st_mode
        except FileNotFoundError:
            return None
        return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replaces or creates a file atomically; its mode is kept, missing folders are made.

        Raises: `PathRefusedError`, `ToolFailure`; the file is as it was then.
        """
        place = self._place(path)
        if not place.writable:
            raise self._refused(path, "is in the home folder, which is read-only")
        if not place.parts:
            raise self._refused(path, "is the workspace itself, not a file")
        with self._explained(place):
            place.jail.replace_file(place.parts, data)

    def _place(self, path: str) -> Place:
        if not path or not path.strip():
            raise PathRefusedError(f"the path is empty; give one relative to the workspace {self.root}")
        if "\0" in path:
            raise PathRefusedError(f"the path {path!r} contains a NUL character")
        if path == "@home" or path.startswith("@home/"):
            if self._home is None:
                raise self._refused(path, "is in the home folder, and this agent has none")
            return Place(self._home, tuple(split(path[5:])), path, writable=False)
        if path == "@workspace" or path.startswith("@workspace/"):
            return Place(self._jail, tuple(split(path[10:])), path, writable=True)
        if path == "~" or path.startswith("~/"):
            return self._absolute(os.path.expanduser(path), path)
        if path.startswith("/"):
            return self._absolute(path, path)
        return Place(self._jail, tuple(split(path)), path, writable=True)

    def _absolute(self, path: str, text: str) -> Place:
        for jail, given in ((self._jail, self._given), (self._home, self._home_given)):
            if jail is None or given is None:
                continue
            for top in (given, jail.root):
                prefix = top.rstrip("/") + "/"
                if path == top or path.startswith(prefix):
                    return Place(jail, tuple(split(path[len(prefix) :])), text, writable=jail is self._jail)
        raise self._refused(text, "is outside of the workspace")

    def _readable(self, place: Place) -> None:
        if place.jail is self._jail:
            return
        with place.jail.spot(place.parts) as spot:
            if not spot.way or spot.way[0] not in HOME_FOLDERS:
                raise self._refused(
                    place.text, f"is not readable; of the home folder only {', '.join(HOME_FOLDERS)} are"
                )

    @contextmanager
    def _explained(self, place: Place, *, missing_is_error: bool = True) -> Generator[None, None, None]:
        """System errors as refusals and failures that a model can act on."""
        try:
            yield
        except OutsideError as error:
            raise self._refused(place.text, "leads out of the workspace") from error
        except NotRegularError as error:
            raise self._refused(place.text, "is a device, a pipe or a socket, not a file") from error
        except UnicodeEncodeError as error:
            raise PathRefusedError(f"the path {place.text!r} cannot be a file name: {error.reason}") from error
        except FileNotFoundError as error:
            if not missing_is_error:
                raise
            raise ToolFailure(
                f"{place.text!r} does not exist in the workspace {self.root}{self._twin(place.text)}"
            ) from error
        except IsADirectoryError as error:
            raise ToolFailure(f"{place.text!r} is a folder, not a file") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._refused(
                    place.text, "goes round in symbolic links, or was changed while it was opened"
                ) from error
            if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL):
                raise PathRefusedError(f"the path {place.text!r} cannot be used: {error.strerror}") from error
            raise ToolFailure(f"{place.text!r}: {error.strerror or error}") from error

    def _refused(self, path: str, why: str) -> PathRefusedError:
        return PathRefusedError(
            f"the path {path!r} {why}; the workspace is {self.root}, use a path relative to it{self._twin(path)}"
        )

    def _twin(self, path: str) -> str:
        """The same path inside the workspace: the longest end of it that exists there, for the way out of a refusal."""
        tail = [
            part
            for part in split(path.removeprefix("~").removeprefix("@home").removeprefix("@workspace"))
            if part != ".."
        ]
        for start in range(len(tail)):
            candidate = tuple(tail[start:])
            try:
                self._jail.status(candidate)
            except (OSError, OutsideError, ValueError):
                continue
            twin = "/".join(candidate)
            return "" if twin == path else f"; did you mean {twin!r}?"
        return ""
