"""Live signals for observers: lossy, never needed for correctness.

Owns: the payloads and the envelope. Must not know: who listens (`engine/bus.py`).
Read next: `docs/events.md`.
"""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct, field

from .event_types import AgentEventType as AgentEventType
from .notes import TodoItem
from .records import Interaction, Outcome
from .usage import Usage


class RunStarted(Struct, frozen=True, tag="run_started"):
    """A send began or goes on."""

    send_index: int
    resumed: bool


class RunEnded(Struct, frozen=True, tag="run_ended"):
    """A send ended or paused; exactly one per run, its last event."""

    outcome: Outcome
    final_text: str
    rounds: int
    usage: Usage
    error_code: str | None = None


class RoundStarted(Struct, frozen=True, tag="round_started"):
    """A round began."""

    max_rounds: int


class RoundCompleted(Struct, frozen=True, tag="round_completed"):
    """A round is durable."""

    had_tools: bool


class LLMCallStarted(Struct, frozen=True, tag="llm_call_started"):
    """An attempt of a model call began."""

    call_id: str
    """r<round>.a<attempt>"""
    attempt: int
    model: str


class LLMCallCompleted(Struct, frozen=True, tag="llm_call_completed"):
    """An attempt ended; paired with its start whatever happened."""

    call_id: str
    attempt: int
    model: str
    duration_s: float
    success: bool
    usage: Usage
    error_code: str | None = None


class LLMRetryAttempted(Struct, frozen=True, tag="llm_retry_attempted"):
    """Another attempt follows."""

    attempt: int
    max_attempts: int
    error_code: str
    error_message: str
    next_sleep_s: float


class ModelFallback(Struct, frozen=True, tag="model_fallback"):
    """A model gave up and the next one of the chain is asked, for the rest of the send."""

    from_model: str
    to_model: str
    error_code: str
    error_message: str


class LLMDegraded(Struct, frozen=True, tag="llm_degraded"):
    """No attempt worked; the send ends as degraded."""

    attempts: int
    error_code: str
    error_message: str


class AttemptDiscarded(Struct, frozen=True, tag="attempt_discarded"):
    """The text shown for this attempt is void; the next attempt starts anew."""

    call_id: str
    characters: int


class StreamDelta(Struct, frozen=True, tag="stream_delta"):
    """More text of the reply."""

    call_id: str
    text: str


class StreamThinkDelta(Struct, frozen=True, tag="stream_think_delta"):
    """More readable reasoning."""

    call_id: str
    text: str


class ToolArgumentsDelta(Struct, frozen=True, tag="tool_arguments_delta"):
    """More of a tool call being written; id and name only on its first piece."""

    call_id: str
    index: int
    tool_call_id: str
    name: str
    arguments: str


class ToolCallStarted(Struct, frozen=True, tag="tool_call_started"):
    """A handler is about to run."""

    tool_call_id: str
    name: str
    arguments: dict[str, Any]


class ToolCallCompleted(Struct, frozen=True, tag="tool_call_completed"):
    """A call has its durable result; follows `tool_call_failed` when it failed."""

    tool_call_id: str
    name: str
    output: str
    status: str
    failed: bool
    duration_s: float


class ToolCallFailed(Struct, frozen=True, tag="tool_call_failed"):
    """A call failed."""

    tool_call_id: str
    name: str
    output: str


class ToolAttemptFailed(Struct, frozen=True, tag="tool_attempt_failed"):
    """A handler failed and is called again, under the same key."""

    tool_call_id: str
    name: str
    attempt: int
    """From 1."""
    max_attempts: int
    error: str
    next_sleep_s: float


class ToolProgress(Struct, frozen=True, tag="tool_progress"):
    """A handler says how far it is."""

    tool_call_id: str
    name: str
    done: float
    total: float | None
    """None: how much there is is not known."""
    message: str


class LoopCancelled(Struct, frozen=True, tag="loop_cancelled"):
    """The run was stopped."""

    reason: str


class PromptPrefix(Struct, frozen=True, tag="prompt_prefix"):
    """How much of a request the one before it had already, so that the provider need not read it again."""

    stable_tokens: int
    """Expected size of instructions, tools and window."""
    reusable_tokens: int
    """How much of that is byte for byte the beginning of the session's request before, of the same model."""
    cached_tokens: int | None
    """What the provider says that it reused; None when it said nothing about this call."""
    broke: str | None = None
    """Why less is reusable than the request before held, or why nothing was reused; None when all is well."""


class UsageUpdated(Struct, frozen=True, tag="usage_updated"):
    """What one model call cost, and the send so far."""

    call: Usage
    send: Usage


class StatusChanged(Struct, frozen=True, tag="status_changed"):
    """Something a status line shows."""

    status: str
    detail: str = ""


class FoldStatus(Struct, frozen=True, tag="fold_status"):
    """A fold began or ended."""

    phase: str
    before_tokens: int
    after_tokens: int | None = None
    error_code: str | None = None
    """Why it failed."""
    error_message: str = ""


class MemoryRecalled(Struct, frozen=True, tag="memory_recalled"):
    """Memory was asked for a send."""

    returned: int
    """Memories that providers answered."""
    injected: int
    """Those that the model is shown, after hooks and the budget."""
    budget_tokens: int


class MemoryFailed(Struct, frozen=True, tag="memory_failed"):
    """A provider of memory raised, answered in another shape or took too long; the session goes on without."""

    phase: str
    """"recall" | "remember"."""
    error_type: str
    error_message: str


class TodoUpdated(Struct, frozen=True, tag="todo_updated"):
    """A todo list was stored."""

    items: tuple[TodoItem, ...]
    counts: dict[str, int]
    """How many have each status; one that no item has is left out."""


class InboxQueued(Struct, frozen=True, tag="inbox_queued"):
    """An item waits for the session."""

    item_id: str
    depth: int


class InboxDelivered(Struct, frozen=True, tag="inbox_delivered"):
    """Items became user messages."""

    item_ids: tuple[str, ...]


class InputRequested(Struct, frozen=True, tag="input_requested"):
    """The run waits for a person."""

    interaction: Interaction


class SubagentStarted(Struct, frozen=True, tag="subagent_started"):
    """A call of this session made a child."""

    child_id: str
    name: str
    depth: int
    """1 for a child of a session that nobody spawned."""
    awaited: bool
    """False: it runs in the background."""


class SubagentCompleted(Struct, frozen=True, tag="subagent_completed"):
    """A child that this session waited for ended its send."""

    child_id: str
    status: str
    rounds: int
    final_text: str


class AgentHandedOff(Struct, frozen=True, tag="agent_handed_off"):
    """The session answers as another agent from the next round on."""

    name: str
    reason: str


class CallWaiting(Struct, frozen=True, tag="call_waits"):
    """A call goes on when something outside happened."""

    call_id: str
    on: str
    """"child" | "time" | "signal"."""
    child_id: str | None
    until: float | None
    """UTC epoch seconds."""
    signal: str | None


class SignalHeard(Struct, frozen=True, tag="signal_received"):
    """A signal was taken from the inbox."""

    name: str
    taken: bool
    """False: it is kept until a call waits for it."""


class TimerFired(Struct, frozen=True, tag="timer_fired"):
    """A timer's time had come, and this process dealt with it."""

    timer_id: str
    note: str
    due_at: float
    """UTC epoch seconds."""
    outcome: str
    """delivered | queued | skipped | cancelled | postponed | error"""
    next_due_at: float | None = None
    """When it is due again; None when it is not armed any more."""
    error_message: str = ""


class TimerUnserved(Struct, frozen=True, tag="timer_unserved"):
    """A timer was armed that nobody in this process fires: another one has to serve its agent."""

    timer_id: str
    due_at: float
    agent_name: str


class WorkflowStep(Struct, frozen=True, tag="workflow_step"):
    """A step of a workflow run began, waits or ended."""

    path: str
    """Ids from the root, with iteration indexes."""
    phase: str
    """"started" | "waits" | "finished"."""
    attempt: int
    outcome: str | None = None
    """How it ended: completed, failed, skipped, cancelled."""
    child_id: str | None = None
    error_message: str | None = None


class GuardrailDecided(Struct, frozen=True, tag="guardrail_decided"):
    """A guardrail blocked, rewrote or noted something."""

    guardrail: str
    stage: str
    """"input" | "output" | "arguments" | "result" | "recalled"."""
    action: str
    """"block" | "rewrite" | "annotate"."""
    reason: str
    tool_name: str | None = None
    call_id: str | None = None


class AgentError(Struct, frozen=True, tag="agent_error"):
    """The send ends as failed."""

    error_code: str
    message: str


EventData: TypeAlias = (
    RunStarted
    | RunEnded
    | RoundStarted
    | RoundCompleted
    | LLMCallStarted
    | LLMCallCompleted
    | LLMRetryAttempted
    | ModelFallback
    | LLMDegraded
    | AttemptDiscarded
    | StreamDelta
    | StreamThinkDelta
    | ToolArgumentsDelta
    | ToolCallStarted
    | ToolCallCompleted
    | ToolCallFailed
    | ToolAttemptFailed
    | ToolProgress
    | LoopCancelled
    | PromptPrefix
    | UsageUpdated
    | StatusChanged
    | FoldStatus
    | MemoryRecalled
    | MemoryFailed
    | TodoUpdated
    | InboxQueued
    | InboxDelivered
    | InputRequested
    | SubagentStarted
    | SubagentCompleted
    | AgentHandedOff
    | CallWaiting
    | SignalHeard
    | TimerFired
    | TimerUnserved
    | WorkflowStep
    | GuardrailDecided
    | AgentError
)
"""The payload of an event, one class a kind."""

PAYLOADS: dict[str, type[EventData]] = {str(cls.__struct_config__.tag): cls for cls in get_args(EventData)}
"""Kind → the class of its payload."""


class AgentEvent(Struct, frozen=True, kw_only=True):
    """One event: the envelope and its payload."""

    type: AgentEventType
    session_id: str
    data: EventData
    seq: int
    """Counts the events of one loop object, from 1."""
    at: float
    """Wall time, UTC epoch seconds."""
    mono: float
    """Monotonic seconds, for durations."""
    round_index: int = 0
    agent: tuple[str, ...] = field(default=("default",))
    """The path of agents, outermost first."""

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON values; `from_dict` reads it back."""
        return dict(msgspec.to_builtins(self))

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> AgentEvent:
        """The event that `to_dict` wrote. Raises `msgspec.ValidationError` for another shape."""
        return msgspec.convert(value, cls)
