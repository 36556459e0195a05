"""What a host gets back from a send, computed from the journal alone.

Owns: `StatefulResult`, `FollowUpQueued`, and how they follow from state. Must not know: who asks.
Read next: `loop.py`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..model.errors import (
    CancellationRequested,
    InvariantError,
    LLMContextOverflowError,
    LLMEmptyReplyError,
    LLMError,
    LLMRequestError,
    LLMTransientError,
    LoopwrightError,
    PoisonedError,
    StructuredOutputError,
)
from ..model.messages import ToolCall
from ..model.records import Interaction, Outcome
from ..model.usage import NO_USAGE, Usage
from .state import SendFacts, State


class StatefulResult(Struct, frozen=True, kw_only=True):
    """How a send ended, or what it waits for."""

    session_id: str
    status: Outcome
    final_text: str = ""
    rounds: int = 0
    usage: Usage = NO_USAGE
    """All model calls of this send and of the children whose end it heard of, failed attempts included."""
    output: Any = None
    """The validated structured answer; None when none was asked for."""
    pending_tool_calls: tuple[ToolCall, ...] = ()
    """Calls that the host must answer (`submit_tool_results`)."""
    pending_interactions: tuple[Interaction, ...] = ()
    """Questions that a person must answer (`submit_input`), those of children included. None while the send is
    waiting_for_input: it waits for a time, a signal or a child that runs elsewhere, and goes on by itself."""
    error_code: str | None = None
    """Code of what ended a failed or degraded send."""
    error_message: str | None = None
    send_index: int = 0
    error: BaseException | None = None
    """The typed error of a failed or degraded send, where this process saw it; else rebuilt from its code."""

    @property
    def ok(self) -> bool:
        """True when the send completed."""
        return self.status == "completed"


class FollowUpQueued(Struct, frozen=True, kw_only=True):
    """An input waits in the inbox of a session."""

    session_id: str
    item_id: str
    queue_depth: int
    duplicate: bool = False
    """True when this item id was accepted before: nothing was stored again."""


def result_of(state: State, error: BaseException | None = None) -> StatefulResult:
    """The result of the newest send of a session."""
    send = state.facts.send
    if send is None:
        raise InvariantError(f"session {state.facts.session_id!r} has no send")
    if send.finished is not None:
        return _finished(state.facts.session_id, send, error)
    questions = [c.question for c in state.batch if c.waits_for_person and c.question is not None]
    outside = [c.waits for c in state.open_calls() if c.waits is not None]
    questions += [question for waits in outside for question in waits.interactions]
    host = tuple([c.call for c in state.open_calls() if not c.waits_for_person and c.waits is None])
    return StatefulResult(
        session_id=state.facts.session_id,
        status="waiting_for_input" if questions or outside else "pending_tools",
        final_text=send.answer,
        rounds=send.rounds,
        usage=send.usage,
        pending_tool_calls=host,
        pending_interactions=tuple(questions),
        send_index=send.start.index,
    )


def _finished(session_id: str, send: SendFacts, error: BaseException | None) -> StatefulResult:
    finished = send.finished
    assert finished is not None
    if error is None and finished.error_code is not None:
        error = rebuilt(finished.error_code, finished.error_reason, finished.error_message or "")
    return StatefulResult(
        session_id=session_id,
        status=finished.outcome,
        final_text=send.answer if finished.final_text is None else finished.final_text,
        rounds=finished.rounds,
        usage=send.usage,
        output=finished.output,
        error_code=finished.error_code,
        error_message=finished.error_message,
        send_index=send.start.index,
        error=error,
    )


def rebuilt(code: str, reason: str | None, message: str) -> LoopwrightError:
    """An error of this code from a journal; its facts beside the message are lost."""
    if code == StructuredOutputError.code:
        return StructuredOutputError(reason or "schema", message)
    for kind in _TOLD_BY_MESSAGE:
        if code == kind.code:
            return kind(message)
    if code.startswith("llm."):
        return LLMError(message)
    return LoopwrightError(message)


_TOLD_BY_MESSAGE = (
    CancellationRequested,
    LLMContextOverflowError,
    LLMEmptyReplyError,
    LLMRequestError,
    LLMTransientError,
    PoisonedError,
)
"""Errors whose message is all that they need."""
