"""How wide a text is on a terminal, without the extra that draws tables: the demonstration runs on the bare library.

Owns: the count of columns and the cut. Must not know: what the text says.
Source: Unicode Standard Annex 11, East Asian Width. Read next: `journal_lines.py`.
"""

from __future__ import annotations

from unicodedata import combining, east_asian_width

ELLIPSIS = "…"


def columns(text: str) -> int:
    """Columns that a terminal gives the text, which is on one line."""
    return len(text) if text.isascii() else sum(map(_width, text))


def cut_to(text: str, room: int) -> str:
    """The text, or as much of it as fits into `room` columns with an ellipsis behind it; "" for no room."""
    if columns(text) <= room:
        return text
    used, kept = 1, 0
    for character in text:
        used += _width(character)
        if used > room:
            break
        kept += 1
    return text[:kept] + ELLIPSIS if room > 0 else ""


def _width(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1
