"""Nothing that was said can be read in the database, and nothing in it can be changed or moved unnoticed."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncmy
import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.contract.stores.sealing import (
    NEW,
    OLD,
    REFUSALS,
    ROTATED,
    SPOKEN,
    data_of,
    everything,
    sealed,
    speak,
)

from loopwright import open_store
from loopwright.engine.journal import load_state
from loopwright.model.archive_errors import SealBrokenError, SealKeyError, UnsealedError
from loopwright.model.errors import ConfigError, StoreCorruptError
from loopwright.ports.store import NewSession, SessionQuery
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.memory import MemoryStore
from loopwright.stores.memory_rules import SessionData, SharedData
from loopwright.stores.sqlite import SqliteStore
from loopwright.stores.static_keys import StaticKeys
from loopwright.testing.store_kit import acquire, head_of, new_session, raises, record, texts, work

WORD = SPOKEN.split()[-1].encode()


# --- nothing can be read -----------------------------------------------------------------------------------------------


def _files_that_say_it(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if WORD in path.read_bytes()}


async def test_a_file_and_its_log_hold_nothing_that_was_said(tmp_path: Path) -> None:
    plain, store = SqliteStore(tmp_path / "plain.db"), sealed(SqliteStore(tmp_path / "sealed.db"))
    for one in (plain, store):
        await speak(one, "s")
    found = _files_that_say_it(tmp_path)
    await store.checkpoint()
    await store.backup(tmp_path / "copy.db")
    for one in (plain, store):
        await one.aclose()
    assert found == {"plain.db-wal"}
    assert _files_that_say_it(tmp_path) == {"plain.db"}


async def _postgres_cells(dsn: str) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE tablename LIKE 'lw%'")
        return [cell for (name,) in tables for row in await connection.fetch(f"SELECT * FROM {name}") for cell in row]
    finally:
        await connection.close()


async def _mariadb_cells(dsn: str) -> list[Any]:
    parts = urlsplit(dsn)
    connection = await asyncmy.connect(
        host=parts.hostname, port=parts.port, user=parts.username, database=parts.path[1:], autocommit=True
    )
    async with connection.cursor() as cursor:
        await cursor.execute("SHOW TABLES LIKE 'lw%'")
        tables = [name for (name,) in await cursor.fetchall()]
        cells: list[Any] = []
        for name in tables:
            await cursor.execute(f"SELECT * FROM {name}")
            cells += [cell for row in await cursor.fetchall() for cell in row]
    connection.close()
    return cells


def _say(cells: Sequence[Any]) -> int:
    """In how many of them the word stands."""
    return sum(WORD in (bytes(c) if isinstance(c, bytes | bytearray) else str(c).encode()) for c in cells)


async def _spoken_on(dsn: str, cells: Callable[[str], Awaitable[list[Any]]]) -> tuple[int, int]:
    """In how many cells of a server's tables the word stands: after speaking sealed, and after speaking plain."""
    counts: list[int] = []
    for wrap in (sealed, lambda store: store):
        store: SessionStore = wrap(open_store(dsn))
        session_id = f"s{len(counts)}"
        artifact = await speak(store, session_id)
        assert await store.read_artifact(artifact.artifact_id) == SPOKEN.encode() * 5000
        assert (await head_of(store, session_id)).title == f"{SPOKEN}!"
        await store.aclose()
        counts.append(_say(await cells(dsn)))
    return counts[0], counts[1]


@pytest.mark.server
async def test_tables_of_postgres_hold_nothing_that_was_said(postgres: str) -> None:
    hidden, shown = await _spoken_on(postgres, _postgres_cells)
    assert (hidden, shown >= 6) == (0, True)


@pytest.mark.server
async def test_tables_of_mariadb_hold_nothing_that_was_said(mariadb: str) -> None:
    hidden, shown = await _spoken_on(mariadb, _mariadb_cells)
    assert (hidden, shown >= 6) == (0, True)


# --- nothing can be changed or moved ---------------------------------------------------------------------------------


def test_a_value_comes_back_or_a_typed_error_whichever_byte_is_flipped() -> None:
    """Each byte of each envelope of a session, one at a time, and envelopes that end early."""

    async def flip_each() -> int:
        inner = MemoryStore()
        store = sealed(inner)
        artifact = await speak(store, "s", "w")
        data, flips = data_of(inner).sessions["s"], 0
        before = await everything(store, "s", artifact.artifact_id)
        for get, put in _envelopes(data_of(inner), data, artifact.artifact_id):
            good = get()
            for n in range(len(good)):
                if n > 300 and n % 41:
                    continue  # far into the one long envelope
                put(good[:n] + bytes([good[n] ^ 1 << n % 8]) + good[n + 1 :])
                with pytest.raises(REFUSALS) as caught:
                    await everything(store, "s", artifact.artifact_id)
                assert caught.value.session_id == "s"
                flips += 1
            for cut in (b"", good[:7], good[:-1]):
                put(cut)
                with pytest.raises((*REFUSALS, StoreCorruptError)):
                    await everything(store, "s", artifact.artifact_id)
            put(good)
        assert await everything(store, "s", artifact.artifact_id) == before
        return flips

    assert asyncio.run(flip_each()) > 300


Envelope = tuple[Callable[[], bytes], Callable[[bytes], None]]


def _envelopes(shared: SharedData, data: SessionData, artifact_id: str) -> list[Envelope]:
    """Ways to read and write each envelope of a session: records, item, timer, title, artifact."""

    def row(n: int) -> Envelope:
        def put(body: bytes) -> None:
            data.records[n] = structs.replace(data.records[n], body=body)

        return lambda: data.records[n].body, put

    def put_item(body: bytes) -> None:
        data.items["i"] = structs.replace(data.items["i"], body=body)

    def put_timer(body: bytes) -> None:
        data.timers["t"] = structs.replace(data.timers["t"], body=body)

    def title() -> bytes:
        return base64.b64decode(data.head.title.removeprefix("sealed:"))

    def put_title(body: bytes) -> None:
        data.head = structs.replace(data.head, title="sealed:" + base64.b64encode(body).decode())

    def put_artifact(body: bytes) -> None:
        shared.artifacts[artifact_id] = (shared.artifacts[artifact_id][0], body)

    return [
        row(0),
        row(1),
        (lambda: data.items["i"].body, put_item),
        (lambda: data.timers["t"].body, put_timer),
        (title, put_title),
        (lambda: shared.artifacts[artifact_id][1], put_artifact),
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chosen=st.tuples(st.sampled_from("sr"), st.integers(0, 5), st.sampled_from("sr"), st.integers(0, 5)))
def test_a_sealed_value_opens_at_its_own_place_only(chosen: tuple[str, int, str, int]) -> None:
    """Any envelope put in any other place: another session's, another kind's, or another one's of its own session."""
    from_session, taken, to_session, place = chosen

    async def move() -> None:
        inner = MemoryStore()
        store = sealed(inner)
        artifacts = {name: (await speak(store, name)).artifact_id for name in "sr"}
        shared = data_of(inner)
        of = {name: _envelopes(shared, shared.sessions[name], artifacts[name]) for name in "sr"}
        before = await everything(store, to_session, artifacts[to_session])
        of[to_session][place][1](of[from_session][taken][0]())
        if (from_session, taken) == (to_session, place):
            assert await everything(store, to_session, artifacts[to_session]) == before
            return
        with pytest.raises(SealBrokenError) as caught:
            await everything(store, to_session, artifacts[to_session])
        assert caught.value.session_id == to_session
        assert caught.value.position == (place if place < 2 else None)

    asyncio.run(move())


async def test_slices_of_an_artifact_cannot_be_swapped_repeated_or_left_out() -> None:
    inner = MemoryStore()
    store = sealed(inner)
    await store.create(new_session())
    data = b"".join(bytes([n]) * 65536 for n in range(4))
    one = await store.put_artifact("s", data, "text/plain")
    known, stored = data_of(inner).artifacts[one.artifact_id]
    start = len(stored) % 65536 - 4 * ((len(stored) - len(data)) // 5)
    whole = (len(stored) - start) // 4
    head, parts = stored[:start], [stored[start + n * whole : start + (n + 1) * whole] for n in range(4)]
    assert await store.read_artifact(one.artifact_id) == data
    for order in ((1, 0, 2, 3), (0, 0, 2, 3), (0, 1, 2), (0, 1, 3), ()):
        data_of(inner).artifacts[one.artifact_id] = (known, head + b"".join(parts[n] for n in order))
        with raises(SealBrokenError) as caught:
            await store.read_artifact(one.artifact_id)
        assert "artifact" in str(caught.error)


async def test_a_record_that_claims_another_kind_or_version_does_not_open() -> None:
    inner = MemoryStore()
    store = sealed(inner)
    await speak(store, "s")
    rows = data_of(inner).sessions["s"].records
    for changed in ({"kind": "send_finished"}, {"version": 2}):
        good = rows[1]
        rows[1] = structs.replace(good, **changed)
        with raises(SealBrokenError) as caught:
            await store.read("s")
        assert (caught.error.session_id, caught.error.position) == ("s", 1)
        rows[1] = good


async def test_check_names_each_session_of_which_something_does_not_open_and_the_others_go_on() -> None:
    inner = MemoryStore()
    store = sealed(inner)
    for name in ("good", "bad", "worse"):
        await speak(store, name)
    assert list(await store.check()) == []
    shared = data_of(inner)
    shared.sessions["bad"].timers["t"] = structs.replace(shared.sessions["bad"].timers["t"], body=b"\x8fLWS\x01 mine")
    rows = shared.sessions["worse"].records
    rows[0], rows[1] = (structs.replace(rows[n], body=rows[1 - n].body) for n in (0, 1))
    shared.sessions["worse"].head = structs.replace(shared.sessions["worse"].head, title="hello")
    found = {problem.session_id: problem for problem in await store.check()}
    assert sorted(found, key=str) == ["bad", "worse"]
    assert "2 more" in found["worse"].what
    assert found["bad"].todo
    due = (await store.claim(work(now=10.0, limit=1))).timers
    assert [timer.body for timer in due] == [SPOKEN.encode()]
    assert sorted(timer.session_id for timer in (await store.claim(work(now=10.0))).timers) == ["good", "worse"]
    titles = {head.session_id: head.title for head in await store.list(SessionQuery())}
    assert titles == {"good": f"{SPOKEN}!", "bad": f"{SPOKEN}!", "worse": ""}
    with raises(UnsealedError):
        await store.lookup("worse")


# --- keys ------------------------------------------------------------------------------------------------------------


async def test_what_an_older_key_sealed_is_read_and_what_is_written_gets_the_current_one() -> None:
    inner = MemoryStore()
    before = await speak(sealed(inner), "s")
    store = sealed(inner, ROTATED)
    writer = await acquire(store, "s")
    await writer.write()
    assert len(await texts(store, "s")) == 4
    assert await store.read_artifact(before.artifact_id) == SPOKEN.encode() * 5000
    assert [b"2026-12" in row.body for row in data_of(inner).sessions["s"].records] == [False, False, True, True]
    with raises(SealKeyError) as caught:
        await sealed(inner).read("s")
    assert (caught.error.key_id, caught.error.session_id, caught.error.position) == ("2026-12", "s", 2)
    assert "'2026-12'" in str(caught.error)


async def test_another_key_of_the_same_id_opens_nothing() -> None:
    inner = MemoryStore()
    await speak(sealed(inner), "s")
    with raises(SealBrokenError):
        await sealed(inner, StaticKeys({"2026-01": NEW})).read("s")


@pytest.mark.parametrize("keys", [{}, {"short": b"x"}, {"": OLD}, {"x" * 65: OLD}])
def test_keys_that_cannot_work_are_refused_before_anything_is_stored(keys: dict[str, bytes]) -> None:
    with pytest.raises(ConfigError):
        sealed(MemoryStore(), StaticKeys(keys))


# --- plain records ---------------------------------------------------------------------------------------------------


async def test_what_was_stored_before_encryption_is_refused_unless_it_may_be_read() -> None:
    inner = MemoryStore()
    artifact = await speak(inner, "s")
    before = await everything(inner, "s", artifact.artifact_id)
    refusing, reading = sealed(inner), sealed(inner, plain="read")
    with raises(UnsealedError) as caught:
        await refusing.read("s")
    assert (caught.error.session_id, caught.error.position) == ("s", 0)
    for call in (refusing.lookup("s"), refusing.inventory("s"), refusing.read_artifact(artifact.artifact_id)):
        with raises(UnsealedError):
            await call
    assert [problem.session_id for problem in await refusing.check()] == ["s"]
    assert await everything(reading, "s", artifact.artifact_id) == before
    writer = await acquire(reading, "s")
    assert len(await texts(reading, "s")) == writer.position == 3
    assert WORD not in data_of(inner).sessions["s"].records[2].body


async def test_a_plain_title_that_begins_like_a_sealed_one_is_read_where_plain_ones_are() -> None:
    inner = MemoryStore()
    await speak(sealed(inner), "s")
    store, shared = sealed(inner, plain="read"), data_of(inner)
    right = shared.sessions["s"].head
    for title in ("sealed: bids for the bridge", "sealed:", "sealed:j0x"):
        shared.sessions["s"].head = structs.replace(right, title=title)
        assert (await store.lookup("s")).head.title == title
        with raises(UnsealedError):
            await sealed(inner).lookup("s")
    for title in (right.title[:-9], right.title[:20] + "?" + right.title[20:], right.title.replace("j0xX", "j0xXA")):
        shared.sessions["s"].head = structs.replace(right, title=title)
        with raises(SealBrokenError):
            await store.lookup("s")


async def test_without_keys_a_session_says_that_it_is_encrypted() -> None:
    inner = MemoryStore()
    await sealed(inner).create(NewSession(session_id="s", agent_name="a", records=(record(),), at=1.0))
    with raises(StoreCorruptError) as caught:
        await load_state("s", await inner.read("s"))
    assert "it is encrypted" in str(caught.error)
    assert (await head_of(inner, "s")).position == 1


# --- who does not use it ---------------------------------------------------------------------------------------------


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_without_the_package_the_error_names_the_extra() -> None:
    said = _run(
        "import sys; sys.modules['cryptography'] = None\n"
        "from loopwright.model.errors import ConfigError\n"
        "try:\n    import loopwright.stores.encrypted\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    assert said.startswith("encryption needs cryptography; pip install 'loopwright[crypto]'")


def test_a_process_without_encryption_loads_nothing_of_it(tmp_path: Path) -> None:
    loaded = _run(
        "import asyncio, sys\nfrom loopwright import StatefulAgentLoop\n"
        f"async def main():\n    async with StatefulAgentLoop(llm='echo:', dsn={str(tmp_path / 'x.db')!r}) as loop:\n"
        "        await loop.send('hello')\nasyncio.run(main())\n"
        "print([name for name in sys.modules if 'crypt' in name or 'sealing' in name])"
    )
    assert loaded == "[]"
