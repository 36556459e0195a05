"""Workflow runs from outside: starting, waiting, stopping, looking.

Owns: `Workflows`, what `StatefulAgentLoop.workflows` is. Must not know: how a run goes on (`workflow_run.py`).
A run is a session: everything here is a send, a read or a stop of one. Loaded at its first use.
Read next: `workflow_run.py`, `workflow_progress.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from ..core import spawning
from ..core.json_value import odd_in
from ..core.state import State
from ..core.workflow_check import parse_workflow_spec
from ..model.codec import decode, decode_record, encode
from ..model.errors import InvalidMessageError, SessionBusyError, SessionExistsError, SessionLeftError
from ..model.family_errors import SpawnRefusedError, WorkflowRunError
from ..model.family_records import HandedOff, Persona, SessionSpawned
from ..model.records import Record, SessionCreated
from ..model.wake_bodies import Wake
from ..model.workflow_records import WorkflowStarted
from ..model.workflow_spec import WorkflowSpec
from ..ports.cancellation import CancellationToken, Stop
from ..ports.store import Head, InboxItem, NewSession, SessionQuery
from . import inspection, open_questions, wakes
from .actor import ACTORS
from .arguments import usable_id
from .beside import run_beside
from .journal import first_records, format_needed
from .kernel import Kernel
from .tree_stops import stop_tree
from .turn import SendOptions, Turn, waiting_outside
from .workflow_progress import RunInfo, WorkflowResult, info_of, result_of_run, state_of_run

SpecLike = WorkflowSpec | Mapping[str, Any]

MAX_INPUT: Final = 1024 * 1024
"""Bytes of a run's input as JSON."""

FIRST_RECORDS: Final = 10
"""Records of a run's journal among which the one is that holds its spec."""

LOOK_S: Final = (0.02, 0.5)
"""How often `wait` looks at a run: at first, and after a while. Seconds."""


ALONE_S: Final = (1.0, 30.0)
"""How often `resume` looks whether who runs what it waits for is gone: at first, and after a while. Seconds."""


class Workflows:
    """The workflow runs of a loop's agent. Concurrency: any number of calls at once."""

    def __init__(self, kernel: Kernel, counted: Callable[[], AbstractContextManager[object]]) -> None:
        self._kernel = kernel
        self._counted = counted
        """Work that `aclose` of the loop waits for."""

    async def run(
        self,
        spec: SpecLike,
        input: Any = None,  # noqa: A002 - the word of the spec
        *,
        run_id: str | None = None,
        stop: Stop = None,
    ) -> WorkflowResult:
        """Runs a workflow here until it ended, or until only a person can move it on.

        `run_id`: of a new session; a run of the same spec and input that has it already goes on. Raises: `WorkflowSpecError`
        with every problem of the spec, `InvalidMessageError` for an input that does not fit, `WorkflowRunError` where
        `run_id` is another run's, all before anything is stored; as `send` does.
        Cancel: the run and its agents stop and end as cancelled.
        """
        with self._counted():
            rid = await self._made(spec, input, run_id, None)
            return await self.resume(rid, stop=stop)

    async def start(
        self,
        spec: SpecLike,
        input: Any = None,  # noqa: A002 - the word of the spec
        *,
        parent: str | None = None,
        run_id: str | None = None,
    ) -> str:
        """Starts a workflow beside everything else and answers its id; durable when this returns.

        `parent`: a session that hears of the end through its inbox, exactly once; it is stored with the end of the run.
        Should this process die, whoever recovers or serves the agent goes on. Raises: as `run`; `SpawnRefusedError`
        where the parent is nested too deep.
        """
        with self._counted():
            rid = await self._made(spec, input, run_id, parent, detached=True)
            run_beside(self._kernel, rid)
            return rid

    async def create(
        self,
        spec: SpecLike,
        input: Any = None,  # noqa: A002 - the word of the spec
        *,
        run_id: str | None = None,
        served: bool = False,
    ) -> str:
        """Stores a run that has not begun, for `resume`, and answers its id. Raises: as `run`.

        `served`: whoever recovers or serves the agent may begin it, too.
        """
        with self._counted():
            return await self._made(spec, input, run_id, None, detached=served)

    async def resume(self, run_id: str, *, stop: Stop = None, leave: CancellationToken | None = None) -> WorkflowResult:
        """Goes on with a run that was interrupted, or has not begun; of one that ended or waits the result.

        `leave`: cancelled, it ends this call and not the run: that stays open where it is, with its lease given back, for
        whoever resumes it next, and `SessionLeftError` is raised.
        Raises: `SessionBusyError` when another process runs it, `WorkflowRunError` when it is no run.
        """
        admission = self._kernel.admission
        assert admission is not None
        await self._head(run_id)
        taken = None if leave is None else functools.partial(_leaving, leave)
        waited = False
        while True:
            try:
                with self._counted():
                    result = await admission.resume(run_id, SendOptions(stop=stop), taken=taken)
            except SessionBusyError:
                if not waited:
                    raise
            else:
                if result.status != "waiting_for_input":
                    break
                if await self._left_alone(run_id):
                    continue
            waited = True
            if (ended := await self._waited(run_id, leave, alone=True)) is not None:
                return ended
        return await result_of_run(self._kernel, await self._state(run_id))

    async def _left_alone(self, run_id: str) -> bool:
        """Wakes a run whose child goes on no more: it was interrupted, or its end was not heard of. True when there was one."""
        kernel = self._kernel
        run = (await self._state(run_id)).workflow
        assert run is not None
        found = False
        for child_id in [waits.child_id for waits in run.waiting() if waits.child_id is not None]:
            head = (await kernel.store.lookup(child_id)).head
            if head.status == "waiting" or (head.owner is not None and head.expires_in_s > 0):
                continue
            item = InboxItem(
                f"look:{child_id}:{head.position}", "wake", encode(Wake(child_id=child_id)), kernel.ambient.now()
            )
            queued = await kernel.store.enqueue(run_id, item)
            if (actor := ACTORS.find(kernel.store.identity, run_id)) is not None:
                actor.inbox_seq = max(actor.inbox_seq, queued.inbox_seq)
            found = found or not queued.duplicate
        return found

    async def wait(self, run_id: str) -> WorkflowResult:
        """Waits until a run ended, or until only a person can move it on, wherever it runs.

        Runs nothing itself. Raises: `SessionNotFoundError`, `WorkflowRunError`. Cancel: the run goes on.
        """
        ended = await self._waited(run_id, None)
        assert ended is not None
        return ended

    async def cancel(self, run_id: str, *, reason: str = "cancelled") -> bool:
        """Stops a run with everything in it, wherever it runs or waits; True when there was something to stop.

        The run ends as cancelled; nobody is woken by it.
        """
        await self._head(run_id)
        return await stop_tree(self._kernel, run_id, reason)

    async def get(self, run_id: str, *, steps: bool = True) -> RunInfo:
        """Progress of a run: status, times and usage of each step. Cost: its journal, in pages.

        Raises: `SessionNotFoundError`, `WorkflowRunError` when it is no run.
        """
        return await info_of(self._kernel, await self._head(run_id), steps=steps)

    async def list(self, *, parent: str | None = None, limit: int = 100) -> Sequence[RunInfo]:
        """Runs of this agent, newest first, from their heads alone: without steps, and with the status of the session."""
        agent = self._kernel.config.agent_name
        query = SessionQuery(kind="workflow", agent_names=(agent,), parent_id=parent, limit=limit)
        return [
            RunInfo(
                run_id=head.session_id,
                name=head.title,
                status=head.status,
                parent_id=head.parent_id,
                created_at=head.created_at,
                updated_at=head.updated_at,
                usage=head.usage,
                counts={},
            )
            for head in await self._kernel.store.list(query)
        ]

    async def result(self, run_id: str) -> WorkflowResult | None:
        """The result of a run that ended or waits; None while it runs. Cost: its journal."""
        await self._head(run_id)
        state = await self._state(run_id)
        send = state.facts.send
        done = send is not None and (send.finished is not None or send.paused)
        return await result_of_run(self._kernel, state) if done else None

    # --- inside -----------------------------------------------------------------------------------------------------

    async def _waited(
        self, run_id: str, leave: CancellationToken | None, *, alone: bool = False
    ) -> WorkflowResult | None:
        """The result once there is one. `alone`: None as soon as nobody goes on with what the run waits for."""
        kernel = self._kernel
        pause, seen, due = LOOK_S[0], -1, math.inf
        state, heed_s, heeded = None, ALONE_S[0], kernel.ambient.monotonic()
        while True:
            if leave is not None and leave.cancelled:
                raise SessionLeftError(f"run {run_id!r} is left: {leave.reason}")
            head = await self._head(run_id)
            if head.status != "running" and head.sends and head.position != seen:
                seen = head.position
                state = await self._state(run_id)
                if (send := state.facts.send) is not None:
                    now = await open_questions.result_now(kernel.store, state)
                    if send.finished is not None or now.pending_interactions:
                        return await result_of_run(kernel, state)
                due = min([one.until for one in waiting_outside(state) if one.until is not None], default=math.inf)
            if alone and kernel.ambient.monotonic() - heeded >= heed_s:
                if head.status == "running" and (head.owner is None or head.expires_in_s <= 0):
                    return None
                if head.status == "waiting" and state is not None and await wakes.waits_for_nobody(kernel, state):
                    return None
                heed_s, heeded = min(heed_s * 2, ALONE_S[1]), kernel.ambient.monotonic()
            left_s = due - kernel.ambient.now()
            if left_s <= 0:
                pause, due, left_s = LOOK_S[0], math.inf, math.inf  # its time has come: it goes on now
            await kernel.ambient.sleep(min(pause, left_s))
            pause = min(pause * 1.5, LOOK_S[1])

    async def _head(self, run_id: str) -> Head:
        head = (await self._kernel.store.lookup(run_id)).head
        if head.kind != "workflow":
            raise WorkflowRunError(run_id, "it is no workflow run")
        return head

    async def _state(self, run_id: str) -> State:
        actor = ACTORS.find(self._kernel.store.identity, run_id)
        if actor is not None and not actor.busy and (warm := actor.state) is not None:
            send = warm.facts.send
            if send is not None and send.finished is not None:
                return warm  # it ended here, and nothing changes it any more
        return await state_of_run(self._kernel.store, run_id)

    async def _made(
        self, given: SpecLike, value: Any, run_id: str | None, parent: str | None, *, detached: bool = False
    ) -> str:
        """The id of a run that is made; of one that was made with this id before, that one."""
        kernel = self._kernel
        value_of = msgspec.to_builtins(given) if isinstance(given, WorkflowSpec) else given
        spec = parse_workflow_spec(value_of, tools=kernel.tools.names())
        check_input(kernel, spec, value)
        rid = kernel.ambient.new_id("run") if run_id is None else usable_id(run_id)
        at = kernel.ambient.now()
        persona = spawning.run_persona(spec, None, None)
        first = HandedOff(persona, "the run's budget") if parent is None else await self._spawned(persona, parent)
        begun = WorkflowStarted(spec=msgspec.to_builtins(spec), input=value, detached=detached)
        name = kernel.config.agent_name
        created = SessionCreated(rid, name, None, dict(spec.metadata), parent, "workflow")
        records: tuple[Record, ...] = (first, begun)
        stored, rows = first_records(kernel.config, created, at, *records)
        needs = format_needed(rows)
        new = NewSession(
            session_id=rid,
            agent_name=name,
            records=rows,
            at=at,
            kind="workflow",
            parent_id=parent,
            lifecycle="detached",
            title=spec.name,
            min_format=needs,
            status="running" if detached else "idle",
        )
        kernel.ambient.reach("create.before")
        try:
            await kernel.store.create(new)
        except SessionExistsError:
            if run_id is None:
                raise
            await self._check_same(rid, spec, value)
            return rid
        kernel.ambient.reach("create.after")
        assert kernel.admission is not None
        kernel.admission.created(rid, stored, at, needs)
        return rid

    async def _check_same(self, run_id: str, spec: WorkflowSpec, value: Any) -> None:
        """Raises `WorkflowRunError` for a session that is no run of this spec with this input."""
        await self._head(run_id)
        for row in await self._kernel.store.read(run_id, limit=FIRST_RECORDS):
            record = decode_record(row.kind, row.version, row.body)
            if isinstance(record, WorkflowStarted):
                if msgspec.convert(record.spec, WorkflowSpec) != spec:
                    raise WorkflowRunError(run_id, "it is a run of another spec; resume() goes on with it as it is")
                if record.input != decode(encode(value), object):
                    raise WorkflowRunError(run_id, "it was begun with another input; resume() goes on with it as it is")

    async def _spawned(self, persona: Persona, parent: str) -> SessionSpawned:
        """The record of a run that tells a session how it ended."""
        state = await self._parent_state(parent)
        if (why := spawning.too_deep(state, self._kernel.config.max_spawn_depth)) is not None:
            raise SpawnRefusedError(parent, why)
        allowed = state.active.start.tools if state.active is not None else None
        own = msgspec.structs.replace(persona, tools=allowed)
        return spawning.spawned_in(state, own, by="", awaited=False, lifecycle="detached")

    async def _parent_state(self, parent: str) -> State:
        return await inspection.read_state(self._kernel.store, parent)


def _leaving(leave: CancellationToken, turn: Turn) -> None:
    leave.on_cancel(turn.leave)


def check_input(kernel: Kernel, spec: WorkflowSpec, value: Any) -> None:
    """Raises `InvalidMessageError` for an input that is no JSON value, too large, or does not fit the spec's schema."""
    try:
        size = len(encode(value))
        if (odd := odd_in(value)) is not None:
            raise ValueError(odd)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessageError(f"the input of workflow {spec.name!r} is no JSON value: {error}") from error
    if size > MAX_INPUT:
        raise InvalidMessageError(
            f"the input of workflow {spec.name!r} has {size:,} bytes; at most {MAX_INPUT:,} are taken"
        )
    why = None if spec.input_schema is None else kernel.limits.validate(spec.input_schema, value)
    if why is not None:
        raise InvalidMessageError(f"the input does not fit workflow {spec.name!r}: {why}")
