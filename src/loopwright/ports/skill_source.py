"""The seam to skills: what there is, by name, and the text of one.

Owns: `SkillSource` and what it hands out. Must not know: folders, YAML, who reads.
Read next: `../context/skills.py`, `../tools/load_skill.py`.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class SkillSummary(Struct, frozen=True):
    """What a model always sees of a skill."""

    name: str
    """`[A-Za-z0-9_-]{1,64}`, unique in its source."""
    description: str
    """One line of 1 to 1024 characters: what it does and when to use it."""


class LoadedSkill(Struct, frozen=True):
    """What a model sees of a skill that it asked for."""

    name: str
    body: str
    """The instructions, without the front matter."""
    folder: str
    """Absolute path, for tools that run or read what lies in it."""
    files: tuple[str, ...]
    """Files bundled with it, relative to `folder`, sorted."""
    is_complete: bool
    """False: there are more files than are listed."""


class SkillSource(Protocol):
    """Skills by name. All methods may block on the disk and may be called from several threads at once."""

    def skills(self) -> tuple[SkillSummary, ...]:
        """The usable ones, sorted by name."""
        ...

    def load(self, name: str) -> LoadedSkill:
        """The skill as it is now. Raises: `SkillUnavailableError` when there is none or it cannot be used; it says why."""
        ...

    def read(self, name: str, path: str) -> str:
        """The text of one bundled file, its beginning when it is too long, which the text then says.

        Raises: `SkillUnavailableError`, also for a path that leads out of the skill or is no text.
        """
        ...
