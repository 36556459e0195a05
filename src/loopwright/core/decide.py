"""What happens next in a session: one pure function of its state.

Owns: the order of the loop. Must not know: how a step is carried out (`engine/run.py`).
Because resuming *is* running, there is no other place that knows what an interrupted send still needs.
Read next: `engine/run.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from ..late import Late
from ..model.errors import LLMContextOverflowError
from ..model.records import InputSource, Outcome
from .state import OpenCall, SendFacts, State

if TYPE_CHECKING:
    from . import fold_plan, output
    from .fold_plan import FoldPlan
    from .output import Unfit, Validate
else:
    fold_plan = Late("loopwright.core.fold_plan")
    output = Late("loopwright.core.output")


class FoldPolicy(Struct, frozen=True, kw_only=True):
    """What bounds the folds of a window (`fold_plan.py`)."""

    keep_last_sends: int = 4
    trigger_ratio: float = 0.75
    note_tokens: int = 5000
    """What a note may be at most, the budget's own bound apart."""
    reserved_tokens: int = 0
    """Of the budget, for recalled memory, which comes after the window in a request."""
    notes_chars: int = 8000
    """What the notes behind the window may be at most, the budget's own bound apart."""


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds on engine-made turns; everything else a send is bound by is in its `SendStarted`."""

    max_continuations: int
    max_corrections: int
    validate: Validate
    fold: FoldPolicy | None = None
    """None: the window is never folded."""


class CallModel(Struct, frozen=True):
    """Send the window to the model."""

    round: int
    wrap_up: bool = False
    """The last word at the round limit: no tools may be called."""


class FoldWindow(Struct, frozen=True):
    """Put the oldest part of the window into a note before the model is asked."""

    plan: FoldPlan


class RunTools(Struct, frozen=True):
    """Run these calls; all others of the batch are answered or wait."""

    calls: tuple[OpenCall, ...]


class TakeInbox(Struct, frozen=True):
    """Turn the waiting inbox items into user messages."""


class TakeWakes(Struct, frozen=True):
    """Look in the inbox for what open calls wait for."""


class Say(Struct, frozen=True):
    """Add a message of the engine."""

    source: InputSource
    detail: str = ""


class Pause(Struct, frozen=True):
    """Nothing can be done without a person or the host."""

    outcome: Literal["waiting_for_input", "pending_tools"]


class Finish(Struct, frozen=True):
    """The send ends."""

    outcome: Outcome
    final_text: str = ""
    output: Any = None
    error_code: str | None = None
    error_reason: str | None = None
    error_message: str | None = None


class Idle(Struct, frozen=True):
    """No send is open."""


Step: TypeAlias = CallModel | FoldWindow | RunTools | TakeInbox | TakeWakes | Say | Pause | Finish | Idle
"""Everything that can come next."""

ROUND_LIMIT_MARK = "[hit_round_limit]"
TRUNCATED_MARK = "[truncated: the reply hit the output limit]"


def decide(state: State, limits: Limits, *, inbox_waiting: bool, held: frozenset[str] = frozenset()) -> Step:
    """The next step. `held` are calls that only the host can answer (no handler here, or left to it)."""
    send = state.active
    if send is None:
        return Idle()
    if state.batch:
        return _open_batch(state, held, inbox_waiting)
    if send.replied:
        return after_reply(send, limits, inbox_waiting=inbox_waiting)
    if inbox_waiting and not send.wrap_up:
        return TakeInbox()
    budget = send.start.run_token_budget
    if budget is not None and send.rounds >= 1 and send.usage.total_tokens >= budget:
        return Finish("budget_exceeded", send.answer)
    money = send.start.run_cost_budget
    if money is not None and send.rounds >= 1 and send.usage.nanodollars >= money:
        return Finish("budget_exceeded", send.answer)
    if send.overflow or send.start.context_budget_tokens is not None:
        step = _too_long(state, send, limits)
        if step is not None:
            return step
    if send.extra_turn:
        return CallModel(send.rounds, wrap_up=send.wrap_up)
    if send.wrap_up:
        return CallModel(send.rounds + 1, wrap_up=True)
    if send.rounds >= send.start.max_rounds:
        return Say("wrap_up")
    return CallModel(send.rounds + 1)


def _too_long(state: State, send: SendFacts, limits: Limits) -> Step | None:
    """What has to be done about a window that is over its budget, or that the provider refused as too long."""
    budget, plan = send.start.context_budget_tokens, None
    if limits.fold is not None and send.overflow == "seen":
        plan = fold_plan.planned(state, limits.fold, budget, "overflow")
    elif limits.fold is not None and not send.overflow and budget is not None:
        plan = fold_plan.due(state, limits.fold, budget, hard=True)
    if plan is not None:
        return FoldWindow(plan)
    if send.overflow:
        text = "the conversation is too long for the model, and folding it did not help"
        return Finish("degraded", f"[degraded: {text}]", None, LLMContextOverflowError.code, None, text)
    return None


def after_reply(send: SendFacts, limits: Limits, *, inbox_waiting: bool) -> Step:
    """The next step when the newest message is a reply without calls."""
    if send.wrapped_up and not _to_continue(send, limits):
        return Finish("hit_round_limit", f"{ROUND_LIMIT_MARK} {send.answer}".rstrip())
    if _to_continue(send, limits):
        return Say("continue")
    if inbox_waiting:
        return TakeInbox()
    text = send.answer if send.finish_reason != "length" else f"{send.answer}\n{TRUNCATED_MARK}"
    spec = send.start.output
    if spec is None:
        return Finish("completed", text)
    parsed = output.parse_structured(send.answer, spec, limits.validate)
    if isinstance(parsed, output.Parsed):
        return Finish("completed", send.answer, parsed.value)
    return _unfit(send, parsed, limits)


def _to_continue(send: SendFacts, limits: Limits) -> bool:
    return send.finish_reason == "length" and send.continuations < limits.max_continuations


def _unfit(send: SendFacts, unfit: Unfit, limits: Limits) -> Step:
    if send.corrections < limits.max_corrections:
        return Say("correct", unfit.message)
    message = f"the answer does not fit the schema ({unfit.reason}): {unfit.message}"
    return Finish("failed", send.answer, None, "output.invalid", unfit.reason, message)


def _open_batch(state: State, held: frozenset[str], inbox_waiting: bool) -> Step:
    calls = state.open_calls()
    runnable = tuple([c for c in calls if not c.waits_for_person and c.waits is None and c.call.id not in held])
    if runnable:
        return RunTools(runnable)
    outside = any(c.waits is not None for c in calls)
    if outside and inbox_waiting:
        return TakeWakes()
    if outside or any(c.waits_for_person for c in calls):
        return Pause("waiting_for_input")
    return Pause("pending_tools")
