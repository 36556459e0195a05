"""Frames around text that goes to a model as a record: what stands inside cannot end or forge one.

Owns: the words of all frames, and how text is made harmless. Must not know: who frames what.
Read next: `request_tail.py`, `../prompts/finished_send.md`, `../prompts/fold_note.md`.
"""

from __future__ import annotations

import re

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
)
"""The tags of our own frames."""

_TAG = re.compile(rf"<(?=[\s/]*(?:{'|'.join(FRAMES)})\b)", re.IGNORECASE)


def inside(text: str) -> str:
    """`text` to be put into a frame: where it looks like a tag of ours, its bracket is written as `&lt;`."""
    return _TAG.sub("&lt;", text) if "<" in text else text


def framed(tag: str, text: str, label: int | None = None) -> str:
    """`text`, which was made for the frame (`inside`), in a frame of its own."""
    name = tag if label is None else f'{tag} label="#{label}"'
    return f"<{name}>\n{text}\n</{tag}>"
