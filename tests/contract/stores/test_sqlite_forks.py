"""Forks in a SQLite file: what they cost those who have none, and damage that is found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from loopwright.model.errors import StoreCorruptError
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.store_fork_promises import fork_of, grown
from loopwright.testing.store_kit import acquire


async def statements_of(store: SqliteStore, work: Callable[[], Awaitable[object]]) -> list[str]:
    """What is asked of the file on the loop's own connection meanwhile."""
    asked: list[str] = []

    def note(_cursor: apsw.Cursor, statement: str, _values: Any) -> bool:
        asked.append(statement)
        return True

    connection = store._own.connection
    connection.exec_trace = note
    try:
        await work()
    finally:
        connection.exec_trace = None
    return asked


async def test_what_has_no_fork_and_what_is_a_forks_own_is_read_and_written_with_the_same_statements(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "s.db", durability="relaxed")
    await grown(store, "plain")
    await grown(store, "base")
    await store.create(fork_of("base", 3))
    plain, fork = await acquire(store, "plain"), await acquire(store, "f")
    assert plain.position == fork.position
    reads = [await statements_of(store, partial(store.read, name, after=3)) for name in ("plain", "base", "f")]
    assert reads[0] == reads[1] == reads[2]
    assert len(reads[0]) == 5, "a snapshot of three statements"
    writes = [await statements_of(store, writer.write) for writer in (plain, fork)]
    assert writes[0] == writes[1]
    assert len(await statements_of(store, partial(store.read, "f"))) == len(reads[0]) + 2, (
        "one for the base, one for its records"
    )
    await store.aclose()


async def test_a_fork_whose_base_was_lost_is_found_and_never_read_as_if_it_were_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    await grown(store, "lost")
    await grown(store, "cut")
    await store.create(fork_of("lost", 3, "of-lost"))
    await store.create(fork_of("cut", 3, "of-cut"))
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM lw_sessions WHERE session_id = 'lost'; DELETE FROM lw_records WHERE id & 255 = 2")
    connection.close()
    said = {problem.session_id: problem.what for problem in await store.check()}
    assert "session lost has not the records before 3" in said["of-lost"]
    assert "3 records" in said["cut"]
    for name in ("of-lost", "of-cut"):
        with pytest.raises(StoreCorruptError, match="restore a backup"):
            await store.read(name)
    await store.aclose()
