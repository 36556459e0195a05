"""What happened to what the model sees: prompt epochs, projections, folds, notes, token ratios, money.

Owns: these kinds of records. Must not know: how they are folded (`core/context_state.py`). Loaded with the first of them:
a plain conversation has none. The rules of `records.py` hold here as well.
Read next: `core/context_state.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Literal, TypeAlias

from msgspec import Struct

from .messages import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from .notes import TodoItem
from .specs import ToolSpec
from .usage import NO_USAGE, Usage

VERBATIM = "verbatim"
"""The representation that shows finished sends as they were said."""

FoldTrigger = Literal["ratio", "budget", "overflow", "asked"]
"""Why a fold was made: the window came near its budget, was over it, the provider refused it as too long, or the host asked."""

Settlement = Literal["paid", "estimated", "released"]
"""What became of a reservation: the reported cost, its own estimate because nobody knows, or nothing was spent."""


class PromptEpochStarted(
    Struct, frozen=True, gc=False, tag_field="kind", tag="prompt_epoch_started", omit_defaults=True, kw_only=True
):
    """From here on requests begin with these instructions and tools, to the byte, until the next record of this kind."""

    number: int
    """From 1."""
    reason: str
    """What changed, for people: "first", "fold", "tools: read_file changed", …"""
    base: str | None = None
    """The instructions that the host gave, before anything was added."""
    instructions: str | None = None
    """What is sent: base, tool catalogue, skills and repository context as they were at this moment."""
    parts: tuple[str, ...] = ()
    """What the instructions hold beside the base: "catalogue", "files"."""
    catalogue_header: str | None = None
    """What stands above the tool catalogue; None without one."""
    tools: tuple[ToolSpec, ...] = ()
    representation: str = VERBATIM
    representation_version: int = 1


class SendProjected(Struct, frozen=True, gc=False, tag_field="kind", tag="send_projected", omit_defaults=True):
    """A finished send is shown as these messages wherever that representation is in use."""

    send: int
    """Position of its `send_started`."""
    representation: str
    version: int
    messages: tuple[SystemMessage | UserMessage | AssistantMessage | ToolResultMessage, ...]


class FoldMade(Struct, frozen=True, gc=False, tag_field="kind", tag="fold_made", omit_defaults=True, kw_only=True):
    """The oldest part of the window is replaced by one note; the records stay."""

    through: int
    """Sends that started before this position are folded; it is where the oldest kept send starts."""
    after: int = 0
    """`through` of the fold before, whose note this one merges; 0 when there was none."""
    rounds: int = 0
    """Replies of the send at `through` that are folded too, with their results; what people said stays."""
    note: str
    """The text of the note, whole, as the model sees it."""
    trigger: FoldTrigger
    fold_id: str = ""
    """Which strategy made it."""
    tokens_before: int = 0
    """Estimated, of the window."""
    tokens_after: int = 0
    usage: Usage = NO_USAGE
    model: str = ""


class FoldFailed(Struct, frozen=True, gc=False, tag_field="kind", tag="fold_failed", omit_defaults=True, kw_only=True):
    """A fold was tried and gave nothing; the window is as it was."""

    error_code: str
    message: str
    trigger: FoldTrigger
    usage: Usage = NO_USAGE
    model: str = ""


class NoteWritten(Struct, frozen=True, gc=False, tag_field="kind", tag="note_written", omit_defaults=True):
    """A note was added, changed or removed."""

    note_id: str
    content: str | None = None
    """None removes it."""
    pinned: bool = False


class TodoWritten(Struct, frozen=True, gc=False, tag_field="kind", tag="todo_written", omit_defaults=True):
    """The list of things to do is now this one."""

    items: tuple[TodoItem, ...] = ()


class TokensCalibrated(Struct, frozen=True, gc=False, tag_field="kind", tag="tokens_calibrated"):
    """So many tokens of this model are one of our estimate, as its provider counted them."""

    model: str
    ratio: float
    samples: int
    """Replies that it was learned from, this session's."""


class CostReserved(Struct, frozen=True, gc=False, tag_field="kind", tag="cost_reserved", omit_defaults=True):
    """Money was set aside for the model call that follows."""

    hold_id: str
    nanodollars: int
    keys: tuple[str, ...] = ()
    """Shared budgets that hold it too, in the store."""
    model: str = ""
    """That is asked first."""


class CostSettled(Struct, frozen=True, gc=False, tag_field="kind", tag="cost_settled", omit_defaults=True):
    """A reservation ended."""

    hold_id: str
    nanodollars: int
    how: Settlement = "paid"
    model: str = ""
    """Of an estimated one."""

    @property
    def usage(self) -> Usage:
        """What no other record tells: the cost of a call whose attempts are not known."""
        return Usage(nanodollars=self.nanodollars, estimated=True) if self.how == "estimated" else NO_USAGE


ContextRecord: TypeAlias = (
    PromptEpochStarted
    | SendProjected
    | FoldMade
    | FoldFailed
    | NoteWritten
    | TodoWritten
    | TokensCalibrated
    | CostReserved
    | CostSettled
)
"""The kinds of this module."""
