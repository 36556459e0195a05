"""The shipped suite on every shipped executor."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.executors.processes import environment

from loopwright import open_store
from loopwright.executors.beginning import begin
from loopwright.executors.bubblewrap import BubblewrapLauncher
from loopwright.executors.in_process import InProcessExecutor
from loopwright.executors.subprocess import SubprocessExecutor
from loopwright.executors.worker_job import LoopOrder, WorkerBootstrap
from loopwright.ports.executor import Executor
from loopwright.testing.executor_suite import SUITE_FACTORY, ExecutorSuite, open_suite_loop

BOOTSTRAP = WorkerBootstrap(factory=SUITE_FACTORY)


class TestInProcess(ExecutorSuite):
    own_process = False

    @asynccontextmanager
    async def executing(self, dsn: str) -> AsyncGenerator[Executor]:
        order = LoopOrder(dsn=dsn, agent_name="leaf", workspace=".", bootstrap=BOOTSTRAP)
        async with open_suite_loop(order) as loop:
            executor = InProcessExecutor(lambda session_id, stop: begin(loop, session_id, stop))
            yield executor
            await executor.aclose()


class TestSubprocess(ExecutorSuite):
    @asynccontextmanager
    async def executing(self, dsn: str) -> AsyncGenerator[Executor]:
        executor = SubprocessExecutor(BOOTSTRAP, env=environment(LOOPWRIGHT_DB=dsn))
        yield executor
        await executor.aclose()


class TestSubprocessWithFilesOfItsOwn(ExecutorSuite):
    @asynccontextmanager
    async def executing(self, dsn: str) -> AsyncGenerator[Executor]:
        home = open_store(dsn)
        executor = SubprocessExecutor(BOOTSTRAP, env=environment(), runs_dir=Path(dsn).parent / "runs")
        executor.attach(home, open_store)
        yield executor
        await executor.aclose()
        await home.aclose()


@pytest.mark.usefixtures("sandbox")
class TestSandboxedSubprocess(ExecutorSuite):
    """Also whatever else the suite asks for holds there; the files of its leaves are in the folder of the stage."""

    @asynccontextmanager
    async def executing(self, dsn: str) -> AsyncGenerator[Executor]:
        home, folder = open_store(dsn), Path(dsn).parent
        (folder / "work").mkdir()
        executor = SubprocessExecutor(
            WorkerBootstrap(factory=SUITE_FACTORY, workspace_dir=str(folder / "work")),
            env=environment(),
            runs_dir=folder / "runs",
            launcher=BubblewrapLauncher(writable=(str(folder),)),
        )
        executor.attach(home, open_store)
        yield executor
        await executor.aclose()
        await home.aclose()
