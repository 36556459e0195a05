"""A leaf with a file of its own: its journal goes there and comes home, whatever becomes of the leaf."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract.executors.conftest import Shop

from loopwright import open_store
from loopwright.executors import own_file
from loopwright.executors.run_files import file_of, folder_of, reap
from loopwright.executors.subprocess import SubprocessExecutor
from loopwright.executors.worker_job import LoopOrder, WorkerBootstrap
from loopwright.model.errors import ConfigError, SessionMovedError
from loopwright.ports.executor import LeafRef
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.encrypted import EncryptedStore
from loopwright.stores.static_keys import StaticKeys
from loopwright.testing.executor_suite import open_suite_loop


def files(shop: Shop) -> list[str]:
    return sorted(str(path.relative_to(shop.folder)) for path in (shop.folder / "runs").rglob("*") if path.is_file())


def with_files(shop: Shop, **options: Any) -> SubprocessExecutor:
    executor = shop.suite_executor(runs_dir=shop.folder / "runs", **options)
    executor.attach(shop.loop.store, open_store)
    return executor


@asynccontextmanager
async def elsewhere(file: Path) -> AsyncIterator[Any]:
    """A loop on the file of a leaf, as its process has it."""
    order = LoopOrder(dsn=str(file), agent_name="leaf", workspace=".", bootstrap=WorkerBootstrap())
    async with open_suite_loop(order) as loop:
        yield loop


def test_a_file_is_named_after_run_and_step_and_told_apart_by_the_session(tmp_path: Path) -> None:
    def ref(**facts: Any) -> LeafRef:
        return LeafRef(**{"session_id": "s1", "agent_name": "a", "run_id": "run_1", "path": "research[2]/r", **facts})

    file = file_of(tmp_path, ref())
    assert file.parent == tmp_path / "run_1"
    assert file.name.startswith("research-2-r__")
    assert file == file_of(tmp_path, ref(attempt=7))
    assert file != file_of(tmp_path, ref(session_id="s2"))
    strange = [
        file_of(tmp_path, ref(run_id=name, path="../../" * 50)) for name in ("..", "../..", "a/b", "a-b", "", "/etc")
    ]
    assert len({path.parent for path in strange}) == len(strange)
    assert all(path.parent.parent == tmp_path and len(path.name) < 100 for path in strange)


async def test_the_file_stays_after_success_unless_it_is_not_wanted(shop: Shop) -> None:
    keeping, deleting = with_files(shop), with_files(shop, delete_on_success=True)
    assert (await shop.end(keeping, await shop.leaf("hello"))).ok
    assert [name.partition("__")[0] for name in files(shop)] == ["runs/run/step"]
    assert (await shop.end(deleting, await shop.leaf("hello", run_id="other"))).ok
    assert not folder_of(shop.folder / "runs", "other").exists()
    assert not keeping.cleanup_run("unknown")
    assert keeping.cleanup_run("run")
    assert files(shop) == []


async def test_totals_title_and_inbox_come_home(shop: Shop) -> None:
    """What the head says is that of the same leaf on the shared store."""
    here, there = await shop.leaf("what a day"), await shop.leaf("what a day")
    assert (await shop.end(shop.suite_executor(), here)).ok
    assert (await shop.end(with_files(shop), there)).ok
    heads = [(await shop.loop.store.lookup(ref.session_id)) for ref in (here, there)]
    assert [found.waiting for found in heads] == [(), ()]
    facts = [(h.head.status, h.head.sends, h.head.usage, h.head.position, h.head.window_start) for h in heads]
    assert facts[0] == facts[1]


async def test_artifacts_and_sessions_that_the_leaf_made_come_home(shop: Shop, tmp_path: Path) -> None:
    ref = await shop.leaf("hello")
    file, home = tmp_path / "leaf.db", own_file.Home(shop.loop.store, open_store)
    await own_file.prepare(home, file, ref.session_id)
    async with elsewhere(file) as loop:
        made = await loop.store.put_artifact(ref.session_id, b"x" * 600_000, "text/plain")
        await loop.resume(ref.session_id)
        child = await loop.new_session(session_id="made-there")
        await loop.send("hi", session_id=child)
    await own_file.collect(home, file, ref.session_id)
    await own_file.collect(home, file, ref.session_id)  # a second time changes nothing
    store = shop.loop.store
    assert await store.read_artifact(made.artifact_id) == b"x" * 600_000
    texts = [message.text for message in await shop.loop.get_messages("made-there")]  # type: ignore[union-attr]
    assert texts == ["hi", "heard: hi"]
    assert (await store.lookup(ref.session_id)).head.status == "idle"


async def test_what_was_overtaken_at_home_is_not_brought_over_it(shop: Shop, tmp_path: Path) -> None:
    ref = await shop.leaf("hello")
    file, home = tmp_path / "leaf.db", own_file.Home(shop.loop.store, open_store)
    await own_file.prepare(home, file, ref.session_id)
    async with elsewhere(file) as loop:
        await loop.resume(ref.session_id)
    await shop.loop.resume(ref.session_id)
    await shop.loop.send("more", session_id=ref.session_id)
    at_home = await shop.loop.store.read(ref.session_id)
    with pytest.raises(SessionMovedError):
        await own_file.collect(home, file, ref.session_id)
    assert await shop.loop.store.read(ref.session_id) == at_home
    await own_file.prepare(home, file, ref.session_id)
    async with elsewhere(file) as loop:
        assert await loop.store.read(ref.session_id) == at_home


async def test_what_a_lost_executor_left_in_its_file_is_brought_home_first(shop: Shop) -> None:
    """Its process died after the leaf's end and before it was home: the next attempt runs nothing."""
    executor, ref = with_files(shop), await shop.leaf(f"mark {shop.folder}/a")
    file = file_of(shop.folder / "runs", ref)
    home = own_file.Home(shop.loop.store, open_store)
    await own_file.prepare(home, file, ref.session_id)
    async with elsewhere(file) as loop:
        await loop.resume(ref.session_id)
    assert (await shop.end(executor, ref)).ok
    assert (shop.folder / "a").read_text() == "x\n"


async def test_a_file_that_is_no_database_ends_the_leaf_and_harms_nothing(shop: Shop) -> None:
    executor, ref = with_files(shop), await shop.leaf("hello")
    file = file_of(shop.folder / "runs", ref)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not a database, but something that somebody wants" * 100)
    end = await shop.end(executor, ref)
    assert (end.status, end.in_journal, end.fault, end.error_code) == ("failed", False, "leaf.store", "store.corrupt")
    assert file.read_bytes().startswith(b"not a database")


async def test_files_need_a_home_and_one_that_does_not_encrypt(shop: Shop) -> None:
    executor = shop.suite_executor(runs_dir=shop.folder / "runs")
    end = await shop.end(executor, await shop.leaf("hello"))
    assert (end.error_code, "attach" in end.reason) == ("config.invalid", True)
    sealed: SessionStore = EncryptedStore(shop.loop.store, StaticKeys({"k": b"k" * 32}))
    with pytest.raises(ConfigError, match="encrypts"):
        executor.attach(sealed, open_store)


def test_runs_are_reaped_by_age_and_only_ours(tmp_path: Path) -> None:
    for name, age_s in (("old", 100.0), ("young", 5.0), ("running", 100.0), ("strange", 100.0)):
        file = tmp_path / name / ("notes.txt" if name == "strange" else "step__abc.db")
        file.parent.mkdir()
        file.touch()
        for path in (file, file.parent):
            os.utime(path, (1000.0 - age_s, 1000.0 - age_s))
    (tmp_path / "file").touch()
    assert reap(tmp_path, older_than_s=50.0, now=1000.0, running={tmp_path / "running"}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "running", "strange", "young"]
    assert reap(tmp_path / "nowhere", older_than_s=0.0, now=1000.0, running=()) == 0
    with pytest.raises(ConfigError):
        reap(tmp_path, older_than_s=-1.0, now=1000.0, running=())
