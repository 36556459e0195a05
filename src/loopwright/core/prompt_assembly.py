"""The system prompt, put together from its parts.

Owns: the order of sections, their headings, how tools, skills and repository files are shown. Must not know: where the
parts come from, when they are read. Pure: the same parts give the same bytes, so a provider's prefix cache holds.
Read next: `../ports/prompt_source.py`, `../prompts/sections/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from ..model.errors import ConfigError
from ..model.specs import ToolSpec
from ..model.visible import visible
from ..ports.skill_source import SkillSummary
from ..prompts import prompt

SKILL_LIST_CHARS = 8_000
"""Length of the list of skills; a skill that does not fit is counted and can still be loaded by name."""

_BETWEEN = "\n\n"


class PromptParts(NamedTuple):
    """What a system prompt is made of; an empty part has no section."""

    base: str | None = None
    """Instructions of send, session or configuration; shown as they are."""
    catalogue: str = ""
    """From `tool_catalogue`."""
    skills: str = ""
    """From `skill_list`."""
    repository: str = ""
    """From `repository_text`."""
    catalogue_header: str | None = None
    """What stands above the catalogue; None takes the library's words."""


class RepositoryFile(NamedTuple):
    """One file of the repository that belongs into the prompt."""

    path: str
    """Relative to the repository's root."""
    text: str
    cut: int = 0
    """Bytes of the file that are not in `text`."""


class SystemPromptBuilder:
    """Named sections in an order; the prompt is those that are not blank, with an empty line between them."""

    def __init__(self) -> None:
        self._sections: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The sections in order, blank ones too."""
        return tuple(self._sections)

    def add(self, name: str, text: str, *, before: str | None = None, after: str | None = None) -> Self:
        """Adds a section, at the end or next to another one.

        Raises: `ConfigError` for a name that is taken, a neighbour that is not there, or two neighbours.
        """
        if name in self._sections:
            raise ConfigError(f"the prompt has a section {name!r} already; remove it first")
        if before is not None and after is not None:
            raise ConfigError(
                f"section {name!r} cannot be placed before {before!r} and after {after!r}; give one of them"
            )
        beside = before if before is not None else after
        if beside is None:
            self._sections[name] = text
            return self
        self._require(beside)
        items = list(self._sections.items())
        place = self.names.index(beside) + (after is not None)
        self._sections = dict([*items[:place], (name, text), *items[place:]])
        return self

    def remove(self, name: str) -> Self:
        """Takes a section out. Raises: `ConfigError` when there is none of this name."""
        self._require(name)
        del self._sections[name]
        return self

    def build(self) -> str | None:
        """The prompt; None when every section is blank."""
        return _BETWEEN.join([text for text in self._sections.values() if text.strip()]) or None

    def _require(self, name: str) -> None:
        if name not in self._sections:
            raise ConfigError(f"the prompt has no section {name!r}; it has {', '.join(self._sections) or 'none'}")


def assemble(parts: PromptParts) -> str | None:
    """The system prompt: base, tool catalogue, skills, repository context. None when all of them are blank."""
    header = catalogue_header(parts.catalogue_header)
    return (
        SystemPromptBuilder()
        .add("base", parts.base or "")
        .add("catalogue", _under(header, parts.catalogue))
        .add("skills", _under(prompt("sections/skills"), parts.skills))
        .add("repository", _under(prompt("sections/repository"), parts.repository))
        .build()
    )


def catalogue_header(given: str | None) -> str:
    """What stands above the catalogue: `given`, or the library's words."""
    return prompt("sections/catalogue") if given is None else given


def tool_catalogue(tools: Iterable[ToolSpec]) -> str:
    """One line a tool: its name and its description."""
    return "\n".join([f"- **{tool.name}**: {' '.join(tool.description.split())}" for tool in tools])


def skill_list(skills: Iterable[SkillSummary], limit: int = SKILL_LIST_CHARS) -> str:
    """One line a skill in the order given, as many as fit into `limit` characters; a last line counts the others."""
    lines = [f"- {skill.name}: {skill.description}" for skill in skills]
    if len("\n".join(lines)) <= limit:
        return "\n".join(lines)
    room = limit - len(_left_out(len(lines)))
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    return "\n".join([*shown, _left_out(len(lines) - len(shown))])


def repository_text(files: Iterable[RepositoryFile]) -> str:
    """The files between tags that name their paths; no file can close its own tag."""
    return _BETWEEN.join([_tagged(file) for file in files if file.text.strip() or file.cut])


def _tagged(file: RepositoryFile) -> str:
    text = file.text.strip("\n").replace("</repository-file", "<\\/repository-file")
    note = f"\n(cut: {file.cut} more bytes of {visible(file.path)} are not shown)" if file.cut else ""
    return f'<repository-file path="{_attribute(file.path)}">\n{text}{note}\n</repository-file>'


def _attribute(path: str) -> str:
    """A path that cannot end its attribute or its tag."""
    path = visible(path).replace("&", "&amp;").replace('"', "&quot;")
    return path.replace("<", "&lt;").replace(">", "&gt;")


def _under(header: str, text: str) -> str:
    return f"{header}{_BETWEEN}{text}" if text.strip() else ""


def _left_out(count: int) -> str:
    return f"({count} more skills are not listed here)"
