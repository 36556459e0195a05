"""The tool through which a model reads a skill.

Owns: `load_skill`. Must not know: where skills come from, how they are listed in the prompt.
Read next: `../ports/skill_source.py`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from ..model.visible import visible
from ..ports.skill_source import LoadedSkill, SkillSource
from ..ports.tool import ToolDefinition
from .decorator import tool
from .descriptions import description_of


def load_skill_tool(skills: SkillSource) -> ToolDefinition:
    """`load_skill` over a source of skills. Effect pure."""

    @tool(description=description_of("load_skill"), effect="pure", output_limit=100_000)
    def load_skill(
        name: Annotated[str, Meta(min_length=1, max_length=64)],
        file: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None,
    ) -> str:
        """Read a skill.

        Args:
            name: The skill, as it is listed.
            file: A bundled file, relative to the skill's folder; without it the instructions.
        """
        return _shown(skills.load(name)) if file is None else skills.read(name, file)

    return load_skill


def _shown(skill: LoadedSkill) -> str:
    parts = [
        f"Skill {skill.name}, in the folder {visible(skill.folder)}",
        skill.body or "(the skill has no instructions)",
    ]
    if skill.files:
        more = [] if skill.is_complete else ["(there are more files)"]
        parts.append(
            "\n".join(
                [f'Files (read one with load_skill(name="{skill.name}", file=...)):', *map(visible, skill.files), *more]
            )
        )
    return "\n\n".join(parts)
