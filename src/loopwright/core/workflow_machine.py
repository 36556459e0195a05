"""What comes next in a workflow run: built from its spec, fed what happened, one record after the other.

Owns: `WorkflowMachine`: which steps may start, which decisions are due, which steps must stop, how the run ends.
Must not know: records' storage, who runs steps. Feeding the same in the same order always gives the same machine, so a
resume needs nothing else. What one record costs does not depend on how many steps ended or are left.
Read next: `workflow_frames.py`, `engine/workflow_run.py`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from .workflow_frames import FRAMES, FanFrame, Frame, Leaf, NodeEnd, Place, RunScope

if TYPE_CHECKING:
    from ..model.workflow_records import StepOutcome, StepWaits
    from .workflow_plan import PlanNode
else:
    PlanNode = StepOutcome = StepWaits = Any

KEPT_ERRORS: Final = 100
"""Failed steps that are remembered by name; all are counted."""


class WorkflowMachine:
    """A run as of one record. Concurrency: one caller at a time."""

    __slots__ = (
        "_told",
        "begun",
        "done",
        "errors",
        "failures",
        "listening",
        "news",
        "passed",
        "ready",
        "root",
        "running",
        "stops",
    )

    def __init__(self, plan: PlanNode) -> None:
        self.ready: dict[str, Frame] = {}
        """What waits for whoever drives the run, by path, oldest first: leaves to start, others to decide."""
        self.running: dict[str, Leaf] = {}
        """Leaves that started and have not ended, by path."""
        self.begun = 0
        """Leaves that started so far, attempts apart."""
        self.passed = 0
        """Leaves that ended without having started, and decisions."""
        self.errors: list[tuple[str, int]] = []
        """Path and position of steps that failed for good, the first `KEPT_ERRORS` of them."""
        self.failures = 0
        """How many did."""
        self.done: NodeEnd | None = None
        """How the run ended; None while it goes on."""
        self.listening = False
        """`news` and `stops` are filled for somebody who empties them."""
        self.news: deque[str] = deque()
        """Paths that were put into `ready`."""
        self.stops: deque[str] = deque()
        """Leaves that must stop."""
        self.root = RunScope()
        self._told: deque[tuple[Frame, int, NodeEnd]] = deque()
        self.begin(plan, None, 0, "", self.root)
        self._settle()

    def started(
        self, path: str, attempt: int, *, child_id: str | None = None, place: str = "", at: float = 0.0
    ) -> None:
        """A leaf began."""
        leaf = self.ready.pop(path, None)
        if isinstance(leaf, Leaf):
            leaf.begun, leaf.child_id, leaf.started_at, leaf.place = True, child_id, at, place
            self.running[path] = leaf
            self.begun += attempt == 1

    def waits(self, path: str, record: StepWaits | None, *, place: str = "") -> None:
        """A leaf that began goes on when something outside happened; None: it has happened, and it goes on at `place`."""
        if (leaf := self.running.get(path)) is not None:
            leaf.waits, leaf.place = record, place

    def finished(self, path: str, outcome: StepOutcome, position: int, at: float, *, for_good: bool = False) -> None:
        """An attempt of a leaf ended, or the leaf was ended without having begun; `position` is that of the record.

        `for_good`: no further attempt is made.
        """
        leaf: Frame | None = self.running.pop(path, None)
        if leaf is None and (leaf := self.ready.pop(path, None)) is not None:
            self.passed += 1
        if isinstance(leaf, Leaf):
            leaf.finished(outcome, position, at, for_good=for_good)
            if outcome == "failed" and not leaf.live and path not in self.ready:
                self._failed(path, position)
            self._settle()

    def decided(self, path: str, value: Any, position: int) -> None:
        """What a foreach, branch or loop waited for was decided: a count, a case, whether it is done.

        An object with `error` makes the node fail.
        """
        frame = self.ready.pop(path, None)
        if frame is not None:
            self.passed += 1
            if isinstance(value, dict):
                self._failed(path, position)
            frame.decided(value, position)
            self._settle()

    def refusal(self, path: str, attempt: int | None, *, start: bool = False) -> str | None:
        """Why a record about this step must not follow; None when it may. `attempt` None: a decision."""
        frame = self.ready.get(path)
        if frame is None and not start and attempt is not None:
            frame = self.running.get(path)
        if frame is None:
            return f"step {path!r} is not due"
        if (attempt is None) is isinstance(frame, Leaf):
            return f"step {path!r} is of another kind"
        if isinstance(frame, Leaf) and frame.attempt != attempt:
            return f"step {path!r} is at attempt {frame.attempt}, not {attempt}"
        return None

    def begin(self, plan: PlanNode, parent: Frame | None, index: int, prefix: str, scope: RunScope) -> None:
        """For frames: begins a node."""
        frame = FRAMES[plan.kind](self, plan, (parent, index), prefix, scope)
        if parent is not None:
            parent.live[index] = frame
        frame.begin()

    def wants(self, frame: Frame) -> None:
        """For frames: this one waits for a start or a decision."""
        self.ready[frame.path] = frame
        if self.listening:
            self.news.append(frame.path)

    def unwanted(self, frame: Leaf) -> bool:
        """For frames: the leaf must stop; True when it had not begun."""
        if self.ready.pop(frame.path, None) is not None:
            return True
        if self.listening:
            self.stops.append(frame.path)
        return False

    def ended(self, frame: Frame, ended: NodeEnd) -> None:
        """For frames: this one is over. Its parent hears of it when the frame is done with itself, so nothing nests."""
        if self.ready.get(frame.path) is frame:
            del self.ready[frame.path]
        if frame.parent is None:
            self.done = ended
        else:
            self._told.append((frame.parent, frame.index, ended))

    def _settle(self) -> None:
        while self._told:
            parent, index, ended = self._told.popleft()
            parent.over(index, ended)

    def _failed(self, path: str, position: int) -> None:
        self.failures += 1
        if len(self.errors) < KEPT_ERRORS:
            self.errors.append((path, position))

    def picture(self) -> dict[str, Any]:
        """Everything that counts, as plain values: two machines with the same picture go on alike."""
        return {
            "ready": [(path, _shown(frame)) for path, frame in self.ready.items()],
            "running": sorted((path, _shown(frame)) for path, frame in self.running.items()),
            "counts": (self.begun, self.passed, self.failures, tuple(self.errors)),
            "names": {name: _ended(ended) for name, ended in self.root.names.items()},
            "done": None if self.done is None else _ended(self.done),
        }


def _shown(frame: Frame) -> tuple[Any, ...]:
    around, up = list[Any](), frame.parent
    while up is not None:
        names = {name: _ended(ended) for name, ended in up.scope.names.items()}
        parts = _place(up.results) if isinstance(up, FanFrame) else ()
        around.append((up.path, up.stopping, str(up.failed), sorted(up.live), names, parts))
        up = up.parent
    step: tuple[Any, ...] = ()
    if isinstance(frame, Leaf):
        step = (frame.attempt, frame.begun, frame.child_id, frame.started_at, frame.not_before, str(frame.waits))
        step = (*step, frame.place)
    return frame.stopping, step, tuple(map(str, around))


def _ended(ended: NodeEnd) -> tuple[Any, ...]:
    return ended.outcome, _place(ended.place), ended.hurts


def _place(place: Place) -> Any:
    return place if isinstance(place, int) else (bytes(place.codes), [_place(one) for one in place.places])
