"""Making folds: the strategy at work, beside runs or right before a call, and the commit of what it made.

Owns: `fold_now`, folds in the background, the desk of a strategy. Must not know: when a fold is due (`core/fold_plan.py`),
how a note is written (`ports/fold.py`).
A fold beside the runs never holds the session while its note is written: the result is committed at the next boundary, if
the window's beginning is still the one that it was made for. One before a call, or one that a host asks for, is part of the
turn. Read next: `core/fold_plan.py`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ..core.calls import shortened, text_of
from ..core.context_state import SUPERSEDED, VETOED, refusal, without_rounds
from ..core.estimate import CHARS_PER_TOKEN, estimated, message_tokens
from ..core.fencing import inside
from ..core.fold_plan import FoldPlan, due, planned, ratio_of, request_tokens
from ..core.state import State
from ..core.window import send_asides, send_messages, tokens_of
from ..late import Late
from ..model.context_records import CostSettled, FoldFailed, FoldMade, NoteWritten
from ..model.errors import (
    CancellationRequested,
    LoopwrightError,
    RetryLaterError,
    SessionBusyError,
    SessionGoneError,
    SessionMovedError,
    StoreError,
)
from ..model.event_types import AgentEventType
from ..model.messages import UserMessage, as_messages
from ..model.notes import Note, NotesPolicy
from ..model.records import Record
from ..model.usage import NO_USAGE, Usage
from ..ports.ambient import breathe
from ..ports.cancellation import CancellationToken
from ..ports.fold import FoldedPart, FoldResult, FoldStrategy, FoldTask
from ..ports.hook import FoldContext, HookDirective
from ..ports.hook_points import HookPoint
from ..ports.llm import LLMRequest, LLMResponse, LLMService
from ..ports.settling import settled
from ..prompts import prompt
from .actor import ACTORS, Actor, outside_of_turns
from .attachments import Attachments
from .bus import AgentEventBus
from .epochs import renewed
from .journal import Journal
from .kernel import Kernel
from .model_call import CallStopped, ModelCall, NoReply, Replied, code_of
from .running import RunContext
from .stopping import Stopped, TimedOut, Won, race
from .turn import Turn, pending_error

if TYPE_CHECKING:
    from ..model import call_errors
    from . import money
    from .money import Purse
else:
    call_errors = Late("loopwright.model.call_errors")
    money = Late("loopwright.engine.money")

_log = logging.getLogger("loopwright.folding")

INPUT_TOKENS = 60_000
"""What one request about a fold should hold where no context budget says it."""
TRIES = 20
"""How often a fold that was made in the background is offered to a session that another process runs."""
PAUSE_S = 0.5


class Made(Struct, frozen=True):
    """What came of a fold: the record, and what becomes of notes with it."""

    plan: FoldPlan
    record: FoldMade | FoldFailed
    notes: tuple[NoteWritten, ...] = ()
    settled: tuple[CostSettled, ...] = ()
    """What became of the money that its calls had reserved."""
    cancelled: asyncio.CancelledError | None = None
    """The cancellation of the task that made it, to be raised when it is stored."""


def can_help(context: RunContext) -> bool:
    """True when folding may make a request fit that the provider refused as too long."""
    policy = context.kernel.limits.fold
    if policy is None or context.send.overflow or context.send.refolded:
        return False
    return planned(context.state, policy, context.send.start.context_budget_tokens, "overflow") is not None


async def fold_now(context: RunContext, plan: FoldPlan) -> None:
    """Makes the fold before the run goes on; a failure is a record as well, so that `decide` sees it.

    Raises: `CancellationRequested` when the run is stopped meanwhile; what the fold cost is stored first. Cancel: the same.
    """
    kernel, journal = context.kernel, context.journal
    if await _came_beside(context, plan):
        return
    await context.assure_lease()
    purse = money.purse_of(kernel, context.session_id, journal)
    made = await make(kernel, task_of(context.state, plan), plan, context.token, purse)
    await _stored(journal, made)
    if context.token.cancelled:
        raise CancellationRequested(context.token.reason)


async def _came_beside(context: RunContext, plan: FoldPlan) -> bool:
    """Waits for a fold of the same beginning that is under way beside the run; True when it has come to an end.

    Two of them would be paid for, and one thrown away. Raises: `CancellationRequested` when the run is stopped meanwhile.
    """
    kernel, actor = context.kernel, context.journal.actor
    under_way = actor.folding
    if under_way is None or under_way.cancelled or actor.folding_after != plan.after:
        return False
    limit = kernel.config.fold_timeout_s
    raced = await race(under_way.wait(), context.token, kernel.deadlines, timeout_s=limit, grace_s=0.0)
    if isinstance(raced, Stopped):
        raise CancellationRequested(raced.reason)
    return isinstance(raced, Won)


async def fold_asked(turn: Turn) -> bool:
    """Folds all but the newest sends; see `StatefulAgentLoop.fold`."""
    kernel, journal = turn.kernel, turn.journal
    await journal.load()
    if journal.state.active is not None:
        raise pending_error(turn.actor.session_id, journal.state)
    send, policy = journal.state.facts.send, kernel.limits.fold
    if send is None or policy is None:
        return False
    budget, done = send.start.context_budget_tokens, False
    turn.actor.asked_fold = turn.token
    try:
        while (plan := planned(journal.state, policy, budget, "asked")) is not None:  # one takes a bounded part
            purse = money.purse_of(kernel, turn.actor.session_id, journal)
            made = await make(kernel, task_of(journal.state, plan), plan, turn.token, purse)
            await _stored(journal, made, release=True)
            if isinstance(made.record, FoldFailed):
                raise call_errors.CompactionFailed(turn.actor.session_id, made.record.error_code, made.record.message)
            done = True
    finally:
        turn.actor.asked_fold = None
    return done


async def _stored(journal: Journal, made: Made, *, release: bool = False) -> None:
    """Commits what was made and paid for, whoever is cancelled meanwhile; the cancellation comes after it."""
    _, cancelled = await settled(_commit(journal, made, release=release))
    if (cancelled := made.cancelled or cancelled) is not None:
        raise cancelled


async def take_offered(journal: Journal) -> None:
    """Commits a fold that was made in the background, at a boundary of the run that has the session."""
    made: Made | None = journal.actor.folded
    journal.actor.folded = None
    if made is not None:
        await _commit(journal, made)


def after_run(kernel: Kernel, actor: Actor) -> None:
    """Starts a fold in the background when the window has come near its budget."""
    state = actor.state
    policy = kernel.limits.fold
    if state is None or policy is None or actor.folding or actor.folded is not None or state.facts.send is None:
        return
    budget = state.facts.send.start.context_budget_tokens
    if budget is None or state.active is not None or state.batch:
        return
    plan = due(state, policy, budget, hard=False)
    if plan is None:
        return
    actor.folding, actor.folding_after = CancellationToken(), plan.after
    work = asyncio.get_running_loop().create_task(
        _beside(kernel, actor, task_of(state, plan), plan), context=outside_of_turns()
    )
    kernel.background.add(work)
    work.add_done_callback(kernel.background.discard)


async def _beside(kernel: Kernel, actor: Actor, task: FoldTask, plan: FoldPlan) -> None:
    purse, under_way = money.purse_of(kernel, actor.session_id), actor.folding
    assert under_way is not None
    try:
        made = await make(kernel, task, plan, CancellationToken(), purse)
        if made.cancelled is not None:
            raise made.cancelled
        actor.folded = made
        under_way.cancel("made")
        for _ in range(TRIES):
            if actor.folded is not made or await _offered(kernel, actor, made):
                return
            await kernel.ambient.sleep(PAUSE_S)
        why = "another process has the session"
        status = ("failed", plan.tokens_before, None, SessionBusyError.code, why)
        kernel.emit(actor.session_id, AgentEventType.FOLD_STATUS, *status)
        _log.warning("session %s: a fold was given up: %s", actor.session_id, why)
    except LoopwrightError as error:
        _log.warning("session %s: a fold could not be stored: %s", actor.session_id, error)
    finally:
        actor.folding = None
        actor.folded = None
        under_way.cancel("given up")
        if purse is not None:
            purse.close()


async def _offered(kernel: Kernel, actor: Actor, made: Made) -> bool:
    """Commits the fold in the session's turn, unless a run did so; False when it has to be tried again."""
    keep = kernel.config.session_cache_size
    async with ACTORS.turn(kernel.store.identity, actor.session_id, keep) as held:
        if actor.folded is not made or held is not actor:
            return True
        journal = Journal(kernel, actor)
        try:
            await journal.load()
            if journal.state.active is not None and not journal.state.active.paused:
                return False  # an interrupted send: whoever continues it folds when it has to
            actor.folded = None
            await _commit(journal, made, release=True)
        except (RetryLaterError, SessionMovedError):
            actor.forget()
            actor.folded = made
            return False
        except (SessionGoneError, StoreError) as error:
            _log.warning("session %s: a fold could not be stored: %s", actor.session_id, error)
        finally:
            if journal.lease is not None:
                journal.drop_lease()
    return True


async def _commit(journal: Journal, made: Made, *, release: bool = False) -> None:
    """Writes a fold, or what it cost when the window has changed under it."""
    state, kernel, record = journal.state, journal.kernel, made.record
    records: list[Record] = []
    if isinstance(record, FoldMade) and (why := refusal(state, record)) is not None:
        record = FoldFailed(
            error_code=SUPERSEDED,
            message=why,
            trigger=record.trigger,
            usage=record.usage,
            model=record.model,
        )
    closed = money.still_open(state, made.settled) if made.settled else []
    if isinstance(record, FoldMade):
        records = [*closed, record, *made.notes, *await renewed(kernel, state, "fold")]
        await journal.commit(records, release=release, window_start=record.through)
        after = request_tokens(journal.state)
        await _told(kernel, journal.session_id, made.plan.tokens_before, after)
    else:
        await journal.commit([*closed, record], release=release)
    before = made.plan.tokens_before
    if isinstance(record, FoldMade):
        kernel.emit(journal.session_id, AgentEventType.FOLD_STATUS, "completed", before, record.tokens_after)
        return
    code, text = record.error_code, record.message
    _log.warning("session %s: a fold failed, the history stays whole: %s (%s)", journal.session_id, text, code)
    kernel.emit(journal.session_id, AgentEventType.FOLD_STATUS, "failed", before, None, code, text)


async def _told(kernel: Kernel, session_id: str, before: int, after: int) -> None:
    if kernel.hooks.in_use and kernel.hooks.has(HookPoint.FOLD_AFTER):
        context = FoldContext(session_id=session_id, before_tokens=before, after_tokens=after)
        try:
            await kernel.hooks.run(HookPoint.FOLD_AFTER, context)
        except LoopwrightError as error:  # it is stored already
            _log.warning("session %s: %s", session_id, error)


def strategy_of(kernel: Kernel) -> FoldStrategy:
    """The host's strategy, or the loop's own."""
    if kernel.context is not None and kernel.context.fold is not None:
        return kernel.context.fold
    assert kernel.own_fold is not None
    return kernel.own_fold()


def task_of(state: State, plan: FoldPlan) -> FoldTask:
    """What a strategy is given for a plan, as the state is now."""
    parts: list[FoldedPart] = []
    for place, (label, _) in enumerate(state.spans):
        messages = send_messages(state, place)
        if label < plan.through:
            parts.append(FoldedPart(label, tuple(messages)))
        elif label == plan.through and plan.rounds:
            gone = without_rounds(messages, plan.rounds, send_asides(state, place))[2]
            parts.append(FoldedPart(label, tuple(gone)))
    budget = None if state.facts.send is None else state.facts.send.start.context_budget_tokens
    return FoldTask(
        session_id=state.facts.session_id,
        trigger=plan.trigger,
        prior=None if state.note is None else text_of_note(state.note.text),
        parts=tuple([part for part in parts if part.messages]),
        note_tokens=plan.note_tokens,
        input_tokens=INPUT_TOKENS if budget is None else int(budget / ratio_of(state)),
        notes=() if state.facts.context is None else tuple(state.facts.context.notes),
    )


async def make(
    kernel: Kernel, task: FoldTask, plan: FoldPlan, token: CancellationToken, purse: Purse | None = None
) -> Made:
    """Lets the strategy write the note, its calls paid from `purse`; never raises for what the strategy does.

    Cancel: `Made.cancelled`, so that what was paid for can be stored.
    """
    strategy = strategy_of(kernel)
    if await _vetoed(kernel, task.session_id, plan):
        return Made(plan, FoldFailed(error_code=VETOED, message="a hook said not now", trigger=plan.trigger))
    kernel.emit(task.session_id, AgentEventType.FOLD_STATUS, "started", plan.tokens_before, None)
    desk = Desk(kernel, task.session_id, token, purse)
    code, text, result, cancelled = "fold.empty", "the strategy gave no note", None, None
    try:
        kernel.ambient.reach("fold.before")
        raced = await race(
            _asked(kernel, strategy, task, desk),
            token,
            kernel.deadlines,
            timeout_s=kernel.config.fold_timeout_s,
            grace_s=kernel.config.stop_grace_s,
        )
        kernel.ambient.reach("fold.after")
        if isinstance(raced, Stopped):
            code, text = CancellationRequested.code, raced.reason
        elif isinstance(raced, TimedOut):
            code, text = "fold.timed_out", f"no note after {kernel.config.fold_timeout_s:g} s"
        else:
            result = raced.value
    except asyncio.CancelledError as error:
        code, text, cancelled = CancellationRequested.code, "the caller's task was cancelled", error
    except Exception as error:  # noqa: BLE001 - a host's strategy may raise anything; the window stays as it is
        own_stop = isinstance(error, CancellationRequested) and not token.cancelled  # nobody else asked for it
        code, text = type(error).__name__ if own_stop else code_of(error), text_of(error)
    usage, model = desk.usage, desk.model
    closed = () if purse is None else purse.settlements()
    if result is None or not result.note.strip():
        failed = FoldFailed(error_code=code, message=text[:500], trigger=plan.trigger, usage=usage, model=model)
        return Made(plan, failed, settled=closed, cancelled=cancelled)
    note = note_text(result.note, plan)
    folded = sum(tokens_of(part.messages) for part in task.parts)
    record = FoldMade(
        through=plan.through,
        after=plan.after,
        rounds=plan.rounds,
        note=note,
        trigger=plan.trigger,
        fold_id=strategy.fold_id,
        tokens_before=plan.tokens_before,
        tokens_after=max(plan.tokens_before - folded, 0) + message_tokens(UserMessage(note)),
        usage=usage,
        model=model,
    )
    written = [NoteWritten(one.note_id, one.content, one.pinned) for one in result.written]
    return Made(plan, record, (*written, *[NoteWritten(one) for one in result.removed]), closed)


async def _asked(kernel: Kernel, strategy: FoldStrategy, task: FoldTask, desk: Desk) -> FoldResult | None:
    try:
        result = await strategy.fold(task, desk)
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as leaving:
        raise RuntimeError(f"the strategy tried to end the process ({leaving!r})") from leaving
    if result is None:
        return None
    if not isinstance(result, FoldResult):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"fold() must answer a FoldResult or None, not {type(result).__name__}")
    return _checked(result, task, kernel.config.notes or NotesPolicy())


def _checked(result: FoldResult, task: FoldTask, policy: NotesPolicy) -> FoldResult:
    """The result with texts that can be stored. Raises: `ValueError` for another shape, for notes beyond what they may be."""
    try:
        plain = msgspec.to_builtins(result, builtin_types=(bytes, bytearray))
        result = msgspec.convert(plain, FoldResult)
    except (TypeError, msgspec.ValidationError) as error:
        raise ValueError(f"fold() answered a malformed FoldResult: {error}") from None
    own = NotesPolicy()  # what a strategy may count on, whatever smaller figures the model is given
    longest, most = max(policy.max_note_chars, own.max_note_chars), max(policy.max_notes, own.max_notes)
    for note in result.written:
        if not 0 < len(note.note_id) <= _LONGEST_ID or len(note.content) > longest:
            raise ValueError(f"notes need an id of 1 to {_LONGEST_ID} and at most {longest} characters")
    kept = {note.note_id for note in task.notes}
    if len((kept | {note.note_id for note in result.written}) - set(result.removed)) > max(most, len(kept)):
        raise ValueError(f"fold() wrote more notes than the {most} there may be")
    written = [Note(_carried(one.note_id), _carried(one.content), one.pinned) for one in result.written]
    return FoldResult(note=_carried(result.note), written=tuple(written), removed=tuple(map(_carried, result.removed)))


def _carried(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


async def _vetoed(kernel: Kernel, session_id: str, plan: FoldPlan) -> bool:
    if not kernel.hooks.in_use or not kernel.hooks.has(HookPoint.FOLD_BEFORE):
        return False
    context = FoldContext(session_id=session_id, before_tokens=plan.tokens_before)
    await kernel.hooks.run(HookPoint.FOLD_BEFORE, context)
    return context.directive is HookDirective.SKIP


def note_text(note: str, plan: FoldPlan) -> str:
    """The note as the model sees it: bounded, and marked as a record of what was said before."""
    frame = prompt("fold_note")
    limit = max(plan.note_tokens * CHARS_PER_TOKEN - len(frame) - len(_CUT), _SHORTEST_NOTE)
    text = inside(note.strip())
    return frame.replace("{note}", str(shortened(text, limit, "the note was too long")))


def text_of_note(note: str) -> str:
    """What `note_text` was given."""
    frame = prompt("fold_note").partition("{note}")
    return note.removeprefix(frame[0]).removesuffix(frame[2])


_CUT = "\n[... 1000000 of 1000000 characters left out; the note was too long ...]\n"
_LONGEST_ID = 64
_SHORTEST_NOTE = 200
"""Characters of a note that are kept, however small the budget is."""


class Desk:
    """What a strategy may use; see `ports.fold.FoldDesk`. An object because it adds up what was spent."""

    def __init__(self, kernel: Kernel, session_id: str, token: CancellationToken, purse: Purse | None) -> None:
        self._purse = purse
        self._kernel = kernel
        self._session_id = session_id
        self._token = token
        self.usage: Usage = NO_USAGE
        self.model = ""

    async def complete(self, request: LLMRequest, *, llm: LLMService | None = None) -> LLMResponse:
        """One call with retries, whose tokens nobody sees streaming."""
        kernel = msgspec.structs.replace(self._kernel, llm=llm or self._kernel.llm, bus=AgentEventBus())
        if request.model is None and llm is None:
            request = msgspec.structs.replace(request, model=kernel.config.model)
        size = tokens_of(as_messages(request.messages))
        request = await Attachments(kernel.store).filled(request)
        hold = None if self._purse is None else await self._purse.reserve(kernel, request, self._token)
        call = ModelCall(kernel, self._session_id, request, round_index=0, window_tokens=size)
        try:
            outcome = await call.run(self._token)
        except asyncio.CancelledError:  # the fold's time is over, or its host goes: what was under way was asked for
            self.usage += estimated(size, 0)
            raise
        usages = [failure.usage for failure in outcome.failures]
        if isinstance(outcome, Replied):
            usages.append(outcome.response.usage)
        self.usage = sum(usages, self.usage)
        if self._purse is not None and hold is not None:
            self._purse.paid(hold, usages)
        if isinstance(outcome, CallStopped):
            raise CancellationRequested(outcome.reason)
        if isinstance(outcome, NoReply):
            raise outcome.error
        self.model = outcome.response.model or self.model
        await breathe()  # a model that never waits would let a strategy that loops keep everything else waiting
        return outcome.response
