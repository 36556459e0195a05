"""Everything the engine knows about a session: a fold over its records.

Owns: `Facts` (all but messages; what a checkpoint stores), `State`, and `apply`, the only place where a record
changes anything. Must not know: stores, clocks, what to do next (`decide.py`).
`apply` mutates the given state: the caller owns it. Folding the same records always gives the same state. Records that
not every conversation has are folded elsewhere (`later_steps.py`). Read next: `decide.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it reads a checkpoint.

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from ..late import Late
from ..model.codec import CONTEXT_KINDS, CONTROL_KINDS, FAMILY_KINDS
from ..model.errors import LLMContextOverflowError
from ..model.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, UserMessage
from ..model.records import (
    AssistantMessageAdded,
    AttemptFailed,
    ChainLinked,
    HistoryRepaired,
    Interaction,
    QuestionAnswered,
    QuestionAsked,
    Record,
    RunResumed,
    SendFinished,
    SendPaused,
    SendStarted,
    SessionCreated,
    SessionForked,
    StateCheckpointed,
    ToolAbandoned,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)
from ..model.specs import FinishReason
from ..model.usage import NO_USAGE, Usage
from .estimate import message_tokens

if TYPE_CHECKING:
    from ..model.context_records import SendProjected
    from ..model.family_records import CallWaits, CallWoken
    from . import context_state, control_state, family_state, later_steps, pairing
    from .context_state import ContextFacts
    from .control_state import ControlFacts, HandlerQuestions
    from .family_state import FamilyFacts
    from .workflow_state import WorkflowState
else:
    context_state = Late("loopwright.core.context_state")
    control_state = Late("loopwright.core.control_state")
    family_state = Late("loopwright.core.family_state")
    later_steps = Late("loopwright.core.later_steps")
    pairing = Late("loopwright.core.pairing")
    SendProjected = ContextFacts = ControlFacts = FamilyFacts = CallWaits = CallWoken = WorkflowState = Any
    HandlerQuestions = Any


class SendFacts(Struct):
    """The current or newest send."""

    start: SendStarted
    position: int
    """Where its `SendStarted` is."""
    rounds: int = 0
    usage: Usage = NO_USAGE
    finish_reason: FinishReason = "unknown"  # of the newest reply
    replied: bool = False
    """The newest message is a reply without calls: nothing is left to send to the model."""
    partial: str = ""
    """Text of replies cut at the output limit, to be joined with the next."""
    continuations: int = 0  # of the current answer
    extra_turn: bool = False
    """The newest message asks to continue or correct a reply: bounded by itself, not by the round limit."""
    corrections: int = 0
    vetoes: int = 0
    wrap_up: bool = False
    """The round-limit notice was given."""
    wrapped_up: bool = False
    """The reply to it is there."""
    overflow: Literal["", "seen", "hopeless"] = ""
    """The provider refused the window as too long: nothing was done about it yet, or what was done did not help."""
    refolded: bool = False
    """A fold was made since the newest reply."""
    answer: str = ""
    """Text of the newest reply, joined with what it continues."""
    paused: bool = False
    finished: SendFinished | None = None


class Facts(Struct):
    """All state except messages."""

    session_id: str = ""
    agent_name: str = ""
    system_prompt: str | None = None
    metadata: dict[str, Any] = field(default_factory=lambda: {})
    sends: int = 0
    send: SendFacts | None = None
    usage: Usage = NO_USAGE
    checkpoint: int = 0
    """Where the newest checkpoint is; 0 when there is none."""
    chain: str = ""
    """Digest of the newest link; "" when there is none."""
    context: ContextFacts | None = None
    """What is known beside the conversation: prompt epoch, folds, notes; None until there is anything."""
    family: FamilyFacts | None = None
    """Who spawned the session, its children, kept signals; None for a session without any of it."""
    control: ControlFacts | None = None
    """Mode, standing answers, tools that were found; likewise."""


class OpenCall(Struct):
    """A call of the newest reply while the batch is not fully answered."""

    call: ToolCall
    index: int
    position: int
    """Where the reply's record is; of a step, where its run began."""
    started: ToolStarted | None = None
    started_at: float = 0.0
    question: Interaction | None = None
    answer: Any = None
    answered: bool = False
    asking: HandlerQuestions | None = None
    waits: CallWaits | None = None
    woken: CallWoken | None = None
    """What happened that it waited for; None while it waits, and for a call that never did."""
    result: ToolFinished | None = None
    path: str = ""  # of a step of a workflow run

    @property
    def waits_for_person(self) -> bool:
        """True while a question of this call is open."""
        return self.result is None and self.question is not None and not self.answered


class State(Struct):
    """A session as of one position."""

    facts: Facts = field(default_factory=Facts)
    messages: list[Message] = field(default_factory=lambda: [])
    """All that was said and is not folded, verbatim, always valid: a batch enters it when its last call is answered."""
    spans: list[tuple[int, int]] = field(default_factory=lambda: [])
    """Of each send in `messages`: position of its `send_started`, which is its label for the model, and where it begins."""
    asides: set[int] = field(default_factory=set[int])
    """Places in `messages` of what the engine said."""
    note: UserMessage | None = None
    """What stands for everything that was folded."""
    projections: dict[int, SendProjected] = field(default_factory=lambda: {})
    """Of sends in `messages`, by label."""
    batch: list[OpenCall] = field(default_factory=lambda: [])
    """Calls of the newest reply, in call order; empty when all are answered."""
    position: int = 0
    """Records folded so far."""
    tokens: int = 0
    """Rough size of `messages`, kept as they come; see `estimate.py`."""
    has_parts: bool = False
    """Some message has parts: there may be pictures and files whose bytes are not in the journal."""
    lost_answers: list[str] = field(default_factory=lambda: [])
    """Calls of damaged history that had to be answered by us and are not yet noted in the journal."""
    dropped: list[int] = field(default_factory=lambda: [])
    """Positions of stray results that are not yet noted in the journal."""
    workflow: WorkflowState | None = None
    """Of a workflow run: what its steps came to; None for a conversation."""

    @property
    def active(self) -> SendFacts | None:
        """The send that is not finished, or None."""
        send = self.facts.send
        return send if send is not None and send.finished is None else None

    def all_calls(self) -> Collection[OpenCall]:
        """Calls of the newest reply that is not fully answered; of a run, its tool steps and questions under way."""
        return self.batch if self.workflow is None else self.workflow.calls.values()

    def open_calls(self) -> list[OpenCall]:
        """Calls without a result."""
        return [c for c in self.all_calls() if c.result is None]

    def call(self, call_id: str) -> OpenCall | None:
        """The call of the current batch with this id."""
        for candidate in self.batch:
            if candidate.call.id == call_id:
                return candidate
        return None if self.workflow is None else self.workflow.calls.get(call_id)


def fold(records: Iterable[tuple[Record, float]], state: State | None = None) -> State:
    """The state after these (record, time) pairs, from the beginning or from `state`, which is changed."""
    state = State() if state is None else state
    for record, at in records:
        apply(state, record, at)
    return state


def apply(state: State, record: Record, at: float) -> None:
    """Folds one record into `state`."""
    (_STEPS.get(type(record)) or later_steps.step_of(type(record)))(state, record, at)
    state.position += 1


def hear(state: State, record: Record, at: float) -> None:
    """`apply` for a record whose facts a later checkpoint has: it changes the window and the open calls alone."""
    kind = type(record)
    (_HEARD.get(kind) or _STEPS.get(kind) or later_steps.hearing_of(kind))(state, record, at)
    state.position += 1


def pass_over(state: State, kind: str) -> None:
    """Counts a record of `FACTS_ONLY` that is not read because a later checkpoint has its facts."""
    if kind == "send_started":
        _begin_span(state)
    state.position += 1


def refusal(state: State, record: Record) -> str | None:
    """Why this record must not follow `state`; None when it may. The check behind "every stored session is sendable"."""
    kind = type(record)
    if kind in _SPEAKS:
        if state.batch:
            return f"call {state.open_calls()[0].call.id!r} is not answered"
        if kind is SendStarted:
            return "a send is open" if state.active is not None else None
        if state.active is None:
            return "no send is open"
        if isinstance(record, AssistantMessageAdded) and len(record.message.parts) > 1:
            ids = [c.id for c in record.message.tool_calls]
            return "two calls share one id" if len(set(ids)) != len(ids) else None
        return None
    if type(record) is ToolFinished or type(record) is ToolStarted:
        open_call = state.call(record.call_id)
        if open_call is None or open_call.result is not None:
            return f"call {record.call_id!r} is not open"
    if kind is SendPaused and state.active is None:
        return "no send is open"
    return None if kind in _STEPS else later_steps.refusal(state, record)


_SPEAKS = frozenset({UserMessageAdded, AssistantMessageAdded, SendStarted, SendFinished})
"""Records that may only follow when every call is answered."""


def _created(state: State, record: SessionCreated, at: float) -> None:
    facts = state.facts
    facts.session_id, facts.agent_name = record.session_id, record.agent_name
    facts.system_prompt, facts.metadata = record.system_prompt, dict(record.metadata)


def _forked(state: State, record: SessionForked, at: float) -> None:
    """Calls still open were made by the base; their answers follow in the same commit."""
    state.facts.session_id, state.facts.sends = record.session_id, 0
    state.facts.usage = NO_USAGE
    if state.facts.context is not None:
        state.facts.context.holds.clear()  # the base settles them
    if state.facts.family is not None:
        family_state.forked(state.facts.family)


def _send_started(state: State, record: SendStarted, at: float) -> None:
    if state.batch:
        _answer_lost(state)
    state.facts.sends = record.index
    state.facts.send = SendFacts(start=record, position=state.position)
    _begin_span(state)


def _begin_span(state: State) -> None:
    state.spans.append((state.position, len(state.messages)))


def _user_heard(state: State, record: UserMessageAdded, at: float) -> None:
    if state.batch:
        _answer_lost(state)
    if record.source in _ASIDES:
        state.asides.add(len(state.messages))
    _say(state, record.message)


_ASIDES = frozenset({"wrap_up", "continue", "correct", "veto"})
"""Sources of what the engine or a hook says about the work, and nobody asked for."""


def _user(state: State, record: UserMessageAdded, at: float) -> None:
    _user_heard(state, record, at)
    send = state.facts.send
    if send is None:
        return
    replied, send.replied = send.replied, False
    send.extra_turn = record.source in ("continue", "correct")
    if record.source == "continue":
        send.continuations += 1
        if replied:  # else the cut came before any text: what there was stays to be joined
            send.partial = send.answer
    else:
        send.partial = ""
        if record.source == "wrap_up":
            send.wrap_up = True
        elif record.source == "correct":
            send.corrections += 1
        elif record.source == "veto":
            send.vetoes += 1


def _assistant_heard(state: State, record: AssistantMessageAdded, at: float) -> None:
    if state.batch:
        _answer_lost(state)
    _say(state, record.message)
    if calls := record.message.tool_calls:
        state.batch = [OpenCall(call, index, state.position) for index, call in enumerate(calls)]


def _assistant(state: State, record: AssistantMessageAdded, at: float) -> None:
    _assistant_heard(state, record, at)
    state.facts.usage += record.usage
    if (context := state.facts.context) is not None:
        if context.fold_wait:
            context.fold_wait -= 1
        if context.epoch is not None:
            context.replied_epoch = context.epoch.number
        context.replied_folds = context.folds
        context.replied_model = record.model
    send = state.facts.send
    if send is None:
        return
    state.facts.send = with_reply(send, record)


def with_reply(send: SendFacts, record: AssistantMessageAdded) -> SendFacts:
    """The send's facts after a reply; the given facts stay as they are, so that one can look ahead."""
    return msgspec.structs.replace(
        send,
        usage=send.usage + record.usage,
        rounds=record.round,
        extra_turn=False,
        finish_reason=record.finish_reason,
        continuations=send.continuations if record.finish_reason == "length" else 0,
        answer=send.partial + record.message.text,
        partial="",
        replied=not record.message.tool_calls,
        wrapped_up=record.wrap_up,
        overflow="",
        refolded=False,
    )


def _attempt_failed(state: State, record: AttemptFailed, at: float) -> None:
    state.facts.usage += record.usage
    if state.facts.send is not None:
        state.facts.send.usage += record.usage
        state.facts.send.rounds = max(state.facts.send.rounds, record.round)
        if record.error_code == LLMContextOverflowError.code:
            state.facts.send.overflow = "hopeless" if state.facts.send.refolded else "seen"


def _tool_started(state: State, record: ToolStarted, at: float) -> None:
    if (call := state.call(record.call_id)) is not None:
        call.started, call.started_at = record, at


def _tool_finished(state: State, record: ToolFinished, at: float) -> None:
    call = state.call(record.call_id)
    if call is None or call.result is not None:
        state.dropped.append(state.position)
        return
    call.result = record
    if state.facts.send is not None:
        state.facts.send.paused = False
    if state.workflow is not None:
        state.workflow.tool_finished(state, record, at)
    elif all(c.result is not None for c in state.batch):
        _close_batch(state)


def _asked(state: State, record: QuestionAsked, at: float) -> None:
    if (call := state.call(record.interaction.call_id)) is not None:
        call.question, call.answer, call.answered = record.interaction, None, False


def _answered(state: State, record: QuestionAnswered, at: float) -> None:
    for call in state.all_calls():
        if call.question is not None and call.question.id == record.interaction_id:
            call.answer, call.answered = record.value, True
            if call.asking is not None:
                control_state.replied(call)
    if state.facts.send is not None:
        state.facts.send.paused = False


def _paused(state: State, record: SendPaused, at: float) -> None:
    if state.facts.send is not None:
        state.facts.send.paused = True


def _nothing(state: State, record: ToolAbandoned, at: float) -> None: ...


def _unpaused(state: State, record: RunResumed, at: float) -> None:
    if state.active is not None:
        state.active.paused = False


def _finished(state: State, record: SendFinished, at: float) -> None:
    if state.batch:
        _answer_lost(state)
    if (send := state.facts.send) is not None:
        send.finished, send.paused = record, False


def _repaired(state: State, record: HistoryRepaired, at: float) -> None:
    state.lost_answers, state.dropped = [], []


def _checkpointed(state: State, record: StateCheckpointed, at: float) -> None:
    state.facts.checkpoint = state.position


def _linked(state: State, record: ChainLinked, at: float) -> None:
    state.facts.chain = record.digest


def _answer_lost(state: State) -> None:
    """Damage only: somebody speaks while calls are open, so they are answered with a placeholder."""
    for call in state.open_calls():
        state.lost_answers.append(call.call.id)
        call.result = ToolFinished(call.call.id, call.call.name, "aborted", pairing.LOST_RESULT)
    _close_batch(state)


def _say(state: State, message: Message) -> None:
    state.messages.append(message)
    state.tokens += message_tokens(message)
    if not isinstance(message, AssistantMessage) and type(message.content) is tuple:
        state.has_parts = True


def _close_batch(state: State) -> None:
    for call in state.batch:
        assert call.result is not None
        ok = call.result.status in ("finished", "answered")
        _say(state, ToolResultMessage(call.call.id, call.call.name, call.result.content, ok))
    state.batch = []


_STEPS: dict[type, Callable[[State, Any, float], None]] = {
    SessionCreated: _created,
    SessionForked: _forked,
    SendStarted: _send_started,
    UserMessageAdded: _user,
    AssistantMessageAdded: _assistant,
    AttemptFailed: _attempt_failed,
    ToolStarted: _tool_started,
    ToolFinished: _tool_finished,
    ToolAbandoned: _nothing,
    QuestionAsked: _asked,
    QuestionAnswered: _answered,
    SendPaused: _paused,
    RunResumed: _unpaused,
    SendFinished: _finished,
    HistoryRepaired: _repaired,
    StateCheckpointed: _checkpointed,
    ChainLinked: _linked,
}

_HEARD: dict[type, Callable[[State, Any, float], None]] = {
    UserMessageAdded: _user_heard,
    AssistantMessageAdded: _assistant_heard,
}

FACTS_ONLY = frozenset(
    str(kind.__struct_config__.tag)
    for kind in (
        *(SessionCreated, SessionForked, SendStarted, AttemptFailed, ToolAbandoned, SendPaused, RunResumed),
        *(SendFinished, StateCheckpointed, ChainLinked),
    )
) | frozenset((*CONTEXT_KINDS, *FAMILY_KINDS, *CONTROL_KINDS)).difference(("fold_made", "send_projected"))
"""Kinds that say nothing to the model: while no call is open they change facts alone, and a later checkpoint has those."""


def checkpoint_of(state: State) -> StateCheckpointed:
    """The record that stores all facts as of now. Only between rounds: open calls are not part of it."""
    assert not state.batch
    return StateCheckpointed(dict(msgspec.to_builtins(state.facts)))


def facts_of(checkpoint: StateCheckpointed) -> Facts:
    """The facts that a checkpoint stores. Raises `msgspec.ValidationError` when this version cannot read them."""
    facts = msgspec.convert(checkpoint.facts, Facts)
    if facts.context is not None:
        facts.context = context_state.known_facts(facts.context)
    if facts.family is not None:
        facts.family = family_state.known_facts(facts.family)
    if facts.control is not None:
        facts.control = control_state.known_facts(facts.control)
    return facts
