"""Whatever a leaf does to its process ends as a failed leaf, within the grace period, with no process left."""

from __future__ import annotations

import os
import signal
import sys
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from tests.contract.executors.conftest import Shop
from tests.waiting import until

from loopwright.executors.tagged import tagged
from loopwright.executors.worker_job import EndScanner, end_line
from loopwright.ports.executor import LeafEnd, LeafRef

GRACE_S = 1.0
SLACK_S = 4.0
"""For a machine that is busy."""


class Wrapping:
    """Puts a command of the shell around the worker's; `"$@"` is the worker."""

    def __init__(self, command: str) -> None:
        self.command = command

    def build(
        self, base_argv: Sequence[str], base_env: Mapping[str, str], ref: LeafRef, workspace: str
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        return ["sh", "-c", self.command, "sh", *base_argv], base_env


class Raising:
    def build(
        self, base_argv: Sequence[str], base_env: Mapping[str, str], ref: LeafRef, workspace: str
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        raise LookupError("no sandbox today")


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails when more than a few megabytes are held at any moment of the block."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


SAYS = "python3 -c \"import json; job = json.loads(input()); print(); print('LOOPWRIGHT-LEAF-END', job['nonce'], %s)\""


@pytest.mark.parametrize("how, told", [("exit", "exit code 3"), ("segv", "SIGSEGV")])
async def test_a_leaf_whose_process_crashes_fails_with_how_it_ended(shop: Shop, how: str, told: str) -> None:
    end = await shop.end(shop.executor(), await shop.leaf(f"crash {how}"))
    assert (end.status, end.in_journal, end.fault) == ("failed", False, "leaf.crashed")
    assert told in end.reason
    assert how == "exit" or "the last words" in end.reason


async def test_a_leaf_that_hangs_and_ignores_sigterm_is_killed_when_its_time_is_over(shop: Shop) -> None:
    ref = await shop.leaf(f"hang {shop.folder}/there", timeout_s=2.0)
    end = await shop.end(shop.executor(), ref, within_s=2.0 + GRACE_S + SLACK_S)
    assert (end.status, end.in_journal, end.fault) == ("failed", False, "leaf.timed_out")


async def test_a_cancelled_leaf_that_hangs_is_killed_within_the_grace_period(shop: Shop) -> None:
    executor, ref = shop.executor(), await shop.leaf(f"hang {shop.folder}/there")
    await executor.submit(ref)
    await until((shop.folder / "there").exists)
    end = await shop.stopped_within(executor, ref, GRACE_S + SLACK_S)
    assert (end.status, end.in_journal, end.fault) == ("cancelled", False, "leaf.cancelled")
    assert (await shop.loop.store.lookup(ref.session_id)).head.status == "running"


async def test_a_flood_of_output_fills_no_memory_and_hides_no_result(shop: Shop) -> None:
    executor, ref = shop.executor(), await shop.leaf("flood x")
    with little_memory():
        end = await shop.end(executor, ref, within_s=40.0)
    assert (end.ok, end.fault) == (True, None)


async def test_a_flood_before_the_result_on_the_very_same_output_does_no_harm(shop: Shop) -> None:
    launcher = Wrapping('yes | head -c 200000000; head -c 100000000 /dev/zero; exec "$@"')
    executor, ref = shop.executor(launcher=launcher), await shop.leaf("hello")
    with little_memory():
        end = await shop.end(executor, ref, within_s=40.0)
    assert end.ok


async def test_grandchildren_that_hold_the_outputs_delay_nothing_and_are_ended(shop: Shop) -> None:
    end = await shop.end(shop.executor(), await shop.leaf("leave_children x"), within_s=GRACE_S + SLACK_S)
    assert end.ok


async def test_a_process_beside_the_worker_that_holds_its_pipes_is_ended_too(shop: Shop) -> None:
    launcher = Wrapping('(setsid sleep 600 &) ; setsid sleep 600 & exec "$@"')
    end = await shop.end(shop.executor(launcher=launcher), await shop.leaf("crash exit"), within_s=GRACE_S + SLACK_S)
    assert end.fault == "leaf.crashed"


async def test_a_process_that_cannot_be_found_any_more_delays_nothing_either(shop: Shop) -> None:
    """It left the group and dropped the environment by which it could be found, and holds the pipes: the docs say so."""
    pid_file = shop.folder / "pid"
    launcher = Wrapping(f'setsid env -i sh -c "echo \\$\\$ > {pid_file}; exec sleep 600" & exec "$@"')
    end = await shop.end(shop.executor(launcher=launcher), await shop.leaf("hello"), within_s=GRACE_S + SLACK_S)
    assert end.ok
    os.kill(int(pid_file.read_text()), signal.SIGKILL)


async def test_a_missing_interpreter_is_a_failed_leaf(shop: Shop) -> None:
    end = await shop.end(shop.executor(python_executable="/nowhere/python"), await shop.leaf("hello"))
    assert (end.status, end.fault) == ("failed", "leaf.launch_failed")
    assert "/nowhere/python" in end.reason


async def test_a_launcher_that_raises_is_a_failed_leaf(shop: Shop) -> None:
    end = await shop.end(shop.executor(launcher=Raising()), await shop.leaf("hello"))
    assert (end.status, end.fault) == ("failed", "leaf.launch_failed")
    assert "no sandbox today" in end.reason


@pytest.mark.parametrize(
    "command",
    ["echo well; exit 0", SAYS % "'{'", SAYS % "'x' * 1000, end=''"],
    ids=["none", "no JSON", "cut"],
)
async def test_an_end_that_cannot_be_read_is_a_failed_leaf(shop: Shop, command: str) -> None:
    launcher = Wrapping(command.replace("python3", sys.executable))
    end = await shop.end(shop.executor(launcher=launcher), await shop.leaf("hello"))
    assert (end.status, end.in_journal, end.fault) == ("failed", False, "leaf.result_broken")


async def test_a_leaf_cannot_speak_for_its_worker(shop: Shop) -> None:
    """What a tool prints is error output; who has not read the job cannot make the line of the result at all."""
    ref = await shop.leaf("tell_lies x")
    assert (await shop.end(shop.executor(), ref)).ok
    assert "done: lied" in str(await shop.loop.get_messages(ref.session_id))


async def test_a_factory_that_fails_is_a_failed_leaf_with_its_reason(shop: Shop) -> None:
    end = await shop.end(shop.executor(), await shop.leaf("hello", agent_name="broken"))
    assert (end.status, end.in_journal) == ("failed", False)
    assert "no loop today" in end.reason


async def test_a_store_that_nobody_named_is_said_with_the_variable_to_set(shop: Shop) -> None:
    ref = await shop.leaf("hello", place="north-1")
    end = await shop.end(shop.executor(), ref)
    assert (end.status, end.error_code) == ("failed", "config.invalid")
    assert "LOOPWRIGHT_DB_NORTH_1" in end.reason


async def test_a_session_of_another_agent_is_refused_before_anything_is_spent(shop: Shop) -> None:
    end = await shop.end(shop.executor(), await shop.leaf("hello", agent_name="other"))
    assert (end.status, end.in_journal, end.error_code) == ("failed", False, "agent.unavailable")


async def test_the_task_of_an_executor_that_is_cancelled_leaves_no_process(shop: Shop) -> None:
    """As when an event loop is shut down without `aclose`."""
    executor, ref = shop.executor(), await shop.leaf(f"hang {shop.folder}/there")
    await executor.submit(ref)
    await until((shop.folder / "there").exists)
    for task in list(executor._leaves._tasks.values()):
        task.cancel()
    await until(lambda: not executor._leaves._tasks)
    assert shop.processes() == []


def test_the_tag_of_a_leaf_finds_nobody_else() -> None:
    assert tagged("nobody has this") == []


async def test_the_line_of_the_result_is_found_in_any_cuts_of_any_output() -> None:
    end = LeafEnd(status="failed", in_journal=False, reason="çà, 你好 🙂\n\x1b[0m")
    line = end_line("n0", end)
    assert line.isascii()
    text = (
        b"some output without an end"
        + line
        + b"\nmore\n"
        + end_line("n0", LeafEnd(status="completed", in_journal=True))
    )
    for size in (1, 2, 7, 64, len(text)):
        scanner = EndScanner("n0")
        for at in range(0, len(text), size):
            scanner(text[at : at + size])
        assert scanner.end() == end
        assert not scanner.broken
    for bad in (line[:-1], line.replace(b"n0", b"n1")):
        scanner = EndScanner("n0")
        scanner(bad)
        scanner.ended()
        assert (scanner.end(), scanner.broken) == (None, bad is not line and b"n0" in bad)


async def test_a_line_of_the_result_beyond_its_bound_is_broken_and_not_kept() -> None:
    scanner = EndScanner("n0")
    scanner(b"\nLOOPWRIGHT-LEAF-END n0 ")
    for _ in range(100):
        scanner(b"x" * 1_000_000)
    assert scanner.broken
    assert len(scanner._kept) == 0


async def test_a_file_in_the_workspace_cannot_pass_for_a_module(shop: Shop) -> None:
    for name in ("json", "msgspec", "loopwright"):
        (shop.folder / f"{name}.py").write_text("raise SystemExit(7)")
    assert (await shop.end(shop.executor(), await shop.leaf("hello"))).ok
