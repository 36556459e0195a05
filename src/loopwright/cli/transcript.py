"""A session as a person reads it: who said what, calls with what became of them, how each send ended.

Owns: the order and the words. Must not know: terminals, colours (each line says what it is).
Read next: `session_commands.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ..model.codec import is_sealed
from ..model.context_records import FoldMade
from ..model.family_records import CallWaits
from ..model.messages import TextPart, ToolCall
from ..model.records import (
    AssistantMessageAdded,
    AttemptFailed,
    QuestionAnswered,
    QuestionAsked,
    RunResumed,
    SendFinished,
    SendPaused,
    SessionCreated,
    SessionForked,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)
from ..ports.store import StoredRecord
from .journal_lines import call_text, one_line, parts_line, parts_text, record_of, record_text

Tone = Literal["user", "model", "tool", "good", "bad", "note"]


class TranscriptLine(Struct, frozen=True):
    """One paragraph of a transcript."""

    tone: Tone
    label: str
    """Who or what; "" continues the paragraph above."""
    text: str


def transcript(rows: Sequence[StoredRecord], *, width: int = 100, whole: bool = False) -> Iterator[TranscriptLine]:
    """The lines of a journal, in the order in which things were said; `whole` shows tool results in full."""
    if any(is_sealed(row.body) for row in rows):
        yield TranscriptLine("bad", "encrypted", "say where its keys are: LOOPWRIGHT_KEY_FILE, or LOOPWRIGHT_KEYS")
        return
    records = [(row, record_of(row)) for row in rows]
    results = _results([record for _, record in records])
    for index, (row, record) in enumerate(records):
        match record:
            case None:
                yield TranscriptLine("bad", "damage", f"record {row.position} ({row.kind}) cannot be read")
            case SessionCreated(system_prompt=str(prompt)):
                yield TranscriptLine("note", "system", prompt if whole else one_line(prompt, width))
            case UserMessageAdded():
                label = "user" if record.source in ("send", "inbox") else f"loopwright ({record.source})"
                yield TranscriptLine("user", label, parts_text(record.message.content))
            case AssistantMessageAdded():
                for part in record.message.parts:
                    if isinstance(part, TextPart):
                        yield TranscriptLine("model", "model", part.text)
                    elif isinstance(part, ToolCall):
                        yield from _call(part, results.get((index, part.id)), width, whole=whole)
            case QuestionAsked() | QuestionAnswered():
                yield TranscriptLine(
                    "note", "asked" if isinstance(record, QuestionAsked) else "answered", record_text(record, width)
                )
            case CallWaits(on="child"):
                asked = "; ".join([f"{one.prompt} ({one.id})" for one in record.interactions])
                words = f"for {record.child_id}" + (f", which asks: {asked}" if asked else "")
                yield TranscriptLine("note", "waits", one_line(words, max(width, 200)))
            case FoldMade():
                yield TranscriptLine("note", "folded", record_text(record, 300))
            case SessionForked():
                yield TranscriptLine("note", "forked", record_text(record, width))
            case RunResumed():
                yield TranscriptLine("note", "resumed", record_text(record, width))
            case AttemptFailed():
                yield TranscriptLine("bad", "failed call", record_text(record, width))
            case SendPaused():
                yield TranscriptLine("note", "paused", record.outcome)
            case SendFinished():
                yield from _end(record)
            case _:
                pass


def _end(record: SendFinished) -> Iterator[TranscriptLine]:
    if record.outcome == "completed" and record.final_text:
        yield TranscriptLine("model", "answer", record.final_text)
    tone: Tone = "good" if record.outcome == "completed" else "bad"
    yield TranscriptLine(tone, "outcome", record_text(record, 300))


def _call(
    call: ToolCall, found: tuple[ToolStarted | None, ToolFinished | None] | None, width: int, *, whole: bool
) -> Iterator[TranscriptLine]:
    started, finished = found or (None, None)
    yield TranscriptLine("tool", "call", call_text(call.name, call.arguments, 10_000 if whole else width))
    if finished is None:
        unsure = started is not None and started.effect == "once"
        yield TranscriptLine(
            "bad", "open", "started, no result: it may or may not have happened" if unsure else "no result yet"
        )
        return
    tone: Tone = "tool" if finished.status in ("finished", "answered") else "bad"
    text = parts_text(finished.content) if whole else parts_line(finished.content, width)
    yield TranscriptLine(tone, finished.status, text)


def _results(records: Sequence[object]) -> dict[tuple[int, str], tuple[ToolStarted | None, ToolFinished | None]]:
    """(index of the reply, call id) → what became of the call; ids repeat in later replies."""
    found: dict[tuple[int, str], tuple[ToolStarted | None, ToolFinished | None]] = {}
    reply = -1
    for index, record in enumerate(records):
        if isinstance(record, AssistantMessageAdded):
            reply = index
        elif isinstance(record, ToolStarted):
            found[reply, record.call_id] = (record, found.get((reply, record.call_id), (None, None))[1])
        elif isinstance(record, ToolFinished):
            found[reply, record.call_id] = (found.get((reply, record.call_id), (None, None))[0], record)
    return found
