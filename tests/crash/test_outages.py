"""A server that goes away in the middle of a run: a short outage is waited for, a long one is an error that says "later"."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.servers.client import ServerHandle
from tests.waiting import next_turn

from loopwright import AgentLoopConfig, StatefulAgentLoop, ToolDefinition, open_store, tool
from loopwright.model.codec import decode_record
from loopwright.model.errors import RetryLaterError
from loopwright.model.records import RunResumed, ToolFinished
from loopwright.stores.server import ServerStore
from loopwright.testing import ScriptedLLM, calls

pytestmark = [pytest.mark.crash, pytest.mark.server, pytest.mark.timeout(120)]


@pytest.fixture(params=["own_postgres", "own_mariadb"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def interrupted_by(what: Callable[[], Awaitable[None]]) -> ToolDefinition:
    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        await what()
        return "paid"

    return pay


async def records(loop: StatefulAgentLoop, session_id: str) -> list[Any]:
    return [decode_record(row.kind, row.version, row.body) for row in await loop.store.read(session_id)]


async def test_a_run_goes_on_after_an_outage_shorter_than_its_lease(server: ServerHandle) -> None:
    starting: list[asyncio.Task[None]] = []

    async def goes_and_comes() -> None:
        await asyncio.to_thread(server.stop)
        starting.append(asyncio.create_task(asyncio.to_thread(server.start)))

    config = AgentLoopConfig(lease_ttl_s=60.0)
    dsn = server.new_database()
    model = ScriptedLLM([calls(("pay", {})), "done"])
    async with StatefulAgentLoop(llm=model, dsn=dsn, tools=[interrupted_by(goes_and_comes)], config=config) as loop:
        await loop.new_session(session_id="s")
        result = await loop.send("go", session_id="s")
        await asyncio.gather(*starting)
        assert result.final_text == "done"
        found = await records(loop, "s")
        assert [one.status for one in found if isinstance(one, ToolFinished)] == ["finished"]
        assert not [one for one in found if isinstance(one, RunResumed)]
        assert (await loop.store.lookup("s")).head.owner is None


async def test_a_loop_waits_for_its_server_for_as_long_as_its_leases_last() -> None:
    for lease_s, patience_s in ((60.0, 60.0), (1.0, 10.0)):
        config = AgentLoopConfig(lease_ttl_s=lease_s)
        loop = StatefulAgentLoop(llm="echo:", dsn="postgresql://nobody@127.0.0.1:1/db", config=config)
        assert isinstance(loop.store, ServerStore)
        assert loop.store._writing._patience_s == patience_s
        loop.store.abandon()


async def test_a_longer_outage_is_an_error_that_says_later_and_the_run_can_be_continued(server: ServerHandle) -> None:
    async def goes() -> None:
        await asyncio.to_thread(server.stop)

    store = open_store(server.new_database(), busy_wait_s=0.3)
    model = ScriptedLLM([calls(("pay", {})), "done"])
    async with (
        StatefulAgentLoop(llm=model, store=store, tools=[interrupted_by(goes)]) as loop,
        asyncio.timeout(60),
    ):
        await loop.new_session(session_id="s")
        with pytest.raises(RetryLaterError):
            await loop.send("go", session_id="s")
        await asyncio.to_thread(server.start)
        while (await store.lookup("s")).head.owner is not None:  # until the lease is given back
            await next_turn(0.01)
        (recovered,) = await loop.recover()
        assert recovered.result is not None
        assert recovered.result.final_text == "done"
        statuses = [one.status for one in await records(loop, "s") if isinstance(one, ToolFinished)]
        assert statuses == ["uncertain"], "nobody knows of a `once` call whose result could not be stored"
    await store.aclose()
