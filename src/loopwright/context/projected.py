"""Finished sends shown as terse accounts: what was asked, what was done, what was answered.

Owns: `ProjectedRepresentation`, the form of an account. Must not know: windows, when it is asked, folds.
An account is one message in user role, framed as a record: in the form of a chat the model would go on writing it.
Read next: `telling.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ..core.calls import text_of
from ..core.fencing import framed, inside
from ..model.codec import encode
from ..model.errors import ConfigError
from ..model.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..ports.representation import FinishedSend
from ..ports.tool import ToolSource
from ..prompts import prompt
from .telling import Parts, cut, line, seen

_log = logging.getLogger("loopwright.projected")

ANSWER_CHARS = 2_000
"""Characters of an answer that are shown; of a longer one head and tail."""


class ProjectedRepresentation(Struct, frozen=True, kw_only=True):
    """Shows each finished send as one message: the words of people whole, a line for each call, the answer.

    A tool says in its own words what a call did (`@tool(project=...)`: arguments and the text of the result in, text or a
    dict out); what that raises is left out and the default line is shown.
    Raises: `ConfigError` for a version below 1 or a line shorter than 20 characters.
    """

    version: int = 1
    """Another number makes every send of a window anew, for example after `project` of a tool was changed."""
    max_chars: int = 300
    """Characters of the account of one call."""

    def __post_init__(self) -> None:
        problems: list[str] = []
        if self.version < 1:
            problems.append(f"version must be at least 1, not {self.version!r}")
        if self.max_chars < 20:
            problems.append(f"max_chars must be at least 20, not {self.max_chars!r}")
        if problems:
            raise ConfigError(problems)

    @property
    def kind(self) -> str:
        """ "projected"."""
        return "projected"

    def project(self, send: FinishedSend) -> tuple[Message, ...]:
        """One message; pictures of people stay pictures."""
        shown: list[TextPart | ImagePart | FilePart] = [TextPart(f"{_OPEN.format(send.label)}\n{prompt(_TAG)}")]
        results = {(place, m.call_id): m for place, m in _results(send.messages)}
        answer = ""
        for place, message in enumerate(send.messages):
            if isinstance(message, UserMessage) and place not in send.asides:
                shown += [*_answered(answer, send.label), *_asked(message)]
                answer = ""
            elif isinstance(message, AssistantMessage) and message.tool_calls:
                shown += _answered(answer, send.label)
                lines = [self._done(call, results.get((place, call.id)), send.tools) for call in message.tool_calls]
                shown.append(TextPart("\n" + framed("send_did", inside("\n".join(lines)))))
                answer = ""
            elif isinstance(message, AssistantMessage):
                answer += message.text
        shown += [*_answered(answer, send.label), TextPart(f"\n</{_TAG}>")]
        return (UserMessage(_joined(shown)),)

    def _done(self, call: ToolCall, result: ToolResultMessage | None, tools: ToolSource) -> str:
        """One line about a call, by its tool or by the default rule."""
        ended = "no result" if result is None else "ok" if result.ok else "failed"
        own = _own_account(call, result, tools)
        if own is not None:
            return f"{call.name} → {ended}: {line(own, self.max_chars)}"
        asked = line(call.arguments, self.max_chars // 2)
        text = "" if result is None else seen(result.content)
        first = line(next((one for one in text.splitlines() if one.strip()), ""), self.max_chars // 2)
        size = f", {len(text):,} characters" if len(text.strip()) > len(first) else ""
        return f"{call.name}({asked}) → {ended}{size}{': ' if first else ''}{first}"


_TAG = "finished_send"
_OPEN = f'<{_TAG} label="#{{}}">'


def _asked(message: UserMessage) -> list[TextPart | ImagePart | FilePart]:
    # Joined first: a tag may be spread over two parts.
    content = message.content if isinstance(message.content, str) else _joined(message.content or (TextPart(""),))
    parts: Parts = (TextPart(content),) if isinstance(content, str) else content
    said = [TextPart(inside(part.text)) if isinstance(part, TextPart) else part for part in parts]
    return [TextPart("\n<send_asked>\n"), *said, TextPart("\n</send_asked>")]


def _answered(answer: str, label: int) -> list[TextPart]:
    if not answer.strip():
        return []
    text = cut(answer.strip(), ANSWER_CHARS, f"the whole is in #{label}")
    return [TextPart("\n" + framed("send_answered", inside(text)))]


def _results(messages: Sequence[Message]) -> list[tuple[int, ToolResultMessage]]:
    """Each result with the place of the reply that asked for it: ids are unique within one reply only."""
    found: list[tuple[int, ToolResultMessage]] = []
    asked = -1
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            asked = place
        elif isinstance(message, ToolResultMessage):
            found.append((asked, message))
    return found


def _own_account(call: ToolCall, result: ToolResultMessage | None, tools: ToolSource) -> str | None:
    """What the tool itself says about a call; None when it says nothing."""
    tool = tools.get(call.name)
    if tool is None or tool.project is None:
        return None
    try:
        account: Any = tool.project(call.parsed(), None if result is None else result.text)
        text = account if isinstance(account, str) else encode(account).decode()
    except Exception as error:  # noqa: BLE001 - the tool boundary: the tool's own code; the default line is shown instead
        _log.warning("the account of tool %r failed: %s", call.name, text_of(error))
        return None
    return text if text.strip() and account is not None else None


def _joined(parts: Sequence[TextPart | ImagePart | FilePart]) -> str | Parts:
    """The parts with texts that stand side by side as one; a str when nothing else is there."""
    out: list[TextPart | ImagePart | FilePart] = []
    for part in parts:
        last = out[-1] if out else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            out[-1] = TextPart(last.text + part.text)
        else:
            out.append(part)
    only = out[0]
    return only.text if len(out) == 1 and isinstance(only, TextPart) else tuple(out)
