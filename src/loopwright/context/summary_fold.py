"""A fold by one model call: the note so far and the oldest sends become a new note.

Owns: `LLMSummaryFold`. Must not know: when it is asked, where the note goes.
Read next: `ports/fold.py`.
"""

from __future__ import annotations

from msgspec import Struct

from ..model.messages import AssistantMessage, Message, ToolCall, UserMessage
from ..ports.fold import FoldDesk, FoldResult, FoldTask
from ..ports.llm import LLMRequest, LLMService
from ..prompts import prompt


class LLMSummaryFold(Struct, frozen=True, kw_only=True):
    """Asks a model for the note."""

    keep_last_sends: int = 4
    trigger_ratio: float = 0.75
    summary_max_tokens: int = 5000
    summary_llm: LLMService | None = None
    """Who writes it; None: the loop's own model."""

    @property
    def fold_id(self) -> str:
        """ "summary"."""
        return "summary"

    async def fold(self, task: FoldTask, desk: FoldDesk) -> FoldResult | None:
        """The note of one call."""
        text = "\n\n".join([*([task.prior] if task.prior else []), *[_told(m) for p in task.parts for m in p.messages]])
        request = LLMRequest(
            messages=(UserMessage(text),), system_prompt=prompt("fold_summary"), max_output_tokens=task.note_tokens
        )
        reply = await desk.complete(request, llm=self.summary_llm)
        return FoldResult(note=reply.text)


def _told(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return "\n".join([part.name if isinstance(part, ToolCall) else part.text for part in message.parts])
    return message.content if isinstance(message.content, str) else ""
