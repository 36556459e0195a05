"""The machine of workflow runs: any spec, whatever happens in whatever order."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.state import State, refusal
from loopwright.core.workflow_frames import Results
from loopwright.core.workflow_machine import WorkflowMachine
from loopwright.core.workflow_plan import planned
from loopwright.model.workflow_records import StepFinished, StepStarted
from loopwright.model.workflow_spec import WorkflowSpec

from .workflow_specs import AnyRun, replayed, steps_of

SEEDS = st.integers(0, 2**32)


def machine_of(root: dict[str, Any]) -> WorkflowMachine:
    return WorkflowMachine(planned(msgspec.convert({"name": "w", "root": root}, WorkflowSpec)))


def leaf(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool", "id": name, "tool": "t", **more}


def done(machine: WorkflowMachine, path: str, outcome: Any = "completed", position: int = 7, at: float = 0.0) -> None:
    """The leaf starts, if it has not, and ends."""
    if path in machine.ready:
        machine.started(path, 1)
    machine.finished(path, outcome, position, at)


@given(SEEDS)
def test_every_run_ends_whatever_happens_in_it_and_nothing_runs_on(seed: int) -> None:
    run = AnyRun(seed)
    steps_of(run)
    assert not run.machine.running
    assert not run.machine.ready
    assert run.state.workflow is not None
    assert not run.state.workflow.calls


@given(SEEDS)
def test_each_attempt_of_a_step_starts_once(seed: int) -> None:
    run = AnyRun(seed)
    steps_of(run)
    assert len(set(run.attempts)) == len(run.attempts)


@given(SEEDS, st.floats(0, 1))
def test_replaying_the_records_at_any_moment_gives_the_same_machine(seed: int, part: float) -> None:
    run = AnyRun(seed)
    total = steps_of(AnyRun(seed))
    for _ in range(int(total * part)):
        run.step()
    again = replayed(run.journal)
    assert again.workflow is not None
    assert run.state.workflow is not None
    assert again.workflow.machine.picture() == run.machine.picture()
    assert again.workflow.calls == run.state.workflow.calls
    assert again.facts == run.state.facts


@given(SEEDS)
def test_what_is_not_due_is_refused(seed: int) -> None:
    run = AnyRun(seed)
    steps_of(run)
    for path, attempt in run.attempts:
        assert refusal(run.state, StepStarted(path=path, attempt=attempt)) is not None
        assert refusal(run.state, StepFinished(path=path, attempt=attempt, outcome="completed")) is not None


def test_a_record_of_a_run_is_refused_in_a_conversation() -> None:
    assert refusal(State(), StepStarted(path="a")) == "this session is no workflow run"


def test_steps_of_a_sequence_start_one_after_the_other() -> None:
    machine = machine_of({"type": "sequence", "steps": [leaf("a"), leaf("b")]})
    assert list(machine.ready) == ["a"]
    done(machine, "a")
    assert list(machine.ready) == ["b"]
    done(machine, "b", position=9)
    assert machine.done is not None
    assert (machine.done.outcome, machine.done.place) == ("completed", 9)


def test_a_failed_step_ends_its_sequence_unless_it_is_tolerated() -> None:
    machine = machine_of({"type": "sequence", "steps": [leaf("a"), leaf("b")]})
    done(machine, "a", "failed", 5)
    assert machine.done is not None
    assert (machine.done.outcome, machine.done.place) == ("failed", 5)
    assert machine.errors == [("a", 5)]
    tolerant = machine_of({"type": "sequence", "steps": [leaf("a", on_error="continue"), leaf("b")]})
    done(tolerant, "a", "failed", 5)
    assert list(tolerant.ready) == ["b"]
    done(tolerant, "b")
    assert tolerant.done is not None
    assert tolerant.done.outcome == "completed"
    assert tolerant.failures == 1


def test_halting_stops_the_siblings_and_nothing_else() -> None:
    inner = {"type": "parallel", "branches": [leaf("a"), leaf("b"), leaf("c")], "max_concurrency": 2}
    machine = machine_of({"type": "parallel", "branches": [inner, leaf("far")], "on_error": "continue"})
    machine.listening = True
    for path in ("a", "b", "far"):
        machine.started(path, 1)
    done(machine, "a", "failed")
    assert list(machine.stops) == ["b"]
    assert "c" not in machine.ready, "what has not begun never does"
    done(machine, "b", "cancelled")
    assert machine.done is None
    done(machine, "far")
    assert machine.done is not None
    results = machine.done.place
    assert isinstance(results, Results)
    assert [results.outcome(0), results.outcome(1)] == ["failed", "completed"]


def test_a_parallel_that_continues_collects_what_failed() -> None:
    machine = machine_of({"type": "parallel", "branches": [leaf("a"), leaf("b")], "on_error": "continue"})
    done(machine, "a", "failed", 3)
    done(machine, "b", position=4)
    assert machine.done is not None
    assert (machine.done.outcome, machine.failures, machine.errors) == ("completed", 1, [("a", 3)])


def test_iterations_have_paths_of_their_own_and_run_as_many_at_once_as_allowed() -> None:
    body = {"type": "sequence", "steps": [leaf("a"), leaf("b")]}
    machine = machine_of(
        {"type": "foreach", "id": "each", "as": "x", "items": [1, 2, 3], "body": body, "max_concurrency": 2}
    )
    assert list(machine.ready) == ["each[0]/a", "each[1]/a"]
    done(machine, "each[1]/a")
    assert list(machine.ready) == ["each[0]/a", "each[1]/b"]
    done(machine, "each[1]/b")
    assert "each[2]/a" in machine.ready
    one_by_one = machine_of(
        {"type": "foreach", "id": "each", "as": "x", "items": [1, 2], "body": leaf("a"), "parallel": False}
    )
    assert list(one_by_one.ready) == ["each[0]/a"]


def test_how_many_items_there_are_may_be_decided_when_it_is_known() -> None:
    machine = machine_of({"type": "foreach", "id": "each", "as": "x", "items_from": "input", "body": leaf("a")})
    assert list(machine.ready) == ["each"]
    machine.decided("each", 2, 3)
    assert list(machine.ready) == ["each[0]/a", "each[1]/a"]
    broken = machine_of({"type": "foreach", "id": "each", "as": "x", "items_from": "input", "body": leaf("a")})
    broken.decided("each", {"error": "no list"}, 3)
    assert broken.done is not None
    assert (broken.done.outcome, broken.done.place, broken.errors) == ("failed", 3, [("each", 3)])


def test_a_loop_goes_on_until_it_is_done_or_has_no_iterations_left() -> None:
    loop = {"type": "loop", "id": "l", "body": leaf("a"), "max_iterations": 3, "judge": {"spec": {"name": "j"}}}
    machine = machine_of(loop)
    done(machine, "l[0]/a")
    assert list(machine.ready) == ["l[0]/judge~"]
    done(machine, "l[0]/judge~")
    assert list(machine.ready) == ["l[0]"]
    machine.decided("l[0]", False, 3)
    assert list(machine.ready) == ["l[1]/a"]
    done(machine, "l[1]/a")
    done(machine, "l[1]/judge~")
    machine.decided("l[1]", False, 3)
    done(machine, "l[2]/a", position=11)
    assert machine.done is not None, "the last iteration is not judged: nothing could come of it"
    assert (machine.done.outcome, machine.done.place) == ("completed", 11)


def test_retries_wait_and_a_fallback_gives_the_result_in_place_of_what_failed() -> None:
    machine = machine_of(leaf("a", retries=1, retry_delay_s=5.0, fallback=leaf("b")))
    done(machine, "a", "failed", at=100.0)
    again: Any = machine.ready["a"]
    assert (again.attempt, again.not_before) == (2, 105.0)
    machine.started("a", 2)
    done(machine, "a", "failed", at=200.0)
    assert list(machine.ready) == ["b"]
    done(machine, "b", position=21)
    assert machine.done is not None
    assert (machine.done.outcome, machine.done.place, machine.failures) == ("completed", 21, 0)
    assert machine.root.names["a"].place == 21


def test_a_branch_runs_the_case_that_was_decided() -> None:
    branch = {"type": "branch", "on": "input", "cases": {"x": leaf("a"), "y": leaf("b")}, "default": leaf("c")}
    for value, path in (("x", "a"), ("y", "b"), ("z", "c"), (None, "c")):
        machine = machine_of(branch)
        machine.decided("branch~1", value, 1)
        assert list(machine.ready) == [path]
    without = machine_of({"type": "branch", "on": "input", "cases": {"x": leaf("a")}})
    without.decided("branch~1", "z", 1)
    assert without.done is not None
    assert without.done.outcome == "skipped"


def test_what_ten_thousand_iterations_leave_behind_is_an_outcome_and_a_position_each() -> None:
    items = list(range(10_000))
    machine = machine_of({"type": "foreach", "id": "each", "as": "x", "items": items, "body": leaf("a")})
    for position in range(10_000):
        done(machine, next(iter(machine.ready)), position=position)
    assert machine.done is not None
    results = machine.done.place
    assert isinstance(results, Results)
    assert list(results.places) == items
    assert not isinstance(results.places, list)
    assert results.count("completed") == 10_000
    assert not machine.root.names["each"].hurts
    assert len(machine.root.names) == 1
