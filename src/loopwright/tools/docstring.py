"""What a docstring says about a function and its parameters.

Owns: reading the first paragraph and the parameter lines of Google, NumPy and reST docstrings.
Must not know: signatures, schemas.
Read next: `signature.py`.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_SECTION = re.compile(r"^(args|arguments|parameters|params|keyword args|keyword arguments)\s*:?\s*$", re.IGNORECASE)
_FIELD = re.compile(r"^:(?:param|parameter|arg|argument)\s+(?:[^:]*?\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_GOOGLE = re.compile(r"^(?:[-*]\s+)?[`*]{0,2}(\w+)[`*]{0,2}\s*(?:\([^)]*\))?\s*(?::|\s--?\s|\s–\s)\s*(.*)$")
_NUMPY = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")
_RULE = re.compile(r"^-{3,}\s*$")


class Docs(NamedTuple):
    """A docstring, read."""

    summary: str
    """The first paragraph on one line; "" when there is none."""
    parameters: dict[str, str]
    """What is said about each parameter, on one line."""


def read_docstring(text: str | None) -> Docs:
    """Reads a docstring; anything that is not understood is left out."""
    if not text:
        return Docs("", {})
    lines = inspect.cleandoc(text).splitlines()
    return Docs(_summary(lines), _fields(lines) | _section(lines))


def _summary(lines: list[str]) -> str:
    paragraph: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.match(line) or _FIELD.match(line):
            break
        paragraph.append(line.strip())
    return " ".join(paragraph)


def _fields(lines: list[str]) -> dict[str, str]:
    """reST: `:param int count: how many`, continued by indented lines."""
    found: dict[str, str] = {}
    current = ""
    for line in lines:
        match = _FIELD.match(line)
        if match:
            current = match[1]
            found[current] = match[2].strip()
        elif current and line.startswith((" ", "\t")) and line.strip():
            found[current] = f"{found[current]} {line.strip()}".strip()
        else:
            current = ""
    return found


def _section(lines: list[str]) -> dict[str, str]:
    """The lines under `Args:` (Google, plain) or under `Parameters` and a rule (NumPy)."""
    start = next((i for i, line in enumerate(lines) if _SECTION.match(line)), None)
    if start is None:
        return {}
    body = lines[start + 1 :]
    if body and _RULE.match(body[0]):
        return _entries(_until_next_rule(body[1:]), _NUMPY)
    return _entries(_indented(body), _GOOGLE)


def _indented(lines: list[str]) -> list[str]:
    taken: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith((" ", "\t")):
            break
        taken.append(line)
    return inspect.cleandoc("\n" + "\n".join(taken)).splitlines()


def _until_next_rule(lines: list[str]) -> list[str]:
    for index, line in enumerate(lines):
        if _RULE.match(line):
            return lines[: max(index - 1, 0)]
    return lines


def _entries(lines: list[str], head: re.Pattern[str]) -> dict[str, str]:
    """Entries start at the left edge; deeper lines continue them."""
    found: dict[str, str] = {}
    current = ""
    for line in lines:
        if not line.strip():
            continue
        match = None if line.startswith((" ", "\t")) else head.match(line)
        if match:
            current = match[1]
            found[current] = match[2].strip() if head is _GOOGLE else ""
        elif current and line.startswith((" ", "\t")):
            found[current] = f"{found[current]} {line.strip()}".strip()
        else:
            current = ""
    return {name: text for name, text in found.items() if text}
