"""The front matter of a SKILL.md, through PyYAML (extra `skills`).

Owns: where it begins and ends, its two fields, what is wrong with it and in which line. Must not know: files, folders.
Only the tree of nodes is read, no object is made from it: dates, tags and anchors in other fields cannot do harm.
Read next: `skills.py`.
"""

from __future__ import annotations

import importlib
import re
from typing import Any, Final, NamedTuple

from ..model.errors import ConfigError
from .bounded_text import UnusableText

try:
    # It has no types of its own. Imported by name, so that the one place that needs it says so.
    yaml: Any = importlib.import_module("yaml")
except ModuleNotFoundError as error:
    raise ConfigError(
        "skills need pyyaml; pip install 'loopwright[skills]' (from a clone: pip install '.[skills]')"
    ) from error

MAX_FRONT_MATTER: Final = 16_384
"""Characters; what stands in it is a name, a sentence and some metadata."""
MAX_DESCRIPTION: Final = 1024

_FENCE: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)
_FORM: Final = "begin with a line ---, then name: and description:, then a line ---"
_FIRST_LINE: Final = 2
"""The line in the file of the first line between the fences."""


class FrontMatter(NamedTuple):
    """What the front matter says, and what follows it."""

    name: str | None
    """None when it names none."""
    description: str
    """One line."""
    body: str


def read_front_matter(text: str) -> FrontMatter:
    """Name, description and body. Raises: `UnusableText` with the line."""
    opening = _FENCE.match(text)
    if opening is None:
        raise UnusableText("has no front matter", _FORM, 1)
    closing = _FENCE.search(text, opening.end(), opening.end() + MAX_FRONT_MATTER)
    if closing is None:
        raise UnusableText(f"has front matter that does not end within {MAX_FRONT_MATTER} characters", _FORM, 1)
    fields = _fields(text[opening.end() + 1 : closing.start()])
    description = _one_line(fields.get("description", ""))
    if not description:
        raise UnusableText("has no description", "add description: what it does and when to use it", 1)
    if len(description) > MAX_DESCRIPTION:
        raise UnusableText(
            f"has a description of {len(description)} characters",
            f"shorten it to {MAX_DESCRIPTION}; the body has room",
            1,
        )
    return FrontMatter(fields.get("name"), description, text[closing.end() :].strip("\n"))


def _fields(source: str) -> dict[str, str]:
    """The top-level fields that are plain values."""
    try:
        root = yaml.compose(source, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _explained(error, source) from error
    except RecursionError as error:
        raise UnusableText("has front matter that is nested too deep", _FORM, 1) from error
    if not isinstance(root, yaml.MappingNode):
        raise UnusableText("has front matter that is not a list of fields", _FORM, _FIRST_LINE)
    fields: dict[str, str] = {}
    for key, value in root.value:
        name, line = str(key.value), int(value.start_mark.line) + _FIRST_LINE
        if name in fields:
            raise UnusableText(f"says {name!r} twice", "keep one of them", line)
        if isinstance(value, yaml.ScalarNode):
            fields[name] = "" if value.tag == "tag:yaml.org,2002:null" else str(value.value)
        elif name in ("name", "description"):
            raise UnusableText(f"has a {name} that is not text", f"write {name}: and a text behind it", line)
    return fields


def _explained(error: Any, source: str) -> UnusableText:
    mark = getattr(error, "problem_mark", None)
    position = getattr(error, "position", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).partition("\n")[0]
    line = _FIRST_LINE
    if mark is not None:
        line += int(mark.line)
    elif isinstance(position, int):
        line += source.count("\n", 0, position)
    remedy = "correct it"
    if "mapping values are not allowed" in problem:
        remedy = "put a text with a colon in it between quotes"
    elif "cannot start any token" in problem:
        remedy = "indent with spaces, and put a text that begins with a special character between quotes"
    return UnusableText(f"has front matter that is not YAML ({problem})", remedy, line)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
