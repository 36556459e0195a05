"""Random workflow specs, and a run of one in which everything happens in any order."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from loopwright.core.state import State, apply, refusal
from loopwright.core.workflow_frames import Leaf
from loopwright.core.workflow_machine import WorkflowMachine
from loopwright.core.workflow_state import call_id_of
from loopwright.model.records import Record, SendStarted, SessionCreated, ToolFinished
from loopwright.model.usage import Usage
from loopwright.model.workflow_records import NodeDecided, StepFinished, StepStarted, StepWaits, WorkflowStarted
from loopwright.model.workflow_spec import WorkflowSpec

AGENT = {"name": "a"}


class SpecMaker:
    """Makes specs as JSON: any nesting of any nodes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.ids = 0

    def spec(self) -> dict[str, Any]:
        return {"name": "random", "root": self._sequence(4) if self.random.random() < 0.5 else self._parallel(4)}

    def _id(self) -> str:
        self.ids += 1
        return f"n{self.ids}"

    def _on_error(self) -> str:
        return self.random.choice(["halt", "continue"])

    def _maybe_id(self) -> dict[str, Any]:
        return {"id": self._id()} if self.random.random() < 0.5 else {}

    def node(self, depth: int) -> dict[str, Any]:
        if depth == 0 or self.random.random() < 0.3:
            return self.leaf(depth)
        return getattr(self, self.random.choice(["_sequence", "_parallel", "_foreach", "_branch", "_loop"]))(depth - 1)

    def leaf(self, depth: int) -> dict[str, Any]:
        kind = self.random.choice(["agent", "tool", "approve", "wait", "workflow"])
        own: dict[str, Any] = {
            "agent": {"spec": AGENT},
            "tool": {"tool": "t"},
            "approve": {"prompt": "well?"},
            "wait": {"signal": "s"},
            "workflow": {"workflow": {"name": "inner", "root": {"type": "tool", "id": "x", "tool": "t"}}},
        }[kind]
        leaf: dict[str, Any] = {"type": kind, "id": self._id(), "on_error": self._on_error(), **own}
        if self.random.random() < 0.3:
            leaf["retries"] = self.random.randint(1, 2)
        if self.random.random() < 0.2 and depth > 0:
            leaf["fallback"] = self.node(depth - 1)
        return leaf

    def _several(self, depth: int) -> list[dict[str, Any]]:
        return [self.node(depth) for _ in range(self.random.randint(1, 3))]

    def _sequence(self, depth: int) -> dict[str, Any]:
        return {"type": "sequence", "steps": self._several(depth), **self._maybe_id()}

    def _parallel(self, depth: int) -> dict[str, Any]:
        return {
            "type": "parallel",
            "branches": self._several(depth),
            "on_error": self._on_error(),
            "max_concurrency": self.random.randint(1, 3),
            **self._maybe_id(),
        }

    def _foreach(self, depth: int) -> dict[str, Any]:
        source = (
            {"items": list(range(self.random.randint(0, 4)))} if self.random.random() < 0.5 else {"items_from": "x"}
        )
        return {
            "type": "foreach",
            "id": self._id(),
            "as": "item",
            "body": self.node(depth),
            "parallel": self.random.random() < 0.7,
            "max_concurrency": self.random.randint(1, 3),
            "on_error": self._on_error(),
            **source,
        }

    def _branch(self, depth: int) -> dict[str, Any]:
        default = {"default": self.node(depth)} if self.random.random() < 0.5 else {}
        cases = {name: self.node(depth) for name in ("a", "b")[: self.random.randint(1, 2)]}
        return {"type": "branch", "on": "input", "cases": cases, **default, **self._maybe_id()}

    def _loop(self, depth: int) -> dict[str, Any]:
        end = {"until": "input"} if self.random.random() < 0.5 else {"judge": {"spec": AGENT}}
        iterations = self.random.randint(1, 3)
        return {"type": "loop", "id": self._id(), "body": self.node(depth), "max_iterations": iterations, **end}


class AnyRun:
    """A run of a random spec: each `step` lets one thing happen that can happen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        spec = SpecMaker(self.random).spec()
        msgspec.convert(spec, WorkflowSpec)
        self.state = State()
        self.journal: list[tuple[Record, float]] = []
        self.attempts: list[tuple[str, int]] = []
        self.put(SessionCreated("run", "default", kind_of_session="workflow"))
        self.put(WorkflowStarted(spec=spec))
        self.put(SendStarted(index=1, max_rounds=1))

    @property
    def machine(self) -> WorkflowMachine:
        assert self.state.workflow is not None
        return self.state.workflow.machine

    def put(self, record: Record) -> None:
        """Writes a record as the journal does: checked, then folded."""
        assert refusal(self.state, record) is None, (record, refusal(self.state, record))
        at = float(len(self.journal))
        self.journal.append((record, at))
        apply(self.state, record, at)

    def step(self) -> None:
        """One thing happens."""
        machine = self.machine
        ready, running = list(machine.ready.values()), list(machine.running.values())
        assert ready or running, "nothing can happen and the run has not ended"
        frame = self.random.choice([*ready, *running])
        if not isinstance(frame, Leaf):
            return self.put(NodeDecided(frame.path, self._decision(frame.plan.kind)))
        if not frame.begun:
            if self.random.random() < 0.05:
                return self.put(self._finished(frame, "skipped"))
            self.attempts.append((frame.path, frame.attempt))
            return self.put(StepStarted(path=frame.path, attempt=frame.attempt))
        return self._go_on(frame)

    def _decision(self, kind: str) -> Any:
        if self.random.random() < 0.05:
            return {"error": "it cannot be decided"}
        if kind == "foreach":
            return self.random.randint(0, 4)
        return self.random.choice(["a", "b", None]) if kind == "branch" else self.random.random() < 0.4

    def _go_on(self, frame: Leaf) -> None:
        assert self.state.workflow is not None
        call = self.state.workflow.calls.get(call_id_of(frame.path, frame.attempt))
        failed = self.random.random() < 0.15
        if frame.stopping and self.random.random() < 0.7:
            end: Record = self._finished(frame, "cancelled")
            status: Any = "aborted"
        else:
            end = self._finished(frame, "failed" if failed else "completed")
            status = "failed" if failed else "finished"
        if call is not None:
            self.put(ToolFinished(call.call.id, call.call.name, status, "text"))
        elif not frame.stopping and self.random.random() < 0.1:
            self.put(StepWaits(path=frame.path, on="time", until=1.0))
        else:
            self.put(end)

    def _finished(self, frame: Leaf, outcome: Any) -> StepFinished:
        return StepFinished(path=frame.path, attempt=frame.attempt, outcome=outcome, child_usage=Usage(1, 1))


def steps_of(run: AnyRun) -> int:
    """Runs it to its end; how many things happened. Never more than a bound, or it would not end."""
    for count in range(5_000):
        if run.machine.done is not None:
            return count
        run.step()
    raise AssertionError("the run does not end")


def replayed(journal: list[tuple[Record, float]]) -> State:
    """The state that these records fold to."""
    state = State()
    for record, at in journal:
        apply(state, record, at)
    return state
