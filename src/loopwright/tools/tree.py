"""Walking the files below a folder without following links.

Owns: the walk, what is left out of it, glob patterns. Must not know: tools.
Read next: `glob.py`, `grep.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import NamedTuple

EXCLUDED = (
    ".git",
    ".hg",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "node_modules",
    "venv",
)
"""Folders that neither glob nor grep enters."""
MAX_ENTRIES = 200_000
"""Entries one walk looks at; more is a folder that wants a narrower path."""
MAX_EXPANSIONS = 64
"""Patterns that the braces of one pattern may stand for."""


class Found(NamedTuple):
    """A file of a walk."""

    path: str
    """Relative to the folder that was walked."""
    mtime_ns: int


class TooManyEntries(Exception):
    """The walk looked at `MAX_ENTRIES` entries and gave up."""


def files_below(folder: int, wanted: Callable[[str], bool], *, include_hidden: bool) -> Iterator[Found]:
    """Wanted files and links below the folder of a descriptor; links are never followed. Raises: `TooManyEntries`."""
    seen = 0
    # By descriptors and not by paths: a folder that is swapped for a link during the walk is not entered.
    for top, folders, files, handle in os.fwalk(".", dir_fd=folder):
        seen += len(folders) + len(files)
        if seen > MAX_ENTRIES:
            raise TooManyEntries
        folders[:] = [name for name in folders if is_searched(name, include_hidden=include_hidden)]
        for name in files:
            path = os.path.normpath(os.path.join(top, name))
            if not is_searched(name, include_hidden=include_hidden) or not wanted(path):
                continue
            try:
                yield Found(path, os.stat(name, dir_fd=handle, follow_symlinks=False).st_mtime_ns)
            except FileNotFoundError:
                continue  # it is gone already


def is_searched(name: str, *, include_hidden: bool) -> bool:
    """False for what glob and grep leave out by its name."""
    return name not in EXCLUDED and (include_hidden or not name.startswith("."))


class GlobPattern:
    """`*`, `?`, `[...]` within a name, `**` over folders, `{a,b}`; a pattern without `/` matches names at any depth.

    Matching is by segments and never backtracks over the whole path, so no pattern is slow.
    Raises: `ValueError` for more than `MAX_EXPANSIONS` brace alternatives.
    """

    def __init__(self, pattern: str) -> None:
        self._alternatives = [_segments(text) for text in _expanded(pattern)]

    def matches(self, path: str) -> bool:
        """True when the relative path fits."""
        parts = path.split("/")
        return any(_fits(segments, parts) for segments in self._alternatives)


def _segments(pattern: str) -> list[re.Pattern[str] | None]:
    """One regular expression a segment; None is `**`."""
    parts = [part for part in pattern.removeprefix("./").split("/") if part]
    if len(parts) == 1 and not pattern.startswith("/"):
        parts.insert(0, "**")
    segments: list[re.Pattern[str] | None] = []
    for part in parts:
        if part == "**":
            if not segments or segments[-1] is not None:
                segments.append(None)
        else:
            segments.append(re.compile(translate(part)))
    if segments and segments[-1] is None:
        segments.append(re.compile(translate("*")))
    return segments


def _fits(segments: list[re.Pattern[str] | None], parts: list[str]) -> bool:
    # reachable[i]: the segments so far can have used the first i parts.
    reachable: set[int] = {0}
    for segment in segments:
        if segment is None:
            reachable = set(range(min(reachable, default=len(parts) + 1), len(parts) + 1))
        else:
            reachable = {i + 1 for i in reachable if i < len(parts) and segment.match(parts[i])}
    return len(parts) in reachable


def _expanded(pattern: str) -> list[str]:
    todo, done = [pattern], list[str]()
    while todo:
        text = todo.pop()
        braces = re.search(r"\{([^{}]*,[^{}]*)\}", text)
        if braces is None:
            done.append(text)
        else:
            todo.extend(text[: braces.start()] + choice + text[braces.end() :] for choice in braces[1].split(","))
        if len(todo) + len(done) > MAX_EXPANSIONS:
            raise ValueError(f"the braces stand for more than {MAX_EXPANSIONS} patterns")
    return done
