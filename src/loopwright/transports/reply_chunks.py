"""A whole reply as the chunks of a stream.

Owns: the cutting of a reply that was not streamed. Must not know: where it came from.
Read next: `echo.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..ports.llm import LLMResponse, LLMStreamChunk, ToolCallDelta


def chunks_of(response: LLMResponse) -> Iterator[LLMStreamChunk]:
    """Reasoning and text word by word, each call in two pieces, then the chunk that carries the reply."""
    for word in _words(response.reasoning):
        yield LLMStreamChunk(reasoning=word)
    for word in _words(response.text):
        yield LLMStreamChunk(word)
    for index, call in enumerate(response.tool_calls):
        half = len(call.arguments) // 2
        yield LLMStreamChunk(tool_call=ToolCallDelta(index, call.id, call.name, call.arguments[:half]))
        yield LLMStreamChunk(tool_call=ToolCallDelta(index, arguments=call.arguments[half:]))
    yield LLMStreamChunk(response=response)


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+\s*$|\s*\S+|\s+", text)
