"""`loopwright inbox`: what waits for a person, and the answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.scenario.cli.command_line import CommandLine, session_of

from loopwright import AgentHooks, AgentLoopConfig, HookPoint, StatefulAgentLoop, tool
from loopwright.ports.hook import ToolBeforeContext
from loopwright.testing import ScriptedLLM, calls


def asked(loopwright: CommandLine, prompt: str) -> tuple[str, list[str]]:
    """A session that waits after this prompt, and the ids of its questions."""
    ended = loopwright("run", prompt, "--no-stream")
    assert ended.code == 3, ended
    found = loopwright("inbox", "list", "--json").json["questions"]
    session = session_of(ended)
    return session, [one["question"]["id"] for one in found if one["session_id"] == session]


def test_an_empty_inbox_says_so(loopwright: CommandLine) -> None:
    assert loopwright("inbox", "list").code == 2  # no store yet, and looking makes none
    loopwright("run", "hello")
    listed = loopwright("inbox", "list")
    assert (listed.code, listed.out) == (0, "")
    assert "nobody is asked" in listed.err


def test_questions_are_listed_shown_and_answered_by_the_beginning_of_their_id(loopwright: CommandLine) -> None:
    session, [question] = asked(loopwright, "ask")
    other, _ = asked(loopwright, "form")
    listed = loopwright("inbox", "list").out.splitlines()
    assert len(listed) == 3
    assert question in listed[1]
    assert "\x1b" not in loopwright("inbox", "list").out
    shown = loopwright("inbox", "show", question[:12]).out
    for words in (session, "Which colour?", "1 red", "2 blue", f"loopwright inbox answer {question}"):
        assert words in shown
    answered = loopwright("inbox", "answer", question[:12], "2")
    assert (answered.code, answered.out) == (0, "you said ask; results: blue\n")
    again = loopwright("inbox", "answer", question, "red")
    assert (again.code, "it was answered, or never asked" in again.err) == (2, True)
    assert [one["session_id"] for one in loopwright("inbox", "list", "--json").json["questions"]] == [other]


def test_a_form_is_filled_by_fields_and_what_does_not_fit_leaves_it_open(loopwright: CommandLine) -> None:
    _, [question] = asked(loopwright, "form")
    shown = loopwright("inbox", "show", "last").out
    assert "seats (whole number, at least 1, at most 9, needed)" in shown
    assert "\x1b" not in shown
    for words, why in (
        (["--field", "name=Ann"], "seats"),
        (["--field", "name=Ann", "--field", "seats=many"], "seats: a whole number"),
        (["--field", "name=Ann", "--field", "seats=12"], "$.seats"),
        (["--field", "chairs=1"], "name=value"),
        (["Ann"], "a JSON object"),
        (["--approve"], "no approval"),
        (["x", "--field", "name=Ann"], "one answer"),
        ([], "nobody can be asked here"),
    ):
        wrong = loopwright("inbox", "answer", question, *words)
        assert (wrong.code, why in wrong.err) == (2, True), wrong
    right = loopwright("inbox", "answer", question, "--field", "name=Ann", "--field", "seats=2", "--json")
    assert right.json["final_text"] == 'you said form; results: {"name":"Ann","seats":2,"inside":true}'


def test_two_questions_of_one_session_are_answered_one_by_one_in_any_order(loopwright: CommandLine) -> None:
    _, [sure, name] = asked(loopwright, "both")
    first = loopwright("inbox", "answer", name, "Bob")
    assert (first.code, "Sure?" in first.err) == (3, True)
    assert loopwright("inbox", "answer", sure, "y").out == "you said both; results: true | Bob\n"


def test_an_answer_may_only_be_stored_and_a_worker_goes_on(loopwright: CommandLine) -> None:
    session, [question] = asked(loopwright, "ask")
    stored = loopwright("inbox", "answer", question, "red", "--no-run", "--json")
    assert stored.json == {"session_id": session, "question_id": question, "status": "answered"}
    assert loopwright("inbox", "answer", question, "blue", "--no-run").code == 2
    assert loopwright("worker", "--once").code == 0
    assert "results: red" in loopwright("sessions", "show", session).out


async def other_program(path: Path) -> str:
    """A session of another program's agent that waits for an approval."""
    hooks = AgentHooks()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def approve(context: ToolBeforeContext) -> None:
        if not context.answered:
            context.ask("May it?")

    @tool(effect="once")
    async def push(branch: str, message: str) -> str:
        """Push."""
        return f"pushed {branch}"

    step = calls(("push", {"branch": "main", "message": "one\ntwo\x1b[31m"}))
    config = AgentLoopConfig(agent_name="deployer")
    async with StatefulAgentLoop(llm=ScriptedLLM([step]), dsn=path, tools=[push], hooks=hooks, config=config) as loop:
        return (await loop.send("go")).session_id


def test_an_approval_of_another_program_is_shown_with_its_arguments_and_stored_for_it(
    without_model: CommandLine,
) -> None:
    path = without_model.folder / "s.db"
    session = asyncio.run(other_program(path))
    shown = without_model("inbox", "show", "last", "--db", str(path)).out
    for words in ("agent deployer, tool push", "branch: main", "message:\n        one\n        two", "--approve"):
        assert words in shown
    assert "\x1b" not in shown
    for words, why in (
        (["--approve", "--always", "session"], "suggests no rule"),
        (["--approve", "--always", "ever"], "session or project"),
        (["--edit", "{"], "one JSON object"),
        (["--approve", "--deny"], "one answer"),
        (["--message", "no"], "--message belongs to --deny"),
    ):
        wrong = without_model("inbox", "answer", "last", *words, "--db", str(path))
        assert (wrong.code, why in wrong.err) == (2, True), wrong
    answered = without_model("inbox", "answer", "last", "--approve", "--db", str(path))
    assert (answered.code, "agent 'deployer' goes on" in answered.err) == (0, True)
    assert without_model("inbox", "list", "--db", str(path)).out == ""
    assert "interrupted" in without_model("sessions", "list", "--db", str(path)).out
    assert session in without_model("sessions", "list", "--db", str(path)).out


@pytest.mark.parametrize("question, why", [("ask_1", "too short"), ("ask_ffffffffffff", "no open question")])
def test_a_question_that_cannot_be_meant_is_said(loopwright: CommandLine, question: str, why: str) -> None:
    _, [known] = asked(loopwright, "ask")
    wrong = loopwright("inbox", "answer", known[:6] if question == "ask_1" else question, "red")
    assert (wrong.code, why in wrong.err) == (2, True), wrong


def test_a_form_is_asked_field_by_field_on_a_terminal(loopwright: CommandLine) -> None:
    with loopwright.terminal("run", "form", "--no-stream") as terminal:
        terminal.until("name (text, needed)")
        terminal.type("Ann\n")
        terminal.until("seats (")
        terminal.type("twelve\n")
        terminal.until("that does not fit: a whole number")
        terminal.type("3\n")
        terminal.until("2 dinner")
        terminal.type("2\n")
        terminal.until("inside (yes or no) [true]")
        terminal.type("\n")
        assert terminal.end() == 0
        assert '"name":"Ann","seats":3,"meal":"dinner","inside":true' in terminal.text.replace("\n", "")
        assert "\x1b[31ma table" not in terminal.drawn
