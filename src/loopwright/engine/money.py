"""Reserve and settle: money is set aside before a model call, and what it cost is counted with its reply.

Owns: which call is bounded, the commit that reserves, what becomes of a reservation. Must not know: prices of models
(`cost.py`), how accounts are kept (`ports/ledger.py`), when a model is called.
A reservation and its settlement are records, and their operations on shared accounts ride in the same transitions, so both
happen once. Loaded with the first call that a budget bounds, or with a session that has open reservations.
Read next: `core/budgets.py`, `ports/store.py` for the two operations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias, cast

import msgspec

from ..config import AgentLoopConfig, has_cost_budget
from ..core.budgets import MoneyLimit, expected_usage, limits_of, refusing
from ..core.estimate import fixed_tokens
from ..core.fold_plan import ratio_of
from ..core.pricing import nanodollars
from ..core.state import State
from ..core.window import tokens_of
from ..model.context_records import CostReserved, CostSettled, Settlement
from ..model.errors import BudgetRefusedError, CancellationRequested
from ..model.messages import as_messages
from ..model.records import Record
from ..model.specs import ToolSpec
from ..model.usage import Usage
from ..ports.cancellation import CancellationToken
from ..ports.llm import LLMRequest
from ..ports.store import MOST_MONEY, BudgetCap, HoldMoney, Op, SettleMoney
from .actor import ACTORS, Actor
from .cost import PricedModel, looked_up, price_of
from .journal import Journal
from .kernel import Kernel
from .model_chain import name_of, provider_of
from .model_turn import Reply, TurnFailed, TurnStopped
from .running import RunContext
from .turn import pending_error

Asked: TypeAlias = Reply | TurnFailed | TurnStopped


async def within_budgets(run: RunContext, request: LLMRequest, ask: Callable[[], Awaitable[Asked]]) -> Asked:
    """What `ask` answers, with its cost settled among the records; a turn that failed, without asking, when a budget refuses.

    Raises what `ask` and the store raise; the reservation is then settled by the commit that ends the send or takes it over.
    """
    journal = run.journal
    models = _models_of(run.kernel, request, run.model_place, journal.state)
    try:
        hold = await _reserved(journal, run.kernel, request, models, round_index=run.round)
    except BudgetRefusedError as error:
        return TurnFailed(error, error.code, "budget_exceeded", 0, ())
    if hold is None:
        return await ask()
    if run.token.cancelled:
        return TurnStopped(run.token.reason, (_settled(hold, 0, "released"),))
    await run.assure_lease()
    journal.unbegun = ""
    asked = await ask()
    told: list[object] = [*asked.records, asked.added if isinstance(asked, Reply) else None]
    usages = [usage for one in told if isinstance(usage := getattr(one, "usage", None), Usage)]
    return msgspec.structs.replace(asked, records=(*asked.records, _paid(hold, usages)))


def with_settlements(
    journal: Journal, records: Sequence[Record], ops: tuple[Op, ...], *, ends: bool
) -> tuple[Sequence[Record], tuple[Op, ...]]:
    """Records and operations of a commit to a session with open reservations, with all that has to be settled in it.

    `ends`: the commit takes the session's lease, or gives it back. Whatever is still reserved then was left behind: by a
    process that is gone, or by a call that nobody waits for any more; except for what work beside the runs has reserved.
    """
    context = journal.state.facts.context
    holds = {} if context is None else context.holds
    if ends:
        known = {record.hold_id for record in records if isinstance(record, CostSettled)} | journal.actor.beside
        left = [hold for hold in holds.values() if hold.hold_id not in known]
        records = [*[_left_behind(hold, begun=hold.hold_id != journal.unbegun) for hold in left], *records]
    settled = [r for r in records if isinstance(r, CostSettled) and r.hold_id in holds and holds[r.hold_id].keys]
    return records, (*ops, *[SettleMoney(record.hold_id, record.nanodollars) for record in settled])


class Purse:
    """What the calls of one fold have reserved; an object because its calls end one by one, and are settled together."""

    def __init__(self, kernel: Kernel, session_id: str, journal: Journal | None) -> None:
        self._kernel = kernel
        self._session_id = session_id
        self._journal = journal
        """Of the run that waits for the fold; None: the fold is made beside the runs, and takes a turn for each reservation."""
        self._one_by_one = asyncio.Lock()
        self._open: dict[str, CostReserved] = {}
        self._begun: set[str] = set()
        self._ended: list[CostSettled] = []
        self._actors: set[Actor] = set()
        self._closed = False

    async def reserve(self, kernel: Kernel, request: LLMRequest, token: CancellationToken) -> CostReserved | None:
        """Sets money aside for a call by `kernel`'s model, which begins now; None when nothing has to be.

        Raises: `BudgetRefusedError`; `SessionPendingError`, `SessionBusyError` where another process has the session;
        `CancellationRequested` when the fold is over or was stopped.
        """
        async with self._one_by_one:
            self._check_wanted(token)
            if self._journal is not None:
                hold = await self._hold(self._journal, kernel, request)
            else:
                keep = self._kernel.config.session_cache_size
                async with ACTORS.turn(self._kernel.store.identity, self._session_id, keep) as actor:
                    hold = await self._hold_beside(actor, kernel, request)
        if hold is not None:
            self._check_wanted(token)
            self._begun.add(hold.hold_id)
            if self._journal is not None:
                self._journal.unbegun = ""
        return hold

    def _check_wanted(self, token: CancellationToken) -> None:
        if self._closed or token.cancelled:
            raise CancellationRequested(token.reason or "the fold is over")

    async def _hold(self, journal: Journal, kernel: Kernel, request: LLMRequest) -> CostReserved | None:
        models = _models_of(kernel, request, 0, journal.state)
        return await _reserved(journal, kernel, request, models, opening=self._opening)

    async def _hold_beside(self, actor: Actor, kernel: Kernel, request: LLMRequest) -> CostReserved | None:
        journal = Journal(self._kernel, actor)
        await journal.load()
        if journal.state.active is not None and not journal.state.active.paused:
            raise pending_error(self._session_id, journal.state)
        self._actors.add(actor)

        def opening(hold: CostReserved) -> None:
            actor.beside.add(hold.hold_id)
            self._opening(hold)

        models = _models_of(kernel, request, 0, journal.state)
        return await _reserved(journal, kernel, request, models, opening=opening, release=True)

    def _opening(self, hold: CostReserved) -> None:
        self._open[hold.hold_id] = hold

    def paid(self, hold: CostReserved, usages: Iterable[Usage]) -> None:
        """The call is over and used this."""
        if self._open.pop(hold.hold_id, None) is not None:
            self._ended.append(_paid(hold, usages))

    def settlements(self) -> tuple[CostSettled, ...]:
        """What became of all reservations; nothing is reserved any more after this."""
        self._closed = True
        left = [_left_behind(hold, begun=hold.hold_id in self._begun) for hold in self._open.values()]
        self._open = {}
        return (*self._ended, *left)

    def close(self) -> None:
        """The fold is stored or given up: what is still reserved was left behind."""
        self._closed = True
        ours = {*self._begun, *self._open, *[one.hold_id for one in self._ended]}
        for actor in self._actors:
            actor.beside -= ours


def purse_of(kernel: Kernel, session_id: str, journal: Journal | None = None) -> Purse | None:
    """For the calls of one fold; None where no budget of money bounds them."""
    active = None if journal is None else journal.state.active
    bounded = has_cost_budget(kernel.config) or (active is not None and active.start.run_cost_budget is not None)
    return Purse(kernel, session_id, journal) if bounded and kernel.prices is not None else None


def still_open(state: State, settled: Iterable[CostSettled]) -> list[CostSettled]:
    """Those whose reservation nobody else has settled meanwhile."""
    context = state.facts.context
    return [] if context is None else [one for one in settled if one.hold_id in context.holds]


async def _reserved(
    journal: Journal,
    kernel: Kernel,
    request: LLMRequest,
    models: Sequence[PricedModel],
    *,
    round_index: int = 0,
    release: bool = False,
    opening: Callable[[CostReserved], None] | None = None,
) -> CostReserved | None:
    """Commits the reservation for one call; None when there is nothing to reserve.

    `models`: the one that is asked first, and those that follow when it gives up; the dearest of those with a price is
    reserved for. `opening` is told right before. Raises: `BudgetRefusedError`, with nothing written and the state as it was.
    """
    state, config = journal.state, kernel.config
    size, first = _size_of(request), models[0]
    asked = price_of(kernel, journal.session_id, _expected(state, request, size, first), first, round_index=round_index)
    for later in models[1:]:
        price, _ = looked_up(kernel, _expected(state, request, size, later), later)
        asked = price if asked is None else max(asked, price or 0)
    asked = None if asked is None else min(asked, MOST_MONEY)
    limit = refusing(_own_limits(state, config, journal.actor), asked)
    if limit is not None:
        raise _refused(limit, asked or 0)
    # Without a price a service may still say itself what its call cost: the shared accounts hear of that.
    caps = tuple([BudgetCap(key, nanodollars(usd)) for key, usd in (config.cost_budgets or {}).items()])
    if state.facts.family is not None:  # what the parents' sends may still cost, all their children together
        caps += tuple([BudgetCap(one.key, one.limit) for one in state.facts.family.accounts])
    if not asked and not caps:
        return None
    hold = CostReserved(
        hold_id=f"{journal.session_id}:{state.position}",
        nanodollars=asked or 0,
        keys=tuple([cap.key for cap in caps]),
        model=first.names[0],
    )
    if opening is not None:
        opening(hold)
    journal.unbegun = hold.hold_id
    ops = (HoldMoney(hold.hold_id, hold.nanodollars, caps),) if caps else ()
    try:
        await journal.commit([hold], ops=ops, release=release)
    except BudgetRefusedError:
        journal.unbegun = ""
        journal.actor.beside.discard(hold.hold_id)
        await journal.load()
        raise
    return hold


def _own_limits(state: State, config: AgentLoopConfig, actor: Actor) -> list[MoneyLimit]:
    usd = config.session_cost_budget_usd
    return limits_of(state, None if usd is None else nanodollars(usd), frozenset(actor.beside))


def _size_of(request: LLMRequest) -> int:
    """The estimate for everything that is sent."""
    fixed = fixed_tokens(request.system_prompt, cast("Sequence[ToolSpec]", request.tools))
    return fixed + tokens_of(as_messages(request.messages))


def _expected(state: State, request: LLMRequest, size: int, model: PricedModel) -> Usage:
    """The most that the request is expected to use of this model."""
    context = state.facts.context
    ratio = 1.0 if context is None else context.ratios.get(model.names[0], ratio_of(state))
    return expected_usage(size, ratio=ratio, max_output_tokens=request.max_output_tokens)


def _models_of(kernel: Kernel, request: LLMRequest, place: int, state: State) -> list[PricedModel]:
    """The model that is asked first, as far as anybody says or has said with a reply, and those that may follow it."""
    chain = kernel.chain
    service = kernel.llm if chain is None or not place else chain.service(place)
    context = state.facts.context
    replied = "" if context is None or place else context.replied_model
    asked = "" if place else request.model
    name = asked or name_of(service) or kernel.answered.get(id(service), replied)
    later = [] if chain is None else chain.later(place)
    return [PricedModel((name,), provider_of(service)), *[PricedModel((other,), tag) for other, tag in later]]


def _refused(limit: MoneyLimit, asked: int) -> BudgetRefusedError:
    return BudgetRefusedError(
        limit.name, limit=limit.limit, spent=limit.spent, held=limit.held, asked=asked, shared=False
    )


def _paid(hold: CostReserved, usages: Iterable[Usage]) -> CostSettled:
    return _settled(hold, sum([usage.nanodollars for usage in usages]), "paid")


def _left_behind(hold: CostReserved, *, begun: bool) -> CostSettled:
    """Nobody knows what the call cost: its estimate, unless it never began."""
    return _settled(hold, hold.nanodollars, "estimated") if begun else _settled(hold, 0, "released")


def _settled(hold: CostReserved, amount: int, how: Settlement) -> CostSettled:
    return CostSettled(hold.hold_id, min(amount, MOST_MONEY), how, hold.model if how == "estimated" else "")
