"""`loopwright sessions` and `loopwright chat` in scripts."""

from __future__ import annotations

import json

from tests.scenario.cli.command_line import CommandLine, session_of


def test_without_a_store_there_are_no_sessions_and_none_is_made(without_model: CommandLine) -> None:
    assert without_model("sessions", "list", "--json").json == []
    assert without_model("sessions", "list").code == 0
    assert without_model("sessions", "show", "x").code == 2
    assert list(without_model.folder.iterdir()) == []


def test_list_shows_state_title_and_figures(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "hello   there"))
    asking = session_of(loopwright("run", "ask"))
    lines = loopwright("sessions", "list").out.splitlines()
    assert lines[0].split() == ["session", "state", "agent", "sends", "tokens", "updated", "title"]
    assert lines[1].split()[:3] == [asking, "waiting", "cli"]
    assert lines[2].startswith(sid)
    assert lines[2].endswith("hello there")
    assert [head["state"] for head in loopwright("sessions", "list", "--json").json] == ["waiting", "idle"]
    assert len(loopwright("sessions", "list", "--json", "--limit", "1").json) == 1


def test_show_is_a_transcript_with_calls_and_outcome(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "files"))
    shown = loopwright("sessions", "show", sid).out
    for words in (
        "user        files",
        'call        glob(pattern="*.md")',
        "finished    a.md",
        "failed      'missing.md'",
        "outcome     completed after 2 rounds",
    ):
        assert words in shown, shown
    journal = loopwright("sessions", "show", sid, "--journal").out
    assert "tool_finished" in journal
    assert "session_created" in journal
    data = loopwright("sessions", "show", sid, "--json").json
    assert data["head"]["session_id"] == sid
    assert [r["position"] for r in data["records"]] == list(range(data["head"]["position"]))


def test_export_is_json_lines_of_head_and_records(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "files"))
    lines = [json.loads(line) for line in loopwright("sessions", "export", sid).out.splitlines()]
    assert lines[0]["type"] == "head"
    assert {line["type"] for line in lines[1:]} == {"record"}
    assert lines[1]["body"]["kind"] == "session_created"
    done = loopwright("sessions", "export", sid, "-o", "s.jsonl")
    assert (done.code, done.out) == (0, "")
    assert len((loopwright.folder / "s.jsonl").read_text().splitlines()) == len(lines)


def test_abort_answers_what_is_open(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "ask"))
    assert "1 open call(s) aborted" in loopwright("sessions", "abort", sid, "--reason", "no time").err
    assert "<aborted: no time>" in loopwright("sessions", "show", sid).out
    assert "nothing was open" in loopwright("sessions", "abort", sid).err


def test_delete_asks_or_wants_a_yes_and_ids_stay_gone(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "hello"))
    assert loopwright("sessions", "delete", sid).code == 2
    assert "1 session(s) deleted" in loopwright("sessions", "delete", sid, "--yes").err
    done = loopwright("sessions", "show", sid)
    assert (done.code, "was deleted" in done.err) == (2, True)


def test_resume_without_open_work_runs_once_more(loopwright: CommandLine) -> None:
    loopwright("run", "hello")
    assert loopwright("sessions", "resume", "last").out == "you said hello\n"


def test_a_session_goes_on_with_the_model_it_began_with(without_model: CommandLine) -> None:
    without_model("run", "hello", "--model", "echo:")
    assert without_model("run", "again", "--session", "last").out == "again\n"


def test_what_a_model_says_cannot_drive_the_terminal(without_model: CommandLine) -> None:
    without_model("run", "a\x1b]0;owned\x07b", "--model", "echo:")
    assert "\x1b" not in without_model("sessions", "show", "last").out


def test_a_chat_in_a_script_takes_a_line_for_a_message(loopwright: CommandLine) -> None:
    done = loopwright.process("chat", stdin="hello\n/session\nask\nred\n/exit\nnever\n")
    assert done.code == 0
    assert done.out == "you said hello\nyou said ask; results: red\n"
