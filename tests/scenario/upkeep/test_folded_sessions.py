"""Sessions with folds leave and enter stores, are verified, examined, encrypted and shown like others."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from msgspec import structs
from tests.contract.stores.sealing import sealed
from tests.scenario.conftest import Stage, texts
from tests.scenario.rooms import Short, labels, look, opened, recalled, told
from tests.scenario.upkeep.any_session import exported, imported

from loopwright import StatefulAgentLoop
from loopwright.cli.transcript import transcript
from loopwright.engine.diagnosis import examine
from loopwright.engine.session_lines import SessionLine, read_line, written
from loopwright.model.archive_errors import ExportFileError
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.memory import MemoryStore
from loopwright.stores.sqlite import SqliteStore


async def folded(store: SessionStore) -> tuple[str, str]:
    """(a session, a fork of it) whose first three of four sends are a note."""
    async with StatefulAgentLoop(llm="echo:", store=store, fold=Short()) as loop:
        sid = await loop.new_session()
        for room in ("attic", "cellar", "hall", "yard"):
            await loop.send(f"the {room}", session_id=sid)
        assert await loop.fold(sid)
        return sid, await loop.fork(sid)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_imported_session_and_fork_have_the_window_and_everything_that_was_folded(
    kind: str, tmp_path: Path
) -> None:
    old = SqliteStore(tmp_path / "old.db")
    ids = await folded(old)
    new = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "new.db")
    await imported(new, await exported(old))
    async with StatefulAgentLoop(llm="echo:", store=old) as before, StatefulAgentLoop(llm="echo:", store=new) as after:
        for sid in ids:
            head = (await new.lookup(sid)).head
            assert head.window_start == (await old.lookup(sid)).head.window_start > 0
            assert (await examine(new, head)).condition == "fine"
            assert await after.get_messages(sid) == await before.get_messages(sid)
            whole = await after.get_messages(sid, include_compacted=True)
            assert texts(whole)[:2] == ["user: the attic", "assistant: the attic"]
            assert (await after.send("more", session_id=sid)).final_text == "more"
    await old.aclose()
    await new.aclose()


async def test_an_export_whose_window_begins_in_the_middle_of_nothing_is_refused() -> None:
    store = MemoryStore()
    sid, _ = await folded(store)
    lines = (await exported(store, sid)).splitlines(keepends=True)
    first = read_line(lines[1])
    assert isinstance(first, SessionLine)
    moved = structs.replace(first, head=structs.replace(first.head, window_start=first.head.window_start + 1))
    with pytest.raises(ExportFileError, match="its window does not begin at"):
        await imported(MemoryStore(), b"".join([lines[0], written(moved), *lines[2:]]))


async def test_an_encrypted_store_folds_forks_and_gives_everything_back(tmp_path: Path) -> None:
    inner = MemoryStore()
    sid, fork = await folded(sealed(inner))
    async with StatefulAgentLoop(llm="echo:", store=sealed(inner)) as loop:
        assert await loop.get_messages(fork) == await loop.get_messages(sid)
        assert len(await loop.get_messages(fork)) == 3
        assert len(await loop.get_messages(fork, include_compacted=True)) == 8
        await loop.send("more", session_id=fork)
        await loop.close_session(sid, copy_to_forks=True)
        assert texts(await loop.get_messages(fork, include_compacted=True))[0] == "user: the attic"


async def test_the_links_of_a_folded_session_and_of_its_fork_hold(stage: Stage) -> None:
    loop = stage.loop("a", "b", "c", "d", "e", fold=Short(), hash_chain=True)
    sid = await loop.new_session()
    for text in ("1", "2", "3"):
        await loop.send(text, session_id=sid)
    assert await loop.fold(sid)
    await loop.send("4", session_id=sid)
    fork = await loop.fork(sid)
    await loop.send("5", session_id=fork)
    assert (await loop.verify(sid)).intact
    assert (await loop.verify(fork)).intact


async def test_a_transcript_shows_the_whole_conversation_and_where_it_was_folded(stage: Stage) -> None:
    loop, sid, (_, _, newest) = await told(stage)
    shown = list(transcript(await loop.store.read(sid)))
    assert [line.text for line in shown if line.tone == "user"] == [
        f"What is in the {room}?" for room in ("attic", "cellar", "hall")
    ]
    (mark,) = [line for line in shown if line.label == "folded"]
    assert f"everything before #{newest} is one note" in mark.text
    assert mark.text.endswith("; asked for by the host")


async def test_what_a_deleted_base_had_folded_is_found_from_its_fork(stage: Stage) -> None:
    loop, sid, _ = await told(stage)
    fork = await loop.fork(sid)
    await loop.close_session(sid, copy_to_forks=True)
    first, *_ = await labels(stage, loop, fork)
    (text,) = await recalled(stage, fork, ("recall_folded", {"query": look.name + " attic"}))
    assert f"#{first}, part " in text
    other = opened(stage, "ok")
    assert (await other.send("on", session_id=fork)).ok


@pytest.mark.parametrize(
    "facts", ['{"sends":"many"}', '{"context":{"notes":7}}', None], ids=["facts", "context", "gone"]
)
async def test_a_folded_session_opens_without_a_checkpoint_that_can_be_read(tmp_path: Path, facts: str | None) -> None:
    """Of a version with other facts, or damaged: then everything is read from the beginning."""
    file = tmp_path / "app.db"
    store = SqliteStore(file)
    sid, _ = await folded(store)
    async with StatefulAgentLoop(llm="echo:", store=store) as loop:
        before = await loop.get_messages(sid)
    await store.aclose()
    connection = apsw.Connection(str(file))
    kind, body = "state_checkpointed", f'{{"kind":"state_checkpointed","facts":{facts}}}'.encode()
    if facts is None:
        kind, body = "run_resumed", b'{"kind":"run_resumed","reason":"other"}'
    connection.execute("UPDATE lw_records SET kind = ?, body = ? WHERE kind = 'state_checkpointed'", (kind, body))
    assert connection.changes() > 0
    connection.close()
    async with StatefulAgentLoop(llm="echo:", dsn=str(file)) as loop:
        assert await loop.get_messages(sid) == before
        assert (await loop.send("more", session_id=sid)).final_text == "more"
        assert (await loop.get_messages(sid))[: len(before)] == before
