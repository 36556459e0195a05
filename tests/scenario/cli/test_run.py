"""`loopwright run`: streams, exit codes, shapes."""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.scenario.cli.command_line import CommandLine, Ended, session_of

from loopwright.cli.agent_setup import AgentSettings
from loopwright.cli.exit_codes import code_of_error, words_of
from loopwright.model.errors import AgentUnavailableError, LoopwrightError, SessionBusyError, SessionPendingError
from loopwright.model.messages import ToolCall


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


def test_a_known_send_id_says_that_nothing_was_run(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "one"))
    first = loopwright("run", "two", "--session", sid, "--send-id", "p1")
    again = loopwright("run", "two", "--session", sid, "--send-id", "p1")
    assert first.out == again.out == "you said two\n"
    assert "stored result" not in first.err
    assert "loopwright: send id p1 is known: its stored result is shown, nothing was run\n" in again.err
    assert loopwright("sessions", "list", "--json").json[0]["sends"] == 2


@pytest.mark.parametrize(
    "words, code, said",
    [
        (("run", "endless", "--max-rounds", "2"), 4, "go on: loopwright sessions resume"),
        (("run", "refuse"), 1, "no such model (llm.request)"),
        (("run", "ask"), 3, "? Which colour? [red/blue]"),
        (("run", "x", "--session", "nope"), 2, "no store at .loopwright/sessions.db"),
        (("run", "x", "--session", "nope", "--db", "memory:"), 2, "no session 'nope' in this store"),
        (("run",), 2, "nothing to do: give a prompt"),
        (("run", " "), 2, "the prompt is empty"),
        (("run", "x", "--json", "--events"), 2, "exclude each other"),
        (("run", "x", "--send-id", "p1"), 2, "--send-id belongs to a prompt in a session"),
        (("run", "--session", "last", "--send-id", "p1"), 2, "--send-id belongs to a prompt in a session"),
        (("run", "x", "--preset", "explore", "--allow-bash"), 2, "preset explore, which has no shell"),
        (("run", "x", "--sandbox", "podman", "--allow-bash"), 2, "unknown sandbox 'podman'; use auto, bubblewrap"),
        (("run", "x", "--sandbox", "local"), 2, "add --allow-bash"),
        (("run", "x", "--db", "./a.md/../no/x.db"), 2, "/no does not exist; create it"),
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
    loopwright("run", "hello")
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


def test_commands_without_a_sandbox_are_announced_unless_they_were_asked_for(
    loopwright: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "no-bwrap").mkdir()
    (tmp_path / "no-bwrap" / "bash").symlink_to("/bin/bash")
    poor = replace(loopwright, env={**loopwright.env, "PATH": str(tmp_path / "no-bwrap")})
    notice = "loopwright: shell commands run without a sandbox and can do what this user can: the program bwrap is"
    done = poor("run", "bash echo hi", "--allow-bash")
    assert (notice in done.err, "results: hi\n" in done.out) == (True, True), done.err
    assert notice not in poor("run", "bash echo hi", "--allow-bash", "--sandbox", "local").err
    assert (
        "no sandbox bubblewrap: the program bwrap is" in poor("run", "x", "--allow-bash", "--sandbox", "bubblewrap").err
    )


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
        done = loopwright.process("run", "x", command=[sys.executable, "-m", "loopwright"])
        assert (done.code, "pip install 'loopwright[cli]'" in done.err, done.err.count("\n")) == (2, True, 1)
        assert "(from a clone: pip install '.[cli]')" in done.err
        (loopwright.folder / "hidden" / f"{name}.py").unlink()


def test_options_that_exclude_each_other_are_refused_before_anything_is_made(without_model: CommandLine) -> None:
    for words in (("--preset", "explore", "--allow-bash"), ("--preset", "huge"), ("--workspace", "/nowhere")):
        assert without_model("run", "hello", "--model", "echo:", *words).code == 2
    assert list(without_model.folder.iterdir()) == []


def test_a_session_that_began_without_a_shell_does_not_get_one_silently(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "hello", "--preset", "explore"))
    done = loopwright("run", "bash echo hi", "--session", sid, "--allow-bash")
    assert (done.code, "use --preset core" in done.err) == (2, True)
    done = loopwright("run", "bash echo hi", "--session", sid, "--allow-bash", "--preset", "core")
    assert "results: hi" in done.out


def test_a_folder_in_which_no_store_can_be_made_is_one_line_that_names_it(without_model: CommandLine) -> None:
    without_model.folder.chmod(0o555)
    closed = without_model.without_power("run", "hello", "--model", "echo:")
    without_model.folder.chmod(0o755)
    (without_model.folder / ".loopwright").write_text("a file")
    taken = without_model("run", "hello", "--model", "echo:")
    for done in (closed, taken):
        assert (done.code, done.err.count("\n")) == (5, 1), done.err
        assert f"the store's folder {without_model.folder / '.loopwright'} cannot be made" in done.err


def hinted(done: Ended, beginning: str) -> list[str]:
    """The words of the command that an error advises, as a shell would read them."""
    found = re.search(f"`loopwright ({beginning}[^`]*)`", done.err)
    assert found, done.err
    return shlex.split(found[1])


def test_the_commands_that_an_error_advises_work_as_they_are(loopwright: CommandLine) -> None:
    place = ("--db", "the other.db")
    sid = session_of(loopwright("run", "ask", *place))
    unknown = loopwright("sessions", "show", "nope", *place)
    assert loopwright(*hinted(unknown, "sessions list")).out.count(sid) == 1
    waiting = loopwright("run", "hello?", "--session", sid, *place)
    answer = [*hinted(waiting, "inbox answer"), "red"]
    assert loopwright(*answer).out == "you said ask; results: red\n"
    assert loopwright(*hinted(waiting, "sessions abort")).code == 0
    as_json = loopwright("run", "x", "--session", "nope", *place, "--json").json
    assert "`loopwright sessions list --db 'the other.db'`" in as_json["error_message"]


@pytest.mark.parametrize(
    "error",
    [
        SessionBusyError("s", "a process", 5.0),
        SessionPendingError("s", pending_tool_calls=(ToolCall("c", "charge", "{}"),)),
        AgentUnavailableError("s", "cli", ["glob"], ["browse"]),
    ],
    ids=lambda error: error.code,
)
def test_every_hint_that_names_a_session_names_its_store(error: LoopwrightError) -> None:
    words = words_of(error, AgentSettings(db="x y.db"))
    assert "`loopwright sessions abort s --db 'x y.db'`" in words


@pytest.mark.parametrize(
    "missing, said", [(["bash"], "add --allow-bash"), (["browse"], "in the program that has them")]
)
def test_a_session_that_waits_for_tools_that_are_not_here_says_what_to_do(missing: list[str], said: str) -> None:
    error = AgentUnavailableError("s", "cli", ["glob"], missing)
    words = words_of(error, AgentSettings())
    assert (code_of_error(error), said in words, "`loopwright sessions abort s`" in words) == (5, True, True)
