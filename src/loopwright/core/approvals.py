"""What a person's answer to a question for approval means for its call.

Owns: reading the stored answer, and whether it covers the arguments that a handler would get. Must not know: stores, hooks.
An answer that says more than yes or no is stored as a JSON object, which older versions refuse to take for a yes.
Read next: `calls.py` (`approval_refusal`), `../engine/approving.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ..model.permission_spec import ApprovalAnswer
from .state import OpenCall

APPROVE = "approve"
DENY = "deny"


def answer_of(value: Any) -> ApprovalAnswer | None:
    """The answer in its full form; None for one that only the hook that asked understands."""
    if value is True or value is False:
        return ApprovalAnswer(decision=APPROVE if value else DENY)
    if isinstance(value, str):
        return ApprovalAnswer(decision=value)
    if isinstance(value, ApprovalAnswer):
        return value
    if not isinstance(value, Mapping) or "decision" not in value:
        return None
    try:
        return msgspec.convert(value, ApprovalAnswer)
    except msgspec.ValidationError:
        return None


def as_answered(answer: ApprovalAnswer) -> Any:
    """The answer as a record holds it: the plain word where there is nothing else in it."""
    stored = cast("dict[str, Any]", msgspec.to_builtins(answer))
    return answer.decision if len(stored) == 1 else stored


def is_answered(call: OpenCall) -> bool:
    """Whether somebody answered a question for approval of this call."""
    return call.answered and call.question is not None and call.question.kind == "approval"


def heard_by_hooks(call: OpenCall) -> Any:
    """What a hook that asked is told: the plain word, whatever else the answer says."""
    answer = None if isinstance(call.answer, bool) else _answer(call)
    return call.answer if answer is None else answer.decision


def edited(call: OpenCall) -> dict[str, Any] | None:
    """The arguments that a person put in place of the model's; None when nobody did."""
    answer = _answer(call)
    return None if answer is None or answer.decision == DENY else answer.arguments


def message(call: OpenCall) -> str:
    """What a person says to the model with a denial; "" for nothing."""
    answer = _answer(call)
    return "" if answer is None else answer.message


def covers(call: OpenCall, tool_name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a person approved of exactly this: the tool and the arguments that were shown, or those put in place."""
    answer = _answer(call)
    if call.question is None or answer is None or answer.decision != APPROVE:
        return False  # of other words only the hook that asked knows whether they mean yes
    shown = call.question.metadata.get("arguments") if answer.arguments is None else answer.arguments
    return call.question.tool_name == tool_name and bool(shown == arguments)


def _answer(call: OpenCall) -> ApprovalAnswer | None:
    """What was answered to a question for approval; None when nobody was asked, or nobody answered."""
    return answer_of(call.answer) if is_answered(call) else None
