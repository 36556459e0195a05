"""A session goes from every kind of store into every other, and is the same there."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import structs
from tests.scenario.upkeep.any_session import exported, images, imported
from tests.servers import client

from loopwright import StatefulAgentLoop, open_store
from loopwright.ports.store import SessionQuery
from loopwright.ports.store_admin import SessionStore
from loopwright.ports.store_transfer import SessionImage

SERVERS: Final = ("postgres", "mariadb")
PAIRS: Final = [
    pytest.param(*pair, marks=pytest.mark.server if set(pair) & set(SERVERS) else ())
    for pair in product(("memory", "sqlite", *SERVERS), repeat=2)
]


class NewPlaces:
    """New stores in one folder and one database of each server."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="between-stores-")))
        self._databases: dict[str, str] = {}
        self._count = 0

    def __call__(self, kind: str) -> str:
        self._count += 1
        if kind == "memory":
            return "memory:"
        if kind == "sqlite":
            return str(self._folder / f"{self._count}.db")
        if kind not in self._databases:
            self._databases[kind] = self._stack.enter_context(client.shared(kind).database())
        return f"{self._databases[kind]}?prefix=p{self._count}_"


@pytest.mark.parametrize("first, second", PAIRS)
def test_what_is_exported_and_imported_is_exported_the_same(first: str, second: str) -> None:
    async def there_and_back(one: SessionStore, two: SessionStore, *each: SessionImage) -> None:
        # Armed timers are paused by the import, so the second journey starts with paused ones.
        for image in each:
            timers = tuple(structs.replace(timer, paused=True) for timer in image.inventory.timers)
            await one.restore(structs.replace(image, inventory=structs.replace(image.inventory, timers=timers)))
        data = await exported(one)
        data.decode("utf-8")
        report = await imported(two, data)
        assert sorted(report.sessions) == ["s-1", "s-2"]
        assert await exported(two) == data
        for name in ("s-1", "s-2"):
            assert await two.inventory(name) == await one.inventory(name)
            assert list(await two.read(name)) == list(await one.read(name))
            for artifact in (await one.inventory(name)).artifacts:
                assert await two.read_artifact(artifact.artifact_id) == await one.read_artifact(artifact.artifact_id)
        assert list(await two.check()) == []
        for store in (one, two):
            await store.aclose()

    with ExitStack() as stack:
        place = NewPlaces(stack)

        @given(image=images("s-1"), other=images("s-2"))
        @settings(
            max_examples=6 if {first, second} & set(SERVERS) else 25,
            suppress_health_check=[HealthCheck.too_slow],
            deadline=None,
        )
        def holds(image: SessionImage, other: SessionImage) -> None:
            one, two = [open_store(place(kind), durability="relaxed") for kind in (first, second)]
            asyncio.run(there_and_back(one, two, image, other))

        holds()


@pytest.mark.parametrize("first, second", PAIRS)
async def test_a_conversation_goes_on_where_it_arrives(first: str, second: str) -> None:
    with ExitStack() as stack:
        place = NewPlaces(stack)
        async with StatefulAgentLoop(llm="echo:", dsn=place(first)) as old:
            sid = (await old.send("lone \ud800 and \0")).session_id
            data = await exported(old.store)
        async with StatefulAgentLoop(llm="echo:", dsn=place(second)) as new:
            assert (await imported(new.store, data)).sessions == [sid]
            assert (await new.send("and again", session_id=sid)).final_text == "and again"
            assert next(getattr(m, "text", "") for m in await new.get_messages(sid)) == "lone \ud800 and \0"


@pytest.mark.parametrize("first, second", PAIRS)
async def test_a_fork_comes_in_whole_also_beside_its_base(first: str, second: str) -> None:
    with ExitStack() as stack:
        place = NewPlaces(stack)
        async with StatefulAgentLoop(llm="echo:", dsn=place(first)) as old:
            base = (await old.send("good morning")).session_id
            artifact = await old.store.put_artifact(base, b"large", "text/plain")
            await old.send(f"look at {artifact.artifact_id}", session_id=base)
            fork = await old.fork(base)
            await old.send("another way", session_id=fork)
            told = await old.get_messages(fork)
            data = await exported(old.store)
        async with StatefulAgentLoop(llm="echo:", dsn=place(second)) as new:
            assert sorted((await imported(new.store, data)).sessions) == sorted([base, fork])
            assert {head.base for head in await new.store.list(SessionQuery())} == {None}
            await new.close_session(base)
            assert await new.get_messages(fork) == told
            assert await new.store.read_artifact(artifact.artifact_id) == b"large"
            assert (await new.send("and on", session_id=fork)).final_text == "and on"
            assert list(await new.store.check()) == []
