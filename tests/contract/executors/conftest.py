"""A store with leaves, and the executor that runs them in processes; at the end no process is left."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.executors.faulty_leaves import FACTORY, open_loop
from tests.contract.executors.processes import carrying, environment

from loopwright.executors.subprocess import SubprocessExecutor
from loopwright.executors.worker_job import LoopOrder, WorkerBootstrap
from loopwright.ports.executor import LeafEnd, LeafRef
from loopwright.testing.executor_suite import SUITE_FACTORY

MARK = "LEAVES_OF_THIS_TEST"


class Shop:
    """Makes leaves and executors, and knows which processes are theirs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dsn = str(folder / "home.db")
        self.mark = uuid.uuid4().hex
        self.env = environment(LOOPWRIGHT_DB=self.dsn, **{MARK: self.mark})
        order = LoopOrder(dsn=self.dsn, agent_name="leaf", workspace=str(folder), bootstrap=WorkerBootstrap())
        self.loop = open_loop(order)
        self.executors: list[SubprocessExecutor] = []

    def suite_executor(self, **options: Any) -> SubprocessExecutor:
        """Whose leaves are those of the shipped suite."""
        return self.executor(factory=SUITE_FACTORY, **options)

    def executor(self, factory: str = FACTORY, **options: Any) -> SubprocessExecutor:
        given: dict[str, Any] = {"env": self.env, "term_grace_s": 1.0, **options}
        made = SubprocessExecutor(WorkerBootstrap(factory=factory, workspace_dir=str(self.folder)), **given)
        self.executors.append(made)
        return made

    async def leaf(self, text: str, **facts: Any) -> LeafRef:
        session_id = await self.loop.new_session()
        await self.loop.enqueue(text, session_id=session_id)
        return LeafRef(**{"session_id": session_id, "agent_name": "leaf", "run_id": "run", "path": "step", **facts})

    async def end(self, executor: SubprocessExecutor, ref: LeafRef, *, within_s: float = 20.0) -> LeafEnd:
        """Its end, after which none of its processes is there any more, wherever it went."""
        await executor.submit(ref)
        end = await asyncio.wait_for(executor.observe(ref), within_s)
        assert self.processes() == []
        return end

    def processes(self) -> list[int]:
        return carrying(MARK, self.mark)

    async def stopped_within(self, executor: SubprocessExecutor, ref: LeafRef, seconds: float) -> LeafEnd:
        """Its end, once it was asked to stop."""
        began = time.monotonic()
        await executor.cancel(ref, "enough")
        end = await executor.observe(ref)
        assert time.monotonic() - began < seconds
        assert self.processes() == []
        return end


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    made = Shop(tmp_path)
    try:
        yield made
    finally:
        for executor in made.executors:
            await executor.aclose()
        await made.loop.aclose()
    assert made.processes() == []
