"""`loopwright worker`: a line for each session, exit codes, signals, agents of a host's own."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from tests.scenario.cli.command_line import CommandLine, until_exists
from tests.scenario.cli.test_interruptions import running

AGENTS = '''
"""An agent of a host's own whose tool does not end and cannot be stopped."""
import asyncio
from pathlib import Path

from loopwright import AgentLoopConfig, StatefulAgentLoop, UserMessage, tool
from loopwright.model.codec import encode
from loopwright.ports.store import InboxItem
from loopwright.testing import ScriptedLLM, calls


@tool(effect="once")
async def hang() -> str:
    Path("started").touch()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


def make_loop() -> StatefulAgentLoop:
    steps = ["I see."] if Path("started").exists() else [calls(("hang", {}))]
    config = AgentLoopConfig(agent_name="mine", stop_grace_s=0.1)
    return StatefulAgentLoop(llm=ScriptedLLM(steps), dsn="mine.db", tools=[hang], config=config)


def broken() -> StatefulAgentLoop:
    return make_loop() if 1 / 0 else make_loop()


async def make_later() -> StatefulAgentLoop:
    return make_loop()


async def main() -> None:
    async with make_loop() as loop:
        await loop.new_session(session_id="s1")
        await loop.store.enqueue("s1", InboxItem("m1", "message", encode(UserMessage("go")), 0.0))


not_a_loop = dict
if __name__ == "__main__":
    asyncio.run(main())
'''


def killed(loopwright: CommandLine) -> str:
    """A session whose command was killed in the middle of a tool."""
    process = running(loopwright)
    process.kill()
    process.communicate(timeout=60)
    head = loopwright("sessions", "list", "--json").json[0]
    assert head["state"] == "interrupted"
    return str(head["session_id"])


@pytest.fixture
def hosted(without_model: CommandLine) -> CommandLine:
    """A folder with a host's own agent and a session of it that waits."""
    program = without_model.folder / "agents.py"
    program.write_text(AGENTS)
    subprocess.run([sys.executable, program], cwd=without_model.folder, check=True, timeout=120)
    return without_model


def test_a_worker_goes_on_with_what_was_killed_and_says_so(loopwright: CommandLine) -> None:
    sid = killed(loopwright)
    done = loopwright("worker", "--once", "--allow-bash")
    assert (done.code, done.out) == (0, f"taken {sid}\ncompleted {sid}\n")
    assert "1 taken, 1 ended, 0 left" in done.err
    again = loopwright("worker", "--once")
    assert (again.code, again.out) == (0, "")


def test_a_session_that_began_in_another_folder_or_preset_is_left_unless_that_is_named(loopwright: CommandLine) -> None:
    sid = killed(loopwright)
    elsewhere = CommandLine(loopwright.folder / "elsewhere", loopwright.base_url)
    elsewhere.folder.mkdir()
    there = ("worker", "--once", "--dsn", "../.loopwright/sessions.db")
    left = elsewhere(*there)
    assert (left.code, left.out.split()[:2]) == (0, ["left", sid])
    assert "--workspace" in left.out
    assert elsewhere(*there, "--workspace", "..").out.splitlines()[-1] == f"completed {sid}"


def test_failed_runs_are_named_with_their_error_and_do_not_fail_the_worker(loopwright: CommandLine) -> None:
    sid = killed(loopwright)
    loopwright.env["LOOPWRIGHT_BASE_URL"] = "http://127.0.0.1:9/v1"
    done = loopwright("worker", "--once", "--max-sessions", "1")
    assert done.code == 0
    assert done.out.splitlines()[0] == f"taken {sid}"
    assert done.out.splitlines()[1].startswith(f"degraded {sid} llm.")


def test_sigterm_ends_a_worker_that_waits_for_work(loopwright: CommandLine) -> None:
    process = loopwright.start("worker")
    assert process.stderr is not None
    assert "serving agent 'cli'" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "0 taken" in err


@pytest.mark.parametrize("function", ["make_loop", "make_later"])
def test_a_hosts_own_agent_is_served_and_left_when_its_tool_does_not_end(hosted: CommandLine, function: str) -> None:
    worker = ("worker", "--agent-module", f"agents:{function}")
    process = hosted.start(*worker, "--drain-timeout", "0.1")
    until_exists(hosted.folder / "started")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [line.split()[:2] for line in out.splitlines()] == [["taken", "s1"], ["left", "s1"]]
    assert "a tool does not stop" in err
    next_one = hosted.process(*worker, "--once")
    assert (next_one.code, next_one.out) == (0, "taken s1\ncompleted s1\n")


def test_a_second_signal_does_not_wait_for_what_runs(hosted: CommandLine) -> None:
    process = hosted.start("worker", "--agent-module", "agents:make_loop", "--drain-timeout", "1000")
    until_exists(hosted.folder / "started")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()[-1].split()[:2]) == (0, ["left", "s1"])


@pytest.mark.parametrize(
    "words, why",
    [
        (["agents"], "must be MODULE:NAME"),
        (["nowhere:make_loop"], "cannot be loaded: No module named 'nowhere'"),
        (["agents:nothing"], "cannot be loaded"),
        (["agents:broken"], "agents:broken failed: ZeroDivisionError: division by zero ("),
        (["agents:not_a_loop"], "must return a StatefulAgentLoop, not dict"),
        (["agents:make_loop", "--model", "echo:", "--dsn", "x.db"], "--dsn, --model and --agent-module exclude"),
    ],
)
def test_an_agent_that_cannot_be_made_is_wrong_usage(hosted: CommandLine, words: list[str], why: str) -> None:
    done = hosted.process("worker", "--once", "--agent-module", *words)
    assert (done.code, why in done.err) == (2, True), done.err
    assert not (hosted.folder / "x.db").exists()


def test_without_a_model_a_worker_says_what_to_set(without_model: CommandLine) -> None:
    done = without_model("worker", "--once")
    assert (done.code, "LOOPWRIGHT_MODEL" in done.err, list(without_model.folder.iterdir())) == (2, True, [])
