"""Forks of linked sessions: a fork's chain goes on from its base's, so it proves what it reads of it too."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from tests.scenario.conftest import Stage, asked

from loopwright import AgentLoopConfig, StatefulAgentLoop, tool
from loopwright.core.chain import ChainAudit, ChainReport
from loopwright.engine.exporting import Exporter
from loopwright.engine.importing import Importer
from loopwright.model.archive_errors import ForkPositionError
from loopwright.model.records import ChainLinked
from loopwright.ports.store import StoredRecord
from loopwright.stores.memory import MemoryStore

KEY = b"k" * 32
LINKED: dict[str, Any] = {"hash_chain": True, "hash_chain_key": KEY, "checkpoint_every": 6}


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "seen"


def whole(report: ChainReport) -> None:
    """Every record is vouched for."""
    assert (report.problems, report.unlinked, report.linked) == ((), (), report.records)


def judged(session_id: str, rows: Sequence[StoredRecord]) -> ChainReport:
    audit = ChainAudit(session_id, key=KEY)
    for row in rows:
        audit.take(row)
    return audit.report(len(rows))


async def told(stage: Stage, **options: Any) -> tuple[StatefulAgentLoop, str]:
    """A loop with four more replies to give, and a session of two sends."""
    loop = stage.loop(asked(("a", "look", "{}"), ("b", "look", "{}")), "one", "two", tools=[look], **options)
    sid = (await loop.send("hi")).session_id
    await loop.send("again", session_id=sid)
    return loop, sid


async def test_a_fork_at_any_boundary_is_linked_from_its_bases_first_record_to_its_own_last(stage: Stage) -> None:
    """Also where it leaves in the middle of a transition, whose link stands behind that place."""
    loop, sid = await told(stage, **LINKED)
    base = await loop.store.read(sid)
    links = [row.position for row in base if row.kind == "chain_linked"]
    forks: dict[int, str] = {}
    for position in range(1, len(base) + 1):
        try:
            forks[position] = await loop.fork(sid, at=position)
        except ForkPositionError:
            continue
    assert any(position - 1 not in links for position in forks), "inside of a transition"
    assert len(forks) >= 5
    for position, fork in forks.items():
        report = await loop.verify(fork)
        whole(report)
        assert report.digest_position == report.records - 1 > position
        other = stage.loop("on", "and on", **LINKED)
        await other.send("go on", session_id=fork)
        deeper = await other.fork(fork)
        await other.send("deeper", session_id=deeper)
        for one in (fork, deeper):
            whole(await other.verify(one, expected=report.digest))
    whole(await loop.verify(sid))


async def test_a_record_that_was_changed_in_the_base_is_found_in_each_fork_that_reads_it(stage: Stage) -> None:
    loop, sid = await told(stage, **LINKED)
    fork = await loop.fork(sid)
    deeper = await loop.fork(fork)
    for one in (sid, fork, deeper):
        rows = list(await loop.store.read(one))
        for position in range(1, len(rows)):
            if rows[position].kind == "chain_linked":
                continue
            changed = [*rows]
            changed[position] = structs.replace(rows[position], body=rows[position].body + b" ")
            first = judged(one, changed).problems[0]
            assert (first.position, first.why) == (position, "changed_body")


async def test_a_journal_put_under_the_id_of_another_session_is_found_out(stage: Stage) -> None:
    """A fork's under its base's too, and the base's under the fork's."""
    loop, sid = await told(stage, **LINKED)
    fork = await loop.fork(sid)
    rows = {one: await loop.store.read(one) for one in (sid, fork)}
    for of, under in ((sid, "elsewhere"), (fork, sid), (sid, fork)):
        report = judged(under, rows[of])
        assert [(p.position, p.why) for p in report.problems] == [(0, "changed_link")]
        assert repr(of) in report.problems[0].detail


async def test_a_fork_of_what_nobody_linked_lists_it_and_links_its_own(stage: Stage) -> None:
    bare, sid = await told(stage)
    loop = stage.loop("on", **LINKED)
    fork = await loop.fork(sid)
    prefix = (await loop.store.lookup(sid)).head.position
    await loop.send("go on", session_id=fork)
    report = await loop.verify(fork)
    assert (report.intact, report.unlinked) == (True, ((0, prefix - 1),))
    assert ChainLinked not in {type(record) for record in await stage.records(bare, sid)}
    assert (await loop.store.lookup(fork)).head.min_format == 3


async def test_a_fork_made_without_the_option_goes_on_with_the_chain_when_it_is_on(stage: Stage) -> None:
    linking, sid = await told(stage, **LINKED)
    bare = stage.loop()
    fork = await bare.fork(sid)
    end = (await bare.store.lookup(fork)).head.position
    prefix = (await bare.store.lookup(sid)).head.position
    assert [p.why for p in (await linking.verify(fork)).problems] == ["unlinked"]
    other = stage.loop("on", **LINKED)
    await other.send("go on", session_id=fork)
    report = await other.verify(fork)
    assert (report.intact, report.unlinked) == (True, ((prefix, end - 1),))


@pytest.mark.parametrize("other_key", [None, b"o" * 32])
async def test_a_fork_does_not_vouch_for_a_transition_that_was_linked_with_another_key(
    stage: Stage, other_key: bytes | None
) -> None:
    loop, sid = await told(stage, hash_chain=True, hash_chain_key=other_key)
    rows = await loop.store.read(sid)
    reply = next(row.position for row in rows if row.kind == "assistant_message_added")
    keyed = stage.loop(**LINKED)
    fork = await keyed.fork(sid, at=reply + 1)
    report = await keyed.verify(fork)
    assert report.unlinked == ((0, reply),)
    assert report.linked == report.records - reply - 1


async def test_a_forks_chain_holds_when_its_base_is_gone_and_in_another_store(stage: Stage) -> None:
    loop, sid = await told(stage, **LINKED)
    middle = await loop.fork(sid)
    fork = await loop.fork(middle)
    digest = (await loop.verify(fork)).digest
    for gone in (middle, sid):
        await loop.close_session(gone, copy_to_forks=True)
        whole(await loop.verify(fork, expected=digest))
    file = io.BytesIO()
    await Exporter(loop.store, file.write).run([fork], library="test", at=1.0)
    store = MemoryStore()
    await Importer(store).run(io.BytesIO(file.getvalue()))
    config = AgentLoopConfig(hash_chain=True, hash_chain_key=KEY)
    async with StatefulAgentLoop(llm="echo:", store=store, config=config) as there:
        await there.send("go on", session_id=fork)
        whole(await there.verify(fork, expected=digest))
