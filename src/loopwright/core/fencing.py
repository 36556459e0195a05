"""Frames around text that goes to a model as a record: what stands inside cannot end or forge one.

Owns: the words of all frames, and how text is made harmless. Must not know: who frames what.
Read next: `request_tail.py`, `../prompts/finished_send.md`, `../prompts/fold_note.md`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from ..model.visible import visible

UNTRUSTED: Final = "untrusted"
"""The frame of what strangers wrote: a page of the web, the result of somebody else's server."""

MAX_SOURCE: Final = 500
"""Characters of a source that a frame names."""

FRAMES = (
    "agent_report",
    "conversation_so_far",
    "finished_send",
    "folded_send",
    "recalled_memory",
    "send_answered",
    "send_asked",
    "send_did",
    "session_notes",
    "timer",
    "todo_list",
    UNTRUSTED,
    "workflow_report",
)
"""The tags of our own frames."""

# A model reads over characters that do not show, and reads a wide bracket as a bracket. So both count as what they look like.
_UNSEEN = (
    "\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\x86-\\x9f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164"
    "\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff9-\\ufffb\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff"
)
_DROPPED = re.compile(f"[{_UNSEEN}]+")
_BRACKETS = "<\uff1c\ufe64"
_TAG = re.compile(rf"[{_BRACKETS}]([\s/\\\uff0f{_UNSEEN}]*)([\w{_UNSEEN}]+)")
_NAMES = frozenset(FRAMES)
_LONGEST = max(map(len, FRAMES))
_IN_ATTRIBUTE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def inside(text: str) -> str:
    """`text` to be put into a frame: where it looks like a tag of ours, its bracket is written as `&lt;`.

    Letters of other widths and cases count as the plain ones, and what does not show counts as nothing.
    """
    return _TAG.sub(_harmless, text) if any(bracket in text for bracket in _BRACKETS) else text


def _harmless(found: re.Match[str]) -> str:
    # One reader passes over what does not show, another one takes it for the end of the name.
    name = ""
    for piece in _DROPPED.split(found[2]):
        name += piece
        if len(name) > _LONGEST:
            break
        if unicodedata.normalize("NFKC", name).casefold() in _NAMES:
            return f"&lt;{found[1]}{found[2]}"
    return found[0]


def framed(tag: str, text: str, label: int | None = None) -> str:
    """`text`, which was made for the frame (`inside`), in a frame of its own."""
    name = tag if label is None else f'{tag} label="#{label}"'
    return f"<{name}>\n{text}\n</{tag}>"


def from_outside(source: str, text: str) -> str:
    """`text` of strangers in a frame that names where it is from; whatever stands in it, it cannot end or forge a frame.

    `source`: an address, the name of a server; of one over `MAX_SOURCE` characters the beginning is shown.
    """
    shown = source if len(source) <= MAX_SOURCE else f"{source[:MAX_SOURCE]}…"
    return f'<{UNTRUSTED} source="{visible(shown).translate(_IN_ATTRIBUTE)}">\n{inside(text)}\n</{UNTRUSTED}>'
