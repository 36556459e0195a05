"""Ctrl-C, signals and kill -9 in the middle of a run."""

from __future__ import annotations

import signal

import pytest
from tests.quick_processes import Process
from tests.scenario.cli.command_line import CommandLine, Ended, session_of, until_exists

SLOW = "bash touch started; sleep 50"


def running(loopwright: CommandLine, *more: str) -> Process:
    process = loopwright.start("run", SLOW, "--allow-bash", *more)
    until_exists(loopwright.folder / "started")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_says_how_to_go_on(loopwright: CommandLine, number: signal.Signals) -> None:
    process = running(loopwright)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "[cancelled · 1 round" in err
    sid = session_of(Ended(130, out, err))
    assert f"go on: loopwright sessions resume {sid} --allow-bash" in err
    assert loopwright("sessions", "list", "--json").json[0]["state"] == "idle"
    assert loopwright("run", "hello", "--session", sid).code == 0


def test_after_kill_9_the_next_run_goes_on_and_the_model_learns_what_is_unknown(loopwright: CommandLine) -> None:
    process = running(loopwright)
    process.kill()
    _, err = process.communicate(timeout=60)
    sid = session_of(Ended(-9, "", err))
    assert loopwright("sessions", "list", "--json").json[0]["state"] == "interrupted"
    (loopwright.folder / "started").unlink()
    done = loopwright("run", "--session", sid, "--allow-bash")
    assert (done.code, "may or may not have happened" in done.out) == (0, True)
    assert not (loopwright.folder / "started").exists()


def test_after_kill_9_a_new_prompt_is_taken_in_by_the_run_that_goes_on(loopwright: CommandLine) -> None:
    process = running(loopwright)
    process.kill()
    process.communicate(timeout=60)
    done = loopwright("run", "and this", "--session", "last", "--allow-bash")
    assert (done.code, done.out) == (0, "you said and this\n")
    assert loopwright("sessions", "list", "--json").json[0]["sends"] == 1


def test_an_unknown_call_is_reported_even_where_its_tool_is_off_now(loopwright: CommandLine) -> None:
    process = running(loopwright)
    process.kill()
    process.communicate(timeout=60)
    done = loopwright("run", "--session", "last")
    assert (done.code, "may or may not have happened" in done.out) == (0, True)


def test_a_busy_session_is_left_to_its_process(loopwright: CommandLine) -> None:
    process = running(loopwright)
    try:
        done = loopwright("run", "me too", "--session", "last")
        assert (done.code, "is being run by another process" in done.err) == (5, True)
        looked = loopwright("doctor")
        assert (looked.code, "is running" in looked.out, f"process {process.pid}" in looked.out) == (0, True, True)
        assert loopwright("sessions", "delete", "last", "--yes").code == 5
        assert loopwright("sessions", "abort", "last").code == 0
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_a_reader_that_goes_away_stops_the_run_quietly(loopwright: CommandLine) -> None:
    process = loopwright.start("run", "slow")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(5)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 130
    assert "standard output was closed" in err
    assert "Traceback" not in err
    assert "Exception ignored" not in err
