"""Text that a person does not see and a model reads: characters without a picture, comments of markup, marks of chat formats.

Owns: finding them and writing them so that they show. Must not know: who reads the text.
Read next: `fencing.py`.
"""

from __future__ import annotations

import re
from typing import Final

# What changes the order of what is shown, or shows nothing and joins nothing.
_ALWAYS_HIDDEN = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
# Zero-width joiners and selectors of variants: part of emoji and of some scripts, and nothing between plain letters.
_JOINING = "\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS = "\U000e0000-\U000e007f"

_ANY = re.compile(f"[{_ALWAYS_HIDDEN}{_JOINING}{_TAGS}]")
_RUN = re.compile(f"[{_ALWAYS_HIDDEN}{_JOINING}{_TAGS}]+")
_TAG_RUN = re.compile(f"[{_TAGS}]+")
# Flags of regions of a country end with a tag run of theirs; nothing else may have one.
_FLAG: Final = "\U0001f3f4"
_SHOWN: Final = 2000
"""Characters of hidden text that are shown."""

_CHAT_MARKS = re.compile(
    r"<\|(?=[\w ]{1,40}\|>)|<(?=/?s>)|\[(?=/?INST\])|<(?=</?SYS>>)|<(?=/?(?:start|end)_of_turn>)|<(?=/?(?:system|assistant|function_calls?|tool_calls?|tool_results?)\s*>)",
    re.IGNORECASE,
)


def is_plain(text: str) -> bool:
    """True when nothing in `text` is hidden and no mark of a chat format stands in it."""
    return _ANY.search(text) is None and "<!--" not in text and _CHAT_MARKS.search(text) is None


def has_hidden_characters(text: str) -> bool:
    """True when `shown` would take a character away or show one."""
    return _ANY.search(text) is not None and _without_hidden(text) != text


def shown(text: str) -> str:
    """`text` with nothing hidden: smuggled text and comments written out in brackets, other hidden characters left out,
    the brackets of chat formats written as `&lt;` and `&#91;`.

    Joiners and selectors of variants stay where emoji and scripts need them. The same text when there is nothing.
    """
    if is_plain(text):
        return text
    text = _without_hidden(text)
    text = _with_comments_shown(text)
    return _CHAT_MARKS.sub(lambda found: found[0].replace("<", "&lt;").replace("[", "&#91;"), text)


def _without_hidden(text: str) -> str:
    return _RUN.sub(lambda found: _instead(found, text), text)


def _instead(found: re.Match[str], text: str) -> str:
    run = found[0]
    before = text[found.start() - 1] if found.start() else ""
    after = text[found.end()] if found.end() < len(text) else ""
    said = _said(run)
    if said and before == _FLAG and run.endswith("\U000e007f") and len(said) <= 6:
        return run
    if not said:
        return _joins(run, before, after)
    return f"[hidden text: {said[:_SHOWN]}{'…' if len(said) > _SHOWN else ''}]"


def _said(run: str) -> str:
    """What the run spells: as tags, or as bytes by selectors of variants, the two ways of writing in invisible ink."""
    tags = "".join(
        [chr(ord(c) - 0xE0000) for piece in _TAG_RUN.findall(run) for c in piece if 0x20 <= ord(c) - 0xE0000 < 0x7F]
    )
    selectors = [c for c in run if "\ufe00" <= c <= "\ufe0f" or "\U000e0100" <= c <= "\U000e01ef"]
    if len(selectors) < 3:
        return tags
    data = bytes([ord(c) - 0xFE00 if c <= "\ufe0f" else ord(c) - 0xE0100 + 16 for c in selectors])
    spelled = "".join([c if c.isprintable() else "·" for c in data.decode("utf-8", "replace")])
    return tags + spelled


def _joins(run: str, before: str, after: str) -> str:
    """The one joiner or selector of the run that its neighbours need."""
    if not before or (before.isascii() and not (before in "#*0123456789" and run[0] == "\ufe0f")):
        return ""
    if "\ufe50" <= before <= "\uffef":
        return ""  # plain characters in other widths, which become plain ones
    if run[0] in "\u200c\u200d":
        return run[0] if after and not after.isascii() else ""
    if run[0] in "\ufe0e\ufe0f":
        return run[:2] if run[1:2] == "\u200d" and after and not after.isascii() else run[0]
    ideograph = "\u2e80" <= before <= "\u9fff" or before >= "\U00020000"
    return run[0] if ideograph and ("\ufe00" <= run[0] <= "\ufe0f" or run[0] >= "\U000e0100") else ""


def _with_comments_shown(text: str) -> str:
    """HTML comments written as `[comment: …]`; one without an end goes to the end of the text."""
    out: list[str] = []
    at = 0
    while (begin := text.find("<!--", at)) >= 0:
        end = text.find("-->", begin + 4)
        stop = len(text) if end < 0 else end
        said = text[begin + 4 : stop].strip()
        # Something stays even of an empty one: what stands on both sides must not become a new beginning.
        told = f": {said[:_SHOWN]}{'…' if len(said) > _SHOWN else ''}" if said else ""
        out += (text[at:begin], f"[comment{told.replace('<!--', '&lt;!--')}]")
        at = len(text) if end < 0 else end + 3
    return "".join([*out, text[at:]])
