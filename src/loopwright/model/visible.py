"""Text of unknown origin for places where it must stay text: a terminal, a line of a log, an attribute of a tag.

Owns: what is written in place of control characters. Must not know: who shows what.
Read next: `../ports/prompt_source.py`.
"""

from __future__ import annotations


def visible(text: str) -> str:
    """`text` on one line, with everything that does not print (escapes, line ends, lone surrogates) written as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text])
