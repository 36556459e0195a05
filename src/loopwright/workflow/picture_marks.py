"""What came of each node of a workflow so far, as a picture shows it.

Owns: `RunMarks`, which is told what happened, and `Mark`, one node as of now; how the state of a container follows from what
is in it. Must not know: stores, output formats.
What it keeps does not grow with finished iterations: of those only how many ended how.
Read next: `picture.py`, `../model/workflow_records.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from msgspec import Struct

from ..core.workflow_check import parse_workflow_spec
from ..core.workflow_plan import JUDGE
from ..core.workflow_state import FOR_GOOD, NOT_AGAIN
from ..model.codec import encode
from ..model.messages import content_text
from ..model.records import (
    QuestionAnswered,
    QuestionAsked,
    Record,
    RunResumed,
    SendFinished,
    SendPaused,
    SendStarted,
    ToolFinished,
)
from ..model.workflow_records import NodeDecided, StepFinished, StepStarted, StepWaits, StepWoken, WorkflowStarted
from ..model.workflow_spec import WorkflowSpec
from .picture import PictureNode, clean, judge_key, picture_of

MarkStatus: TypeAlias = Literal["pending", "running", "waiting", "completed", "failed", "skipped", "cancelled"]

OPEN: Final = ("running", "waiting")

MOST_FAILURES: Final = 10
"""Failed steps whose words are kept."""

MOST_SAID: Final = 400
"""Characters that are kept of why a step failed or a run ended."""

_TOOL_ENDS: Final[dict[str, MarkStatus]] = {"finished": "completed", "answered": "completed", "aborted": "cancelled"}


class StepState(Protocol):
    """A step as `loop.workflows.get` tells of it (`StepInfo`)."""

    @property
    def path(self) -> str:
        """Ids from the root, with iteration indexes."""
        ...

    @property
    def status(self) -> str:
        """running, waiting, completed, failed, skipped or cancelled; of a run as its session or its end says."""
        ...

    @property
    def attempt(self) -> int:
        """The newest."""
        ...

    @property
    def started_at(self) -> float | None:
        """UTC epoch seconds."""
        ...

    @property
    def finished_at(self) -> float | None:
        """UTC epoch seconds."""
        ...

    @property
    def child_id(self) -> str | None:
        """The session that did the work."""
        ...

    @property
    def error_message(self) -> str | None:
        """Why it failed."""
        ...


class Steps(Protocol):
    """A run as `loop.workflows.get` tells of it (`RunInfo`)."""

    @property
    def status(self) -> str:
        """running, waiting, completed, failed, skipped or cancelled; of a run as its session or its end says."""
        ...

    @property
    def steps(self) -> Sequence[StepState]:
        """Each path once."""
        ...


class Mark(Struct, kw_only=True):
    """What came of a node so far."""

    status: MarkStatus = "pending"
    counts: dict[MarkStatus, int] = {}
    """Of a leaf: how often it ended so, or is under way so. More than one in all where something iterates."""
    done: int = 0
    """Of a foreach: iterations that ended."""
    total: int | None = None
    """Of a foreach: items, once that is known; of a loop: iterations at most."""
    iteration: int = 0
    """Of a loop: the newest, from 1."""
    attempt: int = 1
    started_at: float | None = None
    """UTC epoch seconds: of a leaf its newest attempt, of a container the first thing in it."""
    finished_at: float | None = None
    child_id: str | None = None
    """The session that does, or did, the newest work."""
    text: str = ""
    """What it gave last, or of one that failed why; the beginning, on one line."""
    asked: str = ""
    """Of a question: what was asked last, as the person read it."""
    text_child_id: str | None = None
    """The session that gave the text."""
    tolerated: bool = False
    """It failed, and what is around it goes on."""

    @property
    def times(self) -> int:
        """How often a leaf began or ended."""
        return sum(self.counts.values())


class _Tally:
    """A leaf, in all iterations."""

    __slots__ = ("ends", "failure", "first_at", "last", "mark")

    def __init__(self, first_at: float | None) -> None:
        self.first_at = first_at
        self.ends: Counter[MarkStatus] = Counter()
        self.mark = Mark()
        self.last: tuple[str, str | None] = ("", None)
        """What it gave last, and the session that did."""
        self.failure: tuple[str, str | None] | None = None
        """Why it failed last, and where."""


class RunMarks:
    """A workflow and what a run of it came to; told of each record once, in order. Concurrency: one caller at a time."""

    def __init__(self, spec: WorkflowSpec) -> None:
        self.spec = spec
        self.picture = picture_of(spec)
        self.status: str | None = None
        """How the run ended, else "running" or "waiting"; None for one that is not known of."""
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.why = ""
        """Why the run ended as it did, where that is known: of a cancelled one the reason that was given."""
        self.failures: list[tuple[str, str]] = []
        """Path and message of steps that failed for good, tolerated ones too: the first `MOST_FAILURES`."""
        self.failed = 0
        """How many there are."""
        self.waits: dict[str, StepWaits] = {}
        """Steps that wait for a time or a signal, by path."""
        self.inside: dict[str, RunMarks] = {}
        """Runs of sub-workflows, by the key of their step, as far as somebody put them here."""
        self.nodes = {node.key: node for node in self.picture.walk()}
        """All nodes of the picture, by key."""
        self._tallies: dict[str, _Tally] = {}
        self._open: dict[str, MarkStatus] = {}
        self._working: dict[str, str | None] = {}
        """The session of each step that is under way, by path."""
        self._asked: dict[str, str] = {}
        self._begun: dict[str, dict[str, int]] = {}
        """Iterations that began, by the name of what iterates and the path up to it."""
        self._items: dict[str, int] = {}
        self._broken: dict[str, str] = {}
        """Nodes whose decision failed, and why."""
        self._over: set[str] = set()
        """Loops that were decided to be done."""

    @property
    def live(self) -> bool:
        """True while something may still happen."""
        return self.status in (None, "idle", *OPEN)

    @property
    def children(self) -> dict[str, str]:
        """The newest session of each step that began one, by key."""
        found = {key: tally.mark.child_id for key, tally in self._tallies.items()}
        return {key: child_id for key, child_id in found.items() if child_id is not None}

    def hear(self, record: Record, at: float) -> None:
        """Takes in a record of the run's journal; `at`: UTC epoch seconds."""
        match record:
            case StepStarted():
                self._start(record.path, record.attempt, at, record.child_id)
            case StepWaits() if record.path in self._open:
                self._open[record.path] = "waiting"
                if record.on != "child":
                    self.waits[record.path] = record
            case StepWoken() if record.path in self._open:
                self._open[record.path] = "running"
                self.waits.pop(record.path, None)
            case QuestionAsked(interaction=asked) if (path := _step(asked.call_id)) in self._open:
                self._asked[asked.id] = path
                self._open[path] = "waiting"
                if (tally := self._tallies.get(self._placed(path))) is not None:
                    tally.mark.asked = clean(asked.prompt)
            case QuestionAnswered() if (path := self._asked.pop(record.interaction_id, "")) in self._open:
                self._open[path] = "running"
            case StepFinished():
                again = record.error_code not in NOT_AGAIN
                said = record.error_message if record.outcome == "failed" else record.text or _value_text(record.data)
                self._end(record.path, record.outcome, at, said or "", again=again)
            case ToolFinished() if (path := _step(record.call_id)) in self._open:
                outcome = _TOOL_ENDS.get(record.status, "failed")
                self._end(path, outcome, at, content_text(record.content), again=record.status not in FOR_GOOD)
            case NodeDecided():
                self._decided(record.path, record.value)
            case WorkflowStarted():
                self.status, self.started_at = "idle", at
            case SendStarted():
                self.status = "running"
            case SendFinished():
                self.status, self.finished_at = record.outcome, at
                self.why = clean(record.error_message or "", MOST_SAID)
                self.waits.clear()
            case SendPaused():
                self.status = "waiting"
            case RunResumed():
                self.status = "running"
            case _:
                pass

    def take(self, step: StepState) -> None:
        """Takes in a step as of now, each path once."""
        began = step.finished_at if step.started_at is None else step.started_at
        self._start(step.path, step.attempt, began, step.child_id)
        if step.status in OPEN:
            self._open[step.path] = "waiting" if step.status == "waiting" else "running"
            return
        ended: Any = step.status
        self._end(step.path, ended, step.finished_at, step.error_message or "", again=False)

    def mark(self, node: PictureNode) -> Mark:
        """The node as of now."""
        if node.inside:
            first, _, local = node.key.partition("/")
            below = self.inside.get(first)
            return Mark() if below is None else below.mark(below.nodes[local])
        if node.is_leaf:
            return self._leaf(node.key)
        mark = self._container(node)
        if node.key in self._broken:
            mark.status, mark.text = "failed", self._broken[node.key]
        return mark

    # --- what happened ----------------------------------------------------------------------------------------------

    def _start(self, path: str, attempt: int, at: float | None, child_id: str | None) -> None:
        key = self._placed(path)
        tally = self._tallies.setdefault(key, _Tally(at))
        self._open[path], self._working[path] = "running", child_id
        mark = tally.mark
        mark.attempt, mark.child_id, mark.started_at, mark.finished_at = attempt, child_id, at, None
        if self.started_at is None:
            self.started_at = at
        if self.status in (None, "idle", "waiting"):
            self.status = "running"

    def _end(self, path: str, outcome: MarkStatus, at: float | None, text: str, *, again: bool) -> None:
        key = self._placed(path)
        tally = self._tallies.setdefault(key, _Tally(at))
        node = self.nodes.get(key)
        child_id = self._working.pop(path, None)
        tally.last = clean(text), child_id
        if outcome == "failed":
            tally.failure = tally.last
        if outcome == "failed" and again and node is not None and tally.mark.attempt <= node.plan.retries:
            self._open[path] = "waiting"  # for its next attempt
            return
        self._open.pop(path, None)
        self.waits.pop(path, None)
        if outcome == "failed":
            self._failed(path, text)
        tally.ends[outcome] += 1
        tally.mark.finished_at = at

    def _decided(self, path: str, value: object) -> None:
        name = path.rpartition("/")[2].partition("[")[0]
        if isinstance(value, dict):
            why = str(cast("dict[str, object]", value).get("error", ""))
            self._broken[name] = clean(why)
            self._failed(path, why)
        elif isinstance(value, bool):
            if value:
                self._over.add(name)
        elif isinstance(value, int):
            self._items[name] = self._items.get(name, 0) + value

    def _failed(self, path: str, why: str) -> None:
        self.failed += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append((path, clean(why, MOST_SAID)))

    def _placed(self, path: str) -> str:
        """The key of the node that a path is a step of; notes the iterations that it is in."""
        *around, name = path.split("/")
        prefix = ""
        for part in around:
            iterated, _, index = part.partition("[")
            begun = self._begun.setdefault(iterated, {})
            number = int(index[:-1]) + 1 if index[:-1].isdecimal() else 1
            begun[prefix] = max(begun.get(prefix, 0), number)
            prefix += f"{part}/"
        return judge_key(around[-1].partition("[")[0]) if name == JUDGE and around else name

    # --- what it comes to -------------------------------------------------------------------------------------------

    def _leaf(self, key: str) -> Mark:
        tally = self._tallies.get(key)
        if tally is None:
            return Mark()
        counts = Counter(tally.ends)
        for path, status in self._open.items():
            if _key(path) == key:
                counts[status] += 1
        for status in ("running", "waiting", "failed", "completed", "cancelled", "skipped"):
            if counts[status]:
                tally.mark.status = status
                break
        told = tally.failure if tally.mark.status == "failed" and tally.failure is not None else tally.last
        tally.mark.text, tally.mark.text_child_id = told
        tally.mark.counts = {status: count for status, count in counts.items() if count}
        tally.mark.tolerated = not self.nodes[key].plan.halts
        return tally.mark

    def _container(self, node: PictureNode) -> Mark:
        marks = [self._effective(child) for child in node.children]
        if node.judge is not None:
            marks.append(self.mark(node.judge))
        mark = Mark()
        inside = [self._tallies.get(one.key) for one in node.walk() if one.is_leaf and not one.inside]
        began = [tally.first_at for tally in inside if tally is not None and tally.first_at is not None]
        mark.started_at = min(began) if began else None
        ends = [one.finished_at for one in marks if one.finished_at is not None]
        match node.shape:
            case "foreach":
                self._foreach(node, mark, marks)
            case "loop":
                self._loop(node, mark, marks)
            case _:
                mark.status = self._rolled(node, marks)
        if mark.status not in ("pending", *OPEN):
            mark.finished_at = max(ends) if ends else None
        return mark

    def _effective(self, node: PictureNode) -> Mark:
        """What a node means for what is around it: a fallback stands for its step, a tolerated failure is none."""
        mark = self.mark(node)
        if node.fallback is not None and (instead := self._effective(node.fallback)).status != "pending":
            return instead
        if mark.tolerated and mark.status in ("failed", "cancelled"):
            return Mark(status="completed", started_at=mark.started_at, finished_at=mark.finished_at)
        return mark

    def _rolled(self, node: PictureNode, marks: Sequence[Mark]) -> MarkStatus:
        statuses = [mark.status for mark in marks]
        if node.shape == "sequence":
            reached = max([place for place, status in enumerate(statuses) if status != "pending"], default=-1)
            for place in range(reached):  # what comes later has begun: what was before it is over
                statuses[place] = "completed" if statuses[place] in ("pending", *OPEN) else statuses[place]
        if node.shape == "branch":
            statuses = [status for status in statuses if status != "pending"]
        if node.shape == "parallel" and not node.plan.halts:
            statuses = ["completed" if status == "failed" else status for status in statuses]
        for status in ("running", "waiting", "failed", "cancelled"):
            if status in statuses:
                return status
        begun = [status for status in statuses if status != "pending"]
        if not begun:
            return "pending"
        if len(begun) < len(statuses):
            return "running" if self.live else "cancelled"
        return "skipped" if set(begun) == {"skipped"} else "completed"

    def _foreach(self, node: PictureNode, mark: Mark, marks: Sequence[Mark]) -> None:
        key = node.plan.name
        begun, live = self._begun.get(key, {}), self._live(key)
        mark.total = self._items.get(key)
        if mark.total is None and node.plan.count is not None:
            mark.total = node.plan.count * max(len(begun), 1)
        mark.done = sum(begun.values()) - len(live)
        body = marks[0].status
        stopped = self.status == "cancelled" and self._stopped(node)
        if mark.total is not None and mark.done >= mark.total:
            known = bool(begun) or key in self._items
            over: MarkStatus = "failed" if body == "failed" and node.plan.halts else "completed"
            mark.status = ("cancelled" if stopped else over) if known else "pending"
        elif live:
            mark.status = "waiting" if "running" not in live.values() else "running"
        elif begun:
            failed = body == "failed" and node.plan.halts and not stopped
            ended: MarkStatus = "failed" if failed else "cancelled" if mark.total else "completed"
            mark.status = "running" if self.live else ended

    def _stopped(self, node: PictureNode) -> bool:
        """True when something in it ended because the run was cancelled."""
        inside = [self._tallies.get(one.key) for one in node.walk() if one.is_leaf]
        return any(tally is not None and tally.ends["cancelled"] for tally in inside)

    def _loop(self, node: PictureNode, mark: Mark, marks: Sequence[Mark]) -> None:
        key = node.plan.name
        begun, live = self._begun.get(key, {}), self._live(key)
        mark.iteration, mark.total = max(begun.values(), default=0), node.plan.iterations
        if live:
            mark.status = "waiting" if "running" not in live.values() else "running"
        elif begun:
            worst: list[MarkStatus] = [one.status for one in marks if one.status in ("failed", "cancelled")]
            over = key in self._over or mark.iteration >= node.plan.iterations or self.status == "completed"
            mark.status = worst[0] if worst else "completed" if over else "running" if self.live else "cancelled"

    def _live(self, key: str) -> dict[str, MarkStatus]:
        """Iterations with something under way, by their path: running when anything in them is."""
        found: dict[str, MarkStatus] = {}
        for path, status in self._open.items():
            prefix = ""
            for part in path.split("/")[:-1]:
                prefix += f"{part}/"
                if part.partition("[")[0] == key and found.get(prefix) != "running":
                    found[prefix] = status
        return found


def _key(path: str) -> str:
    *around, name = path.split("/")
    return judge_key(around[-1].partition("[")[0]) if name == JUDGE and around else name


def _value_text(value: Any) -> str:
    """A step's value as JSON; "" for none."""
    return "" if value is None else encode(value).decode()


def _step(call_id: str) -> str:
    """The path of a tool step or a question."""
    return call_id.rpartition("#")[0]


SpecLike: TypeAlias = "WorkflowSpec | Mapping[str, Any]"
States: TypeAlias = "RunMarks | Steps | Iterable[StepState] | None"
"""What came of a run: `RunMarks`, what `loop.workflows.get` gives, its steps alone, or nothing."""


def marks_of(spec: SpecLike, states: States = None) -> RunMarks:
    """A workflow with what came of a run of it. Raises: `WorkflowSpecError` with every problem of the spec."""
    if isinstance(states, RunMarks):
        return states
    marks = RunMarks(spec if isinstance(spec, WorkflowSpec) else parse_workflow_spec(spec))
    if states is None:
        return marks
    steps: Iterable[StepState]
    if isinstance(states, Iterable):
        steps = states
    else:
        steps = states.steps
    for step in steps:
        marks.take(step)
    if not isinstance(states, Iterable):
        marks.status = states.status
    return marks
