"""What a host hands to the public handle, checked before anything is stored.

Owns: session ids, messages and limits of a send. Must not know: what becomes of them.
Read next: `admission.py`.
"""

from __future__ import annotations

from ..model.codec import decode, encode
from ..model.errors import ConfigError, InvalidMessageError, StoreCorruptError
from ..model.messages import MessageLike, UserMessage, as_message, is_blank


def usable_id(session_id: str) -> str:
    """The id. Raises `ConfigError` when no session can have it."""
    if not 1 <= len(session_id) <= 200 or not session_id.isprintable() or " " in session_id:
        raise ConfigError(f"session id {session_id!r} must be 1 to 200 printable characters without spaces")
    return session_id


def user_message(value: MessageLike | str) -> UserMessage:
    """The message that a host sends. Raises `InvalidMessageError` when it cannot be said or stored."""
    message = as_message(value)
    if not isinstance(message, UserMessage):
        raise InvalidMessageError("only user messages can be sent; instructions go to system_prompt")
    if not isinstance(message.content, str):
        message = _readable(message)
    if is_blank(message.content):
        raise InvalidMessageError("the message is empty; say something, or use resume()")
    return message


def _readable(message: UserMessage) -> UserMessage:
    """The message as it will be read from the store. Raises `InvalidMessageError` when it cannot be."""
    try:
        return decode(encode(message), UserMessage)
    except (StoreCorruptError, TypeError, ValueError, RecursionError) as error:
        raise InvalidMessageError(f"the message cannot be stored: {error}") from error


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
