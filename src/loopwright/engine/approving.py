"""Answers to questions for approval, before they are stored: what they say, and whether they can be done.

Owns: reading an answer, checking arguments that a person put in place, the record of a standing answer. Must not know: who
asked, how the call goes on. Nothing is stored when this raises. Loaded with the first such answer.
Read next: `permits.py`, `../core/approvals.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from ..core import approvals
from ..core.calls import MAX_DATA
from ..core.state import OpenCall
from ..model.codec import encode
from ..model.errors import InvalidMessageError
from ..model.permission_spec import STANDINGS, ApprovalAnswer
from ..model.records import Interaction, Record
from . import permits
from .turn import Turn

MAX_MESSAGE: Final = 20_000
"""Characters of what a person says with a denial."""


async def read(turn: Turn, call: OpenCall, value: Any, by: str) -> tuple[Any, Sequence[Record]]:
    """(the answer as it is stored, records beside it).

    Raises: `InvalidMessageError` for an answer that is none, for arguments that do not fit or that a rule denies, and for
    one that cannot be remembered.
    """
    question = call.question
    assert question is not None
    if (
        isinstance(value, bool)
        and question.options
        and not {approvals.APPROVE, approvals.DENY} <= set(question.options)
    ):
        raise _refused(question, f"must be one of {', '.join(question.options)}")
    if isinstance(value, dict) and "decision" in value:
        _check_fields(question, value)
    answer = approvals.answer_of(value)
    if answer is None:
        if question.options:
            raise _refused(question, f"must be one of {', '.join(question.options)}")
        return cast("Any", value), ()  # only the hook that asked understands it
    _check(question, answer)
    if answer.arguments is not None:
        await _check_arguments(turn, question, answer.arguments)
    if answer.remember is None:
        return approvals.as_answered(answer), ()
    suggested = question.metadata.get("suggested")
    return approvals.as_answered(answer), [
        permits.granted(turn.kernel.permissions, question.id, suggested, answer.remember, by)
    ]


def _check_fields(question: Interaction, value: Any) -> None:
    try:
        msgspec.convert(value, ApprovalAnswer)
    except msgspec.ValidationError as error:
        raise _refused(question, f"is not valid: {error}") from error


def _check(question: Interaction, answer: ApprovalAnswer) -> None:
    known = question.options or (approvals.APPROVE, approvals.DENY)
    plain = answer.arguments is None and not answer.message and answer.remember is None
    if answer.decision not in known and (question.options or not plain):
        raise _refused(question, f"must be one of {', '.join(known)}")
    denied = answer.decision == approvals.DENY
    if denied and (answer.arguments is not None or answer.remember is not None):
        raise _refused(question, "denies, and so can have no arguments and nothing to remember")
    if answer.message and not denied:
        raise _refused(question, f"has a message, which goes with {approvals.DENY!r} alone")
    if len(answer.message) > MAX_MESSAGE:
        raise _refused(question, f"has a message of {len(answer.message)} characters, {MAX_MESSAGE} are allowed")
    if answer.remember is not None and answer.remember not in STANDINGS:
        raise _refused(question, f"remember must be one of {', '.join(STANDINGS)}")
    if answer.remember is not None and answer.arguments is not None:
        raise _refused(question, "changes the arguments: that is for this call alone and cannot be remembered")


async def _check_arguments(turn: Turn, question: Interaction, arguments: dict[str, Any]) -> None:
    """Arguments of a person are held to the same schema and rules as those of the model; what is asked is answered with them."""
    try:
        size = len(encode(arguments))
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(question, f"has arguments that are no JSON: {error}") from error
    if size > MAX_DATA:
        raise _refused(question, f"has arguments of {size} bytes, {MAX_DATA} are allowed")
    kernel, tools = turn.kernel, turn.options.registry or turn.kernel.tools
    tool = tools.get(question.tool_name)
    if tool is None or tool.handler is None:
        raise _refused(question, f"cannot change the arguments: {question.tool_name} is not run here")
    if (why := tools.problems(question.tool_name, arguments)) is not None:
        raise _refused(question, f"has arguments that do not fit: {why}")
    if kernel.permissions is not None:
        verdict = await permits.verdict_of(kernel.permissions, turn.journal.state, tool, arguments)
        if verdict.decision == "deny":
            raise _refused(
                question, f"has arguments that may not be used: {verdict.why} ({verdict.rule or 'the mode'})"
            )


def _refused(question: Interaction, why: str) -> InvalidMessageError:
    return InvalidMessageError(f"the answer to {question.id!r} {why}")
