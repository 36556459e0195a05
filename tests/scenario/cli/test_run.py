"""`loopwright run`: streams, exit codes, shapes."""

from __future__ import annotations

import json

import pytest
from tests.scenario.cli.command_line import CommandLine, session_of

from loopwright.cli.exit_codes import code_of_error, words_of
from loopwright.model.errors import AgentUnavailableError


def test_in_a_pipe_the_answer_is_on_standard_output_and_the_rest_on_standard_error(loopwright: CommandLine) -> None:
    done = loopwright.process("run", "files", "--no-stream")
    assert done.code == 0
    assert (
        done.out
        == "you said files; results: a.md | 'missing.md' does not exist in the workspace "
        + str(loopwright.folder)
        + "\n"
    )
    assert '> glob(pattern="*.md")' in done.err
    assert "x read_file failed" in done.err
    assert "[completed · 2 rounds" in done.err
    assert "\x1b" not in done.out + done.err


def test_a_streamed_reply_is_written_once(loopwright: CommandLine) -> None:
    assert loopwright("run", "hello").out == "you said hello\n"


def test_the_prompt_may_come_from_standard_input(loopwright: CommandLine) -> None:
    assert loopwright.process("run", "-", stdin="from a pipe").out == "you said from a pipe\n"


def test_a_session_goes_on_by_its_id_and_by_last(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "one"))
    assert session_of(loopwright("run", "two", "--session", sid)) == sid
    assert session_of(loopwright("run", "three", "--session", "last")) == sid
    assert loopwright("sessions", "list", "--json").json[0]["sends"] == 3


def test_json_is_one_result(loopwright: CommandLine) -> None:
    done = loopwright("run", "hello", "--json")
    result = done.json
    assert set(result) == {
        "session_id", "status", "exit_code", "final_text", "rounds", "usage", "output", "pending_tool_calls",
        "pending_interactions", "error_code", "error_message",
    }  # fmt: skip
    assert (result["status"], result["exit_code"], result["final_text"]) == ("completed", 0, "you said hello")
    assert result["usage"]["calls"] == 1


def test_events_are_json_lines_and_the_last_one_ends_the_run(loopwright: CommandLine) -> None:
    events = [json.loads(line) for line in loopwright("run", "files", "--events").out.splitlines()]
    assert events[0]["type"] == "run_started"
    assert events[-1]["type"] == "run_ended"
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert {"tool_call_started", "tool_call_completed", "stream_delta"} <= {e["type"] for e in events}


def test_the_same_send_id_returns_the_stored_result(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "one"))
    first = loopwright("run", "pay", "--session", sid, "--send-id", "p1", "--json").json
    again = loopwright("run", "pay", "--session", sid, "--send-id", "p1", "--json").json
    assert first == again


@pytest.mark.parametrize(
    "words, code, said",
    [
        (("run", "endless", "--max-rounds", "2"), 4, "go on: loopwright sessions resume"),
        (("run", "refuse"), 1, "no such model (llm.request)"),
        (("run", "ask"), 3, "? Which colour? [red/blue]"),
        (("run", "x", "--session", "nope"), 2, "no session 'nope' in this store"),
        (("run",), 2, "nothing to do: give a prompt"),
        (("run", " "), 2, "the prompt is empty"),
        (("run", "x", "--json", "--events"), 2, "exclude each other"),
        (("run", "x", "--preset", "huge"), 2, "unknown preset 'huge'"),
        (("run", "x", "--workspace", "/nowhere"), 2, "is not a folder"),
        (("run", "x", "--db", "no/such/folder/x.db"), 2, "does not exist; create it"),
        (("run", "x", "--db", "a.md"), 5, "is not a database or is damaged"),
        (("run", "x", "--model", "gpt"), 2, "must be provider:model"),
        (("run", "x", "--max-rounds", "0"), 2, "--max-rounds"),
        (("run", "x", "--wat"), 2, "--wat"),
        (("wat",), 2, "wat"),
    ],
)
def test_exit_codes_are_stable_and_errors_say_what_to_do(
    loopwright: CommandLine, words: tuple[str, ...], code: int, said: str
) -> None:
    done = loopwright(*words)
    assert (done.code, said in done.err) == (code, True), done.err


def test_an_error_with_json_is_json_too(loopwright: CommandLine) -> None:
    done = loopwright("run", "x", "--session", "nope", "--json")
    assert (done.code, done.json["status"], done.json["error_code"]) == (2, "error", "session.not_found")


def test_a_missing_model_is_one_line_that_names_what_to_set_and_makes_nothing(without_model: CommandLine) -> None:
    done = without_model("run", "hello")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "LOOPWRIGHT_MODEL" in done.err
    assert "OPENAI_API_KEY" in done.err
    assert list(without_model.folder.iterdir()) == []


def test_bash_is_off_unless_allowed(loopwright: CommandLine) -> None:
    assert "no tool named 'bash'" in loopwright("run", "bash echo hi").out
    assert "results: hi\n[exit code 0]" in loopwright("run", "bash echo hi", "--allow-bash").out


def test_a_question_is_answered_from_another_process(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "ask"))
    assert loopwright("run", "hello?", "--session", sid).code == 3
    refused = loopwright("sessions", "resume", sid, "--answer", "green")
    assert (refused.code, "does not fit" in refused.err) == (2, True)
    assert loopwright("sessions", "resume", sid, "--answer", "red").out == "you said ask; results: red\n"
    assert loopwright("sessions", "resume", sid, "--answer", "red").code == 2


def test_sessions_of_other_programs_are_left_alone(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "one", "--agent", "shop"))
    done = loopwright("run", "two", "--session", sid)
    assert (done.code, "belongs to agent 'shop'" in done.err) == (5, True)
    assert loopwright("run", "two", "--session", sid, "--agent", "shop").code == 0


def test_output_survives_a_terminal_without_unicode(loopwright: CommandLine) -> None:
    loopwright.env |= {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = loopwright.process("run", "grüße")
    assert (done.code, done.out) == (0, "you said gr??e\n")


def test_version_and_help(loopwright: CommandLine) -> None:
    assert loopwright("--version").out.startswith("loopwright ")
    assert "Exit codes: 0 completed" in loopwright("--help").out


def test_without_the_extra_it_says_what_to_install(loopwright: CommandLine) -> None:
    for name in ("typer", "rich"):
        (loopwright.folder / "hidden").mkdir(exist_ok=True)
        (loopwright.folder / "hidden" / f"{name}.py").write_text(f"raise ModuleNotFoundError('no', name={name!r})\n")
        loopwright.env["PYTHONPATH"] = str(loopwright.folder / "hidden")
        done = loopwright.process("run", "x")
        assert (done.code, "pip install 'loopwright[cli]'" in done.err, done.err.count("\n")) == (2, True, 1)
        assert "(from a clone: pip install '.[cli]')" in done.err
        (loopwright.folder / "hidden" / f"{name}.py").unlink()


@pytest.mark.parametrize(
    "missing, said", [(["bash"], "add --allow-bash"), (["browse"], "in the program that has them")]
)
def test_a_session_that_waits_for_tools_that_are_not_here_says_what_to_do(missing: list[str], said: str) -> None:
    error = AgentUnavailableError("s", "cli", ["glob"], missing)
    assert (code_of_error(error), said in words_of(error), "sessions abort s" in words_of(error)) == (5, True, True)
