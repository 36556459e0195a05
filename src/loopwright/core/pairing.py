"""The one guard for "every tool call is answered once, in order, before anybody else speaks".

Owns: what a valid window is, whether a record may follow, and repair of damaged lists. Must not know: state, stores.
Source: Chat Completions, Responses and Messages APIs all refuse a conversation that breaks this (November 2026).
Read next: `state.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.messages import AssistantMessage, Message, ToolResultMessage

LOST_RESULT = "<no result: the record of this call was lost>"
"""What a repaired window says for a call whose answer is missing."""


def problem(messages: Sequence[Message]) -> str | None:
    """Why a provider would refuse this list; None when it is valid. Linear; nothing is copied."""
    open_ids: list[str] = []
    for index, message in enumerate(messages):
        if type(message) is ToolResultMessage:
            if not open_ids:
                return f"message {index}: result for {message.call_id!r} answers no open call"
            if open_ids[0] != message.call_id:
                return f"message {index}: result for {message.call_id!r}, expected {open_ids[0]!r}"
            del open_ids[0]
            continue
        if open_ids:
            return f"message {index}: call {open_ids[0]!r} is not answered before role {role_of(message)}"
        if type(message) is AssistantMessage:
            open_ids = [call.id for call in message.tool_calls]
            if len(set(open_ids)) != len(open_ids):
                return f"message {index}: two calls share one id"
    return f"call {open_ids[0]!r} at the end is not answered" if open_ids else None


def align(messages: Sequence[Message]) -> list[Message]:
    """A valid list from any list: stray results dropped, missing ones answered, results put in call order.

    A valid list comes back equal. Deterministic and idempotent.
    """
    aligned: list[Message] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if isinstance(message, ToolResultMessage):
            continue
        aligned.append(message)
        if not isinstance(message, AssistantMessage):
            continue
        results: dict[str, ToolResultMessage] = {}
        while index < len(messages) and isinstance(result := messages[index], ToolResultMessage):
            results.setdefault(result.call_id, result)
            index += 1
        aligned.extend(
            results.get(call.id) or ToolResultMessage(call.id, call.name, LOST_RESULT, ok=False)
            for call in message.tool_calls
        )
    return aligned


def role_of(message: Message) -> str:
    """The role word of a message."""
    return str(message.__struct_config__.tag)
