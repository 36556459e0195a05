"""What a run has come to, read from its journal: progress of each step, results, errors.

Owns: `WorkflowResult`, `RunInfo`, `StepInfo` and how they follow from records. Must not know: turns, leases.
Read next: `workflows.py`, `../core/workflow_state.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from ..core.result import StatefulResult
from ..core.state import State, apply
from ..core.workflow_templates import NoOutput, text_of
from ..model.codec import decode_record
from ..model.family_errors import WorkflowRunError
from ..model.messages import content_text
from ..model.records import Interaction, Outcome, QuestionAnswered, QuestionAsked, Record, ToolFinished
from ..model.usage import NO_USAGE, Usage
from ..model.workflow_records import NodeDecided, StepFinished, StepStarted, StepWaits, StepWoken
from ..ports.ambient import breathe
from ..ports.store import Head, Status, Store
from . import open_questions
from .kernel import Kernel
from .workflow_values import RunValues

PAGE: Final = 500
"""Records read at once."""

StepStatus: TypeAlias = Literal["running", "waiting", "completed", "failed", "skipped", "cancelled"]

_ENDS: Final[dict[str, StepStatus]] = {"finished": "completed", "answered": "completed", "aborted": "cancelled"}


class StepInfo(Struct, kw_only=True):
    """A step of a run that began or was skipped, as of now."""

    path: str
    """Ids from the root, with iteration indexes: `research[2]/r`."""
    status: StepStatus
    attempt: int = 1
    started_at: float | None = None
    """UTC epoch seconds of the newest attempt; None for a step that ended without having begun."""
    finished_at: float | None = None
    child_id: str | None = None
    """The session that did the work; its journal tells how."""
    usage: Usage = NO_USAGE
    error_code: str | None = None
    error_message: str | None = None
    position: int = -1
    """Of the record that ended it."""


class StepResult(Struct, frozen=True, kw_only=True):
    """What a step gave."""

    path: str
    outcome: StepStatus
    text: str
    data: Any = None
    """Its structured value, where it has one."""
    child_id: str | None = None


class StepError(Struct, frozen=True):
    """A step that failed for good."""

    path: str
    message: str


class RunInfo(Struct, frozen=True, kw_only=True):
    """A run as of now."""

    run_id: str
    name: str
    status: Status | Outcome
    """How it ended, else "running", "waiting", or "idle" for one that did not begin."""
    parent_id: str | None
    created_at: float
    updated_at: float
    usage: Usage
    """Of all its steps that ended."""
    counts: dict[str, int]
    """How many steps have each status; of a list of runs empty."""
    steps: tuple[StepInfo, ...] = ()
    """In the order in which they began."""
    pending_interactions: tuple[Interaction, ...] = ()


class WorkflowResult:
    """How a run ended, or what it waits for. What single steps gave is read when it is asked for."""

    def __init__(self, kernel: Kernel, state: State, errors: tuple[StepError, ...], outcome: StatefulResult) -> None:
        run = state.workflow
        assert run is not None
        self._kernel = kernel
        self._state = state
        self.run_id = outcome.session_id
        self.name = run.spec.name
        self.status: Outcome = outcome.status
        """completed, failed, cancelled, budget_exceeded; waiting_for_input while it waits."""
        self.final_text = outcome.final_text
        self.output: Any = outcome.output
        """The output of the root where it is no text."""
        self.usage = outcome.usage
        """Of all steps, failed attempts included."""
        self.errors = errors
        """Steps that failed for good, tolerated ones included, the first hundred."""
        self.failures = run.machine.failures
        """How many failed for good."""
        self.pending_interactions = outcome.pending_interactions
        """Questions that a person must answer (`submit_input`), those of agents in the run included."""
        self.error_code = outcome.error_code
        self.error_message = outcome.error_message

    def __repr__(self) -> str:
        return f"WorkflowResult({self.run_id!r}, {self.status!r}, failures={self.failures})"

    @property
    def ok(self) -> bool:
        """True when the run completed and no step failed."""
        return self.status == "completed" and self.failures == 0

    async def node(self, name: str) -> Any:
        """The output of the node with this id, outside of any foreach; in a loop that of the newest iteration.

        A text that says so for one that failed, was skipped or did not run. Raises: `WorkflowRunError` for an unknown id.
        """
        run = self._state.workflow
        assert run is not None
        if name not in run.ids:
            raise WorkflowRunError(self.run_id, f"its spec has no node {name!r}")
        values = RunValues(self._kernel, self.run_id, run)
        value = await values.value(name, run.machine.root)
        return str(value) if isinstance(value, NoOutput) else value

    async def results(self) -> AsyncIterator[StepResult]:
        """What each step gave, in the order of their ends, read in pages."""
        run = self._state.workflow
        assert run is not None
        values = RunValues(self._kernel, self.run_id, run)
        children: dict[str, str | None] = {}
        async for _, record, _ in records_of(self._kernel.store, self.run_id):
            match record:
                case StepStarted():
                    children[record.path] = record.child_id
                case StepFinished() | ToolFinished():
                    path, outcome = _end(record)
                    value = await values.of(record)
                    data = None if isinstance(value, str) else value
                    text = text_of(value)
                    if isinstance(record, StepFinished) and outcome == "failed":
                        text = record.error_message or text
                    yield StepResult(
                        path=path, outcome=outcome, text=text, data=data, child_id=children.pop(path, None)
                    )
                case _:
                    pass


async def records_of(store: Store, session_id: str) -> AsyncIterator[tuple[int, Record, float]]:
    """(position, record, time) of a journal, read in pages."""
    after = 0
    while page := await store.read(session_id, after=after, limit=PAGE):
        for row in page:
            yield row.position, decode_record(row.kind, row.version, row.body), row.at
        after = page[-1].position + 1


async def state_of_run(store: Store, session_id: str) -> State:
    """The state of a run, read in pages: a long journal is never held as a whole."""
    state, after = State(), 0
    while page := await store.read(session_id, after=after, limit=PAGE):
        for row in page:
            apply(state, decode_record(row.kind, row.version, row.body), row.at)
        after = page[-1].position + 1
        await breathe()
    return state


def _end(record: StepFinished | ToolFinished) -> tuple[str, StepStatus]:
    if isinstance(record, StepFinished):
        return record.path, record.outcome
    return record.call_id.rpartition("#")[0], _ENDS.get(record.status, "failed")


class _Progress:
    """Steps as records tell of them."""

    def __init__(self) -> None:
        self.steps: dict[str, StepInfo] = {}
        self._asked: dict[str, str] = {}

    def hear(self, position: int, record: Record, at: float) -> None:
        """Takes one record in."""
        match record:
            case StepStarted():
                self.steps[record.path] = StepInfo(
                    path=record.path,
                    status="running",
                    attempt=record.attempt,
                    started_at=at,
                    child_id=record.child_id,
                )
            case StepWaits():
                self._set(record.path, "waiting")
            case StepWoken():
                self._set(record.path, "running")
            case QuestionAsked(interaction=asked) if asked.call_id.rpartition("#")[0] in self.steps:
                self._asked[asked.id] = asked.call_id.rpartition("#")[0]
                self._set(self._asked[asked.id], "waiting")
            case QuestionAnswered() if record.interaction_id in self._asked:
                self._set(self._asked[record.interaction_id], "running")
            case StepFinished():
                step = self.steps.setdefault(record.path, StepInfo(path=record.path, status="running"))
                step.usage += record.child_usage
                step.error_code, step.error_message = record.error_code, record.error_message
                self._over(step, record.outcome, position, at)
            case ToolFinished() if (path := record.call_id.rpartition("#")[0]) in self.steps:
                step, status = self.steps[path], _end(record)[1]
                if status == "failed":
                    step.error_code, step.error_message = record.status, content_text(record.content)[:2_000]
                self._over(step, status, position, at)
            case NodeDecided(value={"error": str(error)}):
                step = StepInfo(path=record.path, status="failed", error_message=error)
                self.steps[record.path] = step
                self._over(step, "failed", position, at)
            case _:
                pass

    def _set(self, path: str, status: StepStatus) -> None:
        if (step := self.steps.get(path)) is not None:
            step.status = status

    def _over(self, step: StepInfo, status: StepStatus, position: int, at: float) -> None:
        step.status, step.position, step.finished_at = status, position, at


async def info_of(kernel: Kernel, head: Head, *, steps: bool = True) -> RunInfo:
    """A run's progress, with its steps when they are asked for. Cost: its journal, in pages."""
    progress, usage, counts = _Progress(), NO_USAGE, dict[str, int]()
    async for position, record, at in records_of(kernel.store, head.session_id):
        progress.hear(position, record, at)
        if isinstance(record, StepFinished):
            usage += record.child_usage
    for step in progress.steps.values():
        counts[step.status] = counts.get(step.status, 0) + 1
    status: Status | Outcome = head.status
    questions: tuple[Interaction, ...] = ()
    state = await state_of_run(kernel.store, head.session_id)
    if state.facts.send is not None and (state.facts.send.finished is not None or state.facts.send.paused):
        result = await open_questions.result_now(kernel.store, state)
        status = head.status if state.facts.send.finished is None else result.status
        questions = result.pending_interactions
    return RunInfo(
        run_id=head.session_id,
        name=head.title,
        status=status,
        parent_id=head.parent_id,
        created_at=head.created_at,
        updated_at=head.updated_at,
        usage=usage,
        counts=counts,
        steps=tuple(progress.steps.values()) if steps else (),
        pending_interactions=questions,
    )


async def result_of_run(kernel: Kernel, state: State) -> WorkflowResult:
    """The result of a run whose send ended or waits."""
    run = state.workflow
    if run is None:
        raise WorkflowRunError(state.facts.session_id, "it is no workflow run")
    values = RunValues(kernel, state.facts.session_id, run)
    errors = [StepError(path, (await values.error_at(position))[:10_000]) for path, position in run.machine.errors]
    return WorkflowResult(kernel, state, tuple(errors), await open_questions.result_now(kernel.store, state))
