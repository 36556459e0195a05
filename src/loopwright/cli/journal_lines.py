"""Records, calls and figures in a few words each.

Owns: the short form of what happened, for tables, transcripts and tool lines. Must not know: terminals, colours.
Read next: `transcript.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from ..model.codec import decode_record
from ..model.context_records import ContextRecord
from ..model.control_records import ControlRecord
from ..model.errors import StoreCorruptError
from ..model.messages import FilePart, ImagePart, TextPart, content_text
from ..model.records import (
    AssistantMessageAdded,
    AttemptFailed,
    ChainLinked,
    HistoryRepaired,
    QuestionAnswered,
    QuestionAsked,
    Record,
    RunResumed,
    SendFinished,
    SendPaused,
    SendStarted,
    SessionCreated,
    SessionForked,
    StateCheckpointed,
    ToolAbandoned,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)
from ..model.usage import Usage
from ..ports.store import StoredRecord
from .context_lines import context_words
from .control_lines import control_words
from .family_lines import family_words
from .text_columns import columns, cut_to

_CONTROL = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}


def printable(text: str) -> str:
    """`text` without control characters: what a model or tool says must not drive the terminal."""
    return text.translate(_CONTROL).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def call_text(name: str, arguments: Mapping[str, Any] | str, width: int = 80) -> str:
    """A tool call as `name(argument="value")`."""
    if isinstance(arguments, str):
        try:
            given: Any = json.loads(arguments or "{}")
            arguments = msgspec.convert(given, dict[str, Any])
        except (ValueError, msgspec.ValidationError):
            return one_line(f"{name}({arguments})", width)
    values = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items()]
    each = max((width - len(name) - 2) // max(len(values), 1) - 2, 12)
    return one_line(f"{name}({', '.join(one_line(value, each) for value in values)})", width)


def counted(count: int, word: str) -> str:
    """`1 send`, `2 sends`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def tokens_number(usage: Usage) -> str:
    """Tokens of a usage: `1,234`, with `~` when estimated."""
    return f"{'~' if usage.estimated else ''}{usage.total_tokens:,}"


def tokens_text(usage: Usage) -> str:
    """Tokens of a usage: `1,234 tokens`, with `~` when estimated."""
    return f"{tokens_number(usage)} token{'' if usage.total_tokens == 1 else 's'}"


def parts_text(content: str | tuple[TextPart | ImagePart | FilePart, ...]) -> str:
    """Text and, in brackets, what is not text."""
    return content if isinstance(content, str) else " ".join([content_text(content), *_others(content)]).strip()


def parts_line(content: str | tuple[TextPart | ImagePart | FilePart, ...], width: int, *, before: str = "") -> str:
    """`parts_text` behind `before` on one line of at most `width` columns; what is not text is named, and the rest cut."""
    text = one_line(before + (content if isinstance(content, str) else content_text(content)), width)
    others = "" if isinstance(content, str) else " ".join(_others(content))
    room = max(width - columns(others) - 1, 0) if others else width
    if columns(text) > room:
        text = cut_to(text, room)
    return one_line(f"{text} {others}", width)


def _others(content: tuple[TextPart | ImagePart | FilePart, ...]) -> list[str]:
    return [f"[{part.media_type}]" for part in content if not isinstance(part, TextPart)]


def record_of(row: StoredRecord) -> Record | None:
    """The record of a stored row; None when it cannot be read."""
    try:
        return decode_record(row.kind, row.version, row.body)
    except StoreCorruptError:
        return None


def record_text(record: Record | None, width: int = 90) -> str:
    """What a record says, on one line of at most `width` columns."""
    return cut_to(one_line(_words(record, width), width), width)


def _words(record: Record | None, width: int) -> str:
    match record:
        case None:
            return "cannot be read by this version"
        case SessionCreated():
            return f"agent {record.agent_name}" + (f"; {record.system_prompt}" if record.system_prompt else "")
        case SessionForked():
            return f"of {record.base_id} at {record.base_position}"
        case SendStarted():
            limits = f"at most {counted(record.max_rounds, 'round')}"
            return f"send {record.index}, {limits}" + (f", send id {record.send_id}" if record.send_id else "")
        case UserMessageAdded():
            source = "" if record.source == "send" else f"({record.source}) "
            return parts_line(record.message.content, width, before=source)
        case AssistantMessageAdded():
            calls = [call_text(call.name, call.arguments, 60) for call in record.message.tool_calls]
            return " ".join([*([record.message.text] if record.message.text else []), *[f"→ {call}" for call in calls]])
        case AttemptFailed():
            return f"round {record.round}, attempt {record.attempt}: {record.error_code}: {record.message}"
        case ToolStarted():
            return f"{call_text(record.name, record.arguments, 60)}, effect {record.effect}, key {record.key[:8]}…"
        case ToolFinished():
            return parts_line(record.content, width, before=f"{record.name} {record.status}: ")
        case ToolAbandoned():
            return f"{record.name}: {record.reason}"
        case QuestionAsked():
            return f"{record.interaction.prompt} ({record.interaction.id})"
        case QuestionAnswered():
            return json.dumps(record.value, ensure_ascii=False) + (f" by {record.by}" if record.by else "")
        case SendPaused():
            return record.outcome
        case RunResumed():
            return record.reason + (f", takeover {record.takeovers}" if record.takeovers else "")
        case SendFinished():
            return f"{record.outcome} after {counted(record.rounds, 'round')}" + (
                f": {record.error_message}" if record.error_message else ""
            )
        case HistoryRepaired():
            return f"answered {len(record.answered)}, dropped {len(record.dropped)}"
        case StateCheckpointed():
            return "state as of here"
        case ChainLinked():
            return f"links from {record.since} on: {record.digest[:16]}…" + (
                f", key {record.key}" if record.key else ""
            )
        case _:
            if isinstance(record, ContextRecord):
                return context_words(record)
            return control_words(record) if isinstance(record, ControlRecord) else family_words(record)
