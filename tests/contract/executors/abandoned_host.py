"""A host whose leaf runs in a process of its own, and which is killed: `python -m … DSN SESSION`."""

from __future__ import annotations

import asyncio
import sys

from tests.contract.executors.faulty_leaves import FACTORY

from loopwright.executors.subprocess import SubprocessExecutor
from loopwright.executors.worker_job import WorkerBootstrap
from loopwright.ports.executor import LeafRef
from loopwright.testing.executor_suite import SUITE_FACTORY


async def main(session_id: str, kind: str) -> None:
    executor = SubprocessExecutor(WorkerBootstrap(factory=SUITE_FACTORY if kind == "waiting" else FACTORY))
    ref = LeafRef(session_id=session_id, agent_name="leaf")
    await executor.submit(ref)
    await executor.observe(ref)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
