"""A session's turn while it is held: its journal, its token, starting runs in it.

Owns: `Turn`, `SendOptions`. Must not know: who may take a turn (`admission.py`), the steps of a run (`run.py`).
Read next: `run.py`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ..core.state import State
from ..late import Late
from ..model.errors import AgentUnavailableError, CancellationRequested, PoisonedError, SessionPendingError
from ..model.records import Record, RunResumed, SendFinished
from ..model.specs import StructuredOutputSpec
from ..ports.cancellation import CancellationToken, Stop
from ..ports.tool import ToolSource
from .actor import Actor
from .journal import POISON_LIMIT, Journal
from .kernel import Kernel
from .run import Run
from .running import RunContext

if TYPE_CHECKING:
    from ..core import calls
    from ..core import result as results
    from ..core.result import StatefulResult
    from ..model.family_records import CallWaits
    from ..model.workflow_records import StepWaits
    from ..ports.store import Op
    from . import folding, handback, placing, wakes, workflow_run
else:
    calls = Late("loopwright.core.calls")
    results = Late("loopwright.core.result")
    folding = Late("loopwright.engine.folding")
    handback = Late("loopwright.engine.handback")
    placing = Late("loopwright.engine.placing")
    wakes = Late("loopwright.engine.wakes")
    workflow_run = Late("loopwright.engine.workflow_run")


class SendOptions(Struct, frozen=True, kw_only=True):
    """What one send overrides; None keeps the setting of the session or loop."""

    send_id: str | None = None
    tools: tuple[str, ...] | None = None
    registry: ToolSource | None = None
    system_prompt: str | None = None
    max_rounds: int | None = None
    run_token_budget: int | None = None
    max_output_tokens: int | None = None
    output: StructuredOutputSpec | None = None
    heal_pending: bool = False
    stop: Stop = None

    def overridden(self) -> frozenset[str]:
        """Names of what this send sets itself."""
        return frozenset(name for name in self.__struct_fields__ if getattr(self, name) is not None)


AS_SET = SendOptions()
"""Nothing is overridden."""

NO_OPS: tuple[Op, ...] = ()

Begun: TypeAlias = "StatefulResult | Callable[[], Awaitable[StatefulResult]]"
"""A result that is there already, or the run to be awaited."""


async def ended(begun: Begun) -> StatefulResult:
    """The result, run to its end when it is not there yet."""
    return await begun() if callable(begun) else begun


class Turn:
    """The session's turn, held: its journal, its token, and starting runs in it."""

    def __init__(self, kernel: Kernel, actor: Actor, options: SendOptions) -> None:
        self.kernel = kernel
        self.actor = actor
        self.options = options
        self.journal = Journal(kernel, actor)
        self.token = CancellationToken()
        self._checks: set[asyncio.Task[None]] = set()
        self.journal.on_fenced = self._fenced
        self.journal.on_inbox = self._inbox

    async def run(self, *, resumed: bool = False) -> StatefulResult:
        """Runs the open send to its end or pause."""
        unsubscribe = self._follow(self.options.stop) if self.options.stop is not None else _nothing
        self.actor.token = self.token
        try:
            tools = self.options.registry or self.kernel.tools
            kind = Run if self.journal.state.workflow is None else workflow_run.WorkflowRun
            return await kind(RunContext(self.kernel, self.journal, self.token, tools), resumed=resumed).run()
        finally:
            self.actor.token = None
            unsubscribe()
            if self.kernel.limits.fold is not None and self.kernel.config.context_budget_tokens is not None:
                folding.after_run(self.kernel, self.actor)
            self.let_go()
            self.journal.hear_nothing()  # the two refer to each other: freed at once, not by the garbage collector

    def let_go(self) -> None:
        """Gives back a lease that no last commit gave back; what is open stays open for whoever comes next."""
        if (lease := self.journal.lease) is not None:
            self.journal.drop_lease()
            handback.hand_back_later(self.kernel, self.actor.session_id, lease)

    def leave(self, reason: str) -> None:
        """Ends the run here without an outcome: nothing more is written, handlers are stopped, the lease is given back."""
        self.journal.left = True
        self.token.cancel(reason)

    def _follow(self, stop: Stop) -> Callable[[], None]:
        """Lets the host's source of stops cancel this run."""
        source = CancellationToken.from_any(stop)
        if source.polled:
            self.token = source.child()  # who stops this run does not stop what else looks at the source
            return _nothing
        return source.on_cancel(self.token.cancel)

    def check_tools(self, answered: frozenset[str] = frozenset()) -> None:
        """Raises `AgentUnavailableError` when a call that is to be run needs a tool that is not registered here, and
        `LeafElsewhereError` when a step under way has its journal in a place that is not looked into from here.

        Nothing is taken or stored then: a process that has the tool, or the place, can continue the send.
        """
        state = self.journal.state
        if state.workflow is not None and state.active is not None:
            placing.check_places(self.kernel, state)
        check_tools(self.kernel, state, self.options.registry or self.kernel.tools, answered)

    async def take_over(self, reason: str) -> Begun:
        """Takes the lease of the interrupted send; a session that keeps killing its process ends instead of running."""
        self.check_tools()
        done = await self.journal.commit([RunResumed(reason, self.journal.takeovers)], progress=False)
        if done.takeovers >= POISON_LIMIT:
            return await self._poisoned(done.takeovers)
        return functools.partial(self.run, resumed=True)

    async def left(self) -> None:
        """Ends a send whose caller was cancelled after it was accepted and before it ran: nobody else would."""
        state = self.actor.state
        if self.journal.lease is not None and state is not None and state.active is not None:
            reason = "the caller's task was cancelled"
            records, ops = (healing(state, reason), NO_OPS) if plain(state) else wakes.stopped(self.journal, reason)
            await self.journal.commit(records, sync=True, release=True, ops=ops)

    async def _poisoned(self, takeovers: int) -> StatefulResult:
        state = self.journal.state
        names = ", ".join(f"{c.call.name} ({c.call.id})" for c in state.open_calls()) or "none"
        text = f"the session stopped its process {takeovers} times without progress; open calls: {names}"
        rounds = state.active.rounds if state.active is not None else 0
        finished = SendFinished(outcome="failed", rounds=rounds, error_code=PoisonedError.code, error_message=text)
        left, ops = ([], NO_OPS) if plain(state) else wakes.ended(self.journal, "failed", text)
        await self.journal.commit([*left, *calls.aborted(state, text), finished], sync=True, release=True, ops=ops)
        return results.result_of(state, PoisonedError(text))

    def _fenced(self) -> None:
        self.token.cancel("another process took the session over")

    def _inbox(self, inbox_seq: int) -> None:
        self.actor.inbox_seq = max(self.actor.inbox_seq, inbox_seq)
        task = asyncio.get_running_loop().create_task(self._look_for_stop())
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _look_for_stop(self) -> None:
        reason = self.journal.stop_among(await self.journal.waiting())
        if reason is not None:
            self.token.cancel(reason)


def check_tools(kernel: Kernel, state: State, here: ToolSource, answered: frozenset[str] = frozenset()) -> None:
    """See `Turn.check_tools`."""
    if state.active is None or (declared := state.active.start.tools) is None:
        return
    # Of a `once` call that was started only its outcome is asked for; every other handler runs, or runs again.
    asked = [c for c in state.open_calls() if c.started is not None and c.started.effect == "once"]
    to_run = [c.call for c in state.open_calls() if c not in asked and c.call.id not in answered]
    missing = sorted({c.name for c in to_run if c.name in declared and here.get(c.name) is None})
    if missing:
        raise AgentUnavailableError(state.facts.session_id, kernel.config.agent_name, here.names(), missing)


def pending_error(session_id: str, state: State) -> SessionPendingError:
    """The error that lists what a session still waits for."""
    asked = [c.question for c in state.all_calls() if c.waits_for_person and c.question is not None]
    asked += [question for waits in waiting_outside(state) for question in waits.interactions]
    return SessionPendingError(
        session_id,
        assistant_position=state.batch[0].position if state.batch else None,
        pending_tool_calls=[c.call for c in state.open_calls()],
        pending_interactions=asked,
        waits_for=_waited_for(state),
    )


def waiting_outside(state: State) -> list[CallWaits | StepWaits]:
    """What open calls and steps wait for outside."""
    waiting: list[CallWaits | StepWaits] = [call.waits for call in state.open_calls() if call.waits is not None]
    return waiting if state.workflow is None else [*waiting, *state.workflow.waiting()]


def _waited_for(state: State) -> list[str]:
    """What open calls and steps wait for outside, in words."""
    said: list[str] = []
    for waits in waiting_outside(state):
        who = getattr(waits, "path", None) or getattr(waits, "call_id", "")
        what = [] if waits.child_id is None else [f"session {waits.child_id!r}"]
        what += [] if waits.signal is None else [f"signal {waits.signal!r}"]
        what += [] if waits.until is None else [f"the time {waits.until:.0f} (UTC epoch seconds)"]
        said.append(f"{who} waits for {' or '.join(what)}")
    return said


INSTEAD = "a new input was sent instead"


def plain(state: State) -> bool:
    """True when the open send has neither children nor calls that wait outside: ending it concerns nobody else."""
    return state.facts.family is None and not any(call.waits for call in state.batch)


def healing(state: State, reason: str = INSTEAD) -> Sequence[Record]:
    """The records that end an open send at once: its calls answered as aborted, the send cancelled."""
    active = state.active
    assert active is not None
    finished = SendFinished(
        outcome="cancelled",
        rounds=active.rounds,
        error_code=CancellationRequested.code,
        error_message=reason,
    )
    return [*calls.aborted(state, reason), finished]


def _nothing() -> None:
    return
