"""AGENTS.md files: what a repository wants every agent to know.

Owns: which of them count for a folder, their order and bounds. Must not know: prompts, runs.
The convention (agents.md, 2025) is a plain Markdown file named AGENTS.md, one in any folder; where two contradict each
other the one nearer to the work counts. So they are read from the repository's root down to the folder, and stand in that
order, the nearest last; when they are too long together, what is cut is the farthest.
Read next: `../core/prompt_assembly.py` (how they are shown).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from ..core.prompt_assembly import RepositoryFile
from ..jail import Jail
from ..model.visible import visible
from ..ports.prompt_source import PromptProblem
from .bounded_text import UnusableText, read_text

AGENTS_FILE: Final = "AGENTS.md"
MAX_AGENTS_BYTES: Final = 32 * 1024
"""Of all files together."""
MAX_LEVELS: Final = 64
"""Folders between root and workspace that are looked into, and that are gone up to find the root."""

_SHORTEN: Final = "shorten it, or raise the limit"


class AgentsFiles(NamedTuple):
    """What was found, the root's first."""

    files: tuple[RepositoryFile, ...]
    problems: tuple[PromptProblem, ...]


def read_agents_files(workspace: str | Path, limit: int = MAX_AGENTS_BYTES) -> AgentsFiles:
    """The AGENTS.md files from the root of the repository that holds `workspace` down to it, at most `limit` bytes together.

    The root is the nearest folder upwards with a `.git` in it; without one it is the workspace itself. A file that is a link
    out of the root, unreadable or binary is a problem and left out; one that was cut is a problem and says so in its text.
    A workspace that is no folder is a problem too, and nothing is read.
    """
    folder = os.path.realpath(os.path.expanduser(str(workspace)))
    if not os.path.isdir(folder):
        why = "is no folder" if os.path.exists(folder) else "is not there"
        return AgentsFiles((), (PromptProblem(visible(folder), None, why, "name the folder that is worked in"),))
    root = repository_root(folder)
    way = () if folder == root else tuple(os.path.relpath(folder, root).split(os.sep))
    jail = Jail(root)
    found: list[RepositoryFile] = []
    problems: list[PromptProblem] = []
    for depth in range(len(way), -1, -1):
        parts = (*way[:depth], AGENTS_FILE)
        path = os.path.join(root, *parts)
        try:
            text, size, taken = read_text(jail, parts, limit)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except UnusableText as error:
            problems.append(PromptProblem(visible(path), error.line, error.why, error.remedy))
            continue
        limit -= taken
        if taken < size:
            why = f"was cut: {size - taken} of its {size} bytes"
            problems.append(PromptProblem(visible(path), None, why, _SHORTEN))
        if size:
            found.append(RepositoryFile("/".join(parts), text, size - taken))
    return AgentsFiles(tuple(reversed(found)), tuple(reversed(problems)))


def repository_root(folder: str) -> str:
    """The nearest folder from `folder` upwards that holds `.git`; `folder` itself when there is none."""
    candidate = folder
    for _ in range(MAX_LEVELS):
        if os.path.lexists(os.path.join(candidate, ".git")):
            return candidate
        above = os.path.dirname(candidate)
        if above == candidate:
            break
        candidate = above
    return folder
