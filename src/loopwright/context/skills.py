"""Skills from folders: each is a folder with a SKILL.md, shown to a model by name and description until it asks for more.

Owns: which skills there are, which were left out and why, the text of one. Must not know: prompts, tools, runs.
Read next: `front_matter.py`, `../core/prompt_assembly.py` (how the list is shown), `../tools/load_skill.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ..jail import Jail, OutsideError, split
from ..model.call_errors import SkillUnavailableError
from ..model.errors import ConfigError
from ..model.visible import visible
from ..ports.prompt_source import PromptProblem
from ..ports.skill_source import LoadedSkill, SkillSummary
from .bounded_text import UnusableText, read_text
from .front_matter import FrontMatter, read_front_matter

SKILLS_VARIABLE: Final = "LOOPWRIGHT_SKILLS_DIR"

MAX_SKILL_BYTES: Final = 64 * 1024
"""Of one SKILL.md: it goes into a conversation as a whole."""
MAX_FILE_BYTES: Final = 64 * 1024
"""Shown of a bundled file."""
MAX_FOLDERS: Final = 1000
"""Looked at in one folder of skills."""
MAX_LISTED: Final = 200
"""Bundled files that are listed."""
MAX_DEPTH: Final = 8
"""Folders below a skill's own that are looked into; and of all these at most `MAX_FOLDERS`."""

_FILE: Final = "SKILL.md"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Found(NamedTuple):
    summary: SkillSummary
    jail: Jail
    place: str
    """The skill's folder."""


class _Scan(NamedTuple):
    found: dict[str, _Found]
    problems: tuple[PromptProblem, ...]


class SkillLibrary:
    """The skills of some folders; of two with one name the one of the earlier folder counts.

    Folders are read at first use and by `reload`. A skill that cannot be used is left out alone and listed in `problems`.
    Safe to use from several threads.
    """

    def __init__(self, *folders: str | Path) -> None:
        self._folders = tuple(os.path.abspath(os.path.expanduser(str(folder))) for folder in folders)
        self._last: _Scan | None = None

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> SkillLibrary | None:
        """The library of the folders in `LOOPWRIGHT_SKILLS_DIR`, divided by colons; None when it is not set."""
        given = (os.environ if env is None else env).get(SKILLS_VARIABLE, "")
        folders = [folder for folder in given.split(os.pathsep) if folder]
        return cls(*folders) if folders else None

    @property
    def problems(self) -> tuple[PromptProblem, ...]:
        """What was left out when the folders were last read, and what to do about it."""
        return self._scan().problems

    def reload(self) -> None:
        """Reads the folders anew."""
        self._last = _scan(self._folders)

    def skills(self) -> tuple[SkillSummary, ...]:
        """The usable skills when the folders were last read, sorted by name."""
        found = self._scan().found
        return tuple([found[name].summary for name in sorted(found)])

    def load(self, name: str) -> LoadedSkill:
        """Body, folder and files of a skill, read now; folders are read anew for a name that is not known yet.

        Raises: `SkillUnavailableError` saying why, and which skills there are.
        """
        found = self._named(name)
        try:
            body = _front_matter(found.jail, name).body
        except (UnusableText, FileNotFoundError) as error:
            raise self._unavailable(name, str(_problem(found.place, error))) from error
        files, is_complete = _bundled(found)
        return LoadedSkill(name, body, found.place, files, is_complete)

    def read(self, name: str, path: str) -> str:
        """A bundled file as text; of one over 64 KiB the beginning, which its last line then says.

        Raises: `SkillUnavailableError`, also for a path that leads out of the skill or is no text.
        """
        found = self._named(name)
        parts = tuple(split(path))
        if path.startswith("/") or ".." in parts or not parts or "\0" in path:
            raise self._unavailable(name, f"{path!r} is not a path below it")
        try:
            file = read_text(found.jail, (name, *parts), MAX_FILE_BYTES)
        except FileNotFoundError as error:
            listed = visible(", ".join(_bundled(found)[0])) or "none"
            raise self._unavailable(name, f"it has no file {path!r}; its files: {listed}") from error
        except (UnusableText, UnicodeEncodeError) as error:
            why = error.why if isinstance(error, UnusableText) else "cannot be a file name"
            raise self._unavailable(name, f"its file {path!r} {why}") from error
        more = file.size - file.taken
        return file.text if more <= 0 else f"{file.text}\n({more} more bytes of {visible(path)} are not shown)"

    def _scan(self) -> _Scan:
        if self._last is None:
            self._last = _scan(self._folders)
        return self._last

    def _named(self, name: str) -> _Found:
        found = self._scan().found.get(name)
        if found is None:
            self.reload()
            found = self._scan().found.get(name)
        if found is None:
            left_out = [str(problem) for problem in self.problems if f"/{visible(name)}/" in f"{problem.path}/"]
            raise self._unavailable(name, left_out[0] if left_out else "there is no such skill")
        return found

    def _unavailable(self, name: str, why: str) -> SkillUnavailableError:
        return SkillUnavailableError(name, why, tuple([skill.name for skill in self.skills()]))


def library_of(given: SkillLibrary | str | Path) -> SkillLibrary:
    """The library, or that of a folder. Raises `ConfigError` for anything else."""
    if isinstance(given, str | Path):
        return SkillLibrary(given)
    if isinstance(given, type) or not (hasattr(given, "skills") and hasattr(given, "reload")):
        raise ConfigError(f"skills must be a SkillLibrary or the path of a folder of skills, not {given!r}")
    return given


def _scan(folders: tuple[str, ...]) -> _Scan:
    found: dict[str, _Found] = {}
    problems: list[PromptProblem] = []
    for folder in folders:
        for item in _skills_in(folder):
            if isinstance(item, PromptProblem):
                problems.append(item)
                continue
            name = item.summary.name
            first = found.setdefault(name, item)
            if first is not item:
                why = f"has the name of {visible(os.path.join(first.place, _FILE))}, which counts"
                problems.append(
                    PromptProblem(visible(os.path.join(item.place, _FILE)), None, why, "rename one of the two folders")
                )
    return _Scan(found, tuple(problems))


def _skills_in(folder: str) -> Iterator[_Found | PromptProblem]:
    jail = Jail(folder)
    try:
        names = sorted([name for name in os.listdir(jail.root) if not name.startswith(".")])
    except OSError as error:
        yield PromptProblem(
            visible(folder), None, f"cannot be read ({error.strerror})", "name an existing folder of skills"
        )
        return
    for name in names[:MAX_FOLDERS]:
        try:
            if not _holds_skill(jail, name):
                continue
            matter = _front_matter(jail, name)
        except (UnusableText, FileNotFoundError) as error:
            yield _problem(os.path.join(folder, name), error)
        else:
            yield _Found(SkillSummary(name, matter.description), jail, os.path.join(folder, name))
    if len(names) > MAX_FOLDERS:
        why = f"has {len(names)} entries; those after {names[MAX_FOLDERS - 1]!r} were not looked at"
        yield PromptProblem(visible(folder), None, why, "divide it into several folders")


def _holds_skill(jail: Jail, name: str) -> bool:
    """True for a folder with a SKILL.md. Raises: `UnusableText` when it cannot be looked into."""
    try:
        handle = jail.open_folder((name,))
    except (NotADirectoryError, FileNotFoundError):
        return False
    except OutsideError as error:
        raise UnusableText("is a symbolic link that leads out of its folder", "put the skill itself there") from error
    except OSError as error:
        raise UnusableText(f"cannot be read ({error.strerror})", "correct its permissions") from error
    try:
        inside = os.listdir(handle)
    except OSError as error:
        raise UnusableText(f"cannot be read ({error.strerror})", "correct its permissions") from error
    finally:
        os.close(handle)
    other = [entry for entry in inside if entry.lower() == _FILE.lower() and entry != _FILE]
    if other and _FILE not in inside:
        raise UnusableText(f"is called {other[0]}", f"rename it to {_FILE}")
    return _FILE in inside


def _front_matter(jail: Jail, name: str) -> FrontMatter:
    """Raises: `UnusableText`, `FileNotFoundError`."""
    if not _NAME.fullmatch(name):
        raise UnusableText(
            f"stands in a folder called {name!r}", "name the folder with 1 to 64 of A-Z, a-z, 0-9, _ and -"
        )
    file = read_text(jail, (name, _FILE), MAX_SKILL_BYTES)
    if file.taken < file.size:
        raise UnusableText(
            f"has {file.size} bytes, over {MAX_SKILL_BYTES}",
            "move details into files beside it, which are read on demand",
        )
    matter = read_front_matter(file.text)
    if matter.name is not None and matter.name != name:
        raise UnusableText(f"is called {matter.name!r} in a folder called {name!r}", "give both the same name", 1)
    return matter


def _problem(place: str, error: UnusableText | FileNotFoundError) -> PromptProblem:
    path = visible(os.path.join(place, _FILE))
    if isinstance(error, UnusableText):
        return PromptProblem(path, error.line, error.why, error.remedy)
    return PromptProblem(path, None, "is a link to nothing, or was just removed", "put the file there")


def _bundled(found: _Found) -> tuple[tuple[str, ...], bool]:
    """Files beside the SKILL.md, and whether these are all; links are listed as files and not entered."""
    try:
        handle = found.jail.open_folder((found.summary.name,))
    except (OSError, OutsideError):
        return (), True
    files: list[str] = []
    is_complete = True
    try:
        for visited, (folder, inside, names, _) in enumerate(os.fwalk(".", dir_fd=handle)):
            below = folder.removeprefix(".").removeprefix("/")
            inside[:] = sorted([name for name in inside if not name.startswith(".")])
            if inside and (below.count("/") >= MAX_DEPTH - 1 or visited >= MAX_FOLDERS):
                inside.clear()
                is_complete = False
            paths = [f"{below}/{name}" if below else name for name in sorted(names) if not name.startswith(".")]
            files += [path for path in paths if path != _FILE]
            if len(files) > MAX_LISTED:
                return tuple(files[:MAX_LISTED]), False
    finally:
        os.close(handle)
    return tuple(sorted(files)), is_complete
