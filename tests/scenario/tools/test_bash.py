from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from tests.scenario.tools.toolbox import Toolbox
from tests.waiting import until

from loopwright.model.errors import CancellationRequested
from loopwright.ports.shell import ShellLaunch
from loopwright.tools import LocalShellBackend, ToolRegistry, Workspace
from loopwright.tools.shell import MAX_OUTPUT_BYTES, bash_tool


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(ToolRegistry.of(bash_tool(Workspace(tmp_path), LocalShellBackend())))


NEW = "\n[began in a new shell]"


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def running(pid: int) -> bool:
    """True while the process runs; one that ended and that nobody has reaped counts as ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def started(pipe: Path) -> list[int]:
    """Waits for a command to write process numbers into the pipe."""
    async with asyncio.timeout(20):
        return [int(word) for word in (await asyncio.to_thread(pipe.read_text)).split()]


async def test_output_errors_and_exit_code_come_together_in_order(box: Toolbox, tmp_path: Path) -> None:
    result = await box.result("bash", command="echo one; echo two >&2; echo three; pwd; (exit 3)")
    output = f"one\ntwo\nthree\n{Workspace(tmp_path).root}\n"
    assert result.content == f"{output}[exit code 3]{NEW}"
    assert result.ok
    assert result.data == {"exit_code": 3, "timed_out": False, "output_bytes": len(output)}
    assert await box.text("bash", command="true") == "(no output)\n[exit code 0]"


async def test_standard_input_is_closed(box: Toolbox) -> None:
    assert await box.text("bash", command="cat; read x; echo $?") == f"1\n[exit code 0]{NEW}"


async def test_secrets_of_the_environment_do_not_reach_a_command(tmp_path: Path) -> None:
    backend = LocalShellBackend(env={"PATH": os.environ["PATH"], "MY_API_KEY": "k1", "OTHER": "ok"})
    box = Toolbox(ToolRegistry.of(bash_tool(Workspace(tmp_path), backend)))
    text = await box.text("bash", command="env")
    assert "OTHER=ok" in text
    assert "k1" not in text


async def test_a_command_over_its_time_dies_with_everything_it_started(box: Toolbox) -> None:
    text = await box.text(
        "bash", command="sleep 300 & echo $!; (sleep 300 & echo $!; wait) & echo $!; echo $$; wait", timeout=1
    )
    *pids, note, _ = text.split("\n")
    assert "stopped after 1 s" in note
    assert len(pids) == 4
    assert [pid for pid in pids if running(int(pid))] == []


async def test_a_command_that_ignores_the_polite_signal_is_killed(box: Toolbox) -> None:
    before = time.monotonic()
    result = await box.result("bash", command="trap '' TERM; echo $$; while :; do sleep 300; done", timeout=1)
    assert not result.ok
    assert result.data["timed_out"]
    assert not running(int(result.content.split("\n")[0]))
    assert time.monotonic() - before < 10


@pytest.mark.parametrize("how", ["token", "task"])
async def test_a_stop_ends_the_group_before_the_call_returns(box: Toolbox, tmp_path: Path, how: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = "trap '' TERM; sleep 300 & echo $! $$ > pipe; while :; do wait; done"
    call = asyncio.ensure_future(box.result("bash", command=command))
    pids = await started(pipe)
    assert all(map(running, pids))
    before = time.monotonic()
    if how == "token":
        box.context.cancellation.cancel("enough")
        with pytest.raises(CancellationRequested, match="enough"):
            await call
    else:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert time.monotonic() - before < 3
    assert not any(map(running, pids))


async def test_a_second_cancellation_during_the_grace_kills_at_once(box: Toolbox, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    call = asyncio.ensure_future(
        box.result("bash", command="trap '' TERM; echo $$ > pipe; while :; do sleep 300; done")
    )
    (pid,) = await started(pipe)
    call.cancel()
    asyncio.get_running_loop().call_later(0.05, call.cancel)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not running(pid)


async def test_a_stop_by_token_and_task_at_once_still_lets_the_command_clean_up(box: Toolbox, tmp_path: Path) -> None:
    """This is how a run stops a call: its token first, its task right after."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    clean_up = "trap 'sleep 0.1; touch cleaned; exit' TERM; echo $$ > pipe; while :; do sleep 0.02; done"
    call = asyncio.ensure_future(box.result("bash", command=clean_up))
    (pid,) = await started(pipe)
    box.context.cancellation.cancel("stop")
    await asyncio.wait([call], timeout=0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not running(pid)
    assert "cleaned" in os.listdir(tmp_path)


async def test_nothing_starts_when_the_run_is_stopped_already(box: Toolbox, tmp_path: Path) -> None:
    box.context.cancellation.cancel("early")
    with pytest.raises(CancellationRequested, match="early"):
        await box.result("bash", command="touch started")
    assert os.listdir(tmp_path) == []


async def test_a_job_neither_delays_the_answer_nor_outlives_its_shell(box: Toolbox) -> None:
    before = time.monotonic()
    text = await box.text("bash", command="sleep 300 & echo $!; nohup sleep 300 >/dev/null 2>&1 & echo $!; echo done")
    assert time.monotonic() - before < 5
    first, second, done, end, _ = text.split("\n")
    assert (done, end) == ("done", "[exit code 0]")
    assert running(int(first))
    assert await box.text("bash", command="jobs -p") == f"{first}\n{second}\n[exit code 0]"
    await box.text("bash", command="", restart=True)
    await until(lambda: not running(int(first)))
    await until(lambda: not running(int(second)))


async def test_a_process_that_left_the_group_cannot_hang_the_call_by_keeping_its_output_open(box: Toolbox) -> None:
    before = time.monotonic()
    leave = "setsid bash -c 'echo $$; : > pipe; exec sleep 60' & cat pipe; echo done"
    text = await box.text("bash", command=f"mkfifo pipe; {leave}")
    pid = int(text.split("\n")[0])
    try:
        assert "done\n[exit code 0]" in text
        assert time.monotonic() - before < 10
        assert running(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_endless_output_is_bounded_and_leaves_the_event_loop_free(box: Toolbox) -> None:
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        asyncio.get_running_loop().call_later(0.01, tick)

    tick()
    result = await box.result("bash", command="echo first; yes", timeout=1)
    assert result.data["output_bytes"] > 2 * MAX_OUTPUT_BYTES
    assert len(result.content) < MAX_OUTPUT_BYTES + 500
    assert result.content.startswith("first\ny\n")
    assert "bytes not kept" in result.content
    assert ticks > 10


async def test_large_output_within_the_limit_is_complete(box: Toolbox) -> None:
    text = await box.text("bash", command="seq 100000")
    assert text == "".join(f"{n}\n" for n in range(1, 100_001)) + f"[exit code 0]{NEW}"


async def test_output_that_is_no_text_is_shown_as_far_as_it_is(box: Toolbox) -> None:
    assert (
        await box.text("bash", command=r"printf 'a\377b\0c'") == f"a\N{REPLACEMENT CHARACTER}b\0c\n[exit code 0]{NEW}"
    )


async def test_many_commands_at_once_leave_no_descriptor_behind(box: Toolbox) -> None:
    await box.text("bash", command="true")
    before = open_descriptors()
    texts = await asyncio.gather(*[box.text("bash", command=f"echo {n}") for n in range(30)])
    assert texts == [f"{n}\n[exit code 0]" for n in range(30)]
    assert open_descriptors() == before


async def test_a_backend_that_cannot_start_a_shell_that_reads_is_told_with_what_it_said(tmp_path: Path) -> None:
    class Fenced:
        def launch(self, command: str, workspace: str) -> ShellLaunch:
            return ShellLaunch(("/bin/echo", "fenced:", command), workspace, {})

    class Missing:
        def launch(self, command: str, workspace: str) -> ShellLaunch:
            return ShellLaunch((str(tmp_path / "none"),), workspace, {})

    failure = await Toolbox(ToolRegistry.of(bash_tool(Workspace(tmp_path), Fenced()))).failure("bash", command="x")
    assert "the shell did not take the command" in failure
    assert "fenced: " in failure
    failure = await Toolbox(ToolRegistry.of(bash_tool(Workspace(tmp_path), Missing()))).failure("bash", command="x")
    assert "could not be started" in failure


@pytest.mark.parametrize("command", ["", " \n", "a\0b"])
async def test_a_command_that_is_none_is_refused(box: Toolbox, command: str) -> None:
    assert await box.failure("bash", command=command)


@pytest.mark.parametrize("timeout", [0, 601, 1.5, "1"])
async def test_a_time_limit_out_of_range_is_refused(box: Toolbox, timeout: object) -> None:
    assert "$.timeout" in (box.registry.problems("bash", {"command": "x", "timeout": timeout}) or "")
