"""Pruning deletes the oldest sessions, whole families, and none that has something open."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.servers import client

from loopwright import open_store
from loopwright.engine.pruning import PruneRules, carry_out_prune, plan_prune
from loopwright.model.errors import ConfigError, SessionGoneError
from loopwright.ports.store import ForkPoint, HeadChange, NewSession, SessionQuery
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.memory import MemoryStore
from loopwright.testing.store_kit import begin, item, new_session, record

NOW = 1000.0
TOKEN = b"token-of-a-pruner"


async def filled(*names: str) -> MemoryStore:
    """Sessions of about 100 bytes, each a second younger than the one before."""
    store = MemoryStore()
    await fill(store, *names)
    return store


async def fill(store: SessionStore, *names: str) -> None:
    for n, name in enumerate(names):
        await store.create(new_session(name, at=float(n), records=(record("x" * 80),)))


async def going(store: SessionStore, **rules: object) -> list[str]:
    plan = await plan_prune(store, PruneRules(**rules), NOW)  # type: ignore[arg-type]
    return [family.root.session_id for family in plan.going]


async def test_age_size_and_number_each_choose_the_oldest() -> None:
    store = await filled("a", "b", "c", "d")
    assert await going(store, older_than_s=NOW - 1.5) == ["a", "b"]
    assert await going(store, older_than_s=NOW - 1.5, keep=3) == ["a"]
    assert await going(store, keep=1) == ["a", "b", "c"]
    size = (await store.session_sizes())["a"]
    assert await going(store, max_bytes=2 * size) == ["a", "b"]
    assert await going(store, max_bytes=0, keep=1) == ["a", "b", "c"]
    assert await going(store, max_bytes=10**9) == []
    with pytest.raises(ConfigError, match="nothing says what to delete"):
        await plan_prune(store, PruneRules(), NOW)


async def test_a_plan_changes_nothing_and_carrying_it_out_says_what_went() -> None:
    store = await filled("a", "b", "c")
    plan = await plan_prune(store, PruneRules(keep=1), NOW)
    assert len(await store.list(SessionQuery())) == 3
    assert plan.bytes == plan.bytes_before * 2 // 3
    done = await carry_out_prune(store, plan, TOKEN)
    assert (done.sessions, done.bytes, done.stayed) == (2, plan.bytes, [])
    assert [head.session_id for head in await store.list(SessionQuery())] == ["c"]
    with pytest.raises(SessionGoneError):
        await store.lookup("a")


async def test_what_has_something_open_stays_unless_it_is_asked_for() -> None:
    store = await filled("fine", "asked", "written")
    await store.enqueue("asked", item(at=2.0))
    interrupted = await begin(store, "interrupted")
    await interrupted.write(release=True)
    waiting = await begin(store, "waiting")
    await waiting.write(head=HeadChange(status="waiting"), release=True)
    await begin(store, "running")
    plan = await plan_prune(store, PruneRules(older_than_s=0.0), NOW)
    assert {family.root.session_id for family in plan.going} == {"fine", "written"}
    assert plan.unfinished == 4
    asked_for = await going(store, older_than_s=0.0, idle_only=False)
    assert set(asked_for) == {"fine", "asked", "written", "interrupted", "waiting"}, (
        "a living process keeps its session"
    )


async def test_a_family_goes_together_and_is_as_young_as_its_youngest() -> None:
    store = await filled("old", "parent")
    await store.create(new_session("child", parent_id="parent", at=2.0))
    await store.create(new_session("young", parent_id="old", at=900.0))
    await store.create(new_session("free", parent_id="parent", lifecycle="detached", at=950.0))
    plan = await plan_prune(store, PruneRules(older_than_s=500.0), NOW)
    assert [[head.session_id for head in family.members] for family in plan.going] == [["parent", "child"]]
    assert (await carry_out_prune(store, plan, TOKEN)).sessions == 2
    assert {head.session_id for head in await store.list(SessionQuery())} == {"old", "young", "free"}
    await begin(store, "runs")
    busy = await store.lookup("runs")
    child = new_session("idle-child", parent_id="runs", at=2.0)
    await store.create(child)
    assert busy.head.status == "running"
    assert "runs" not in await going(store, older_than_s=0.0)


async def test_a_session_that_came_alive_after_the_plan_stays_and_is_free_again() -> None:
    store = await filled("asked", "written", "changed-child", "gone", "quiet")
    await store.create(new_session("child", parent_id="changed-child", at=2.0))
    plan = await plan_prune(store, PruneRules(older_than_s=0.0), NOW)
    await store.enqueue("asked", item())
    other = MemoryStore()
    await other.aclose()
    writer = await begin(store, "new")
    assert writer.position == 2
    moved = structs.replace(plan, going=tuple(sorted(plan.going, key=lambda family: family.root.session_id)))
    await store.enqueue("child", item())
    await store.delete("gone")
    done = await carry_out_prune(store, moved, TOKEN)
    assert sorted(done.stayed) == ["asked", "changed-child", "gone"]
    assert done.sessions == 2
    assert (await store.lookup("changed-child")).head.owner is None, "what was held is given back"


def fork_of(base_id: str, session_id: str, at: float, **fields: object) -> NewSession:
    return new_session(session_id, base=ForkPoint(base_id, 1), at=at, records=(record("y" * 80),), **fields)


async def test_a_session_that_a_fork_reads_goes_with_or_after_its_forks_or_stays() -> None:
    store = await filled("base", "plain")
    await store.create(fork_of("base", "old-fork", 5.0))
    await store.create(fork_of("old-fork", "young-fork", 900.0))
    plan = await plan_prune(store, PruneRules(older_than_s=500.0), NOW)
    assert (plan.referenced, plan.unfinished) == (1, 0)
    assert [family.root.session_id for family in plan.going] == ["plain", "old-fork"]
    assert await going(store, older_than_s=1.0) == ["plain", "old-fork", "young-fork", "base"]
    assert await going(store, keep=1) == ["plain", "old-fork", "young-fork"], "the base is as young as its forks"
    done = await carry_out_prune(store, plan, TOKEN)
    assert (done.sessions, done.stayed) == (2, [])
    assert len(await store.read("young-fork")) == 2


async def test_forks_get_what_they_read_of_what_is_pruned_when_that_is_asked_for() -> None:
    store = await filled("base")
    await store.create(fork_of("base", "fork", 900.0))
    plan = await plan_prune(store, PruneRules(older_than_s=500.0, copy_to_forks=True), NOW)
    assert (await carry_out_prune(store, plan, TOKEN)).sessions == 1
    assert (await store.lookup("fork")).head.base is None
    assert len(await store.read("fork")) == 2


async def test_a_session_that_was_forked_after_the_plan_stays_and_is_free_again() -> None:
    store = await filled("base")
    plan = await plan_prune(store, PruneRules(older_than_s=0.0), NOW)
    await store.create(fork_of("base", "fork", 900.0))
    done = await carry_out_prune(store, plan, TOKEN)
    assert (done.sessions, done.stayed) == (0, ["base"])
    assert (await store.lookup("base")).head.owner is None


async def test_families_that_read_each_other_have_an_order() -> None:
    store = await filled("a", "b")
    await store.create(fork_of("b", "child-of-a", 2.0, parent_id="a"))
    await store.create(fork_of("a", "child-of-b", 3.0, parent_id="b"))
    plan = await plan_prune(store, PruneRules(older_than_s=0.0), NOW)
    assert (plan.sessions, plan.referenced) == (0, 2)
    plan = await plan_prune(store, PruneRules(older_than_s=0.0, copy_to_forks=True), NOW)
    assert (await carry_out_prune(store, plan, TOKEN)).sessions == 4


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
async def test_what_forks_read_stays_or_is_copied_on_a_server_too(kind: str) -> None:
    with client.shared(kind).database() as dsn:
        store = open_store(dsn)
        await fill(store, "base", "plain")
        await store.create(fork_of("base", "old-fork", 5.0))
        await store.create(fork_of("old-fork", "young-fork", 900.0))
        assert await going(store, older_than_s=500.0) == ["plain", "old-fork"]
        plan = await plan_prune(store, PruneRules(older_than_s=500.0, copy_to_forks=True), NOW)
        await store.create(fork_of("plain", "new-fork", 901.0))
        done = await carry_out_prune(store, plan, TOKEN)
        assert (done.sessions, done.stayed) == (3, [])
        assert {head.session_id: head.base for head in await store.list(SessionQuery())} == {
            "new-fork": None,
            "young-fork": None,
        }
        assert [len(await store.read(name)) for name in ("new-fork", "young-fork")] == [2, 2]
        assert list(await store.check()) == []
        await store.aclose()
