"""Unified diffs: reading them and finding where their hunks belong.

Owns: parsing, locating by content, the spans to replace. Must not know: files, tools.
A model's line numbers are often wrong, so a hunk belongs where its old lines are; the numbers only decide between several such
places.
Read next: `apply_patch.py`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .nearest import nearest_block

_HEADER = re.compile(r"^@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*| .*@@.*|)$")
_PREAMBLE = ("diff ", "index ", "new file", "deleted file", "old mode", "new mode", "similarity ", "rename ", "```")


class PatchError(Exception):
    """The patch cannot be read or does not fit; the text is written for a model."""


class Hunk(NamedTuple):
    """One place to change."""

    body: tuple[tuple[str, str], ...]
    """(" ", line), ("-", line) and ("+", line), lines without their ends."""
    start: int | None
    """Index of the first old line that the header claims; None when it gives no numbers."""
    old_unended: bool
    """The old side's last line has no line end."""
    new_unended: bool

    @property
    def old(self) -> list[str]:
        """The lines that have to be there."""
        return [line for mark, line in self.body if mark != "+"]

    def reversed(self) -> Hunk:
        """The hunk that undoes this one."""
        swapped = {"-": "+", "+": "-", " ": " "}
        body = tuple([(swapped[mark], line) for mark, line in self.body])
        return Hunk(body, None, self.new_unended, self.old_unended)


class Patch(NamedTuple):
    """All hunks for one file."""

    hunks: tuple[Hunk, ...]
    creates: bool
    """It says that the file does not exist yet."""


def parse_patch(text: str) -> Patch:
    """Reads a unified diff of one file; headers are optional. Raises: `PatchError` naming the line."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    hunks: list[Hunk] = []
    names: list[str] = []
    creates = False
    at = 0
    while at < len(lines):
        line = lines[at]
        if header := _HEADER.match(line):
            at = _read_hunk(lines, at, header, hunks)
            continue
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            names.append(lines[at + 1][4:])
            creates = line[4:].split("\t")[0].strip() == "/dev/null"
            at += 2
            continue
        if line.strip() and not line.startswith(_PREAMBLE):
            raise PatchError(
                f"line {at + 1} of the patch is outside of a hunk: {line[:80]!r}; a hunk starts with a line of @@"
            )
        at += 1
    if len(names) > 1:
        raise PatchError(f"the patch is for {len(names)} files ({', '.join(names)}); make one call for each")
    if names and names[0].split("\t")[0].strip() == "/dev/null":
        raise PatchError("the patch deletes the file; delete it with a command instead")
    if not any(mark != " " for hunk in hunks for mark, _ in hunk.body):
        raise PatchError("the patch changes nothing; it needs hunks (@@) with lines that start with - or +")
    return Patch(tuple(hunks), creates)


def _read_hunk(lines: list[str], at: int, header: re.Match[str], hunks: list[Hunk]) -> int:
    """Reads the hunk whose header is at `at`, appends it and returns where it ends."""
    counted = header[1] is not None
    old_left = int(header[2] or 1) if counted else 0
    new_left = int(header[4] or 1) if counted else 0
    # "-5,0" means after line 5, every other start is the first line itself.
    only_adds = counted and old_left == 0
    body: list[tuple[str, str]] = []
    unended = {"-": False, "+": False}
    at += 1
    while at < len(lines) and not _HEADER.match(lines[at]):
        line = lines[at]
        mark, rest = (line[0], line[1:]) if line else (" ", "")
        complete = old_left <= 0 and new_left <= 0
        if complete and (line.startswith(_PREAMBLE) or _is_file_header(lines, at)):
            break
        if mark == "\\":
            for side in "-+" if body and body[-1][0] == " " else body[-1][0] if body else "":
                unended[side] = True
        elif mark in " -+":
            if complete and not line and not any(lines[at:]):
                break
            body.append((mark, rest))
            old_left -= mark != "+"
            new_left -= mark != "-"
        else:
            raise PatchError(
                f"line {at + 1} of the patch starts with {mark!r}: {line[:80]!r}; inside a hunk a line starts with a space"
                " (kept), - (removed) or + (added)"
            )
        at += 1
    start = None if not counted else int(header[1]) - (0 if only_adds else 1)
    hunks.append(Hunk(tuple(body), start, unended["-"], unended["+"]))
    return at


def _is_file_header(lines: list[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def spans_of(hunks: tuple[Hunk, ...], text: str) -> list[tuple[int, int, str]]:
    """What to replace in `text` so that every hunk is applied: `(start, end, replacement)`, ordered and apart.

    Raises: `PatchError` when a hunk fits nowhere, fits in several places, or two hunks overlap. All hunks or none.
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    offsets[-1] = len(text)
    placed: list[tuple[int, Hunk]] = []
    after = 0
    for number, hunk in enumerate(hunks, 1):
        at = _locate(hunk, lines, after, number, text)
        placed.append((at, hunk))
        after = at + len(hunk.old)
    placed.sort(key=lambda item: item[0])
    spans: list[tuple[int, int, str]] = []
    end = 0
    for at, hunk in placed:
        if at < end:
            raise PatchError(f"two hunks change the same lines around line {at + 1}; join them")
        end = at + len(hunk.old)
        spans.extend(_hunk_spans(hunk, at, offsets, text))
    return spans


def _locate(hunk: Hunk, lines: list[str], after: int, number: int, text: str) -> int:
    want = hunk.old
    if not want:
        if hunk.start is None or hunk.start > len(lines):
            raise PatchError(
                f"hunk {number} only adds lines and does not say where; add a line before or after as context"
            )
        return hunk.start
    places = _places(lines, want)
    if not places:
        ended = [line.rstrip() for line in lines]
        places = _places(ended, [line.rstrip() for line in want])
    if hunk.start in places:
        return hunk.start
    later = places if len(places) == 1 else [place for place in places if place >= after]
    if len(later) == 1:
        return later[0]
    if places:
        named = ", ".join(str(place + 1) for place in places[:20])
        raise PatchError(
            f"hunk {number} fits in {len(places)} places, at lines {named}; add more lines of context to it"
        )
    raise PatchError(_stale(text, want, number))


def _places(lines: list[str], want: list[str]) -> list[int]:
    size, first = len(want), want[0]
    return [i for i in range(len(lines) - size + 1) if lines[i] == first and lines[i : i + size] == want]


def _stale(text: str, want: list[str], number: int) -> str:
    said = f"hunk {number} does not fit: its lines are not in the file as it is now"
    block = nearest_block(text, "\n".join(want))
    if block is None:
        return f"{said}. Read the file again."
    shown = "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(block.lines, block.first_line))
    return f"{said}. The most similar place:\n{shown}"


def _hunk_spans(hunk: Hunk, at: int, offsets: list[int], text: str) -> list[tuple[int, int, str]]:
    spans: list[tuple[int, int, str]] = []
    start = at
    added: list[str] = []

    def flush() -> None:
        nonlocal start, added
        if start != at or added:
            spans.append(_span(hunk, offsets[start], offsets[at], added, text))
        start, added = at, []

    for mark, line in hunk.body:
        if mark == " ":
            flush()
            at += 1
            start = at
        elif mark == "-":
            at += 1
        else:
            added.append(line)
    flush()
    return spans


def _span(hunk: Hunk, start: int, end: int, added: list[str], text: str) -> tuple[int, int, str]:
    """One replacement; at the end of the file the line end is as the patch says, else as it was."""
    replacement = "".join(f"{line}\n" for line in added)
    if end < len(text):
        return start, end, replacement
    ended = text.endswith("\n") or not text
    wanted = False if hunk.new_unended else True if hunk.old_unended else ended
    if replacement and not wanted:
        replacement = replacement[:-1]
    if start == len(text) and text and not ended:
        replacement = f"\n{replacement}"
    if not replacement and not wanted and hunk.new_unended and start and text[start - 1] == "\n":
        start -= 1
    return start, end, replacement
