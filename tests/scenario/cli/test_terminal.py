"""What a person sees: the same commands on a real terminal."""

from __future__ import annotations

import pytest
from tests.scenario.cli.command_line import CommandLine, session_of


def test_a_run_is_drawn_live_with_tool_lines_and_a_status_bar(loopwright: CommandLine) -> None:
    with loopwright.terminal("run", "files") as terminal:
        assert terminal.end() == 0
    assert "round 1/24" in terminal.text
    assert "Ctrl-C stops" in terminal.text
    assert '✓ glob(pattern="*.md")' in terminal.text
    assert '✗ read_file(path="missing.md")' in terminal.text
    assert terminal.screen.count("you said files") == 1
    assert terminal.screen.count("Ctrl-C stops") == 0, "the bar is gone"
    assert "completed · 2 rounds" in terminal.screen


def test_long_text_is_drawn_once_however_it_streams(loopwright: CommandLine) -> None:
    with loopwright.terminal("run", "slow") as terminal:
        assert terminal.end() == 0
    assert "again and again" in terminal.text
    assert terminal.drawn.count("\x1b[?25l") == terminal.drawn.count("\x1b[?25h"), "the cursor is back"


def test_no_color_is_honoured(loopwright: CommandLine) -> None:
    loopwright.env["NO_COLOR"] = "1"
    with loopwright.terminal("run", "files") as terminal:
        assert terminal.end() == 0
    assert "\x1b[32m" not in terminal.drawn
    assert "\x1b[36m" not in terminal.drawn


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(loopwright: CommandLine) -> None:
    with loopwright.terminal("run", "files", term="dumb") as terminal:
        assert terminal.end() == 0
    assert "\x1b" not in terminal.drawn
    assert '  > glob(pattern="*.md")' in terminal.text


def test_ctrl_c_stops_a_run(loopwright: CommandLine) -> None:
    with loopwright.terminal("run", "bash sleep 50", "--allow-bash") as terminal:
        terminal.until("● bash")
        terminal.type("\x03")
        assert terminal.end() == 130
    assert "go on: loopwright sessions resume" in terminal.text


def test_a_question_is_asked_in_place(loopwright: CommandLine) -> None:
    with loopwright.terminal("run", "ask") as terminal:
        terminal.until("leave it open)")
        terminal.type("green\n")
        terminal.until("that does not fit")
        terminal.type("re\n")
        assert terminal.end() == 0
    assert "you said ask; results: red" in terminal.text


def test_a_chat_streams_takes_what_is_typed_meanwhile_and_ends(loopwright: CommandLine) -> None:
    with loopwright.terminal("chat") as terminal:
        terminal.until("› ")
        terminal.type("slow\n")
        terminal.until("writing")
        terminal.type("one more thing\n")
        terminal.until("1 message taken in")
        terminal.until("you said one more thing")
        terminal.until("completed ·")
        terminal.type("/session\n")
        terminal.until("1 send,")
        terminal.type("/nonsense\n")
        terminal.until("no command /nonsense")
        terminal.type("/exit\n")
        assert terminal.end() == 0
    assert "go on with: loopwright chat --session" in terminal.text


def test_ctrl_c_in_a_chat_stops_the_run_and_not_the_chat(loopwright: CommandLine) -> None:
    with loopwright.terminal("chat", "--allow-bash") as terminal:
        terminal.until("› ")
        terminal.type("bash sleep 50\n")
        terminal.until("● bash")
        terminal.type("\x03")
        terminal.until("cancelled ·")
        terminal.type("hello\n")
        terminal.until("you said hello")
        terminal.type("\x04")
        assert terminal.end() == 0


def test_a_reopened_chat_asks_what_was_left_open(loopwright: CommandLine) -> None:
    loopwright("run", "ask")
    with loopwright.terminal("chat", "--session", "last") as terminal:
        terminal.until("Which colour?")
        terminal.until("leave it open)")
        terminal.type("\n")
        terminal.until("still open")
        terminal.type("something else\n")
        terminal.until("leave it open)", times=2)
        terminal.type("blue\n")
        terminal.until("results: blue")
        terminal.until("you said something else")
        terminal.type("/exit\n")
        assert terminal.end() == 0


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("full", [(), ("--full",)])
def test_a_journal_never_cuts_position_and_kind_whatever_the_width(
    loopwright: CommandLine, width: int, full: tuple[str, ...]
) -> None:
    sid = session_of(loopwright("run", "files"))
    records = loopwright("sessions", "show", sid, "--json").json["records"]
    loopwright.env["COLUMNS"] = str(width)
    with loopwright.terminal("sessions", "show", sid, "--journal", *full) as terminal:
        assert terminal.end() == 0
    shown = terminal.text.splitlines()
    lines = shown[[line.split()[:1] for line in shown].index(["pos"]) :]
    assert ("at" in lines[0].split()) == (width >= 60)
    cells = [line.split() for line in lines[1:] if line[:3].strip()]
    kind = 2 if width >= 60 else 1
    assert [(line[0], line[kind]) for line in cells] == [(str(one["position"]), one["kind"]) for one in records]
    assert max(len(line) for line in lines) <= width


def test_a_journal_in_a_pipe_has_a_whole_line_for_each_record(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "files"))
    records = loopwright("sessions", "show", sid, "--json").json["records"]
    lines = loopwright.process("sessions", "show", sid, "--journal").out.splitlines()
    assert [line.split()[::2][:2] for line in lines[-len(records) :]] == [
        [str(one["position"]), one["kind"]] for one in records
    ]
    assert any(line.endswith("completed after 2 rounds") for line in lines)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_a_list_never_cuts_id_and_state_whatever_the_width(loopwright: CommandLine, width: int) -> None:
    words = "a title that goes on and on, 日本語のタイトル, until nobody knows where it began or how it should ever end"
    ids = [session_of(loopwright("run", words)), session_of(loopwright("run", "ask"))]
    loopwright.env["COLUMNS"] = str(width)
    with loopwright.terminal("sessions", "list") as terminal:
        assert terminal.end() == 0
    lines = terminal.text.splitlines()
    assert len(lines) == 3
    assert [line.split()[:2] for line in lines[1:]] == [[ids[1], "waiting"], [ids[0], "idle"]]
    assert max(len(line) for line in lines) <= width
    shown = {"title": width >= 60, "updated": width >= 80, "tokens": width >= 100}
    assert {name: name in lines[0].split() for name in shown} == shown
