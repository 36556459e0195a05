"""What a host hands to the public handle, checked before anything is stored.

Owns: session ids, messages and limits of a send. Must not know: what becomes of them.
Read next: `admission.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from ..late import Late
from ..model.codec import decode, encode
from ..model.errors import ConfigError, InvalidMessageError, StoreCorruptError
from ..model.messages import FilePart, ImagePart, MessageLike, TextPart, UserMessage, as_message, is_blank

if TYPE_CHECKING:
    from ..core import unseen
    from ..model import call_errors
else:
    unseen = Late("loopwright.core.unseen")
    call_errors = Late("loopwright.model.call_errors")


_PARTS = (TextPart, ImagePart, FilePart)


def usable_id(session_id: str) -> str:
    """The id. Raises `ConfigError` when no session can have it."""
    if not 1 <= len(session_id) <= 200 or not session_id.isprintable() or " " in session_id:
        raise ConfigError(f"session id {session_id!r} must be 1 to 200 printable characters without spaces")
    return session_id


def user_message(value: MessageLike | str, most_bytes: int) -> UserMessage:
    """The message that a host sends. Raises `InvalidMessageError` when it cannot be said or stored, `MessageTooLargeError`."""
    message = as_message(value)
    if not isinstance(message, UserMessage):
        raise InvalidMessageError("only user messages can be sent; instructions go to system_prompt")
    if isinstance(message.content, str):
        size = len(message.content)
    else:
        problems = [why for part in message.content if (why := _part_problem(part)) is not None]
        if problems:
            raise InvalidMessageError("; ".join(problems))
        message = _readable(message)
        size = unseen.size_of(message.content)
    if size > most_bytes:
        raise call_errors.MessageTooLargeError(size, most_bytes)
    if is_blank(message.content):
        raise InvalidMessageError("the message is empty; say something, or use resume()")
    return message


def _part_problem(part: Any) -> str | None:
    return unseen.part_problem(part) if isinstance(part, _PARTS) else f"{type(part).__name__} is no part of a message"


def _readable(message: UserMessage) -> UserMessage:
    """The message as it will be read from the store. Raises `InvalidMessageError` when it cannot be."""
    given: Any = message.content
    try:
        # Bytes are what they are, and many: they are not written as text only to be read again.
        slim = [structs.replace(part, data=None) if _has_bytes(part) else part for part in given]
        read = decode(encode(UserMessage(tuple(slim))), UserMessage).content
    except (StoreCorruptError, TypeError, ValueError, RecursionError) as error:
        raise InvalidMessageError(f"the message cannot be stored: {error}") from error
    parts = [
        structs.replace(part, data=bytes(old.data))
        if _has_bytes(old) and not isinstance(part, TextPart | str)
        else part
        for part, old in zip(read, given, strict=True)
    ]
    return UserMessage(tuple([part for part in parts if not isinstance(part, str)]))


def _has_bytes(part: Any) -> bool:
    return isinstance(getattr(part, "data", None), bytes | bytearray)


def check_model(llm: object) -> None:
    """Raises `ConfigError` for what is no model."""
    if isinstance(llm, type):
        raise ConfigError(f"llm must be an object, not the class: {llm.__name__}(...)")
    if not isinstance(llm, str) and not (hasattr(llm, "complete") or hasattr(llm, "stream")):
        raise ConfigError("llm must be 'provider:model' or an object with complete() or stream()")


def check_limits(rounds: int | None, budget: int | None, output: int | None) -> None:
    """Raises `ConfigError` for a limit of a send that is no positive whole number; None is no limit."""
    if rounds is budget is output is None:
        return
    given = {"max_rounds": rounds, "run_token_budget": budget, "max_output_tokens": output}
    problems = [
        f"{name} must be a positive whole number, not {value!r}"
        for name, value in given.items()
        if value is not None and (type(value) is not int or value <= 0)
    ]
    if problems:
        raise ConfigError(problems)
