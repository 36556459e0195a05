"""Commands in the background: they outlive the call, the loop and the process that started them, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scenario.tools.toolbox import Toolbox

from loopwright.executors.bubblewrap import BubblewrapLauncher
from loopwright.model.call_errors import ToolFailure
from loopwright.ports.shell import ShellBackend
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import BubblewrapShellBackend, LocalShellBackend, ToolRegistry, Workspace
from loopwright.tools import background as kept
from loopwright.tools.background import BackgroundCommands
from loopwright.tools.background_keeper import HEAD_BYTES, TAIL_BYTES
from loopwright.tools.background_tool import background_tool
from loopwright.tools.shell import bash_tool


def toolbox(folder: Path, backend: ShellBackend | None = None, session: str = "s") -> Toolbox:
    place = Workspace(folder)
    tools = ToolRegistry.of(bash_tool(place, backend or LocalShellBackend()), background_tool(place))
    return Toolbox(tools, FakeToolContext(session_id=session))


async def begun(box: Toolbox, command: str) -> str:
    result = await box.result("bash", command=command, background=True)
    return str(result.data["background_id"])


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def folder_of(workspace: Path, command_id: str) -> Path:
    (folder,) = workspace.glob(f".loopwright/background/*/{command_id}")
    return folder


async def test_a_command_in_the_background_is_answered_at_once_and_told_when_asked(tmp_path: Path) -> None:
    box = toolbox(tmp_path)
    os.mkfifo(tmp_path / "gate")
    one = await begun(box, "echo begun; pwd; cat gate; cat; exit 3")
    assert f"{one}  running  echo begun" in await box.text("background")
    await asyncio.to_thread((tmp_path / "gate").write_text, "let in\n")
    result = await box.result("background", command_id=one, wait=20)
    assert result.content == f"begun\n{Workspace(tmp_path).root}\nlet in\n[exit code 3]"
    assert result.data == {"state": "exited", "exit_code": 3}
    assert await box.text("background", command_id=one, action="stop") == result.content


async def test_another_process_can_check_and_stop_what_one_that_is_gone_has_started(tmp_path: Path) -> None:
    code = (
        "from loopwright.tools import LocalShellBackend; from loopwright.tools.background import BackgroundCommands\n"
        f"launch = LocalShellBackend().launch('trap \"echo bye; exit 5\" TERM; echo on; sleep 300 & wait', {str(tmp_path)!r})\n"
        f"print(BackgroundCommands({str(tmp_path)!r}, 's').start(launch, 'serve'))"
    )
    one = await asyncio.to_thread(printed, code)
    commands = BackgroundCommands(str(tmp_path), "s")
    async with asyncio.timeout(20):
        while commands.output(one) != "on\n":
            assert commands.get(one).state == "running"
            await asyncio.to_thread(os.sched_yield)
    ended = await commands.stop(one)
    assert (ended.state, ended.exit_code) == ("stopped", 5)
    assert commands.output(one) == "on\nbye\n"


async def test_a_keeper_that_was_killed_is_told_and_stop_ends_what_it_kept(tmp_path: Path) -> None:
    box = toolbox(tmp_path)
    one = await begun(box, "sleep 300")
    commands = BackgroundCommands(str(tmp_path), "s")
    known = commands.get(one)
    os.kill(known.pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        while commands.get(one).state == "running":
            await asyncio.to_thread(os.sched_yield)
    assert "[lost: what kept it is gone" in await box.text("background", command_id=one)
    assert kept.ticks_of(known.child)
    await box.text("background", command_id=one, action="stop")
    async with asyncio.timeout(10):
        while kept.ticks_of(known.child):
            await asyncio.to_thread(os.sched_yield)


async def test_a_status_that_names_another_process_stops_nobody(tmp_path: Path) -> None:
    """Who can write to the folder cannot have a stranger killed."""
    box = toolbox(tmp_path)
    one = await begun(box, "true")
    await box.result("background", command_id=one, wait=20)
    file = folder_of(tmp_path, one) / "status.json"
    forged = {"state": "running", "pid": os.getpid(), "ticks": kept.ticks_of(os.getpid()), "child_ticks": 0}
    file.write_text(json.dumps(json.loads(file.read_text()) | forged))
    assert "[lost" in await box.text("background", command_id=one, action="stop")


async def test_endless_output_is_bounded_on_disk_and_keeps_beginning_and_end(tmp_path: Path) -> None:
    box = toolbox(tmp_path)
    one = await begun(box, "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last")
    result = await box.result("background", command_id=one, wait=30)
    assert result.content.startswith("first\nxx")
    assert "... the middle was not kept ..." in result.content
    assert result.content.endswith("x\nlast\n[exit code 0]")
    assert (
        sum(file.stat().st_size for file in folder_of(tmp_path, one).iterdir()) < HEAD_BYTES + 2 * TAIL_BYTES + 70_000
    )


async def test_commands_belong_to_their_session_and_are_bounded(tmp_path: Path) -> None:
    box = toolbox(tmp_path)
    ids = [await begun(box, "sleep 300") for _ in range(kept.MAX_RUNNING)]
    failure = await box.failure("bash", command="true", background=True)
    assert f"{kept.MAX_RUNNING} commands run in the background already" in failure
    assert ids[0] in failure
    other = toolbox(tmp_path, session="other")
    assert await other.text("background") == "(nothing was started in the background)"
    assert "there are: none" in await other.failure("background", command_id=ids[0], action="stop")
    assert "no command '../../x'" in await box.failure("background", command_id="../../x")
    commands = BackgroundCommands(str(tmp_path), "s")
    assert {one.state for one in await asyncio.gather(*[commands.stop(one) for one in ids])} == {"stopped"}


def test_a_command_that_cannot_be_started_is_a_failure_and_leaves_nothing(tmp_path: Path) -> None:
    launch = LocalShellBackend().launch("true", str(tmp_path / "nowhere"))
    commands = BackgroundCommands(str(tmp_path), "s")
    with pytest.raises(ToolFailure, match=r"could not be started in the background: .*nowhere"):
        commands.start(launch, "true")
    assert commands.all() == []


async def test_in_a_sandbox_it_lives_on_inside_and_cannot_touch_its_own_status(
    tmp_path: Path, sandbox: BubblewrapLauncher
) -> None:
    """The sandbox dies with its parent, which is the keeper and not this process."""
    (tmp_path / ".loopwright").mkdir()
    box = toolbox(tmp_path, BubblewrapShellBackend())
    one = await begun(box, "cd .loopwright/background/*/*/ && echo forged > status.json; echo on; exec sleep 300")
    commands = BackgroundCommands(str(tmp_path), "s")
    async with asyncio.timeout(20):
        while not commands.output(one).endswith("on\n"):
            await asyncio.to_thread(os.sched_yield)
    assert "Read-only file system" in commands.output(one)
    assert (await commands.stop(one)).state == "stopped"
