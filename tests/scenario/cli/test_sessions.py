"""`loopwright sessions` and `loopwright chat` in scripts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.scenario.cli.command_line import CommandLine, session_of

from loopwright import ImagePart, StatefulAgentLoop, TextPart, ToolHandlerResult, tool
from loopwright.testing import ScriptedLLM, calls


@pytest.mark.parametrize(
    "words", [("list",), ("list", "--json"), ("show", "x"), ("delete", "x", "--yes"), ("resume", "x", "--answer", "y")]
)
def test_without_a_store_there_is_nothing_to_look_at_and_none_is_made(
    without_model: CommandLine, words: tuple[str, ...]
) -> None:
    done = without_model("sessions", *words)
    assert (done.code, "no store at .loopwright/sessions.db; `loopwright run` makes one" in done.err) == (2, True)
    named = without_model("sessions", *words, "--db", "./nope.db")
    assert (named.code, "no store at nope.db; `loopwright run --db ./nope.db` makes one" in named.err) == (2, True)
    assert list(without_model.folder.iterdir()) == []


def test_a_file_that_cannot_be_written_cannot_be_looked_at_and_the_error_says_what_to_do(
    without_model: CommandLine,
) -> None:
    without_model("run", "hello", "--model", "echo:", "--db", "x.db")
    (without_model.folder / "x.db").chmod(0o444)
    for words in (("list",), ("show", "last"), ("export", "last")):
        done = without_model.without_power("sessions", *words, "--db", "x.db")
        assert (done.code, done.out, done.err.count("\n")) == (5, "", 1)
        assert "x.db cannot be written" in done.err
        assert "looking needs a writable store, too: copy the file" in done.err


def test_estimated_tokens_are_marked_wherever_they_are_shown(without_model: CommandLine) -> None:
    without_model("run", "hello", "--model", "echo:")
    assert without_model("sessions", "list").out.splitlines()[1].split()[4] == "~2"
    assert " · 1 send · 6 records · ~2 tokens · " in without_model("sessions", "show", "last").out
    assert "1 send, 6 records, ~2 tokens, idle" in without_model("chat", "--session", "last", stdin="/session\n").err


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


async def _pictures(path: Path) -> None:
    @tool(effect="pure")
    async def screenshot() -> ToolHandlerResult:
        """Take a picture."""
        return ToolHandlerResult([TextPart("日本語 and " + "words " * 100), ImagePart("image/png", b"x")])

    model = ScriptedLLM([calls(("screenshot", {})), "seen"])
    async with StatefulAgentLoop(llm=model, dsn=path, tools=[screenshot]) as loop:
        await loop.send([TextPart("look " * 100), ImagePart("image/jpeg", b"y")])


@pytest.mark.parametrize("form", [(), ("--full",), ("--journal",), ("--journal", "--full")])
@pytest.mark.parametrize("width", ["60", "120"])
def test_pictures_are_named_in_every_form_however_long_the_text_before_them(
    without_model: CommandLine, form: tuple[str, ...], width: str
) -> None:
    asyncio.run(_pictures(without_model.folder / "p.db"))
    without_model.env["COLUMNS"] = width
    with without_model.terminal("sessions", "show", "last", "--db", "p.db", *form) as terminal:
        assert terminal.end() == 0
    for shown in (terminal.text, without_model("sessions", "show", "last", "--db", "p.db", *form).out):
        assert "[image/png]" in shown
        assert "[image/jpeg]" in shown


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
    assert "1 open call aborted" in loopwright("sessions", "abort", sid, "--reason", "no time").err
    assert "<aborted: no time>" in loopwright("sessions", "show", sid).out
    assert "nothing was open" in loopwright("sessions", "abort", sid).err


def test_delete_asks_or_wants_a_yes_and_ids_stay_gone(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "hello"))
    assert loopwright("sessions", "delete", sid).code == 2
    assert "1 session deleted" in loopwright("sessions", "delete", sid, "--yes").err
    done = loopwright("sessions", "show", sid)
    assert (done.code, "was deleted" in done.err) == (2, True)


def test_a_session_is_forked_shown_as_a_fork_and_keeps_its_base(without_model: CommandLine) -> None:
    sid = session_of(without_model("run", "hello", "--model", "echo:"))
    wrong = without_model("fork", "last", "--at", "3")
    assert (wrong.code, wrong.out, "nearest: 2 and 4" in wrong.err) == (2, "", True)
    made = without_model("fork", "last")
    fork = made.out.strip()
    assert (made.code, f"fork of {sid}@6" in made.err) == (0, True)
    head = without_model("fork", fork, "--id", "mine", "--title", "another way", "--at", "4", "--json").json
    assert (head["session_id"], head["title"], head["base"]) == (
        "mine",
        "another way",
        {"session_id": sid, "position": 4},
    )
    assert f" · fork of {sid}@6" in without_model("sessions", "show", fork).out
    lines = without_model("sessions", "list").out.splitlines()
    assert lines[0].split() == ["session", "state", "agent", "sends", "tokens", "updated", "fork", "of", "title"]
    assert [f"{sid}@" in line for line in lines[1:]] == [True, True, False]
    assert "sessions that read their beginning from another one" in without_model("db", "stats").out
    refused = without_model("sessions", "delete", sid, "--yes")
    assert (refused.code, "--copy-to-forks" in refused.err) == (2, True)
    planned = without_model("db", "prune", "--keep", "1", "--dry-run", "--json").json
    assert (sorted(planned["sessions"]), planned["referenced"]) == (sorted([fork, "mine"]), 0)
    assert without_model("sessions", "delete", sid, "--yes", "--copy-to-forks").code == 0
    assert without_model("run", "and on", "--session", fork, "--model", "echo:").out == "and on\n"
    assert "no problems" in without_model("db", "check").out + without_model("db", "check").err


def test_without_open_work_nothing_is_paid_for_unless_it_is_asked_for(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "hello"))
    before = loopwright("sessions", "export", sid).out
    for words in (("sessions", "resume", "last"), ("run", "--session", sid), ("sessions", "resume", sid, "--events")):
        done = loopwright(*words)
        assert (done.code, done.out, f"session {sid}: nothing was open" in done.err) == (0, "", True)
    assert loopwright("sessions", "resume", sid, "--json").json == {"session_id": sid, "status": "idle", "exit_code": 0}
    assert loopwright("sessions", "export", sid).out == before
    assert loopwright("sessions", "resume", sid, "--again").out == "you said hello\n"


def test_a_send_that_reached_its_limit_goes_on(loopwright: CommandLine) -> None:
    assert loopwright("run", "endless", "--max-rounds", "1").code == 4
    done = loopwright("sessions", "resume", "last")
    assert (done.code, "nothing was open" in done.err) == (0, False)
    assert done.out.startswith("you said You have used all the rounds")


def test_an_id_may_be_named_by_its_beginning(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "hello"))
    assert loopwright("sessions", "show", sid[:-8], "--json").json["head"]["session_id"] == sid
    assert session_of(loopwright("run", "again", "--session", sid[:-8])) == sid
    short = loopwright("sessions", "show", sid[:12])
    assert (short.code, "write at least 8 characters after sess_" in short.err) == (2, True)
    second = session_of(loopwright("run", "hello"))
    both = loopwright("sessions", "show", sid[:13])  # ids begin with the time
    assert both.code == 2
    assert f"2 sessions begin with {sid[:13]!r}" in both.err
    assert sid in both.err
    assert second in both.err
    assert loopwright("sessions", "show", f"{sid[:13]}zz").code == 2


def test_an_unknown_provider_is_named_with_those_that_are_known(without_model: CommandLine) -> None:
    done = without_model("run", "hello", "--model", "nope:x")
    assert done.code == 2
    assert "unknown provider 'nope'; known are anthropic, azure" in done.err
    assert "any other word needs --base-url" in done.err
    without_model.env["LOOPWRIGHT_MODEL"] = "nope:x"
    assert "unknown provider 'nope'" in without_model("run", "hello").err


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


def test_a_chat_in_which_nothing_is_said_leaves_no_session(loopwright: CommandLine) -> None:
    done = loopwright.process("chat", stdin="\n/session\n/exit\n")
    assert (done.code, "no session yet" in done.err, "go on with" in done.err) == (0, True, False)
    assert loopwright("sessions", "list", "--json").json == []
    loopwright.process("chat", stdin="hello  there\n")
    assert [head["title"] for head in loopwright("sessions", "list", "--json").json] == ["hello there"]
