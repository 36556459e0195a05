"""Standard streams that are closed, full or hold no text: the work is done, nothing is a traceback."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from tests.scenario.cli.command_line import COMMAND, CommandLine, Ended

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
LISTED = ["sessions list", "sessions show last", "sessions export last", "doctor"]
RUNS = ["run hi", "run hi --json", "run hi --events"]


def shell(loopwright: CommandLine, words: str, redirection: str = "", locale: str = "C.UTF-8") -> Ended:
    line = f'"$0" -m loopwright {words} {redirection}'
    done = subprocess.run(
        ["bash", "-c", line, COMMAND[0]],
        cwd=loopwright.folder,
        env=loopwright.environment() | {"LC_ALL": locale},
        capture_output=True,
        timeout=120,
        check=False,
    )
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    assert "Traceback" not in out + err, err
    assert "Exception ignored" not in err
    return Ended(done.returncode, out, err)


def sends(loopwright: CommandLine) -> int:
    return sum(int(row["sends"]) for row in loopwright("sessions", "list", "--json").json)


@FULL
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
@pytest.mark.parametrize("words", RUNS)
def test_a_run_whose_answer_cannot_be_written_is_done_all_the_same(
    loopwright: CommandLine, words: str, redirection: str
) -> None:
    done = shell(loopwright, words, redirection)
    assert done.code == 1
    assert done.err.count("standard output cannot be written") == 1
    assert loopwright("sessions", "list", "--json").json[0]["status"] == "idle"
    assert sends(loopwright) == 1


@FULL
def test_other_commands_say_that_standard_output_cannot_be_written(loopwright: CommandLine) -> None:
    loopwright("run", "hi")
    for words, redirection in zip(LISTED, itertools.cycle((">/dev/full", ">&-"))):
        done = shell(loopwright, words, redirection)
        assert done.code == 1, words
        assert done.err.count("standard output cannot be written") == 1, words


@FULL
def test_a_standard_error_that_cannot_be_written_costs_no_answer(loopwright: CommandLine) -> None:
    full = shell(loopwright, "run hi", "2>/dev/full")
    assert (full.code, full.out) == (1, "you said hi\n")
    closed = shell(loopwright, "run hi", "2>&-")
    assert (closed.code, closed.out) == (0, "you said hi\n")
    assert sends(loopwright) == 2


def test_a_closed_standard_input_is_an_empty_prompt(loopwright: CommandLine) -> None:
    done = shell(loopwright, "run -", "<&-")
    assert done.code == 2
    assert "the prompt is empty" in done.err
    assert shell(loopwright, "run hi", "<&-").out == "you said hi\n"


@pytest.mark.parametrize("locale", ["C.UTF-8", "POSIX"])
def test_bytes_that_are_no_text_are_replaced(loopwright: CommandLine, locale: str) -> None:
    assert shell(loopwright, "run $'\\xff\\xfe'", locale=locale).code == 0
    assert shell(loopwright, "run $'\\xff' --json", locale=locale).code == 0
    assert shell(loopwright, "run -", "< <(printf 'a\\xff')", locale=locale).code == 0
    assert sends(loopwright) == 3
    assert "�" in loopwright("sessions", "list", "--json").out.encode().decode("unicode_escape")


def test_a_reader_that_goes_away_is_no_fault(loopwright: CommandLine) -> None:
    loopwright("run", "hi")
    done = shell(loopwright, "sessions export last", "| head -c 1")
    assert done.err == ""
