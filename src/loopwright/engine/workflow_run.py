"""The loop of a workflow run: what the machine says is due, begun, waited for and stored.

Owns: `WorkflowRun`. One commit is under way at a time; what leaves tell meanwhile goes into the next one.
Must not know: what a kind of leaf does (`workflow_leaves.py`), what follows on what (`../core/workflow_machine.py`).
Kill it anywhere: a new one over the same journal goes on. Read next: `workflow_line.py`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ..core.calls import text_of as shown_text
from ..core.decide import Finish
from ..core.state import SendFacts
from ..core.workflow_frames import Frame, Leaf
from ..core.workflow_machine import WorkflowMachine
from ..core.workflow_state import call_id_of, woken
from ..core.workflow_templates import NoOutput, text_of
from ..model.errors import CancellationRequested, InboxMovedError
from ..model.event_types import AgentEventType
from ..model.family_errors import TooManyLeavesError
from ..model.records import Record, SendPaused, ToolFinished
from ..model.usage import NO_USAGE
from ..model.wake_bodies import Wake
from ..model.workflow_records import NodeDecided, StepFinished, StepStarted, StepWaits, StepWoken
from ..model.workflow_spec import MAX_LEAVES
from ..ports.cancellation import POLL_S
from ..ports.store import DropTimer, Op, TakeItems
from . import wakes, workflow_stops
from .actor import ACTORS
from .outputs import kept_data
from .run import Run
from .running import RunContext
from .workflow_decisions import decided
from .workflow_leaves import HALTED, LOST, LeafNews, Leaves
from .workflow_line import WorkflowLine, told
from .workflow_values import RunValues

MAX_RUNNING: Final = 64
"""Leaves of one run that do their work here at the same time."""

PASSED_PER_LEAF: Final = 10
"""Steps that were skipped or refused, and decisions, for each leaf that a run may start."""

LOOK_S: Final = 0.25
"""How often the inbox is thought of while steps wait outside and others work."""

SHOWN: Final = 20_000
"""Characters of the text that a run ends with."""


class WorkflowRun(Run):
    """One run of the open send of a workflow session, by whoever has the session's turn."""

    def __init__(self, context: RunContext, *, resumed: bool = False) -> None:
        super().__init__(context, resumed=resumed)
        run = context.state.workflow
        assert run is not None
        self._run = run
        self._values = RunValues(self.kernel, context.session_id, run)
        self._leaves = Leaves(context, self._values)
        self._event = asyncio.Event()
        self._line = WorkflowLine(self.journal, self._event)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The newest attempt of each leaf that does its work here, by path."""
        self._alive: set[asyncio.Task[None]] = set()
        """These, and former attempts that have told their end and are not quite over."""
        self._reports: list[LeafNews] = []
        """What leaves told and is not stored yet."""
        self._left_open: list[str] = []
        """Tool steps whose work is over without an end, by path: what they wait for may have been there already."""
        self._lost: BaseException | None = None
        """What a leaf raised that ends the run."""
        self._later: dict[str, float] = {}
        """Retries that wait, by path: UTC epoch seconds."""

    @property
    def machine(self) -> WorkflowMachine:
        """What comes next."""
        return self._run.machine

    # --- the loop ---------------------------------------------------------------------------------------------------

    async def _steps(self) -> None:
        if await self._started():
            return
        loop = asyncio.get_running_loop()
        wake = functools.partial(_from_any_thread, loop, self._event)
        unsubscribe = self.context.token.on_cancel(wake)
        self.journal.commit_through(self._line)
        self._adopt()
        try:
            await self._drive()
        finally:
            unsubscribe()
            await self._wind_down()

    async def _drive(self) -> None:
        context = self.context
        while context.state.active is not None:
            if context.token.cancelled:
                raise CancellationRequested(context.token.reason)
            if self._lost is not None:
                raise self._lost
            if context.state.workflow is not self._run:
                self._adopt()
            if self.journal.inbox_waiting:
                await self._take_wakes()
            while self._left_open:
                self._go_on(self._left_open.pop())
            if await self._turned():
                continue
            if self.machine.done is not None and not self._tasks:
                await self._end()
            elif self._tasks or self._later:
                await self._something()
            elif self._is_spent() and not self._waits_outside():
                await self._finish(Finish("budget_exceeded", "the budget of the run is spent"))
            elif await self._paused():
                return

    def _adopt(self) -> None:
        """Begins with a state that was just read: whatever runs is taken up, whatever is due becomes news."""
        run = self.context.state.workflow
        assert run is not None
        self._run = run
        machine = run.machine
        machine.listening = True
        machine.news.clear()
        machine.news.extend(machine.ready)
        machine.stops.clear()
        self._take_up()

    def _take_up(self) -> None:
        """Goes on with leaves that began and are not under way here."""
        now = self.kernel.ambient.now()
        for path, leaf in self.machine.running.items():
            if path in self._tasks or self._has_told(path):
                continue
            if leaf.stopping and (leaf.waits is not None or leaf.child_id is None):
                self.machine.stops.append(path)
            elif (
                leaf.child_id is not None and leaf.waits is None and leaf.deadline is not None and leaf.deadline <= now
            ):
                self._reports.append(self._leaves.expired(leaf))
            elif (again := self._leaves.again(leaf)) is not None:
                self._launch(again)

    def _go_on(self, path: str) -> None:
        """Runs a tool step again whose call goes on with what it asked to wait for."""
        leaf = self.machine.running.get(path)
        if leaf is None or path in self._tasks or leaf.stopping:
            return
        call = self._run.calls.get(call_id_of(path, leaf.attempt))
        if call is not None and call.woken is not None and (again := self._leaves.again(leaf)) is not None:
            self._launch(again)

    def _has_told(self, path: str) -> bool:
        return any(one.path == path for one in self._reports)

    async def _turned(self) -> bool:
        """Stores what leaves told and begins what is due, in one commit; False when there was nothing."""
        if (one := self._line.next_alone()) is not None:
            await self._line.write(one)
            return True
        self._check_bound()
        begun, failed = await self._due()
        stopped = self._stops()
        ended, self._reports = [*self._reports, *stopped], []
        line = self._line.together()
        # First what begins: what ends may stop what has not begun, which would then not be there to begin.
        order = [*begun, *([] if failed is None else [failed]), *ended]
        records = [record for one in order for record in one.records]
        records += [record for one in line for record in one.records]
        ops = tuple([op for one in order for op in one.ops] + [op for one in line for op in one.ops])
        if not records and not ops:
            told(line)
            return bool(line)
        try:
            await self.journal.commit(records, ops=ops)
        except BaseException as error:
            told(line, error)
            raise
        finally:
            self.context.promised.difference_update([one.took for one in begun if one.took is not None])
        told(line)
        self._stored(begun, ended, records)
        return True

    def _stored(self, begun: Sequence[LeafNews], ended: Sequence[LeafNews], records: Sequence[Record]) -> None:
        for one in begun:
            if one.new is not None:
                one.new.remember(self.kernel)
            self._launch(one)
        for one in ended:
            if one.gone is not None:
                ACTORS.drop(self.kernel.store.identity, one.gone)
        if any(type(record) is StepWoken for record in records):
            self._take_up()
        if AgentEventType.WORKFLOW_STEP in self.kernel.bus.wanted:
            self._tell(records)

    # --- what is due ------------------------------------------------------------------------------------------------

    async def _due(self) -> tuple[list[LeafNews], LeafNews | None]:
        """What may begin now, and one that failed to: its failure may stop others, so it comes alone."""
        machine, begun = self.machine, list[LeafNews]()
        self._ripe()
        spent = self._is_spent()
        for _ in range(len(machine.news)):
            path = machine.news[0]
            frame = machine.ready.get(path)
            if frame is None:
                machine.news.popleft()
                continue
            if isinstance(frame, Leaf):
                if spent or len(self._tasks) + len(begun) >= MAX_RUNNING:
                    break
                if frame.not_before > self.kernel.ambient.now():
                    machine.news.popleft()
                    self._later[path] = frame.not_before
                    continue
                begin = await self._leaves.begin(frame)
            else:
                begin = await self._decided(frame)
            machine.news.popleft()
            if begin.ends:
                return begun, begin
            begun.append(begin)
        return begun, None

    def _check_bound(self) -> None:
        """Raises `TooManyLeavesError` when so much was decided, skipped or refused that the run would go on for ever."""
        most = self._run.spec.max_leaves or MAX_LEAVES
        if self.machine.passed > PASSED_PER_LEAF * most and self.machine.news:
            raise TooManyLeavesError(self.context.session_id, most, self.machine.passed)

    def _ripe(self) -> None:
        """Puts retries whose time has come back to what is due, and ends waits whose time is over."""
        if not self._later:
            return
        now = self.kernel.ambient.now()
        for path in [path for path, at in self._later.items() if at <= now]:
            del self._later[path]
            self.machine.news.append(path)

    async def _decided(self, frame: Frame) -> LeafNews:
        value = await decided(frame, self._run, self._values)
        return LeafNews(frame.path, [NodeDecided(frame.path, value)], ends=isinstance(value, dict))

    def _stops(self) -> list[LeafNews]:
        """Stops leaves that must not go on; ends those that only wait."""
        ended: list[LeafNews] = []
        while self.machine.stops:
            path = self.machine.stops.popleft()
            leaf = self.machine.running.get(path)
            if leaf is None:
                continue
            if (token := self._leaves.tokens.get(path)) is not None:
                token.cancel(HALTED)
            elif path not in self._tasks and not self._has_told(path):
                call_id = call_id_of(path, leaf.attempt)
                if (call := self._run.calls.get(call_id)) is not None:
                    end = ToolFinished(call_id, call.call.name, "aborted", f"<aborted: {HALTED}>")
                    ended.append(LeafNews(path, [end], (DropTimer(wakes.timer_id(call_id)),)))
                else:
                    ended.append(self._leaves.stopped(leaf, HALTED))
        return ended

    def _is_spent(self) -> bool:
        """True when the run's budget is used up: nothing more begins."""
        send = self.context.send
        tokens, money = send.start.run_token_budget, send.start.run_cost_budget
        if tokens is not None and send.usage.total_tokens >= tokens:
            return True
        return money is not None and send.usage.nanodollars >= money

    # --- leaves under way -------------------------------------------------------------------------------------------

    def _launch(self, begun: LeafNews) -> None:
        if begun.work is not None:
            work = self._work(begun.path, begun.work, self._tasks.get(begun.path))
            task = self._tasks[begun.path] = asyncio.get_running_loop().create_task(work)
            self._alive.add(task)
            task.add_done_callback(self._alive.discard)

    async def _work(
        self, path: str, work: Callable[[], Awaitable[LeafNews | None]], former: asyncio.Task[None] | None
    ) -> None:
        """The work of one attempt. The end of the one before it may be stored a moment before its task is over."""
        try:
            if former is not None:
                await asyncio.wait([former])
            if (end := await work()) is not None:
                self._reports.append(end)
            else:
                self._left_open.append(path)
        except LOST as error:
            self._lost = error
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the top of a leaf: whatever it is ends the run as failed
            self._lost = error
        finally:
            if self._tasks.get(path) is asyncio.current_task():
                del self._tasks[path]
            self._event.set()

    async def _wind_down(self) -> None:
        """Nothing of the run works on when this returns; what leaves told at their end is stored with the run's."""
        if self.journal.left or self.journal.lease is None or self._lost is not None:
            for task in self._alive:
                task.cancel()
        elif not self.context.token.cancelled and self._tasks:
            self.context.token.cancel("the run is over")
        await self._line.rest()
        if self._alive:
            await asyncio.wait(list(self._alive))

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _waits_outside(self) -> bool:
        return bool(self.machine.running)

    async def _something(self) -> None:
        """Waits until a leaf told something, somebody stops the run, or a time has come."""
        now, at = self.kernel.ambient.now(), list(self._later.values())
        pause = min(at) - now if at else None
        if self.context.token.polled:
            pause = POLL_S if pause is None else min(pause, POLL_S)
        elif len(self.machine.running) > len(self._tasks):
            pause = LOOK_S if pause is None else min(pause, LOOK_S)
        if pause is None:
            await self._event.wait()
        elif not self._event.is_set():
            nap = asyncio.ensure_future(self.kernel.ambient.sleep(max(pause, 0.0)))
            heard = asyncio.ensure_future(self._event.wait())
            try:
                await asyncio.wait([nap, heard], return_when=asyncio.FIRST_COMPLETED)
            finally:
                nap.cancel()
                heard.cancel()
        self._event.clear()
        if pause is not None:
            self._look_at_times()

    def _look_at_times(self) -> None:
        """Ends waits whose time has come, should nobody fire their timers here."""
        now = self.kernel.ambient.now()
        for leaf in self.machine.running.values():
            if _is_over(leaf, now) and not self._has_told(leaf.path):
                self._reports.append(
                    LeafNews(leaf.path, self._time_over(leaf), (DropTimer(workflow_stops.timer_of(leaf)),))
                )

    async def _take_wakes(self) -> None:
        """Takes what arrived for the run. Raises `CancellationRequested` for a stop."""
        journal = self.journal
        found = await self.kernel.store.lookup(journal.session_id)
        if (stop := journal.stop_among(found.waiting)) is not None:
            raise CancellationRequested(stop)
        records, ops = wakes.taken(journal, found.waiting)
        # Nobody talks to a run: what was said to it is taken away, or it would be woken by it for ever.
        said = tuple([item.item_id for item in found.waiting if item.kind in ("message", "timer")])
        if said:
            ops = (*ops, TakeItems(said))
        if ops:
            await journal.commit(records, ops=ops)
        journal.actor.inbox_seen = max(journal.actor.inbox_seen, found.head.inbox_seq)
        self._take_up()

    async def _paused(self) -> bool:
        """Gives the lease back until somebody answers, or what a step waits for has happened; False when it just did."""
        journal = self.journal
        self._look_at_times()
        if self._reports:
            return False
        ops: tuple[Op, ...] = ()
        if self.context.state.facts.family is not None:
            ops = wakes.told(journal, "waiting_for_input", "", NO_USAGE)
        try:
            await journal.commit([SendPaused("waiting_for_input")], sync=True, release=True, quiet_inbox=True, ops=ops)
        except InboxMovedError:
            await journal.load(fresh=True)
            return False
        return True

    def _time_over(self, leaf: Leaf) -> list[Record]:
        records = woken(self.context.state, Wake(call_id=call_id_of(leaf.path, leaf.attempt)))
        return wakes.placed(self.journal, records)

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """The machine is done: its outcome and output are those of the send."""
        done = self.machine.done
        assert done is not None
        if not done.hurts:
            value = await self._values.output(self._run.spec.name, done)
            text = "" if isinstance(value, NoOutput) else text_of(value)
            output = None if isinstance(value, NoOutput | str) else value
            kept = await kept_data(self.kernel, self.context.session_id, output)
            await self._finish(Finish("completed", _cut(text), kept))
            return
        path, position = self.machine.errors[-1] if self.machine.errors else (self._run.spec.name, -1)
        if isinstance(done.place, int) and done.place >= 0:
            path, position = next((one for one in self.machine.errors if one[1] == done.place), (path, done.place))
        why = await self._values.error_at(position)
        message = f"step {path} failed: {why}"[:10_000]
        await self._finish(Finish("failed", _cut(message), None, "workflow.step_failed", None, message))

    async def _finish(
        self,
        step: Finish,
        *,
        also: Sequence[Record] = (),
        ahead: SendFacts | None = None,
        ops: tuple[Op, ...] = (),
    ) -> None:
        """Ends the send; steps that are still open end as cancelled in the same commit, and their children are stopped."""
        ended, self._reports = self._reports, []
        paths = {one.path for one in ended}
        for leaf in self.machine.running.values():
            if leaf.path not in paths and call_id_of(leaf.path, leaf.attempt) not in self._run.calls:
                ended.append(self._leaves.stopped(leaf, step.error_message or step.outcome))
        records = [record for one in ended for record in one.records]
        await super()._finish(
            step, also=[*records, *also], ahead=ahead, ops=(*ops, *[op for one in ended for op in one.ops])
        )

    # --- events -----------------------------------------------------------------------------------------------------

    def _tell(self, records: Sequence[Record]) -> None:
        """An event for each step that began, waits or ended."""
        emit = functools.partial(self.context.emit, AgentEventType.WORKFLOW_STEP)
        for record in records:
            match record:
                case StepStarted():
                    emit(record.path, "started", record.attempt, None, record.child_id, None)
                case StepWaits():
                    emit(record.path, "waits", 1, None, record.child_id, None)
                case StepFinished():
                    why = record.error_message
                    emit(record.path, "finished", record.attempt, record.outcome, record.child_id, why)
                case ToolFinished():
                    path, _, attempt = record.call_id.rpartition("#")
                    outcome = "completed" if record.status in ("finished", "answered") else "failed"
                    why = None if outcome == "completed" else shown_text(record.content)[:1_000]
                    emit(path, "finished", int(attempt), outcome, None, why)
                case _:
                    pass


def _is_over(leaf: Leaf, now: float) -> bool:
    return leaf.waits is not None and leaf.waits.until is not None and leaf.waits.until <= now


def _from_any_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event, _: str) -> None:
    loop.call_soon_threadsafe(event.set)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}\n[... {len(text) - SHOWN} more characters]"
