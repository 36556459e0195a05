"""What happened: the closed union of durable facts. A session's journal is a list of these and nothing else.

Owns: every record kind, its fields and its version. Must not know: how records are folded (`core/state.py`),
encoded (`codec.py`) or stored.
Rules: past tense, frozen; a change of fields is a new version with an upgrade step in `codec.py`; a change of what
a record *means* is a new version as well. Wire forms live for ever.
Read next: `core/state.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field

from .messages import AssistantMessage, FilePart, ImagePart, TextPart, UserMessage
from .specs import FinishReason, StructuredOutputSpec
from .usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from .context_records import ContextRecord
    from .control_records import ControlRecord
    from .family_records import FamilyRecord
    from .workflow_records import WorkflowRecord

Effect = Literal["pure", "idempotent", "once"]
"""What running a tool twice does: nothing, nothing more, harm."""

Outcome = Literal[
    "completed",
    "waiting_for_input",
    "pending_tools",
    "cancelled",
    "hit_round_limit",
    "budget_exceeded",
    "degraded",
    "failed",
]
"""How a send ended; the two waiting ones pause it and it ends later."""

InputSource = Literal["send", "inbox", "wrap_up", "continue", "correct", "veto"]
"""Who said a user message: a person or host, the inbox, the engine (round limit, cut reply, wrong output), or a completion hook."""

ResultStatus = Literal[
    "finished", "failed", "invalid", "refused", "skipped", "timed_out", "aborted", "uncertain", "answered"
]
"""What became of a tool call; all but finished and answered are shown to the model as failures."""


class SessionCreated(Struct, frozen=True, gc=False, tag_field="kind", tag="session_created", omit_defaults=True):
    """A session began."""

    session_id: str
    agent_name: str
    system_prompt: str | None = None
    """None: the agent's own at the time of each send."""
    metadata: dict[str, Any] = field(default_factory=lambda: {})
    parent_id: str | None = None
    kind_of_session: str = "agent"


class SessionForked(Struct, frozen=True, gc=False, tag_field="kind", tag="session_forked"):
    """The records before this one are another session's; from here on this session has its own, and its own totals."""

    session_id: str
    base_id: str
    """As it was asked for; whose records they are now is in the head."""
    base_position: int
    """Where this record is."""


class SendStarted(
    Struct, frozen=True, gc=False, tag_field="kind", tag="send_started", omit_defaults=True, kw_only=True
):
    """An input was accepted; holds the send's own limits, so that a resume sees the same ones.

    How often a cut or unfit reply is asked for again is a setting of the process that runs it.
    """

    index: int
    """Sends of this session, from 1."""
    send_id: str | None = None
    """The host's id; a second send with it joins this one."""
    max_rounds: int
    tools: tuple[str, ...] | None = None
    """Names the model may use; None allows all that the agent has."""
    system_prompt: str | None = None
    model: str | None = None
    run_token_budget: int | None = None
    run_cost_budget: int | None = None
    """Nanodollars."""
    max_output_tokens: int | None = None
    output: StructuredOutputSpec | None = None
    context_budget_tokens: int | None = None
    """What a request of this send may hold, instructions and tools included; None: as much as the provider takes."""


class UserMessageAdded(Struct, frozen=True, gc=False, tag_field="kind", tag="user_message_added", omit_defaults=True):
    """Something was said to the model."""

    message: UserMessage
    source: InputSource = "send"
    item_ids: tuple[str, ...] = ()
    """Inbox items that this message delivers."""


class AssistantMessageAdded(
    Struct, frozen=True, gc=False, tag_field="kind", tag="assistant_message_added", omit_defaults=True
):
    """The model replied; calls in it without a `ToolFinished` are open."""

    message: AssistantMessage
    round: int
    """From 1 in each send."""
    finish_reason: FinishReason = "unknown"
    usage: Usage = NO_USAGE
    model: str = ""
    wrap_up: bool = False
    """The reply to the round-limit notice."""


class AttemptFailed(Struct, frozen=True, gc=False, tag_field="kind", tag="attempt_failed", omit_defaults=True):
    """A model call attempt was paid for, at least in part, and gave nothing."""

    round: int
    attempt: int
    """From 1."""
    error_code: str
    message: str
    usage: Usage = NO_USAGE
    model: str = ""


class ToolStarted(Struct, frozen=True, gc=False, tag_field="kind", tag="tool_started", omit_defaults=True):
    """The intent to run a handler, with the arguments it gets."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    effect: Effect
    key: str
    """The idempotency key."""


class ToolFinished(Struct, frozen=True, gc=False, tag_field="kind", tag="tool_finished", omit_defaults=True):
    """A call was answered; never run again."""

    call_id: str
    name: str
    status: ResultStatus
    content: str | tuple[TextPart | ImagePart | FilePart, ...]
    """What the model sees."""
    data: Any = None
    """A JSON value for the host; the model does not see it."""
    key: str = ""
    artifact_id: str | None = None
    """Where the whole output is when `content` shows only its head and tail."""


class ToolAbandoned(Struct, frozen=True, gc=False, tag_field="kind", tag="tool_abandoned", omit_defaults=True):
    """A handler in a thread could not be stopped; whatever it returns later is dropped."""

    call_id: str
    name: str
    reason: str


class Interaction(Struct, frozen=True, gc=False, omit_defaults=True):
    """A question to a person that a run waits for."""

    id: str
    call_id: str
    tool_name: str
    prompt: str
    kind: str = "text"
    """"text" | "choice" | "confirm" | "form" | "approval"."""
    options: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    """JSON Schema of the answer; None accepts any JSON value."""
    metadata: dict[str, Any] = field(default_factory=lambda: {})


class QuestionAsked(Struct, frozen=True, gc=False, tag_field="kind", tag="question_asked"):
    """A call waits for a person."""

    interaction: Interaction


class QuestionAnswered(Struct, frozen=True, gc=False, tag_field="kind", tag="question_answered", omit_defaults=True):
    """A person answered."""

    interaction_id: str
    value: Any
    by: str = ""


class SendPaused(Struct, frozen=True, gc=False, tag_field="kind", tag="send_paused"):
    """The send waits for a person or the host and holds no lease."""

    outcome: Literal["waiting_for_input", "pending_tools"]


class RunResumed(Struct, frozen=True, gc=False, tag_field="kind", tag="run_resumed", omit_defaults=True):
    """An interrupted send is continued; a note of recovery, not progress."""

    reason: str
    takeovers: int = 0


class SendFinished(
    Struct, frozen=True, gc=False, tag_field="kind", tag="send_finished", omit_defaults=True, kw_only=True
):
    """A send ended."""

    outcome: Outcome
    final_text: str | None = None
    """None: the text of the newest reply, which is not stored twice."""
    rounds: int = 0
    output: Any = None
    """The validated structured answer, a JSON value."""
    error_code: str | None = None
    error_reason: str | None = None
    """A finer word within `error_code`, where there is one."""
    error_message: str | None = None


class HistoryRepaired(Struct, frozen=True, gc=False, tag_field="kind", tag="history_repaired", omit_defaults=True):
    """Damage in older records was made good: calls answered, stray results left out of the window."""

    answered: tuple[str, ...] = ()
    dropped: tuple[int, ...] = ()


class StateCheckpointed(Struct, frozen=True, gc=False, tag_field="kind", tag="state_checkpointed"):
    """All state except messages as of this position, so that a long session opens fast."""

    facts: dict[str, Any]
    """`core.state.Facts` as a JSON object."""


class ChainLinked(Struct, frozen=True, gc=False, tag_field="kind", tag="chain_linked", omit_defaults=True):
    """The records right before it, from `since` on, are what they were when they were written (`core/chain.py`)."""

    digest: str
    """64 hexadecimal digits over those records, this one's position and time, and the digest of the link before."""
    since: int
    """Position of the first record that is covered; the last one stands right before the link."""
    marks: str
    """16 hexadecimal digits for each covered record, to find the one that was changed."""
    key: str = ""
    """Which key the digest was made with; "": none, so that anybody can make it anew."""


SessionRecord: TypeAlias = (
    SessionCreated
    | SessionForked
    | SendStarted
    | UserMessageAdded
    | AssistantMessageAdded
    | AttemptFailed
    | ToolStarted
    | ToolFinished
    | ToolAbandoned
    | QuestionAsked
    | QuestionAnswered
    | SendPaused
    | RunResumed
    | SendFinished
    | HistoryRepaired
    | StateCheckpointed
    | ChainLinked
)
"""What every conversation consists of."""

if TYPE_CHECKING:
    Record: TypeAlias = SessionRecord | ContextRecord | ControlRecord | FamilyRecord | WorkflowRecord
    """Everything that can stand in a journal."""
else:
    Record = SessionRecord  # the others are made with the first of them (`context_records.py`, …)
