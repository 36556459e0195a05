"""The seam to how a note is made of the oldest sends.

Owns: the Protocol, what it gets and answers. Must not know: implementers (`context/`), when folds are due (`core/fold_plan.py`).
Read next: `engine/folding.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from ..model.context_records import FoldTrigger
from ..model.messages import Message
from ..model.notes import Note
from .llm import LLMRequest, LLMResponse, LLMService


class FoldedPart(Struct, frozen=True):
    """A send, or the older replies of the newest one, that goes."""

    label: int
    """The send's label, to be named in the note so that the model can ask for it (`recall_send`)."""
    messages: tuple[Message, ...]
    """Verbatim; may be large: whole tool results."""


class FoldTask(Struct, frozen=True, kw_only=True):
    """What is to be put into one note."""

    session_id: str
    trigger: FoldTrigger
    prior: str | None
    """The note so far, whose content goes into the new one; None when there is none."""
    parts: tuple[FoldedPart, ...]
    """Oldest first, at least one."""
    note_tokens: int
    """What the note may be at most, estimated; a longer one is cut."""
    input_tokens: int
    """What one request about it should hold at most."""
    notes: tuple[Note, ...] = ()
    """The session's notes, for a strategy that looks after them."""


class FoldResult(Struct, frozen=True, kw_only=True):
    """A note, and what becomes of the session's notes in the same commit."""

    note: str
    written: tuple[Note, ...] = ()
    """Added, or changed where the id is known."""
    removed: tuple[str, ...] = ()


class FoldDesk(Protocol):
    """What a strategy may use. All of it is counted, bounded in time and stopped with the fold."""

    def complete(self, request: LLMRequest, *, llm: LLMService | None = None) -> Awaitable[LLMResponse]:
        """One model call, with the loop's retries; by the loop's own model, or `llm`. Usage and cost are the session's.

        Raises: what the last attempt raised; `asyncio.CancelledError` when the fold is stopped or its time is over.
        """
        ...


class FoldStrategy(Protocol):
    """Turns the oldest part of a window into a note.

    Whatever it raises, None, an empty note and running out of time (`fold_timeout_s`) leave the window as it was; it is
    tried again later. Concurrency: several sessions at once, one fold a session. Cancel: at any await.
    """

    @property
    def fold_id(self) -> str:
        """A name that is stored with each note."""
        ...

    @property
    def keep_last_sends(self) -> int:
        """Newest sends that stay, the running one included; at least 1."""
        ...

    @property
    def trigger_ratio(self) -> float:
        """Share of the context budget from which a fold is made in the background, more than 0 and at most 1."""
        ...

    @property
    def summary_max_tokens(self) -> int:
        """What a note may be at most; a quarter of the context budget when that is less."""
        ...

    def fold(self, task: FoldTask, desk: FoldDesk) -> Awaitable[FoldResult | None]:
        """The note for `task`; None when it could not be made."""
        ...
