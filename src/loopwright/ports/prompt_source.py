"""The seam to what of a prompt stands in files: asked at the start of a prompt epoch, frozen until the next one.

Owns: `PromptSource`, its answer, and what could not be used. Must not know: where files are, who asks.
Read next: `../core/prompt_assembly.py`, `../context/prompt_files.py`.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from ..model.visible import visible


class PromptProblem(Struct, frozen=True):
    """One file, or one part of it, that was left out of a prompt; everything else is in it."""

    path: str
    """Absolute path of the file or folder, with control characters written as `\\x1b`."""
    line: int | None
    """Line from 1; None when the whole file is meant."""
    why: str
    remedy: str
    """What a person can do."""

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return visible(f"{place}: {self.why}; {self.remedy}")


class PromptSections(Struct, frozen=True):
    """Texts for the prompt, without headings; an empty one has no section."""

    skills: str = ""
    """One line a skill: name and description."""
    repository: str = ""
    """Instructions that lie in the repository, the most general first."""
    problems: tuple[PromptProblem, ...] = ()
    """What is missing in these texts."""


class PromptSource(Protocol):
    """Reads the parts of a prompt that are kept in files."""

    def sections(self) -> PromptSections:
        """The texts as they are now; unchanged files give the same bytes.

        Blocks on the disk, so it is called in a thread, possibly by several sessions at once. What cannot be read is listed
        in `problems` and never raised. Its time and its answer are bounded by the implementer.
        """
        ...
