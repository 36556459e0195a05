"""A fold by a model that is asked for the note, and nothing else.

Owns: `LLMSummaryFold`. Must not know: when it is asked, where the note goes.
Read next: `fold_input.py`, `agentic_fold.py`.
"""

from __future__ import annotations

from msgspec import Struct

from ..model.errors import LLMContextOverflowError
from ..model.messages import UserMessage
from ..ports.fold import FoldDesk, FoldResult, FoldTask
from ..ports.llm import LLMRequest, LLMService
from ..prompts import prompt
from .fold_input import LEAST_ROOM, Told, filled, messages_of, room_for, shown, so_far
from .telling import cut

OUTPUT_SHARE = 2
"""A reply may have so many times the tokens of a note: what a model thinks before it writes counts as well."""
WORDS_PER_TOKEN = 0.6
"""A little less than English text has, so that a note that keeps to it is not cut."""


class LLMSummaryFold(Struct, frozen=True, kw_only=True):
    """Asks a model to merge the oldest sends and the note so far into a new note.

    What does not fit one request goes into several, each of which merges the note of the one before; it is halved when the
    model refuses it as too long. A reply without a note is asked for once more, with more room; then the fold has failed.
    """

    keep_last_sends: int = 4
    """Newest sends that stay word for word."""
    trigger_ratio: float = 0.75
    """Share of the context budget from which a fold is made in the background."""
    summary_max_tokens: int = 5000
    """What a note may be at most; a quarter of the context budget when that is less."""
    summary_llm: LLMService | None = None
    """Who writes it; None: the loop's own model."""

    @property
    def fold_id(self) -> str:
        """ "summary"."""
        return "summary"

    async def fold(self, task: FoldTask, desk: FoldDesk) -> FoldResult | None:
        """The note, or None when the model gave none. Raises: what the desk raises."""
        instructions = instructed(prompt("fold_summary"), task)
        room = room_for(task, instructions)
        left, note = messages_of(task, room), task.prior
        while left:
            count = filled(left, room)
            try:
                written = await self._merged(so_far(note) + shown(left[:count]), instructions, task, desk)
            except LLMContextOverflowError:
                if room // 2 < LEAST_ROOM:
                    raise
                room //= 2
                left = [Told(one.label, cut(one.text, room)) for one in left]
                continue
            if written is None:
                return None
            note, left = written, left[count:]
        return FoldResult(note=note) if note else None

    async def _merged(self, text: str, instructions: str, task: FoldTask, desk: FoldDesk) -> str | None:
        """The note that the model writes about `text`; None when it gives none twice."""
        asked: tuple[UserMessage, ...] = (UserMessage(text),)
        for attempt in (1, 2):
            request = LLMRequest(
                messages=asked,
                system_prompt=instructions,
                max_output_tokens=OUTPUT_SHARE * attempt * task.note_tokens,
            )
            reply = await desk.complete(request, llm=self.summary_llm)
            if reply.text.strip() and not reply.tool_calls:
                return reply.text.strip()
            asked = (UserMessage(f"{text}\n\n{prompt('fold_again')}"),)
        return None


def instructed(text: str, task: FoldTask) -> str:
    """Instructions with the length of the note."""
    return text.replace("{words}", f"{max(int(task.note_tokens * WORDS_PER_TOKEN), 20):,}")
