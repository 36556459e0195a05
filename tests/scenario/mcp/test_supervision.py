"""When a connection is started again, and when it waits for somebody to want it: in virtual time, without any server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.scenario.mcp.servers import connected

from loopwright.connectors import McpServerSpec, McpUnavailableError
from loopwright.connectors.mcp_connection import MAX_FAILURES
from loopwright.connectors.mcp_streams import Streams
from loopwright.model.errors import UsageError
from loopwright.testing.virtual import VirtualAmbient

SPEC = McpServerSpec(name="s", command="x")


class Closed:
    """A route that cannot be opened."""

    why_it_ended = "nobody is there"
    last_words = "bye"
    is_forgotten = False

    def __init__(self, tries: list[float], ambient: VirtualAmbient, *, is_refused: bool = False) -> None:
        self.is_refused = is_refused
        self._tries = tries
        self._ambient = ambient

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Streams]:
        self._tries.append(self._ambient.monotonic())
        raise OSError("closed")
        yield


async def test_attempts_are_further_and_further_apart_and_end() -> None:
    ambient, tries = VirtualAmbient(), list[float]()
    async with connected(SPEC, ambient=ambient, route=lambda: Closed(tries, ambient)) as connection:
        with pytest.raises(McpUnavailableError, match="nobody is there; it printed: bye"):
            await connection.connect()
        assert connection._task is not None
        await asyncio.wait_for(asyncio.shield(connection._task), 10)
        pauses = [after - before for before, after in itertools.pairwise(tries)]
        assert len(tries) == MAX_FAILURES
        assert all(0.25 * 2**place <= pause <= 0.5 * 2**place for place, pause in enumerate(pauses))
        assert connection.state.status == "failed"
        with pytest.raises(McpUnavailableError):  # whoever wants it next starts it anew
            await connection.connect()
        assert len(tries) > MAX_FAILURES


async def test_a_server_that_refuses_us_is_not_asked_again() -> None:
    ambient, tries = VirtualAmbient(), list[float]()
    route = Closed(tries, ambient, is_refused=True)
    async with connected(SPEC, ambient=ambient, route=lambda: route) as connection:
        with pytest.raises(McpUnavailableError):
            await connection.connect()
        assert connection._task is not None
        await connection._task
        assert len(tries) == 1


async def test_a_closed_connection_refuses_requests_and_is_not_started() -> None:
    tries = list[float]()
    ambient = VirtualAmbient()
    async with connected(SPEC, ambient=ambient, route=lambda: Closed(tries, ambient)) as connection:
        pass
    with pytest.raises(UsageError, match="is closed"):
        await connection.call_tool("x", {})
    assert tries == []


async def test_closing_ends_those_who_wait_for_the_next_attempt() -> None:
    class Never(VirtualAmbient):
        async def sleep(self, seconds: float) -> None:
            await asyncio.Event().wait()

    ambient, tries = Never(), list[float]()
    async with connected(SPEC, ambient=ambient, route=lambda: Closed(tries, ambient)) as connection:
        with pytest.raises(McpUnavailableError):
            await connection.connect()
        waiting = asyncio.ensure_future(connection.connect())
        await asyncio.wait({waiting}, timeout=0.01)
        assert not waiting.done()
        await connection.aclose()
        with pytest.raises(McpUnavailableError, match="closed"):
            await waiting
