"""`recover()` continues what was left behind, once, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.crash.agents import AGENTS, SESSION, one_send

from loopwright import LLMRequest, StatefulAgentLoop
from loopwright.ports.store import InboxItem
from loopwright.testing.crash_matrix import Life
from loopwright.testing.crash_points import CrashPoints, EffectLog, StopAt
from loopwright.testing.scripted import ScriptedLLM
from loopwright.testing.virtual import VirtualAmbient

pytestmark = pytest.mark.crash


async def test_a_stop_that_came_too_late_does_not_start_anything() -> None:
    with ScriptedLLM(["hello"]) as model:
        loop = StatefulAgentLoop(llm=model, dsn="memory:")
        session = await loop.new_session()
        await loop.send("hi", session_id=session)
        await loop.store.enqueue(session, InboxItem("late", "stop", b"stopped", 0.0))
        assert await loop.recover() == []
        assert (await loop.store.lookup(session)).waiting == ()
        await loop.aclose()


def interrupted(dsn: str) -> None:
    """A session whose process stopped before the model was asked."""

    async def live() -> None:
        life = Life(dsn, 1, CrashPoints(VirtualAmbient(), stop_at=StopAt("model.before")), EffectLog())
        loop = AGENTS["plain"].build(life)
        life.ambient.on_stop = loop.store.abandon
        sending = asyncio.ensure_future(one_send(loop))
        await asyncio.wait([sending])
        assert sending.exception() is not None
        await loop.aclose(drain_timeout_s=0.0)

    asyncio.run(live())


@pytest.mark.parametrize("workers", [2, 5])
def test_workers_that_recover_at_once_continue_a_session_once(workers: int, folder: Path) -> None:
    dsn = f"{folder}/sessions.db"
    interrupted(dsn)
    asked: list[LLMRequest] = []

    class Model:
        async def complete(self, request: LLMRequest) -> object:
            asked.append(request)
            return await ScriptedLLM(["hello"]).complete(request)

        async def aclose(self) -> None:
            return

    async def work() -> list[str]:
        loops = [StatefulAgentLoop(llm=Model(), dsn=dsn) for _ in range(workers)]  # type: ignore[arg-type]
        recovered = await asyncio.gather(*[loop.recover() for loop in loops])
        for loop in loops:
            await loop.aclose()
        return [found.session_id for several in recovered for found in several]

    assert asyncio.run(work()) == [SESSION]
    assert len(asked) == 1
