"""Counting tokens with tiktoken, where it is installed, for models that it knows.

Owns: the counter, loading encoders. Must not know: when it is asked.
An encoder's file comes over the network when it is first wanted, with no time limit of tiktoken's own. So it is loaded in a
thread that nobody has to wait for; when that fails, sizes stay estimated.
Read next: `ports/token_counter.py`.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, cast

from msgspec.structs import replace

from ..core.estimate import message_tokens
from ..model.codec import encode
from ..model.messages import AssistantMessage, Message, ReasoningPart, TextPart, ToolCall
from ..ports.llm import LLMRequest

_log = logging.getLogger("loopwright.tokens")

PER_MESSAGE = 3
PER_REPLY = 3
"""Tokens beside the text, as OpenAI's cookbook counts them for its chat models."""
LOADING_S = 3.0
"""How long a count waits for an encoder; later counts find it loaded."""


class TiktokenCounter:
    """A `TokenCounter` for the models of OpenAI; None for all others, and while an encoder is not there."""

    def __init__(self, encoder_of: Callable[[str], Any] | None = None, *, loading_s: float = LOADING_S) -> None:
        self._encoder_of = encoder_of or _encoder_of
        self._loading_s = loading_s
        self._encoders: dict[str, Future[Any]] = {}

    async def count(self, request: LLMRequest, *, model: str) -> int | None:
        """Tokens of `request`, counted in a thread; pictures and files are estimated."""
        loading = self._encoders.get(model) or self._load(model)
        if not loading.done():
            waiting = asyncio.wrap_future(loading)
            try:
                await asyncio.wait([waiting], timeout=self._loading_s)
            finally:
                waiting.cancel()  # or it would be told when this event loop may be closed; the loading goes on
        encoder = loading.result() if loading.done() else None
        return None if encoder is None else await asyncio.to_thread(_counted, encoder, request)

    def _load(self, model: str) -> Future[Any]:
        loading: Future[Any] = Future()
        loading.set_running_or_notify_cancel()  # from here on nobody who waits can cancel it
        self._encoders[model] = loading
        # A daemon: a process may end while the network does not answer.
        threading.Thread(target=self._loaded, args=(model, loading), name="loopwright-tokens", daemon=True).start()
        return loading

    def _loaded(self, model: str, loading: Future[Any]) -> None:
        encoder = None
        try:
            encoder = self._encoder_of(model)
        except KeyError:
            pass  # a model of somebody else
        except Exception as error:  # noqa: BLE001 - whatever a download raises: sizes are estimated instead
            _log.warning("no token encoder for %s, sizes are estimated: %s", model, error)
        loading.set_result(encoder)


@functools.cache
def shared_counter() -> TiktokenCounter | None:
    """The counter of this process; None without tiktoken."""
    return None if importlib.util.find_spec("tiktoken") is None else TiktokenCounter()


def _encoder_of(model: str) -> Any:
    """The encoder of a model. Raises: `KeyError` for one that tiktoken does not know, whatever a download raises."""
    try:
        import tiktoken  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - extra: tokens
    except ImportError as error:
        raise ImportError('counting tokens needs tiktoken: pip install "loopwright[tokens]"') from error
    return cast("Any", tiktoken).encoding_for_model(model.rpartition("/")[2])


def _counted(encoder: Any, request: LLMRequest) -> int:
    total = PER_REPLY + _size(encoder, request.system_prompt or "")
    for spec in request.tools:
        total += _size(encoder, encode(spec).decode("utf-8", "replace"))
    for message in cast("Sequence[Message]", request.messages):
        total += PER_MESSAGE + _message_size(encoder, message)
    return total


def _message_size(encoder: Any, message: Message) -> int:
    if isinstance(message, AssistantMessage):
        return sum([_part_size(encoder, part) for part in message.parts])
    if isinstance(message.content, str):
        return _size(encoder, message.content)
    texts = "".join([part.text for part in message.content if isinstance(part, TextPart)])
    others = tuple([part for part in message.content if not isinstance(part, TextPart)])
    return _size(encoder, texts) + (message_tokens(replace(message, content=others)) if others else 0)


def _part_size(encoder: Any, part: TextPart | ReasoningPart | ToolCall) -> int:
    return _size(encoder, part.name + part.arguments if isinstance(part, ToolCall) else part.text)


def _size(encoder: Any, text: str) -> int:
    # Words that a model takes for marks are text here: whatever stands in a conversation was said by somebody.
    return len(encoder.encode(text, disallowed_special=()))
