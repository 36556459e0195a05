"""Waking workers: what leaves work says so, whoever asks hears it, and what is not heard is found by looking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from tests.contract.stores.server_cuts import cut_all
from tests.waiting import next_turn

from loopwright import open_store
from loopwright.model.errors import StoreUnavailableError
from loopwright.ports.store import HeadChange, PutTimer, TakeItems
from loopwright.ports.store_admin import SessionStore
from loopwright.ports.wake_source import WakeSource
from loopwright.stores.postgres_wake import PostgresStore
from loopwright.testing.store_kit import begin, item, new_session, raises

LONG_S = 20.0
"""A wait that a test would not survive: whatever ends one of these is a wake."""


@asynccontextmanager
async def two(dsn: str) -> AsyncIterator[tuple[SessionStore, PostgresStore]]:
    """One that writes and one that listens already, with nothing unheard."""
    writing, listening = open_store(dsn), open_store(dsn)
    assert isinstance(listening, PostgresStore)
    try:
        await listening.wait_for_work(LONG_S)
        yield writing, listening
    finally:
        await writing.aclose()
        await listening.aclose()


async def test_an_item_for_an_idle_session_wakes_whoever_waits(postgres: str) -> None:
    async with two(postgres) as (writing, listening):
        await writing.create(new_session())
        waiting = asyncio.ensure_future(listening.wait_for_work(LONG_S))
        await writing.enqueue("s", item())
        await waiting


async def test_what_arrived_between_two_waits_ends_the_second_at_once(postgres: str) -> None:
    async with two(postgres) as (writing, listening):
        await writing.create(new_session())
        await writing.enqueue("s", item())
        await listening.wait_for_work(LONG_S)


@pytest.mark.parametrize("how", ["released", "closed"])
async def test_a_session_that_is_left_in_the_middle_wakes_whoever_waits(postgres: str, how: str) -> None:
    async with two(postgres) as (writing, listening):
        writer = await begin(writing)
        waiting = asyncio.ensure_future(listening.wait_for_work(LONG_S))
        if how == "released":
            await writer.write(release=True)
        else:
            await writing.aclose()
        await waiting


async def test_what_leaves_nothing_to_do_wakes_nobody(postgres: str) -> None:
    listening = await asyncpg.connect(postgres)
    heard: asyncio.Queue[str] = asyncio.Queue()
    await listening.add_listener("lw_work", lambda *said: heard.put_nowait(said[-1]))
    store = open_store(postgres)
    writer = await begin(store)
    await store.enqueue("s", item())  # its holder takes it
    await writer.apply(PutTimer("t", 1.0, b"{}"), TakeItems(("item-1",)))
    await writer.write(2, head=HeadChange(status="idle"), release=True)
    await listening.execute("NOTIFY lw_work, 'the first word'")  # words come in the order of their commits
    assert await heard.get() == "the first word"
    await store.aclose()
    await listening.close()


async def test_a_connection_that_is_cut_is_a_wake_and_is_made_again(postgres: str) -> None:
    async with two(postgres) as (writing, listening):
        await writing.create(new_session())
        waiting = asyncio.ensure_future(listening.wait_for_work(LONG_S))
        await cut_all(postgres)
        await waiting
        await listening.wait_for_work(LONG_S)  # connects: what was said meanwhile may be unheard
        waiting = asyncio.ensure_future(listening.wait_for_work(LONG_S))
        await writing.enqueue("s", item())
        await waiting


async def test_who_stops_waiting_loses_nothing(postgres: str) -> None:
    async with two(postgres) as (writing, listening):
        await writing.create(new_session())
        waiting = asyncio.ensure_future(listening.wait_for_work(LONG_S))
        await next_turn()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await writing.enqueue("s", item())
        await listening.wait_for_work(LONG_S)


async def test_a_server_that_is_away_cannot_be_listened_to_and_says_so() -> None:
    store = open_store("postgresql://nobody@127.0.0.1:1/db")
    assert isinstance(store, PostgresStore)
    with raises(StoreUnavailableError):
        await store.wait_for_work(LONG_S)
    await store.aclose()


async def test_other_stores_are_looked_at_by_the_clock(mariadb: str) -> None:
    for dsn in (mariadb, "memory:"):
        store = open_store(dsn)
        assert not isinstance(store, WakeSource)
        await store.aclose()
