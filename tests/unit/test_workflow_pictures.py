"""Pictures of workflows: well-formed whatever a spec or an agent says, and true to what happened."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import workflow
from loopwright.model.records import SendFinished
from loopwright.model.workflow_records import NodeDecided, StepFinished, StepStarted, WorkflowStarted
from loopwright.workflow.picture_marks import Mark

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "title", "style", "defs", "marker", "path", "rect", "text", "g"}

LINE = re.compile(
    r"flowchart TB"
    r'| +n\d+(\["|\[\["|\[/"|\(\["|\{\{"|\{")[^"`<>{}\[\]|]*(<br/>[^"`<>{}\[\]|]*)*("\]|"\]\]|"/\]|"\]\)|"\}\}|"\})'
    r'| +subgraph n\d+ \["[^"`<>{}\[\]|]*(<br/>[^"`<>{}\[\]|]*)*"\]'
    r"| +direction TB| +end"
    r'| +n\d+ (-->|-\.->)(\|"[^"`<>{}\[\]|]*"\|)? n\d+'
    r"| +classDef [a-z]+ [a-z0-9#:,\- ]+| +class n\d+(,n\d+)* [a-z]+"
)

WORDS = st.text(max_size=40) | st.sampled_from(
    [
        '"]; click n1 "javascript:x"',
        "</text><script>x</script>",
        "\x1b[31m",
        "]]>",
        "&lt;",
        "`md`",
        "#quot;",
        "\u202e",
        "end",
    ]
)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool", "id": name, "tool": "look", **more}


def agent(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "agent", "id": name, "spec": {"name": name, "system_prompt": "x"}, **more}


def flow(*steps: dict[str, Any]) -> Any:
    return workflow.parse_workflow_spec({"name": "flow", "root": {"type": "sequence", "steps": list(steps)}})


def each(body: dict[str, Any], count: int = 3, **more: Any) -> dict[str, Any]:
    return {"type": "foreach", "id": "each", "as": "item", "items": list(range(count)), "body": body, **more}


def marks_of(spec: Any, *records: Any) -> Any:
    marks = workflow.RunMarks(spec)
    marks.hear(WorkflowStarted(spec={}), 100.0)
    for number, record in enumerate(records):
        marks.hear(record, 100.0 + number)
    return marks


def mark(marks: Any, key: str) -> Mark:
    found: Mark = marks.mark(marks.nodes[key])
    return found


def began(path: str, **more: Any) -> StepStarted:
    return StepStarted(path=path, **more)


def ended(path: str, outcome: Any = "completed", **more: Any) -> StepFinished:
    return StepFinished(path=path, outcome=outcome, **more)


@st.composite
def nodes(draw: st.DrawFn, numbers: Any, depth: int = 3) -> dict[str, Any]:
    name = f"n{next(numbers)}"
    kinds = (
        ["approve", "wait"]
        if depth == 0
        else ["approve", "wait", "sequence", "parallel", "foreach", "loop", "branch", "workflow"]
    )
    kind = draw(st.sampled_from(kinds))
    inside = nodes(numbers, depth - 1)
    if kind == "approve":
        return {
            "type": kind,
            "id": name,
            "prompt": "?" + draw(WORDS),
            **({"fallback": draw(inside)} if depth and draw(st.booleans()) else {}),
        }
    if kind == "wait":
        return {"type": kind, "id": name, "seconds": draw(st.floats(0, 1e6))}
    if kind in ("sequence", "parallel"):
        word = "steps" if kind == "sequence" else "branches"
        return {"type": kind, word: draw(st.lists(inside, min_size=1, max_size=4))}
    if kind == "foreach":
        return {"type": kind, "id": name, "as": f"v{name}", "items": [1], "body": draw(inside)}
    if kind == "loop":
        judge = {"spec": {"name": "critic", "system_prompt": "x"}}
        return {"type": kind, "id": name, "max_iterations": 2, "judge": judge, "body": draw(inside)}
    if kind == "branch":
        return {
            "type": kind,
            "on": "text " + draw(WORDS).replace("{", ""),
            "cases": draw(st.dictionaries(WORDS, inside, min_size=1, max_size=3)),
        }
    return {"type": kind, "id": name, "workflow": {"name": "inner", "root": draw(inside)}}


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    numbers = iter(range(10_000))
    return {"name": "flow", "description": draw(WORDS), "root": draw(nodes(numbers))}


def valid(spec: dict[str, Any]) -> bool:
    return not workflow.problems_of(spec)


@given(specs().filter(valid), WORDS, st.sampled_from(["failed", "completed", "running"]))
def test_every_picture_is_well_formed_whatever_a_spec_or_an_agent_says(
    spec: dict[str, Any], said: str, status: str
) -> None:
    leaves = [node.key for node in workflow.RunMarks(workflow.parse_workflow_spec(spec)).picture.walk() if node.is_leaf]
    steps = [
        SimpleNamespace(
            path=key, status=status, attempt=2, started_at=1.0, finished_at=2.0, child_id=said, error_message=said
        )
        for key in leaves
        if "/" not in key
    ]
    root = ET.fromstring(workflow.svg(spec, steps, now=3.0))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= DRAWN
    assert all(not name.startswith("on") and "href" not in name for element in root.iter() for name in element.attrib)
    lines = workflow.mermaid(spec, steps).splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert sum(" subgraph " in line for line in lines) == sum(line.strip() == "end" for line in lines)


@given(specs().filter(valid))
def test_no_box_lies_outside_of_the_picture(spec: dict[str, Any]) -> None:
    root = ET.fromstring(workflow.svg(spec))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = [float(rect.attrib.get(name, 0)) for name in ("x", "y", "width", "height")]
        assert x >= 0 <= y
        assert x + w <= width + 0.2
        assert y + h <= height + 0.2


def test_a_picture_of_a_thousand_nodes_is_as_long_as_they_are_many() -> None:
    def wide(count: int) -> Any:
        branches = [tool(f"{side}{number}") for side in "ab" for number in range(count)]
        fans = [{"type": "parallel", "branches": branches[:count]}, {"type": "parallel", "branches": branches[count:]}]
        return flow(*fans)

    assert len(workflow.mermaid(wide(400))) < 12 * len(workflow.mermaid(wide(40)))
    assert len(workflow.svg(wide(400))) < 12 * len(workflow.svg(wide(40)))


def test_a_foreach_says_how_many_items_are_done() -> None:
    spec = flow(each({"type": "sequence", "steps": [tool("a"), tool("b")]}, count=4))
    records: list[Any] = [
        began("each[0]/a"),
        began("each[1]/a"),
        ended("each[0]/a"),
        began("each[0]/b"),
    ]
    marks = marks_of(spec, *records)
    assert (mark(marks, "each").done, mark(marks, "each").total, mark(marks, "each").status) == (0, 4, "running")
    marks = marks_of(spec, *records, ended("each[0]/b"), ended("each[1]/a", "failed"))
    assert (mark(marks, "each").done, mark(marks, "a").counts) == (2, {"completed": 1, "failed": 1})
    assert "● running · 2/4" in workflow.mermaid(spec, marks)
    assert ">2/4</text>" in workflow.svg(spec, marks)


def test_items_that_a_step_gave_are_counted_once_they_are_known() -> None:
    spec = workflow.parse_workflow_spec(
        {
            "name": "flow",
            "root": {**{k: v for k, v in each(tool("a")).items() if k != "items"}, "items_from": "input.list"},
        }
    )
    marks = marks_of(spec, NodeDecided("each", 2), began("each[0]/a"), ended("each[0]/a"))
    assert (mark(marks, "each").done, mark(marks, "each").total) == (1, 2)
    marks = marks_of(spec, NodeDecided("each", {"error": "no list\x1b[2J"}))
    assert (mark(marks, "each").status, mark(marks, "each").text) == ("failed", "no list [2J")


def test_an_attempt_that_failed_is_followed_by_another_before_a_step_has_failed() -> None:
    spec = flow(tool("a", retries=1, fallback=tool("b")), tool("c"))
    once = [began("a"), ended("a", "failed", error_message="no")]
    assert mark(marks_of(spec, *once), "a").status == "waiting"
    twice = [*once, began("a", attempt=2), ended("a", "failed", attempt=2, error_message="no")]
    marks = marks_of(spec, *twice, began("b"), ended("b"), began("c"))
    assert [mark(marks, key).status for key in "abc"] == ["failed", "completed", "running"]
    assert (mark(marks, "a").attempt, mark(marks, "a").counts) == (2, {"failed": 1})
    assert mark(marks, marks.picture.key).status == "running"


def test_a_failure_that_is_tolerated_does_not_make_its_container_fail() -> None:
    inside = {"type": "parallel", "id": "both", "branches": [tool("a", on_error="continue"), tool("b")]}
    marks = marks_of(flow(inside), began("a"), began("b"), ended("a", "failed"), ended("b"))
    assert (mark(marks, "a").status, mark(marks, "both").status) == ("failed", "completed")
    strict = {**inside, "branches": [tool("a"), tool("b")]}
    marks = marks_of(flow(strict), began("a"), began("b"), ended("a", "failed"), ended("b", "cancelled"))
    assert mark(marks, "both").status == "failed"


def test_a_loop_says_which_round_it_is_in_and_ends_when_it_was_decided() -> None:
    loop = {"type": "loop", "id": "again", "max_iterations": 5, "until": "a", "body": tool("a")}
    records: list[Any] = [
        began("again[0]/a"),
        ended("again[0]/a"),
        NodeDecided("again[0]", False),
        began("again[1]/a"),
    ]
    marks = marks_of(flow(loop), *records)
    assert (mark(marks, "again").iteration, mark(marks, "again").status) == (2, "running")
    marks = marks_of(flow(loop), *records, ended("again[1]/a"), NodeDecided("again[1]", True))
    assert mark(marks, "again").status == "completed"


def test_the_judge_of_a_loop_has_a_mark_of_its_own() -> None:
    judge = {"spec": {"name": "critic", "system_prompt": "x"}}
    loop = {"type": "loop", "id": "again", "max_iterations": 5, "judge": judge, "body": tool("a")}
    marks = marks_of(flow(loop), began("again[0]/a"), ended("again[0]/a"), began("again[0]/judge~"))
    assert (mark(marks, "a").status, mark(marks, "again/judge~").status) == ("completed", "running")


def test_a_run_that_ended_leaves_nothing_running() -> None:
    spec = flow(tool("a"), {"type": "parallel", "id": "both", "branches": [tool("b"), tool("c")]}, tool("d"))
    stopped = SendFinished(outcome="cancelled", rounds=0)
    marks = marks_of(spec, began("a"), ended("a"), began("b"), ended("b", "cancelled"), stopped)
    statuses = {key: mark(marks, key).status for key in ("a", "b", "both", "c", "d")}
    assert statuses == {"a": "completed", "b": "cancelled", "both": "cancelled", "c": "pending", "d": "pending"}
    assert not marks.live


def test_what_is_in_a_sub_workflow_is_drawn_with_the_marks_of_its_own_run() -> None:
    inner = {"name": "inner", "root": tool("a")}
    spec = flow({"type": "workflow", "id": "sub", "workflow": inner})
    marks = marks_of(spec, began("sub", child_id="sess_x"))
    assert (mark(marks, "sub/a").status, marks.children) == ("pending", {"sub": "sess_x"})
    marks.inside["sub"] = marks_of(workflow.parse_workflow_spec(inner), began("a"))
    assert mark(marks, "sub/a").status == "running"


@pytest.mark.parametrize("status", ["completed", "failed", "running", "waiting", "skipped", "cancelled"])
def test_every_status_has_a_colour_in_light_and_in_dark(status: str) -> None:
    step = SimpleNamespace(
        path="a", status=status, attempt=1, started_at=1.0, finished_at=2.0, child_id=None, error_message=None
    )
    picture = workflow.svg(flow(agent("a")), [step])
    assert f'<g class="{status}">' in picture
    assert picture.count(f".{status} .said{{") == 2
    assert f"class n1 {status}" in workflow.mermaid(flow(agent("a")), [step])
