"""Processes that meet in one session, stand still, or die of it again and again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.crash.processes import effects, ended, found, records, start, until, until_paused

from loopwright.model.codec import decode_record
from loopwright.model.records import AssistantMessageAdded, SendFinished, UserMessageAdded

pytestmark = [pytest.mark.crash, pytest.mark.kill]


def spoken(folder: Path) -> list[str]:
    roles = {UserMessageAdded: "user", AssistantMessageAdded: "assistant"}
    kinds = [type(decode_record(row.kind, row.version, row.body)) for row in records(folder)]
    return [roles[kind] for kind in kinds if kind in roles]


def test_of_two_processes_that_send_at_once_one_works_and_the_other_is_refused_before_it_pays(folder: Path) -> None:
    """FIELD 0.2: no lost reply, no interleaved history, no money spent by the loser, and an error that says who has it."""
    first = start("slow-model", folder)
    until(lambda: effects(folder).totals()["model"] == 1, "the first process asks its model")

    second = ended(start("slow-model", folder))
    assert (second["error"], second["model_calls"]) == ("session.busy", 0)
    assert str(first.pid) in second["message"]

    (folder / "go").touch()
    assert ended(first)["status"] == "completed"
    assert spoken(folder) == ["user", "assistant"]
    assert ended(start("slow-model", folder))["status"] == "completed"
    assert spoken(folder) == ["user", "assistant", "user", "assistant"]


def test_a_process_that_may_wait_for_the_lease_runs_after_the_one_that_has_it(folder: Path) -> None:
    first = start("slow-model", folder)
    until(lambda: effects(folder).totals()["model"] == 1, "the first process asks its model")
    second = start("slow-model-patient-host", folder)
    (folder / "go").touch()
    assert [ended(first)["status"], ended(second)["status"]] == ["completed", "completed"]
    assert spoken(folder) == ["user", "assistant", "user", "assistant"]


def test_patient_processes_that_race_for_a_session_take_turns(folder: Path) -> None:
    (folder / "go").touch()
    racing = [start("slow-model-patient-host", folder) for _ in range(4)]
    assert [ended(process)["status"] for process in racing] == ["completed"] * 4
    assert spoken(folder) == ["user", "assistant"] * 4


def test_a_writer_that_slept_past_its_lease_is_fenced_and_has_written_nothing(folder: Path) -> None:
    sleeper = start("short-lease", folder, at="tool.after:pay#1", how="pause")
    until_paused(sleeper)

    assert ended(start("short-lease", folder))["status"] == "completed"
    taken_over = records(folder)

    os.kill(sleeper.pid, signal.SIGCONT)
    assert ended(sleeper)["error"] == "session.fenced"
    assert records(folder) == taken_over
    assert effects(folder).totals() == {"pay": 1}
    assert list(found(folder).statuses.values()) == ["uncertain"]


def test_a_writer_that_slept_before_a_handler_does_not_start_it(folder: Path) -> None:
    """The fence stops writes only; the lease is looked at right before anything touches the world."""
    sleeper = start("short-lease", folder, at="commit.after:tool_started#1", how="pause")
    until_paused(sleeper)
    assert ended(start("short-lease", folder))["status"] == "completed"
    os.kill(sleeper.pid, signal.SIGCONT)
    assert ended(sleeper)["error"] == "session.fenced"
    assert effects(folder).totals() == {}


def test_a_finished_call_is_kept_and_one_in_flight_is_reported_when_the_process_dies_in_a_batch(folder: Path) -> None:
    """FIELD 0.1: pay happened once and its result is kept; slow happened once and the model is told that it may have."""
    dying = start("pay-and-slow", folder)
    dying.communicate(timeout=60)
    assert dying.returncode == 9

    assert ended(start("pay-and-slow", folder))["error"] is None

    assert effects(folder).totals() == {"pay": 1, "slow": 1}
    final = found(folder)
    assert sorted(final.statuses.values()) == ["finished", "uncertain"]
    assert [line for line in final.journal if '"paid"' in line and "tool_finished 1.0" in line]
    assert [line for line in final.journal if "pay ok, slow not ok" in line]
    assert len(final.listed) == 1


def test_a_session_that_kills_its_process_again_and_again_ends_as_poisoned(folder: Path) -> None:
    deaths = start("poison-begins", folder)
    deaths.communicate(timeout=60)
    codes = [deaths.returncode]
    while codes[-1] == 9 and len(codes) < 10:
        again = start("poison", folder)
        out, _ = again.communicate(timeout=60)
        codes.append(again.returncode)
    assert codes == [9] * 5 + [0]
    assert '"session.poisoned"' in out
    assert "swallow (c0)" in out
    last = records(folder)[-1]
    finished = decode_record(last.kind, last.version, last.body)
    assert isinstance(finished, SendFinished)
    assert (finished.outcome, finished.error_code) == ("failed", "session.poisoned")
    assert "swallow (c0)" in (finished.error_message or "")
