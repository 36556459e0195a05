"""The same with real processes: `kill -9` at a point, and a new process goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.agents import AGENTS, told_of_uncertain_calls
from tests.crash.family_agents import FAMILIES
from tests.crash.processes import effects, ended, found, killed_at, start, undisturbed

from loopwright.testing.crash_matrix import Interrupted
from loopwright.testing.crash_points import StopAt

pytestmark = [pytest.mark.crash, pytest.mark.kill]

POINTS = [
    ("plain", "create.after"),
    ("plain", "commit.before:prompt_epoch_started+send_started+user_message_added"),
    ("plain", "commit.after:send_started+user_message_added"),
    ("plain", "model.after"),
    ("plain", "commit.before:assistant_message_added+send_finished"),
    ("plain", "commit.after:assistant_message_added+send_finished"),
    ("pure-tool", "commit.after:assistant_message_added"),
    ("pure-tool", "tool.after:look"),
    ("pure-tool", "commit.after:tool_started+tool_finished"),
    ("once-tool", "commit.before:tool_started"),
    ("once-tool", "commit.after:tool_started"),
    ("once-tool", "tool.after:pay"),
    ("once-tool", "commit.before:tool_finished"),
    ("once-tool", "commit.after:tool_finished"),
    ("four-parallel-tools", "tool.before:pay"),
    ("four-parallel-tools", "tool.after:put"),
    ("four-parallel-tools", "tool.after:mail"),
    ("four-parallel-tools", "batch.after"),
    ("follow-up-during-a-tool", "inbox.after"),
    ("follow-up-during-a-tool", "commit.before:user_message_added"),
    ("structured-output-corrected", "commit.after:user_message_added"),
    ("human-pause", "commit.after:send_paused"),
    ("human-pause", "commit.after:question_answered+tool_finished"),
    ("approval", "commit.after:question_answered"),
    ("four-calls-need-approval", "commit.after:question_answered"),
    ("four-calls-need-approval", "commit.after:question_answered+permission_granted"),
    ("four-calls-need-approval", "tool.after:give"),
    ("four-calls-need-approval", "tool.before:lend"),
    ("four-calls-three-agents-deep-need-approval", "commit.after:question_answered"),
    ("four-calls-three-agents-deep-need-approval", "tool.after:post"),
    ("host-executed-tool", "commit.after:send_paused"),
    ("big-output", "artifact.after"),
]


@pytest.mark.parametrize("name, point", POINTS)
def test_a_killed_process_is_continued_by_a_new_one(name: str, point: str, folder: Path) -> None:
    killed_at(name, folder, point if "#" in point else f"{point}#1")
    crashed, before = found(folder), effects(folder).counts()

    assert ended(start(name, folder))["error"] is None

    journal = undisturbed(name)
    in_flight = tuple(crashed.open_once.values())
    stop = Interrupted(at=StopAt.parse(point), in_flight=in_flight, undisturbed=journal)
    final = found(folder)
    assert list(final.journal) == list(told_of_uncertain_calls(stop) or ())
    for call, times in effects(folder).counts().items():
        if call[1] in crashed.finished:
            assert times == before[call], f"{call} ran again although its result was durable"
        if call[1] in crashed.open_once:
            assert times == before[call], f"{call} was repeated"
    assert frozenset(crashed.open_once) <= final.listed


def test_every_scenario_of_this_file_is_one_of_the_matrix() -> None:
    assert {name for name, _ in POINTS} <= {*AGENTS, *FAMILIES}
