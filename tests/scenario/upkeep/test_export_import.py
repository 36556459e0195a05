"""Sessions leave a store as lines and come into another one as they were."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.scenario.upkeep.any_session import bodies, exported, imported, parts, said

from loopwright import StatefulAgentLoop
from loopwright.engine.importing import Importer
from loopwright.engine.session_lines import ItemLine, RecordLine, body_of, read_line, written_with
from loopwright.model.archive_errors import ExportFileError
from loopwright.model.codec import encode
from loopwright.model.errors import LoopwrightError, SessionExistsError
from loopwright.model.messages import UserMessage
from loopwright.model.records import SessionCreated
from loopwright.ports.store import ClaimQuery, EncodedRecord, Head, InboxItem, SessionQuery
from loopwright.ports.store_transfer import Inventory, SessionImage, StoredTimer
from loopwright.stores.memory import MemoryStore
from loopwright.stores.sqlite import SqliteStore


@given(body=bodies | st.builds(lambda text: json.dumps({"text": text}).encode(), said))
def test_a_body_comes_back_byte_for_byte_and_is_json_where_it_is_json(body: bytes) -> None:
    for line in (RecordLine(0, 'a kind,"body":1', 1, 1.0), ItemLine("i", "message", 1.0, 1)):
        text = written_with(line, body)
        assert text.count(b"\n") == 1
        read = read_line(text)
        assert isinstance(read, RecordLine | ItemLine)
        assert body_of(read) == body
        if body.startswith(b'{"text"'):
            assert read.base64 is None


# --- a real conversation -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def talk() -> bytes:
    """The export of a conversation of two sends."""
    async with StatefulAgentLoop(llm="echo:", dsn="memory:") as loop:
        first = await loop.send("good morning")
        await loop.send("lone \ud800 and \0", session_id=first.session_id)
        return await exported(loop.store)


async def test_an_imported_session_goes_on(talk: bytes, tmp_path: Path) -> None:
    async with StatefulAgentLoop(llm="echo:", dsn=str(tmp_path / "new.db")) as loop:
        report = await imported(loop.store, talk)
        (sid,) = report.sessions
        done = await loop.send("and again", session_id=sid)
        assert (done.status, done.final_text) == ("completed", "and again")
        assert [getattr(m, "text", "") for m in await loop.get_messages(sid)][2] == "lone \ud800 and \0"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_fork_is_exported_whole_and_comes_in_as_a_session_of_its_own(kind: str, tmp_path: Path) -> None:
    async with StatefulAgentLoop(llm="echo:", dsn=str(tmp_path / "old.db")) as loop:
        sid = (await loop.send("good morning")).session_id
        artifact = await loop.store.put_artifact(sid, b"large", "text/plain")
        await loop.send(f"look at {artifact.artifact_id}", session_id=sid)
        fork = await loop.fork(sid)
        await loop.send("another way", session_id=fork)
        told = await loop.get_messages(fork)
        alone, both = await exported(loop.store, fork), await exported(loop.store)
    for data, sessions in ((alone, [fork]), (both, [sid, fork])):
        store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / f"{len(sessions)}.db")
        assert sorted((await imported(store, data)).sessions) == sorted(sessions)
        assert {head.base for head in await store.list(SessionQuery())} == {None}
        assert list(await store.check()) == []
        async with StatefulAgentLoop(llm="echo:", store=store) as loop:
            for other in sessions[:-1]:
                await loop.close_session(other)
            assert await loop.get_messages(fork) == told
            assert (await loop.send("and on", session_id=fork)).final_text == "and on"
        assert await store.read_artifact(artifact.artifact_id) == b"large"
        await store.aclose()


async def test_a_session_that_is_there_is_refused_or_left_out(talk: bytes) -> None:
    store = MemoryStore()
    sid = (await imported(store, talk)).sessions[0]
    assert await Importer(store).clashes(io.BytesIO(talk)) == [sid]
    with pytest.raises(SessionExistsError):
        await imported(store, talk)
    again = await imported(store, talk, skip_existing=True)
    assert (again.sessions, again.skipped) == ([], [sid])
    await store.delete(sid)
    assert (await imported(store, talk, skip_existing=True)).skipped == [sid], "deleted ids are never used again"
    with pytest.raises(SessionExistsError):
        await imported(store, talk)
    await store.aclose()


async def test_imported_timers_are_paused_and_said_unless_they_are_to_fire(tmp_path: Path) -> None:
    source = MemoryStore()
    await source.restore(_with_timer())
    data = await exported(source)
    for arm, fired in ((False, []), (True, ["t"])):
        store = SqliteStore(tmp_path / f"{arm}.db")
        report = await imported(store, data, arm_timers=arm)
        assert report.paused_timers == ([] if arm else [("s", "t", 5.0)])
        claimed = await store.claim(ClaimQuery(agent_names=("a",), max_format=1, now=9.0))
        assert [timer.timer_id for timer in claimed.timers] == fired
        await store.aclose()
    await source.aclose()


async def test_an_interrupted_session_is_interrupted_where_it_arrives() -> None:
    source, store = MemoryStore(), MemoryStore()
    await source.restore(_with_timer())
    report = await imported(store, await exported(source))
    assert report.interrupted == ["s"]
    claimed = await store.claim(ClaimQuery(agent_names=("a",), max_format=1, now=0.0))
    assert [head.session_id for head in claimed.interrupted] == ["s"]


def _with_timer() -> SessionImage:
    record = EncodedRecord(*parts(SessionCreated("s", "a"), 1.0))
    head = Head(
        session_id="s", position=1, window_start=0, checkpoint=None, epoch=3, owner="gone", expires_in_s=0.0, inbox_seq=0,
        takeovers=0, agent_name="a", kind="agent", parent_id=None, lifecycle="linked", title="", min_format=1,
        status="running", created_at=1.0, updated_at=1.0,
    )  # fmt: skip
    return SessionImage(
        Inventory(head, (), (), (StoredTimer("t", 5.0, encode(UserMessage("wake"))),), ()), (record,), ()
    )


async def test_a_named_session_brings_its_descendants() -> None:
    store = MemoryStore()
    base = _with_timer()
    for name, parent in (("top", None), ("child", "top"), ("grandchild", "child"), ("stranger", None)):
        head = structs.replace(base.inventory.head, session_id=name, parent_id=parent)
        await store.restore(structs.replace(base, inventory=structs.replace(base.inventory, head=head)))
    other = MemoryStore()
    report = await imported(other, await exported(store, "top"))
    assert sorted(report.sessions) == ["child", "grandchild", "top"]
    assert [head.session_id for head in await other.list(SessionQuery(parent_id="child"))] == ["grandchild"]


def damaged(data: bytes) -> Iterator[tuple[str, bytes, type[LoopwrightError], str]]:
    """Ways in which a file may be wrong, and what is said."""
    lines = data.splitlines(keepends=True)
    head = json.loads(lines[1])
    yield "nothing in it", b"", ExportFileError, "ends before its last line"
    yield "something else", b"# notes\n", ExportFileError, "line 1: it is no line of an export"
    yield "cut off", b"".join(lines[:-3]), ExportFileError, "ends before its last line"
    yield "cut in a line", data[: len(data) // 2], ExportFileError, "no line of an export"
    yield "without a header", b"".join(lines[1:]), ExportFileError, "is its header"
    newer = lines[0].replace(b'"format":1', b'"format":99')
    yield "newer", b"".join([newer, *lines[1:]]), ExportFileError, "upgrade loopwright"
    yield "a record lost", b"".join([*lines[:3], *lines[4:]]), ExportFileError, "records are not those from 0"
    yield "twice a record", b"".join([*lines[:3], lines[2], *lines[3:]]), ExportFileError, "records are not those"
    broken = lines[3].replace(b'"index":1', b'"index":"one"')
    yield "a wrong record", b"".join([*lines[:3], broken, *lines[4:]]), ExportFileError, "position 1"
    unknown = lines[3].replace(b"send_started", b"send_unknown")
    yield "an unknown record", b"".join([*lines[:3], unknown, *lines[4:]]), ExportFileError, "position 1"
    head["head"]["window_start"] = 2**70
    yield "a number too large", b"".join([lines[0], json.dumps(head).encode() + b"\n", *lines[2:]]), ExportFileError, ""
    head["head"] |= {"window_start": 0, "position": 2**62}
    claims = b"".join([lines[0], json.dumps(head).encode() + b"\n", *lines[2:]])
    yield "more records claimed than fit into memory", claims, ExportFileError, "records are not those from 0"
    versions = lines[3].replace(b'"version":1', b'"version":2147483648')
    yield "a version too large", b"".join([*lines[:3], versions, *lines[4:]]), ExportFileError, "a version or time"
    yield "a line behind the end", data + lines[1], ExportFileError, "behind the end"


async def test_a_file_that_is_wrong_stores_nothing_and_says_where(talk: bytes) -> None:
    for what, data, kind, words in damaged(talk):
        store = MemoryStore()
        with pytest.raises(kind) as refused:
            await imported(store, data)
        assert words in str(refused.value), what
        stored = await store.list(SessionQuery())
        assert len(stored) == (what == "a line behind the end"), what
        await store.aclose()


async def test_what_a_run_could_never_say_is_refused_with_its_id() -> None:
    source = MemoryStore()
    await source.restore(_with_timer())
    await source.enqueue("s", InboxItem("the-item", "message", encode(UserMessage("later")), 1.0))
    lines = (await exported(source)).splitlines(keepends=True)
    for kind, name in (("item", "inbox item 'the-item'"), ("timer", "timer 't'")):
        wrong = [
            line.replace(b'"role":"user"', b'"role":0') if line.startswith(f'{{"type":"{kind}"'.encode()) else line
            for line in lines
        ]
        assert wrong != lines
        store = MemoryStore()
        with pytest.raises(ExportFileError, match=name):
            await imported(store, b"".join(wrong))
        assert list(await store.list(SessionQuery())) == []
        await store.aclose()


async def test_the_sessions_before_a_damaged_one_are_stored_whole() -> None:
    source = MemoryStore()
    base = _with_timer()
    for n, name in enumerate(("a", "b", "c")):
        head = structs.replace(base.inventory.head, session_id=name, created_at=float(n))
        await source.restore(structs.replace(base, inventory=structs.replace(base.inventory, head=head)))
    data = (await exported(source)).replace(b'{"type":"session_end","session_id":"b"}', b'{"type":"nothing"}')
    store = MemoryStore()
    with pytest.raises(ExportFileError, match="1 session before it is stored"):
        await imported(store, data)
    assert [head.session_id for head in await store.list(SessionQuery())] == ["a"]
