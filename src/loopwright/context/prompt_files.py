"""The parts of a prompt that are kept in files: skills and AGENTS.md.

Owns: `PromptFiles`, which reads both anew for each prompt epoch. Must not know: epochs, who asks.
Read next: `skills.py`, `agents_md.py`, `../ports/prompt_source.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..core.prompt_assembly import repository_text, skill_list
from ..late import Late
from ..ports.prompt_source import PromptProblem, PromptSections
from .agents_md import MAX_AGENTS_BYTES, read_agents_files

if TYPE_CHECKING:
    from . import skills as skill_folders
    from .skills import SkillLibrary
else:
    skill_folders = Late("loopwright.context.skills")


class PromptFiles:
    """A `PromptSource` over a skill library, a workspace, or both."""

    def __init__(
        self,
        *,
        skills: SkillLibrary | str | Path | None = None,
        workspace: str | Path | None = None,
        max_agents_bytes: int = MAX_AGENTS_BYTES,
    ) -> None:
        """`skills`: a library, or the folder of one. Raises: `ConfigError` for anything else."""
        self._skills = None if skills is None else skill_folders.library_of(skills)
        self._workspace = workspace
        self._limit = max_agents_bytes

    def sections(self) -> PromptSections:
        """Both texts as the files are now, and what could not be used."""
        skills, repository = "", ""
        problems: tuple[PromptProblem, ...] = ()
        if self._skills is not None:
            self._skills.reload()
            skills = skill_list(self._skills.skills())
            problems += self._skills.problems
        if self._workspace is not None:
            found = read_agents_files(self._workspace, self._limit)
            repository = repository_text(found.files)
            problems += found.problems
        return PromptSections(skills, repository, problems)
