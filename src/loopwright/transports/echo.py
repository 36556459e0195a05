"""A model without a model: says what it was told to say, or what was said to it.

Owns: the offline service of `provider="echo"`. Must not know: HTTP.
Read next: `testing/scripted.py` for replies step by step.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ..model.messages import UserMessage, as_messages
from ..model.usage import Usage
from ..ports.ambient import RealAmbient, breathe
from ..ports.llm import LLMRequest, LLMResponse, LLMStreamChunk
from .provider_config import LLMProviderConfig
from .reply_chunks import chunks_of


class EchoModel:
    """Answers each request with `reply`, or else with the text of the last user message.

    Deterministic: the same request gets the same reply; token figures are word counts and marked as estimated.
    """

    def __init__(self, reply: str | None = None, sleep_s: float = 0.0) -> None:
        self.model = "echo"
        self._reply = reply
        self._sleep_s = sleep_s
        self._clock = RealAmbient()

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """The reply, after `sleep_s`."""
        await self._clock.sleep(self._sleep_s)  # of 0 seconds, too: everything else that is ready runs first
        messages = as_messages(request.messages)
        said = [m.text for m in messages if isinstance(m, UserMessage)]
        text = self._reply if self._reply is not None else said[-1] if said else ""
        usage = Usage(sum(len(t.split()) for t in said), len(text.split()), calls=1, estimated=True)
        return LLMResponse(text=text, finish_reason="stop", usage=usage, model=request.model or "echo")

    async def stream(self, request: LLMRequest) -> AsyncGenerator[LLMStreamChunk, None]:
        """The same reply word by word."""
        for chunk in chunks_of(await self.complete(request)):
            yield chunk
            await breathe()

    async def aclose(self) -> None:
        """Nothing to release."""


def open_service(config: LLMProviderConfig) -> EchoModel:
    """An echo with `reply` and `sleep_s` of the config's `extra`."""
    reply = config.extra.get("reply")
    return EchoModel(None if reply is None else str(reply), float(config.extra.get("sleep_s", 0.0)))
