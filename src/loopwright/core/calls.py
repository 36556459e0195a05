"""Rules of a single tool call: its key, its arguments, what the model reads about it.

Owns: identity and texts of calls. Must not know: handlers, stores.
Read next: `engine/tool_call.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from msgspec import Struct

from ..late import Late
from ..model.codec import decode, encode
from ..model.messages import Content, FilePart, ImagePart, TextPart, ToolCall, content_text
from ..model.records import ResultStatus, ToolFinished
from ..model.specs import FinishReason
from .state import OpenCall, State
from .text_ranges import encoded

if TYPE_CHECKING:
    import hashlib

    from . import approvals
else:
    approvals = Late("loopwright.core.approvals")
    hashlib = Late("hashlib")


MAX_DATA: Final = 1024 * 1024
"""Bytes of a result's data, as JSON, that a record holds."""

MAX_ARGUMENTS: Final = 2_000_000
"""Characters of the arguments of all calls of one reply."""

_SHOWN_ARGUMENTS: Final = 1000
_LEFT_OUT_BEGIN: Final = "…["
_LEFT_OUT_END: Final = "write less at once, in several calls.]"
_LEFT_OUT: Final = (
    f"{_LEFT_OUT_BEGIN}{{}} characters of arguments, over {MAX_ARGUMENTS} in one reply, were not kept: {_LEFT_OUT_END}"
)
"""Behind the start of arguments that were left out; no JSON text ends like this."""


class CutOff(ValueError):
    """The arguments ended at the output limit."""


def idempotency_key(session_id: str, position: int, index: int, path: str = "") -> str:
    """64 hex digits that name one call for ever: session, position of the reply, index of the call in it, path of a step."""
    named = f"{session_id}\x00{position}\x00{index}" if not path else f"{session_id}\x00{position}\x00{index}\x00{path}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()


def arguments_of(call: ToolCall, finish_reason: FinishReason) -> dict[str, Any]:
    """The arguments object. Raises `CutOff` or `ValueError`; nothing is completed by guess."""
    if call.arguments.endswith(_LEFT_OUT_END):
        begin = call.arguments.rfind(_LEFT_OUT_BEGIN) + len(_LEFT_OUT_BEGIN)
        raise ValueError(f"nothing was run; {call.arguments[begin:-1]}")
    try:
        arguments = call.parsed()
    except (ValueError, RecursionError) as error:
        if finish_reason == "length":
            raise CutOff from error
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"the arguments are not one JSON object: {why}") from error
    if finish_reason == "length" and not arguments:
        raise CutOff  # nothing was written yet, whatever stands for nothing on this wire
    return arguments


def as_content(value: Any) -> str | tuple[TextPart | ImagePart | FilePart, ...]:
    """What the model sees of a handler's plain return value: text and message parts as they are, the rest as JSON, None as "ok".

    A part, or a list or tuple of parts and texts with at least one part in it, is parts.
    """
    if value is None:
        return "ok"
    if isinstance(value, str):
        return value
    if (parts := _parts_of(value)) is not None:
        return parts
    try:
        return encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return text_of(value)


_PARTS: Final = (TextPart, ImagePart, FilePart)


def _parts_of(value: Any) -> tuple[TextPart | ImagePart | FilePart, ...] | None:
    """The message parts that a value is, None for any other."""
    if isinstance(value, _PARTS):
        return (value,)
    if not isinstance(value, list | tuple):
        return None
    given = cast("list[object] | tuple[object, ...]", value)
    if not any(isinstance(one, _PARTS) for one in given):
        return None
    parts = tuple(given)  # the very same where it is one
    if any(isinstance(one, str) for one in parts):
        parts = tuple([TextPart(one) if isinstance(one, str) else one for one in parts])
    return parts if _are_parts(parts) else None


def _are_parts(value: tuple[object, ...]) -> TypeGuard[tuple[TextPart | ImagePart | FilePart, ...]]:
    return all(isinstance(one, _PARTS) for one in value)


def text_of(value: object) -> str:
    """`str(value)`, or its type where a host's class cannot even do that."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the tool boundary: `__str__` of a host's class may raise anything
        return f"<{type(value).__name__}>"


class LargeData(Struct, frozen=True):
    """Data that is too much for a record, as JSON."""

    body: bytes


def as_data(value: Any) -> Any:
    """A handler's data as the JSON value that every later reader of the journal gets; without a JSON form, its text.

    `LargeData` when its JSON is over `MAX_DATA`.
    """
    if value is None:
        return None
    try:
        body = encode(value)
        return LargeData(body) if len(body) > MAX_DATA else decode(body, object)
    except (TypeError, ValueError, RecursionError):
        text = text_of(value)
        return LargeData(encode(text)) if len(text) > MAX_DATA else text


def shortened(content: Content, limit: int, pointer: str) -> Content:
    """`content` with its text cut to head and tail, `pointer` between them; other parts stay."""
    text = content_text(content)
    if len(text) <= limit:
        return content
    head, tail = _ends(limit)
    cut = f"{text[:head]}\n[... {len(text) - limit} of {len(text)} characters left out; {pointer} ...]\n{text[-tail:]}"
    if isinstance(content, str):
        return cut
    return (TextPart(cut), *[p for p in content if not isinstance(p, TextPart)])


def pointer_to(artifact_id: str, text: str, limit: int, lines: int) -> str:
    """What `shortened` says about a text of so many lines that is stored whole: what is shown, and how to read the rest."""
    head, tail = _ends(limit)
    return (
        f"of {lines} lines in all, shown are the first {head} and the last {tail} characters;"
        f" read_output(artifact_id={artifact_id!r}, offset={len(encoded(text[:head]))}) goes on from here,"
        f" with line= or search= it reads elsewhere"
    )


def _ends(limit: int) -> tuple[int, int]:
    """Characters of head and tail that are shown."""
    head = limit * 2 // 3
    return head, limit - head


def bounded(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The same calls without arguments that are over `MAX_ARGUMENTS` together; those cannot be run, and say why.

    The very same tuple when there is nothing to leave out.
    """
    if sum([len(call.arguments) for call in calls]) <= MAX_ARGUMENTS:
        return calls
    left, out = MAX_ARGUMENTS, list[ToolCall]()
    for call in calls:
        size = len(call.arguments)
        if size <= left:
            left -= size
            out.append(call)
        else:
            out.append(ToolCall(call.id, call.name, f"{call.arguments[:_SHOWN_ARGUMENTS]}{_LEFT_OUT.format(size)}"))
    return tuple(out)


def with_unique_ids(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The same calls with ids that differ: a repeated or missing id gets a number, as providers want it back."""
    seen: set[str] = set()
    out: list[ToolCall] = []
    for index, call in enumerate(calls):
        base = call.id or f"call_{index}"
        name, number = base, 2
        while name in seen:
            name, number = f"{base}_{number}", number + 1
        seen.add(name)
        out.append(call if name == call.id else ToolCall(name, call.name, call.arguments))
    return tuple(out)


def aborted(state: State, reason: str) -> list[ToolFinished]:
    """Answers for all open calls of a run that ends; a started `once` call may have had its effect, and that is said."""
    results: list[ToolFinished] = []
    for call in state.open_calls():
        doubtful = call.started is not None and call.started.effect == "once"
        text = (
            f"<aborted: {reason}; it was running and may have had its effect>" if doubtful else f"<aborted: {reason}>"
        )
        key = idempotency_key(state.facts.session_id, call.position, call.index, call.path)
        status: ResultStatus = "uncertain" if doubtful else "aborted"
        results.append(ToolFinished(call.call.id, call.call.name, status, text, key=key))
    return results


def approval_refusal(call: OpenCall, *, judged_here: bool) -> str | None:
    """Why an answered approval does not let the call run; None when it does, or when nobody was asked.

    A denial is final whatever hooks are registered. Any other answer than a plain approval can only be judged by the
    hook that asked: without hooks (`judged_here`) the call is refused, since another process may have fewer of them.
    """
    if call.question is None or call.question.kind != "approval" or not call.answered:
        return None
    answer = approvals.answer_of(call.answer)
    if answer is not None and answer.decision == approvals.DENY:
        message = f": {answer.message}" if answer.message else ""
        return f"a person denied the call of {call.question.tool_name}{message}"
    if judged_here or (answer is not None and answer.decision == approvals.APPROVE):
        return None
    return f"the answer {call.answer!r} cannot be judged here: the hook that asked is not registered"
