"""The one guard for "every tool call is answered once, in order, before anybody else speaks".

Owns: what a valid window is, and the words for a lost answer. Must not know: state, stores.
Source: Chat Completions, Responses and Messages APIs all refuse a conversation that breaks this (November 2026).
Read next: `state.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.messages import AssistantMessage, Message, ToolResultMessage

LOST_RESULT = "<no result: the record of this call was lost>"
"""What the window of a damaged journal says for a call whose answer is missing."""


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


def role_of(message: Message) -> str:
    """The role word of a message."""
    return str(message.__struct_config__.tag)
