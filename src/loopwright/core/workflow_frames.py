"""What is under way in a workflow run: one frame for each node that began and has not ended.

Owns: how sequences, parallels, foreaches, branches, loops and leaves go on when something in them ended.
Must not know: records, who runs leaves.
A frame is told of one child that ended and begins what comes next: its cost does not depend on how many ended before.
Of what ended only the outcome and the position of its result stay.
Read next: `workflow_machine.py`.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from .workflow_plan import PlanNode

if TYPE_CHECKING:
    from ..model.workflow_records import StepOutcome, StepWaits
else:
    StepOutcome = StepWaits = Any

NOTHING = -1
"""The place of a result that is none: nothing ran."""

_CODES: dict[StepOutcome, int] = {"completed": 1, "failed": 2, "skipped": 3, "cancelled": 4}
_OUTCOMES: dict[int, StepOutcome] = {code: outcome for outcome, code in _CODES.items()}


class Results:
    """How the children of a foreach or parallel ended, and where their results are."""

    __slots__ = ("codes", "places")

    def __init__(self, count: int) -> None:
        self.codes = bytearray(count)
        self.places: array[int] | list[Place] = array("q", [NOTHING]) * count

    def __len__(self) -> int:
        return len(self.codes)

    def put(self, index: int, outcome: StepOutcome, place: Place) -> None:
        """Notes one that ended."""
        self.codes[index] = _CODES[outcome]
        if isinstance(self.places, array):
            if isinstance(place, int):
                self.places[index] = place
                return
            self.places = list(self.places)
        self.places[index] = place

    def outcome(self, index: int) -> StepOutcome | None:
        """How it ended; None when it did not."""
        return _OUTCOMES.get(self.codes[index])

    def count(self, outcome: StepOutcome) -> int:
        """How many ended so."""
        return self.codes.count(_CODES[outcome])


Place: TypeAlias = "int | Results"
"""Where the result of something is: the position of a record, or those of its parts."""


class NodeEnd(Struct, frozen=True, gc=False):
    """How a node ended."""

    outcome: StepOutcome
    place: Place = NOTHING
    hurts: bool = False
    """What is around it fails with it, if it does not tolerate that."""


UNRUN = NodeEnd("skipped")
"""Of the body of a loop before its first iteration ended."""


class RunScope:
    """What names mean at one place of the spec: results of nodes, and variables of the iteration."""

    __slots__ = ("frame", "index", "names", "parent")

    def __init__(
        self, parent: RunScope | None = None, frame: ForeachFrame | LoopFrame | None = None, index: int = 0
    ) -> None:
        self.parent = parent
        self.frame = frame
        self.index = index
        self.names: dict[str, NodeEnd] = {}

    def bind(self, name: str, ended: NodeEnd) -> None:
        """Notes how a node ended. In a loop the newest iteration's counts, also for what comes after the loop."""
        scope = self
        while scope.parent is not None and isinstance(scope.frame, LoopFrame):
            scope = scope.parent
        scope.names[name] = ended

    def find(self, name: str) -> NodeEnd | None:
        """How the node of this name ended; None when it did not, or not here."""
        scope: RunScope | None = self
        while scope is not None:
            if (ended := scope.names.get(name)) is not None:
                return ended
            scope = scope.parent
        return None

    def variable(self, name: str) -> tuple[ForeachFrame, int] | None:
        """The foreach whose item this name is, and which one; None when there is no such variable."""
        scope: RunScope | None = self
        while scope is not None:
            if isinstance(scope.frame, ForeachFrame) and scope.frame.plan.spec.variable == name:
                return scope.frame, scope.index
            scope = scope.parent
        return None

    def loop(self, name: str) -> LoopFrame | None:
        """The loop with this id around here; None when there is none."""
        scope: RunScope | None = self
        while scope is not None:
            if isinstance(scope.frame, LoopFrame) and scope.frame.plan.id == name:
                return scope.frame
            scope = scope.parent
        return None

    def judged(self) -> NodeEnd | None:
        """How the judge of the loop around ended last; None outside of a loop, and in its first iteration."""
        scope: RunScope | None = self
        while scope is not None:
            if isinstance(scope.frame, LoopFrame):
                return scope.frame.judged
            scope = scope.parent
        return None

    def iteration(self) -> int | None:
        """The index of the innermost iteration; None outside of any."""
        scope: RunScope | None = self
        while scope is not None:
            if scope.frame is not None:
                return scope.index
            scope = scope.parent
        return None


class Around(Protocol):
    """What a frame needs of the machine."""

    def begin(self, plan: PlanNode, parent: Frame, index: int, prefix: str, scope: RunScope) -> None:
        """Begins a child."""
        ...

    def wants(self, frame: Frame) -> None:
        """The frame waits for whoever drives the run: a leaf to start, a decision to make."""
        ...

    def unwanted(self, frame: Leaf) -> bool:
        """The leaf must stop; True when it had not begun, so that nobody has to stop it."""
        ...

    def ended(self, frame: Frame, ended: NodeEnd) -> None:
        """The frame is over; its parent is told later."""
        ...


class Frame:
    """A node that began."""

    __slots__ = ("around", "failed", "index", "live", "parent", "path", "plan", "prefix", "scope", "stopping")

    def __init__(
        self, around: Around, plan: PlanNode, place: tuple[Frame | None, int], prefix: str, scope: RunScope
    ) -> None:
        self.around = around
        self.plan = plan
        self.parent, self.index = place
        self.prefix = prefix
        self.path = prefix + plan.name
        self.scope = scope
        self.live: dict[int, Frame] = {}
        """Children under way, by index."""
        self.stopping = False
        self.failed: Place | None = None
        """Where the failure is that it ends with."""

    def begin(self) -> None:
        """Goes as far as it can."""
        raise NotImplementedError

    def over(self, index: int, ended: NodeEnd) -> None:
        """A child ended."""
        raise NotImplementedError

    def decided(self, value: Any, position: int) -> None:
        """What it asked for was decided."""
        raise NotImplementedError

    def start(self, plan: PlanNode, index: int, prefix: str, scope: RunScope) -> None:
        """Begins a child of its own."""
        self.around.begin(plan, self, index, prefix, scope)

    def stop(self) -> None:
        """Nothing more begins in it; it ends when all that runs has ended."""
        if not self.stopping:
            self.stopping = True
            for child in list(self.live.values()):
                child.stop()
            self.settle()

    def fail(self, place: Place) -> None:
        """It ends as failed, when all that runs in it has ended."""
        if self.failed is None:
            self.failed = place
        if self.stopping:
            self.settle()
        else:
            self.stop()

    def settle(self) -> None:
        """Ends a frame that is to stop and in which nothing runs."""
        if self.stopping and not self.live:
            if self.failed is None:
                self.end(NodeEnd("cancelled"))
            else:
                self.end(NodeEnd("failed", self.failed, hurts=True))

    def end(self, ended: NodeEnd) -> None:
        """It is over."""
        if self.plan.id is not None:
            self.scope.bind(self.plan.id, ended)
        self.around.ended(self, ended)


class Leaf(Frame):
    """A step that does work; its fallback is a child of it."""

    __slots__ = ("attempt", "begun", "child_id", "not_before", "place", "started_at", "waits")

    def __init__(
        self, around: Around, plan: PlanNode, place: tuple[Frame | None, int], prefix: str, scope: RunScope
    ) -> None:
        super().__init__(around, plan, place, prefix, scope)
        self.attempt = 1
        self.begun = False
        self.not_before = 0.0
        """UTC epoch seconds before which the attempt must not start."""
        self.child_id: str | None = None
        self.place = ""
        """Where the journal of the child is while the attempt is under way; "" for the store of the run."""
        self.started_at = 0.0
        """UTC epoch seconds: when the attempt under way began."""
        self.waits: StepWaits | None = None

    @property
    def deadline(self) -> float | None:
        """UTC epoch seconds after which the attempt under way has failed; None without a limit."""
        spec = self.plan.spec
        limits = [getattr(one, "timeout_s", None) for one in (spec, getattr(spec, "spec", None))]  # of node and agent
        shortest = min([limit for limit in limits if limit is not None], default=None)
        return None if shortest is None else self.started_at + shortest

    def begin(self) -> None:
        """See `Frame`."""
        self.around.wants(self)

    def stop(self) -> None:
        """See `Frame`."""
        if self.live:
            return super().stop()
        if not self.stopping:
            self.stopping = True
            if self.around.unwanted(self):
                self.end(NodeEnd("cancelled"))
        return None

    def finished(self, outcome: StepOutcome, position: int, at: float, *, for_good: bool) -> None:
        """An attempt ended; `position` is that of its record. `for_good`: another one would be wrong."""
        self.begun, self.waits, self.child_id = False, None, None
        if outcome == "failed" and not self.stopping:
            if self.attempt <= self.plan.retries and not for_good:
                self.attempt += 1
                self.not_before = at + self.plan.retry_delay_s
                return self.around.wants(self)
            if self.plan.fallback is not None:
                if self.plan.id is not None:
                    # Until the fallback has ended the leaf's name says that it failed, and why: the fallback may ask.
                    self.scope.bind(self.plan.id, NodeEnd("failed", position))
                return self.start(self.plan.fallback, 0, self.prefix, self.scope)
        # A leaf that somebody stopped alone has failed for what is around it.
        hurts = outcome in ("failed", "cancelled") and self.plan.halts
        return self.end(NodeEnd(outcome, position, hurts))

    def over(self, index: int, ended: NodeEnd) -> None:
        """See `Frame`."""
        self.live.pop(index, None)
        self.end(NodeEnd(ended.outcome, ended.place, ended.outcome in ("failed", "cancelled") and self.plan.halts))


class SequenceFrame(Frame):
    """One after the other."""

    __slots__ = ()

    def begin(self) -> None:
        """See `Frame`."""
        self.start(self.plan.children[0], 0, self.prefix, self.scope)

    def over(self, index: int, ended: NodeEnd) -> None:
        """See `Frame`."""
        self.live.pop(index, None)
        if self.stopping:
            self.settle()
        elif ended.hurts:
            self.fail(ended.place)
        elif index + 1 < len(self.plan.children):
            self.start(self.plan.children[index + 1], index + 1, self.prefix, self.scope)
        else:
            self.end(NodeEnd(ended.outcome, ended.place))


class FanFrame(Frame):
    """Several at the same time, each noted in `results`."""

    __slots__ = ("next", "results")

    def __init__(
        self, around: Around, plan: PlanNode, place: tuple[Frame | None, int], prefix: str, scope: RunScope
    ) -> None:
        super().__init__(around, plan, place, prefix, scope)
        self.results = Results(0)
        self.next = 0

    def spread(self, count: int) -> None:
        """Begins with so many."""
        self.results = Results(count)
        self.fill()

    def fill(self) -> None:
        """Begins as many as may run; ends the frame when none is left."""
        while len(self.live) < self.plan.limit and self.next < len(self.results):
            self.next += 1
            self.one(self.next - 1)
        if not self.live and self.next == len(self.results):
            self.end(NodeEnd("completed", self.results))

    def one(self, index: int) -> None:
        """Begins one of them."""
        raise NotImplementedError

    def over(self, index: int, ended: NodeEnd) -> None:
        """See `Frame`."""
        self.live.pop(index, None)
        self.results.put(index, ended.outcome, ended.place)
        if self.stopping:
            self.settle()
        elif ended.hurts and self.plan.halts:
            self.fail(ended.place)
        else:
            self.fill()


class ParallelFrame(FanFrame):
    """Branches side by side."""

    __slots__ = ()

    def begin(self) -> None:
        """See `Frame`."""
        self.spread(len(self.plan.children))

    def one(self, index: int) -> None:
        """See `FanFrame`."""
        self.start(self.plan.children[index], index, self.prefix, self.scope)


class ForeachFrame(FanFrame):
    """The body for each item, in a scope of its own."""

    __slots__ = ()

    def begin(self) -> None:
        """See `Frame`."""
        if self.plan.count is None:
            self.around.wants(self)
        else:
            self.spread(self.plan.count)

    def decided(self, value: Any, position: int) -> None:
        """See `Frame`."""
        if isinstance(value, int):
            self.spread(value)
        else:
            self.fail(position)

    def one(self, index: int) -> None:
        """See `FanFrame`."""
        self.start(self.plan.children[0], index, f"{self.path}[{index}]/", RunScope(self.scope, self, index))


class BranchFrame(Frame):
    """One of several."""

    __slots__ = ()

    def begin(self) -> None:
        """See `Frame`."""
        self.around.wants(self)

    def decided(self, value: Any, position: int) -> None:
        """See `Frame`."""
        if isinstance(value, dict):
            return self.fail(position)
        chosen = self.plan.cases.get(value, self.plan.default) if isinstance(value, str) else self.plan.default
        if chosen is None:
            return self.end(NodeEnd("skipped"))
        return self.start(self.plan.children[chosen], chosen, self.prefix, self.scope)

    def over(self, index: int, ended: NodeEnd) -> None:
        """See `Frame`."""
        self.live.pop(index, None)
        if self.stopping:
            self.settle()
        elif ended.hurts:
            self.fail(ended.place)
        else:
            self.end(NodeEnd(ended.outcome, ended.place))


class LoopFrame(Frame):
    """The body again and again, until it is decided that it is done, or as often as it may be."""

    __slots__ = ("iteration", "judged", "newest")

    def __init__(
        self, around: Around, plan: PlanNode, place: tuple[Frame | None, int], prefix: str, scope: RunScope
    ) -> None:
        super().__init__(around, plan, place, prefix, scope)
        self.iteration = 0
        self.newest = UNRUN
        """How the body ended last."""
        self.judged: NodeEnd | None = None
        """How the judge ended last."""

    @property
    def inner(self) -> RunScope:
        """The scope of the iteration."""
        return RunScope(self.scope, self, self.iteration)

    def begin(self) -> None:
        """See `Frame`."""
        self._again()

    def _again(self) -> None:
        self.path = f"{self.prefix}{self.plan.name}[{self.iteration}]"
        self.start(self.plan.children[0], 0, f"{self.path}/", self.inner)

    def over(self, index: int, ended: NodeEnd) -> None:
        """See `Frame`."""
        self.live.pop(index, None)
        if self.stopping:
            self.settle()
        elif ended.hurts:
            self.fail(ended.place)
        elif index == 1:
            self.judged = ended
            self.around.wants(self)
        else:
            self.newest = ended
            if self.iteration + 1 >= self.plan.iterations:
                self.end(NodeEnd(ended.outcome, ended.place))
            elif self.plan.judge is not None:
                self.start(self.plan.judge, 1, f"{self.path}/", self.inner)
            else:
                self.around.wants(self)

    def decided(self, value: Any, position: int) -> None:
        """See `Frame`."""
        if isinstance(value, dict):
            self.fail(position)
        elif value:
            self.end(NodeEnd(self.newest.outcome, self.newest.place))
        else:
            self.iteration += 1
            self._again()


FRAMES: dict[str, type[Frame]] = {
    "leaf": Leaf,
    "sequence": SequenceFrame,
    "parallel": ParallelFrame,
    "foreach": ForeachFrame,
    "branch": BranchFrame,
    "loop": LoopFrame,
}
