"""`loopwright workflow`: checking, running, leaving, resuming, looking, ending; as a person and as a script do."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.cli.command_line import CommandLine, Ended, until_exists

CREW = '''
import asyncio, pathlib
from loopwright import StatefulAgentLoop, tool
from loopwright.testing.cast import CastLLM

@tool(effect="pure")
async def look(where: str = "here") -> str:
    """Looks."""
    return f"seen {where}"

@tool(effect="pure")
async def fail() -> str:
    """Fails."""
    raise ValueError("no \\x1b[31msuch\\u202e server")

@tool(effect="pure")
async def hold() -> str:
    """Goes on once there is a file."""
    pathlib.Path("held").touch()
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return "held"

def make():
    return StatefulAgentLoop(llm=CastLLM({}), dsn="crew.db", tools=[look, fail, hold])
'''


def agent(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "agent", "id": name, "spec": {"name": name, "system_prompt": "x"}, **more}


def tool(name: str, does: str = "look", **more: Any) -> dict[str, Any]:
    return {"type": "tool", "id": name, "tool": does, **more}


@pytest.fixture
def crew(tmp_path: Path) -> CommandLine:
    """A command line beside a module with a loop that needs no model."""
    (tmp_path / "crew.py").write_text(CREW)
    return CommandLine(tmp_path)


def written(line: CommandLine, *steps: dict[str, Any], name: str = "flow") -> str:
    spec = {"name": name, "root": {"type": "sequence", "steps": list(steps)}}
    (line.folder / f"{name}.json").write_text(json.dumps(spec))
    return f"{name}.json"


def run_of(ended: Ended) -> str:
    found = re.search(r"run (run_\w+)", ended.err)
    assert found, ended.err
    return found[1]


def test_every_problem_of_a_workflow_is_said_with_its_place(without_model: CommandLine) -> None:
    bad = json.dumps(
        {"name": "no good", "root": {"type": "sequence", "steps": [{"type": "tool", "id": "a", "tol": 1}, 7]}}
    )
    said = without_model("workflow", "validate", "-", stdin=bad)
    listed = without_model("workflow", "validate", "-", "--json", stdin=bad)
    assert (said.code, listed.code, listed.json["valid"]) == (2, 2, False)
    assert [line.partition(": ")[0] for line in said.out.splitlines()] == [
        one["path"] for one in listed.json["problems"]
    ]
    assert {"name", "root.steps[0].tol", "root.steps[1]"} <= {one["path"] for one in listed.json["problems"]}
    assert without_model("workflow", "validate", written(without_model, tool("a"))).code == 0
    assert "is not JSON" in without_model("workflow", "validate", "-", stdin="{").err
    started = without_model("workflow", "run", "-", "--model", "echo:", stdin=bad)
    assert (started.code, "nothing was started" in started.err) == (2, True)
    assert not (without_model.folder / ".loopwright").exists()


def test_a_run_gives_its_output_and_is_listed_and_shown(loopwright: CommandLine) -> None:
    each = {
        "type": "foreach",
        "id": "each",
        "as": "n",
        "items_from": "input.list",
        "body": agent("say", input="n is {{n}}"),
    }
    file = written(loopwright, each, agent("end", input="{{input.word}}"))
    done = loopwright("workflow", "run", file, "--input", '{"list": [1, 2], "word": "bye"}')
    assert (done.code, done.out) == (0, "you said bye\n")
    assert "  < each[1]/say completed: you said n is 2\n" in done.err
    assert "completed · 3 steps" in done.err
    run_id = run_of(done)
    assert [(one["run_id"], one["state"]) for one in loopwright("workflow", "list", "--json").json] == [
        (run_id, "completed")
    ]
    assert loopwright("workflow", "list", "--status", "failed").err == "loopwright: no failed runs\n"
    tree = loopwright("workflow", "show", "last").out
    assert "├─ ✓ each · 2/2" in tree
    nodes = {one["key"]: one for one in loopwright("workflow", "show", run_id, "--json").json["nodes"]}
    assert (nodes["say"]["parent"], nodes["say"]["counts"]) == ("each", {"completed": 2})
    again = loopwright("workflow", "resume", run_id, "--json")
    assert (again.code, again.json["final_text"], again.json["failures"]) == (0, "you said bye", 0)


def test_pictures_are_written_of_a_file_and_of_a_run(loopwright: CommandLine) -> None:
    file = written(loopwright, agent("end"))
    assert loopwright("workflow", "show", file, "--mermaid", "-").out.startswith("flowchart TB\n")
    loopwright("workflow", "run", file, "--input", "hello")
    shown = loopwright("workflow", "show", "last", "--svg", "a.svg", "--mermaid", "a.mmd")
    assert shown.code == 0
    assert "✓ completed" in "".join(ET.parse(loopwright.folder / "a.svg").getroot().itertext())
    assert "class n1 completed" in (loopwright.folder / "a.mmd").read_text()
    refused = loopwright("workflow", "show", file, "--svg", "nowhere/a.svg")
    assert (refused.code, "cannot write nowhere/a.svg" in refused.err) == (2, True)


def test_a_question_in_a_pipe_says_how_it_is_answered(loopwright: CommandLine) -> None:
    ask = {"type": "approve", "id": "ok", "prompt": "Go on?", "options": ["yes", "no"]}
    asked = loopwright.process("workflow", "run", written(loopwright, ask, agent("end", input="{{ok}}")))
    assert asked.code == 3
    run_id = run_of(asked)
    assert f"loopwright workflow resume {run_id} --answer TEXT" in asked.err
    assert loopwright("workflow", "list", "--status", "waiting", "--json").json[0]["run_id"] == run_id
    assert "does not fit" in loopwright("workflow", "resume", "last", "--answer", "perhaps").err
    done = loopwright("workflow", "resume", "last", "--answer", "yes")
    assert (done.code, done.out) == (0, "you said yes\n")
    assert "  > ok" not in done.err, "what was before is no news"


def test_a_question_is_asked_in_place_and_the_tree_is_drawn(loopwright: CommandLine) -> None:
    ask = {"type": "approve", "id": "ok", "prompt": "Go on?", "options": ["yes", "no"]}
    file = written(loopwright, ask, agent("end", input="{{ok}}"))
    with loopwright.terminal("workflow", "run", file) as terminal:
        terminal.until("leave it open)")
        terminal.type("maybe\n")
        terminal.until("that does not fit")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert "◐ ok" in terminal.text
    assert terminal.text.count("├─ ✓ ok") >= 1
    assert terminal.text.rstrip().endswith("you said yes")
    assert terminal.drawn.count("\x1b[?25l") == terminal.drawn.count("\x1b[?25h"), "the cursor is back"


def test_ctrl_c_leaves_a_run_that_is_resumed_where_it_was(crew: CommandLine) -> None:
    file = written(crew, tool("a"), tool("b", "hold"), {"type": "wait", "id": "w", "signal": "go"}, tool("c"))
    with crew.terminal("workflow", "run", file, "--agent-module", "crew:make") as terminal:
        terminal.until("● b")
        until_exists(crew.folder / "held")
        terminal.type("\x03")
        assert terminal.end() == 130
    assert "go on: loopwright workflow resume run_" in terminal.text.replace("\n", " ")
    assert crew("workflow", "list", "--db", "crew.db", "--json").json[0]["state"] == "interrupted"
    watched = crew("workflow", "show", "last", "--db", "crew.db", "--watch")
    assert "flow  interrupted" in watched.out, "nobody would ever move it on"
    assert "no process runs it any more; go on: loopwright workflow resume run_" in watched.err
    (crew.folder / "go").touch()
    told = crew("workflow", "signal", "last", "go", '{"a": 1}', "--db", "crew.db")
    assert (told.code, "signal 'go' is stored" in told.err) == (0, True)
    done = crew.process("workflow", "resume", "last", "--agent-module", "crew:make")
    assert (done.code, done.out) == (0, "seen here\n")
    assert "  > a" not in done.err
    assert "  < c finished: seen here" in done.err
    nodes = {one["key"]: one for one in crew("workflow", "show", "last", "--db", "crew.db", "--json").json["nodes"]}
    assert nodes["w"]["text"] == '{"a":1}'
    late = crew("workflow", "signal", "last", "go", "--db", "crew.db")
    assert (late.code, "is completed" in late.err) == (2, True)


def test_a_run_in_the_background_is_followed_and_ended(crew: CommandLine) -> None:
    file = written(crew, tool("a"), tool("b", "hold"))
    started = crew.process("workflow", "run", file, "--agent-module", "crew:make", "--detach")
    run_id = started.out.strip()
    assert started.code == 0
    until_exists(crew.folder / "held")
    with crew.terminal("workflow", "show", run_id, "--db", "crew.db", "--watch") as terminal:
        terminal.until("● b")
        ended = crew("workflow", "cancel", run_id[:-6], "--db", "crew.db", "--reason", "wrong day")
        assert (ended.code, "was asked to stop" in ended.err) == (0, True)
        assert terminal.end() == 0
    assert "◌ b" in terminal.text
    assert "  cancelled: wrong day\n" in crew("workflow", "show", run_id, "--db", "crew.db").out
    unknown = crew("workflow", "show", "run_of_nobody_at_all", "--db", "crew.db")
    assert (unknown.code, "`loopwright workflow list --db crew.db`" in unknown.err) == (2, True)
    assert (
        "loopwright workflow resume"
        in crew("sessions", "resume", run_id, "--answer", "x", "--db", "crew.db", "--model", "echo:").err
    )
    assert crew("workflow", "list", "--db", "crew.db", "--json").json[0]["state"] == "cancelled"


def test_a_failure_is_said_without_driving_the_terminal(crew: CommandLine) -> None:
    done = crew.process("workflow", "run", written(crew, tool("a", "fail")), "--agent-module", "crew:make")
    assert (done.code, done.out) == (1, "")
    assert "step a failed: ValueError: no [31msuch server" in done.err.replace("  ", " ")
    assert "\x1b" not in done.err
    shown = crew("workflow", "show", "last", "--db", "crew.db")
    assert "  ✗ a: ValueError: no [31msuch server\n" in shown.out.replace("  server", " server")
    again = crew("workflow", "resume", "last", "--db", "crew.db")
    assert (again.code, "the run is failed: step a failed" in again.err) == (1, True), "no model is needed for that"
    unknown = crew.process("workflow", "run", written(crew, tool("a", "lok")), "--agent-module", "crew:make")
    assert (unknown.code, 'root.steps[0].tool: unknown tool "lok"' in unknown.err) == (2, True)


def test_a_foreach_of_many_items_is_a_few_lines_in_a_pipe(crew: CommandLine) -> None:
    each = {
        "type": "foreach",
        "id": "each",
        "as": "n",
        "items": list(range(300)),
        "max_concurrency": 20,
        "body": tool("a"),
    }
    done = crew.process("workflow", "run", written(crew, each), "--agent-module", "crew:make", "--json")
    assert (done.code, len(done.json["output"]["items"])) == (0, 300)
    assert "  = each 300/300\n" in done.err
    assert len(done.err.splitlines()) <= 14


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_of_a_tree_is_wider_than_the_terminal(loopwright: CommandLine, width: int) -> None:
    steps = [agent("a_name_that_goes_on_and_on_until_nobody_knows_where_it_began", input="日本語" * 40), agent("b")]
    loopwright("workflow", "run", written(loopwright, {"type": "parallel", "id": "both", "branches": steps}))
    loopwright.env |= {"COLUMNS": str(width), "NO_COLOR": "1"}
    with loopwright.terminal("workflow", "show", "last") as terminal:
        assert terminal.end() == 0
    lines = terminal.text.splitlines()
    assert len(lines) == 4
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "\x1b[3" not in terminal.drawn
