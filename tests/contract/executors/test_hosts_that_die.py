"""A host that is killed takes the processes of its leaves along; their sessions are whoever's is next."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from tests.contract.executors.conftest import Shop
from tests.contract.executors.processes import ROOT
from tests.waiting import next_turn, until


@pytest.mark.kill
@pytest.mark.parametrize("kind, words", [("waiting", "wait_for_ever"), ("standing still", "hang")])
async def test_a_killed_host_leaves_no_process_and_an_interrupted_session(shop: Shop, kind: str, words: str) -> None:
    there = shop.folder / "there"
    ref = await shop.leaf(f"{words} {there}")
    host = subprocess.Popen(  # noqa: ASYNC220 - it is only started here
        [sys.executable, "-m", "tests.contract.executors.abandoned_host", ref.session_id, kind], cwd=ROOT, env=shop.env
    )
    try:
        await until(there.exists, within_s=20.0)
        assert len(shop.processes()) == 2
    finally:
        host.kill()
        host.wait()
    await until(lambda: not shop.processes(), within_s=8.0)
    async with asyncio.timeout(1.5):  # sooner than the lease ends: the kernel may still be taking the process down
        while (head := (await shop.loop.store.lookup(ref.session_id)).head).expires_in_s:
            await next_turn(0.005)
    assert head.status == "running"


@pytest.mark.kill
async def test_a_worker_that_is_told_to_end_leaves_its_session_interrupted(shop: Shop) -> None:
    """By SIGTERM from anybody, as a machine that is shut down sends it."""
    executor, ref = shop.suite_executor(), await shop.leaf(f"wait_for_ever {shop.folder}/there")
    await executor.submit(ref)
    await until((shop.folder / "there").exists, within_s=20.0)
    for pid in shop.processes():
        subprocess.run(["kill", str(pid)], check=True)  # noqa: ASYNC221 - at once
    end = await executor.observe(ref)
    assert (end.status, end.in_journal, end.fault) == ("failed", False, "leaf.left")
    head = (await shop.loop.store.lookup(ref.session_id)).head
    assert (head.status, head.expires_in_s) == ("running", 0)
