"""A worker without a factory of the host's own: model and tools of its bootstrap."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.executors.processes import environment

from loopwright import AgentLoopConfig, StatefulAgentLoop
from loopwright.cli.leaf_setup import open_loop
from loopwright.executors.subprocess import SubprocessExecutor
from loopwright.executors.worker_job import LoopOrder, WorkerBootstrap
from loopwright.model.errors import ConfigError
from loopwright.ports.executor import LeafRef


async def test_a_leaf_needs_no_code_of_the_host(tmp_path: Path) -> None:
    dsn = str(tmp_path / "home.db")
    async with StatefulAgentLoop(llm="echo:", dsn=dsn, config=AgentLoopConfig(agent_name="writer")) as loop:
        ref = LeafRef(session_id=await loop.new_session(), agent_name="writer")
        await loop.enqueue("hello", session_id=ref.session_id)
        executor = SubprocessExecutor(WorkerBootstrap(llm="echo:"), env=environment(LOOPWRIGHT_DB=dsn))
        await executor.submit(ref)
        end = await executor.observe(ref)
        await executor.aclose()
        assert (end.status, end.in_journal) == ("completed", True), end
        assert [message.text for message in await loop.get_messages(ref.session_id)] == ["hello", "hello"]  # type: ignore[union-attr]


async def test_its_loop_has_the_tools_of_the_preset_and_the_name_of_the_agent(tmp_path: Path) -> None:
    given = WorkerBootstrap(llm="echo:", preset="explore")
    order = LoopOrder(dsn=str(tmp_path / "a.db"), agent_name="reader", workspace=str(tmp_path), bootstrap=given)
    async with open_loop(order) as loop:
        assert loop.config.agent_name == "reader"
        assert "read_file" in loop._kernel.tools.names()
        assert "bash" not in loop._kernel.tools.names()


async def test_without_a_model_it_is_said_what_to_set(tmp_path: Path) -> None:
    order = LoopOrder(
        dsn=str(tmp_path / "a.db"), agent_name="a", workspace=".", bootstrap=WorkerBootstrap(provider_prefix="NOWHERE_")
    )
    with pytest.raises(ConfigError, match="NOWHERE_MODEL"):
        open_loop(order)
