"""A run that loses its store: the session is free again as soon as the store is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.scenario.conftest import Stage
from tests.waiting import next_turn

from loopwright import AgentEventType
from loopwright.model.errors import StoreFullError
from loopwright.ports.store import Committed, Transition
from loopwright.stores.memory import MemoryStore


class FullOnce(MemoryStore):
    """A store without space for one commit that holds a reply."""

    full = False

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        if self.full and any(r.kind == "assistant_message_added" for r in transition.records):
            self.full = False
            return self._fails()
        return super().commit(transition)

    async def _fails(self) -> Any:
        raise StoreFullError("no space left")


async def test_a_run_that_ended_in_a_store_error_gives_its_session_back(stage: Stage) -> None:
    store = FullOnce("")
    loop = stage.loop("lost", "said", store=store)
    seen: list[str] = []
    loop.event_bus.subscribe(lambda event: seen.append(event.type))
    sid = await loop.new_session()
    store.full = True
    with pytest.raises(StoreFullError):
        await loop.send("go", session_id=sid)
    assert seen[-1] == AgentEventType.RUN_ENDED

    async with asyncio.timeout(10):
        while (await store.lookup(sid)).head.owner is not None:
            await next_turn(0.01)
    (recovered,) = await loop.recover()
    assert recovered.result is not None
    assert recovered.result.final_text == "said"
