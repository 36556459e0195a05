"""Linked sessions: what the engine writes verifies, whoever wrote it, and what was changed in the store is found."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.scenario.conftest import Stage, asked, said
from tests.servers import client

from loopwright import AgentLoopConfig, StatefulAgentLoop, tool
from loopwright.core.chain import ChainReport
from loopwright.engine.actor import ACTORS
from loopwright.engine.exporting import Exporter
from loopwright.engine.importing import Importer
from loopwright.model.codec import CURRENT_FORMAT, encode_record
from loopwright.model.errors import ConfigError, SessionGoneError, SessionNotFoundError, SessionTooNewError
from loopwright.model.records import (
    AssistantMessageAdded,
    ChainLinked,
    SendFinished,
    SendStarted,
    StateCheckpointed,
    ToolFinished,
)
from loopwright.ports.store import Acquire, EncodedRecord, HeadChange, Transition
from loopwright.stores.memory import MemoryStore
from loopwright.testing import ScriptedLLM

KEY = b"k" * 32


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect="once")
async def pay() -> str:
    """Pay."""
    return "paid"


def calls() -> Any:
    return asked(("a", "look", "{}"), ("b", "pay", "{}"), ("c", "look", "{}"), ("d", "pay", "{}"))


def whole(report: ChainReport) -> None:
    """Every record is vouched for."""
    assert (report.problems, report.unlinked, report.linked) == ((), (), report.records)


async def test_every_record_of_a_session_is_linked_with_its_transition(stage: Stage) -> None:
    loop = stage.loop(calls(), "done", "more", tools=[look, pay], hash_chain=True, checkpoint_every=6)
    sid = (await loop.send("hi")).session_id
    await loop.send("again", session_id=sid)
    records = await stage.records(loop, sid)
    whole(await loop.verify(sid))
    assert sum(isinstance(record, StateCheckpointed) for record in records) >= 2
    assert isinstance(records[1], ChainLinked)
    assert isinstance(records[-1], ChainLinked)


async def test_a_session_goes_on_linked_in_a_loop_that_reads_it_anew(stage: Stage) -> None:
    sid = await stage.loop(hash_chain=True, checkpoint_every=4).new_session()
    for text in ("one", "two", "three", "four"):
        loop = stage.loop(text, hash_chain=True, checkpoint_every=4, session_cache_size=0)
        await loop.send("say", session_id=sid)
        ACTORS.drop(loop.store.identity)
        whole(await loop.verify(sid))


async def test_without_the_option_nothing_is_written_and_any_version_can_read(stage: Stage) -> None:
    loop = stage.loop("one")
    sid = (await loop.send("hi")).session_id
    assert ChainLinked not in {type(record) for record in await stage.records(loop, sid)}
    assert (await loop.store.lookup(sid)).head.min_format == 1
    report = await loop.verify(sid)
    assert (report.intact, report.digest, report.problems[0].why) == (False, None, "unlinked")


async def test_a_version_that_does_not_know_links_is_told_before_it_spends_anything(stage: Stage) -> None:
    """Such a version refuses by the head's format; this one does the same with the next format."""
    loop = stage.loop("one", "two", hash_chain=True)
    fresh = await loop.new_session()
    assert (await loop.store.lookup(fresh)).head.min_format == 2
    plain = stage.loop("three")
    late = (await plain.send("hi")).session_id
    await loop.send("hi", session_id=late)
    await loop.send("hi", session_id=fresh)
    for sid in (fresh, late):
        assert (await loop.store.lookup(sid)).head.min_format == 2 < CURRENT_FORMAT
    await _written(loop, late, min_format=CURRENT_FORMAT + 1)
    ACTORS.drop(loop.store.identity)
    with pytest.raises(SessionTooNewError):
        await loop.send("more", session_id=late)


async def test_turned_on_in_mid_life_it_vouches_for_what_comes_and_lists_what_was(stage: Stage) -> None:
    first = stage.loop("one", "four")
    sid = (await first.send("hi")).session_id
    before = (await first.store.lookup(sid)).head.position
    linking = stage.loop("two", "three", hash_chain=True)
    await linking.send("more", session_id=sid)
    ACTORS.drop(linking.store.identity)
    await linking.send("more", session_id=sid)
    report = await linking.verify(sid)
    assert (report.intact, report.unlinked) == (True, ((0, before - 1),))
    digest = report.digest
    # Off again: what that process writes has no link, and says so.
    await first.send("more", session_id=sid)
    off = await linking.verify(sid, expected=digest)
    assert [(p.position, p.why) for p in off.problems] == [(report.records, "unlinked")]
    assert off.expected_position == report.digest_position


async def test_two_writers_with_different_settings_leave_one_chain_with_gaps(stage: Stage) -> None:
    linking, plain, keyed = (
        stage.loop("a", "d", hash_chain=True),
        stage.loop("b"),
        stage.loop("c", hash_chain=True, hash_chain_key=KEY),
    )
    sid = await linking.new_session()
    ends = []
    for loop in (linking, plain, keyed, linking):
        await loop.send("say", session_id=sid)
        ends.append((await loop.store.lookup(sid)).head.position)
    without = await linking.verify(sid)
    assert [p.why for p in without.problems] == ["other_key"]
    assert without.unlinked == ((ends[0], ends[2] - 1),)
    with_key = await keyed.verify(sid)
    assert [p.why for p in with_key.problems] == ["unlinked"]
    assert with_key.unlinked == ((0, ends[1] - 1), (ends[2], ends[3] - 1))


@pytest.mark.parametrize("point", ["commit.before", "commit.after"])
async def test_a_process_that_died_leaves_whole_transitions_and_another_goes_on(stage: Stage, point: str) -> None:
    sid = await stage.loop().new_session()
    names = "assistant_message_added+send_finished+chain_linked"
    mortal = stage.mortal(f"{point}:{names}", "lost", hash_chain=True)
    await stage.dies(mortal, mortal.send("hi", session_id=sid, send_id="one"))
    again = ["found"] if point == "commit.before" else []
    loop = stage.loop(*again, hash_chain=True)
    await loop.send("hi", session_id=sid, send_id="one")
    report = await loop.verify(sid)
    assert (report.intact, report.unlinked) == (True, ((0, 0),))


async def test_a_repair_is_linked_and_the_damage_is_not(stage: Stage) -> None:
    first = stage.loop("one", hash_chain=True)
    sid = (await first.send("hi")).session_id
    good = (await first.store.lookup(sid)).head.position
    call = asked(("c1", "a", "{}")).message()
    damage = (
        SendStarted(index=2, max_rounds=3),
        AssistantMessageAdded(call, 1),
        SendFinished(outcome="completed"),
        ToolFinished("ghost", "a", "finished", "boo"),
    )
    await _written(first, sid, *damage)
    ACTORS.drop(first.store.identity)
    loop = stage.loop("two", hash_chain=True)
    await loop.send("again", session_id=sid)
    report = await loop.verify(sid)
    kinds = [row.kind for row in await loop.store.read(sid)]
    assert "history_repaired" in kinds[good + len(damage) :]
    assert (report.intact, report.unlinked) == (True, ((good, good + len(damage) - 1),))


async def _written(loop: StatefulAgentLoop, sid: str, *records: Any, min_format: int | None = None) -> None:
    """Writes past the engine."""
    rows = [(encode_record(record), 0.0) for record in records]
    await loop.store.commit(
        Transition(
            session_id=sid,
            expect=(await loop.store.lookup(sid)).head.position,
            lease=Acquire(b"0" * 16, 15.0),
            records=tuple(EncodedRecord(kind, version, at, body) for (kind, version, body), at in rows),
            head=HeadChange(min_format=min_format),
            release=True,
        )
    )


async def test_a_deleted_or_unknown_session_is_named_and_a_wrong_digest_refused(stage: Stage) -> None:
    loop = stage.loop(hash_chain=True)
    sid = await loop.new_session()
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        await loop.verify(sid, expected="abc")
    with pytest.raises(SessionNotFoundError):
        await loop.verify("nobody")
    await loop.close_session(sid)
    with pytest.raises(SessionGoneError):
        await loop.verify(sid)


async def test_the_chain_goes_along_with_an_export_and_goes_on_after_the_import(stage: Stage) -> None:
    loop = stage.loop(calls(), "done \ud800", tools=[look, pay], hash_chain=True, hash_chain_key=KEY)
    sid = (await loop.send("lone \udfff and \0")).session_id
    digest = (await loop.verify(sid)).digest
    file = io.BytesIO()
    await Exporter(loop.store, file.write).run([sid], library="test", at=1.0)
    store = MemoryStore()
    await Importer(store).run(io.BytesIO(file.getvalue()))
    config = AgentLoopConfig(hash_chain=True, hash_chain_key=KEY)
    async with StatefulAgentLoop(llm="echo:", store=store, config=config) as there:
        whole(await there.verify(sid, expected=digest))
        await there.send("go on", session_id=sid)
        whole(report := await there.verify(sid, expected=digest))
        assert report.digest != digest


async def test_an_export_that_was_edited_is_imported_and_found_out(stage: Stage) -> None:
    loop = stage.loop("never", hash_chain=True)
    sid = (await loop.send("pay never")).session_id
    file = io.BytesIO()
    await Exporter(loop.store, file.write).run([sid], library="test", at=1.0)
    store = MemoryStore()
    await Importer(store).run(io.BytesIO(file.getvalue().replace(b"pay never", b"pay soon!")))
    async with StatefulAgentLoop(llm="echo:", store=store) as there:
        assert [p.why for p in (await there.verify(sid)).problems] == ["changed_body"]


async def test_a_long_journal_is_read_in_pages_while_the_session_goes_on(stage: Stage) -> None:
    loop = stage.loop(*[str(n) for n in range(200)], hash_chain=True)
    sid = await loop.new_session()
    for _ in range(199):
        await loop.send("say", session_id=sid)
    report, _ = await asyncio.gather(loop.verify(sid), loop.send("say", session_id=sid))
    whole(report)
    assert report.records > 1000


def test_a_key_is_never_shown_and_must_be_bytes_of_some_length() -> None:
    assert "kkkk" not in repr(AgentLoopConfig(hash_chain_key=KEY))
    assert "max_rounds=24" in repr(AgentLoopConfig())
    for key in (b"short", "k" * 32):
        with pytest.raises(ConfigError, match="hash_chain_key must be bytes, at least 16"):
            AgentLoopConfig(hash_chain_key=key)  # type: ignore[arg-type]


# --- edits of a real file ---------------------------------------------------------------------------------------------

EDITS = {
    "changed_body": "UPDATE lw_records SET body = CAST(replace(body, 'hello', 'hallo') AS BLOB) WHERE kind = 'user_message_added'",
    "changed_kind_or_time": "UPDATE lw_records SET at = at + 0.000001 WHERE kind = 'send_finished'",
    "reordered": (
        "UPDATE lw_records SET id = -1 WHERE kind = 'send_started'; UPDATE lw_records SET id = id - 1 WHERE kind ="
        " 'user_message_added'; UPDATE lw_records SET id = (SELECT id + 1 FROM lw_records WHERE kind ="
        " 'user_message_added') WHERE id = -1"
    ),
    "missing": "DELETE FROM lw_records WHERE kind = 'send_started'",
    "inserted": (
        "UPDATE lw_records SET id = -id - 1 WHERE id & 4294967295 >= 3; UPDATE lw_records SET id = -id WHERE id < 0;"
        " INSERT INTO lw_records SELECT id + 1, kind, version, at, body FROM lw_records WHERE id & 4294967295 = 2;"
        " UPDATE lw_sessions SET position = position + 1"
    ),
    "changed_link": (
        'UPDATE lw_records SET body = CAST(replace(body, \'"digest":"\', \'"digest":"0\') AS BLOB) WHERE kind ='
        " 'chain_linked' AND id & 4294967295 = 4"
    ),
    "unlinked": "DELETE FROM lw_records WHERE kind = 'chain_linked' AND id & 4294967295 = 7;"
    " UPDATE lw_sessions SET position = 7",
}


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with one linked session "s" of one send."""
    path = tmp_path_factory.mktemp("linked") / "app.db"

    async def talk() -> None:
        config = AgentLoopConfig(hash_chain=True)
        async with StatefulAgentLoop(llm=ScriptedLLM([said("hello")]), dsn=path, config=config) as loop:
            await loop.new_session(session_id="s")
            await loop.send("hello", session_id="s")

    asyncio.run(talk())
    return path.read_bytes()


def edited(path: Path, script: str, *values: Any) -> ChainReport:
    """What is said after the file was changed by hand."""
    connection = apsw.Connection(str(path))
    connection.execute(script, values or None)
    connection.close()

    async def verified() -> ChainReport:
        async with StatefulAgentLoop(llm="echo:", dsn=path) as loop:
            return await loop.verify("s")

    return asyncio.run(verified())


@pytest.mark.parametrize("why", EDITS)
def test_an_edit_of_the_file_is_found(why: str, conversation: bytes, tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    path.write_bytes(conversation)
    assert edited(path, "SELECT 1").intact
    report = edited(path, EDITS[why])
    assert (report.problems[0].why, report.intact) == (why, False), report


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_changed_value_of_any_stored_record_is_found(
    data: st.DataObject, conversation: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "app.db"
    for old in tmp_path.iterdir():
        old.unlink()
    path.write_bytes(conversation)
    position = data.draw(st.integers(0, 7))
    column = data.draw(st.sampled_from(["kind", "version", "at", "body"]))
    connection = apsw.Connection(str(path))
    (before,) = connection.execute(f"SELECT {column} FROM lw_records WHERE id & 4294967295 = ?", (position,)).fetchone()
    connection.close()
    values: dict[str, st.SearchStrategy[Any]] = {
        "kind": st.sampled_from(["send_paused", "chain_linked", "", "x"]),
        "version": st.integers(0, 2**40) | st.just("x"),
        "at": st.floats(allow_nan=False) | st.just("soon"),
        "body": st.integers(0, len(before) - 1).map(lambda n: before[:n] + bytes([before[n] ^ 1]) + before[n + 1 :])
        | st.sampled_from([b"", before + b" ", b"{}", before.decode() if column == "body" else ""])
        if column == "body"
        else st.nothing(),
    }
    value = data.draw(values[column])
    assume(value != before)
    report = edited(path, f"UPDATE lw_records SET {column} = ?1 WHERE id & 4294967295 = ?2", value, position)
    assert not report.intact
    assert report.problems[0].position in range(max(position - 3, 0), position + 4)


# --- servers ----------------------------------------------------------------------------------------------------------


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
async def test_a_chain_holds_on_a_server_that_keeps_times_and_bytes_in_its_own_way(kind: str) -> None:
    with client.shared(kind).database() as dsn:
        config = AgentLoopConfig(hash_chain=True, hash_chain_key=KEY, checkpoint_every=5)
        for text in ("lone \ud800 and \0", "日本語 😀"):
            async with StatefulAgentLoop(llm="echo:", dsn=dsn, config=config) as loop:
                sid = (await loop.send(text)).session_id
                await loop.send("again", session_id=sid)
                whole(await loop.verify(sid))
            ACTORS.drop(loop.store.identity)
            async with StatefulAgentLoop(llm="echo:", dsn=dsn, config=config) as loop:
                await loop.send("later", session_id=sid)
                whole(await loop.verify(sid))
