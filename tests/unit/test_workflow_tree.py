"""The tree of a run on a terminal: what stands on a line, and what is left out where there is no room."""

from __future__ import annotations

from typing import Any

from loopwright import workflow
from loopwright.cli.workflow_tree import tree_lines, without_signs
from loopwright.model.workflow_records import NodeDecided, StepFinished, StepStarted, WorkflowStarted

SPEC: dict[str, Any] = {
    "name": "notes",
    "root": {
        "type": "sequence",
        "steps": [
            {"type": "agent", "id": "gather", "spec": {"name": "researcher", "system_prompt": "x"}},
            {
                "type": "parallel",
                "id": "both",
                "branches": [
                    {"type": "tool", "id": "search", "tool": "search", "retries": 1, "fallback": {"type": "tool", "id": "guess", "tool": "look"}},
                    {"type": "foreach", "id": "files", "as": "file", "items": list(range(40)), "body": {"type": "tool", "id": "read", "tool": "read"}},
                ],
            },
            {"type": "branch", "on": "gather", "cases": {"big": {"type": "approve", "id": "ok", "prompt": "Publish?"}}},
        ],
    },
}  # fmt: skip

WIDE = """\
├─ ✓ gather · 4.0 s · agent researcher · Found 12 things
├─ ● both · 6.0 s · parallel
│  ├─ ✗ search · attempt 2 · 1.0 s · no server · tool search
│  │  └─ ● if it fails: guess · 5.0 s · tool look
│  └─ ● files · 2/40 · 6.0 s · foreach file in 40 items, 5 at once
│     └─ ● read · 2 ✓ 1 ● · tool read · text
└─ ○ branch · on gather
   └─ ○ big: ok · asks: Publish?"""

NARROW = """\
├─ ✓ gather · 4.0 s
├─ ● both · 6.0 s
│  ├─ ✗ search · attempt 2 · 1.0 s · no…
│  │  └─ ● if it fails: guess · 5.0 s
│  └─ ● files · 2/40 · 6.0 s
│     └─ ● read · 2 ✓ 1 ●
└─ ○ branch · on gather
   └─ ○ big: ok · asks: Publish?"""

FOLDED = """\
├─ ✓ gather · 4.0 s
├─ ● both · 6.0 s
│  ├─ ✗ search · attempt 2 · 1.0 s · no…
│  │  └─ ● if it fails: guess · 5.0 s
│  └─ ● files · 2/40 · 6.0 s
│     └─ ● read · 2 ✓ 1 ●
└─ ○ branch · on gather"""


def under_way() -> workflow.RunMarks:
    marks = workflow.RunMarks(workflow.parse_workflow_spec(SPEC))
    records: list[tuple[float, Any]] = [
        (0, WorkflowStarted(spec=SPEC)),
        (0, StepStarted(path="gather", child_id="sess_a")),
        (4, StepFinished(path="gather", outcome="completed", text="Found\n12 things")),
        (4, StepStarted(path="search")),
        *[(4, StepStarted(path=f"files[{number}]/read")) for number in range(3)],
        (4, StepFinished(path="search", outcome="failed", error_message="no server")),
        (4, StepStarted(path="search", attempt=2)),
        (5, StepFinished(path="search", outcome="failed", attempt=2, error_message="no server")),
        (5, StepStarted(path="guess")),
        *[(6, StepFinished(path=f"files[{number}]/read", outcome="completed", text="text")) for number in range(2)],
    ]
    for at, record in records:
        marks.hear(record, 1000.0 + at)
    return marks


def shown(marks: workflow.RunMarks, width: int, room: int | None = None) -> str:
    return "\n".join(line.plain for line in tree_lines(marks, width=width, room=room, now=1010.0))


def test_a_tree_says_on_each_line_what_came_of_a_node() -> None:
    assert shown(under_way(), 80) == WIDE


def test_a_narrow_tree_keeps_what_changes() -> None:
    assert shown(under_way(), 40) == NARROW


def test_where_there_are_too_few_lines_what_does_not_go_on_is_folded_first() -> None:
    assert shown(under_way(), 40, room=7) == FOLDED
    short = shown(under_way(), 40, room=4).splitlines()
    assert len(short) == 4
    assert any("●" in line for line in short)
    assert short[-1].endswith("more lines")


def test_a_tree_can_be_written_where_there_are_no_signs() -> None:
    plain = without_signs(shown(under_way(), 80), "ascii")
    assert plain.isascii()
    assert "|- + gather - 4.0 s" in plain
    assert without_signs(WIDE, "utf-8") == WIDE


def test_a_decision_that_failed_is_said_on_the_line_of_its_node() -> None:
    marks = under_way()
    marks.hear(NodeDecided("branch~8", {"error": "no such\x1b[2J value"}), 1007.0)
    assert "✗ branch · no such [2J value" in shown(marks, 80)


def test_the_words_of_one_item_never_stand_beside_the_session_of_another() -> None:
    marks = under_way()
    for number, child in ((10, "sess_ten"), (11, "sess_eleven")):
        marks.hear(StepStarted(path=f"files[{number}]/read", child_id=child), 1007.0)
    marks.hear(StepFinished(path="files[10]/read", outcome="completed", text="of ten"), 1008.0)
    assert "of ten · sess_ten" in shown(marks, 120)
    marks.hear(StepFinished(path="files[11]/read", outcome="failed", error_message="no file"), 1009.0)
    assert marks.failures[-1] == ("files[11]/read", "no file")
