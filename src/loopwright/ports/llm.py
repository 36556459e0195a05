"""The seam to models.

Owns: request, response, stream chunk and the service Protocol. Must not know: any provider.
Read next: `transports/` for implementers, `testing/scripted.py` for the shortest one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from ..model.messages import AssistantMessage, MessageLike, ProviderState, ReasoningPart, TextPart, ToolCall
from ..model.specs import FinishReason, StructuredOutputSpec, ToolSpec
from ..model.usage import NO_USAGE, Usage


class LLMRequest(Struct, frozen=True, gc=False, kw_only=True):
    """One model call, provider-neutral."""

    messages: Sequence[MessageLike]
    """The window, oldest first: typed messages or OpenAI-style dicts."""
    system_prompt: str | None = None
    """Instructions; rendered in the place that the provider has for them, before `messages`."""
    tools: Sequence[ToolSpec | Mapping[str, Any]] = ()
    """Tool specs, or OpenAI-style tool dicts."""
    tool_choice: Literal["auto", "none", "required"] | str = "auto"
    """"auto", "none", "required", or the name of the one tool to call; not sent when there are no tools."""
    model: str | None = None
    """Overrides the service's own model for this call."""
    max_output_tokens: int | None = None
    """Upper limit of the reply, reasoning included; None leaves it to the service's setting."""
    temperature: float | None = None
    """None is not sent: newer models refuse the field."""
    response_format: StructuredOutputSpec | None = None
    stable: int | None = None
    """How many leading `messages` the next request brings back unchanged; what follows is the tail. None: all of them."""
    cache_key: str | None = None
    """A stable id of the conversation; providers that route by one get its digest, and keep it on one prompt cache."""
    extra: Mapping[str, Any] = field(default_factory=lambda: {})
    """Provider fields merged into the request body as they are; they win over ours."""


class LLMResponse(Struct, frozen=True, gc=False, kw_only=True):
    """One complete reply."""

    text: str = ""
    reasoning: str = ""
    """Readable reasoning; "" when the provider keeps it."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "unknown"
    usage: Usage = NO_USAGE
    """`calls` is 1; all zero with `estimated=False` means that the provider said nothing."""
    provider_state: ProviderState | None = None
    model: str = ""
    """The model that answered, as the provider names it."""
    response_id: str = ""

    def message(self) -> AssistantMessage:
        """The reply as a message: reasoning, text, calls."""
        parts: list[TextPart | ReasoningPart | ToolCall] = []
        if self.reasoning:
            parts.append(ReasoningPart(self.reasoning))
        if self.text:
            parts.append(TextPart(self.text))
        parts.extend(self.tool_calls)
        return AssistantMessage(tuple(parts), self.provider_state)


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A piece of a tool call as it streams in."""

    index: int
    """Which call of this reply, from 0."""
    id: str = ""
    """Set on the first piece."""
    name: str = ""
    """Set on the first piece."""
    arguments: str = ""
    """The next piece of argument text."""


class LLMStreamChunk(Struct, frozen=True, gc=False):
    """One step of a streamed reply; exactly the last one carries `response`."""

    text: str = ""
    reasoning: str = ""
    tool_call: ToolCallDelta | None = None
    response: LLMResponse | None = None


class LLMService(Protocol):
    """A model behind an API. A host's own service needs only these three methods.

    It may say more of itself: `model`, the name for events and records, and `capabilities`, an object whose
    `context_tokens` lets longer requests fall back to it (`ModelCapabilities` of `loopwright.transports` is one).
    Guarantees: one call is one request, never retried inside (the loop owns retries); a reply that was
    cut off raises instead of looking complete; joined chunks equal the final response.
    Raises: `LLMRequestError` (permanent), `LLMContextOverflowError`, `LLMTransientError` (may be retried).
    Concurrency: any number of calls at once. Cancel: at any await; the connection is dropped.
    """

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """The whole reply at once."""
        ...

    def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamChunk]:
        """The reply as it comes; the last chunk carries `.response`."""
        ...

    async def aclose(self) -> None:
        """Releases connections; safe to call twice."""
        ...
