"""A fault of ours in a write or a job on SQLite is raised where it is awaited, and those after it are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopwright.model.errors import InvariantError
from loopwright.ports.store_admin import SchemaPolicy
from loopwright.stores.sqlite_commits import CommitConnection, Offer
from loopwright.stores.sqlite_group import GroupCommit
from loopwright.stores.sqlite_schema import DatabaseFile, prepare
from loopwright.stores.sqlite_worker import SqliteWorker


class Odd(BaseException):
    """No `Exception`."""


FAULTS = [
    (ZeroDivisionError("ours"), ZeroDivisionError),
    (StopIteration("ours"), InvariantError),
    (asyncio.CancelledError(), InvariantError),
    (Odd("ours"), InvariantError),
]
EACH = pytest.mark.parametrize("fault, told", FAULTS, ids=lambda one: one.__name__ if isinstance(one, type) else "")


class Parts:
    """What a store on a file is made of."""

    def __init__(self, path: Path) -> None:
        self.file = DatabaseFile(str(path), "barrier", 10.0, None)
        self.own = CommitConnection(self.file, "owner", prepare(self.file, SchemaPolicy.AUTO_CREATE))
        self.worker = SqliteWorker("writer", self.file, lambda: CommitConnection(self.file, "owner"))
        self.group = GroupCommit(self.file, self.own, self.worker, lambda: False)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path / "own.db")
    yield made
    made.worker.stop()
    made.own.close()


def offers(*writes: Callable[[Any], Any]) -> list[Offer]:
    """One for each."""
    loop = asyncio.get_running_loop()
    return [Offer(write, (), loop.create_future(), risky=True) for write in writes]


def good(_: Any) -> str:
    return "written"


def raising(fault: BaseException) -> Callable[[Any], Any]:
    """A write or a job that raises it."""

    def bad(_: Any) -> None:
        raise fault

    return bad


@EACH
async def test_a_batch_in_the_thread_of_which_one_write_is_at_fault(
    parts: Parts, fault: BaseException, told: type[Exception]
) -> None:
    batch = offers(good, raising(fault), good)
    parts.worker.submit_batch(asyncio.get_running_loop(), batch)
    found = await asyncio.gather(*[offer.future for offer in batch], return_exceptions=True)
    assert (found[0], type(found[1]), found[2]) == ("written", told, "written")


@EACH
async def test_a_job_in_the_thread_at_fault(parts: Parts, fault: BaseException, told: type[Exception]) -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(told):
        await parts.worker.submit(loop, raising(fault))
    assert await parts.worker.submit(loop, good) == "written"


async def test_a_batch_in_the_loop_of_which_one_write_is_at_fault(parts: Parts) -> None:
    batch = offers(good, raising(ZeroDivisionError("ours")), good)
    for offer in batch:
        parts.group.offer(asyncio.get_running_loop(), offer)
    found = await asyncio.gather(*[offer.future for offer in batch], return_exceptions=True)
    assert (found[0], type(found[1]), found[2]) == ("written", ZeroDivisionError, "written")


def test_a_keyboard_interrupt_in_the_loop_goes_on_after_everybody_was_told(parts: Parts) -> None:
    loop = asyncio.new_event_loop()
    batch = [Offer(raising(KeyboardInterrupt()), (), loop.create_future()), Offer(good, (), loop.create_future())]
    for offer in batch:
        parts.group.offer(loop, offer)
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(asyncio.gather(*[offer.future for offer in batch]))
    assert [type(offer.future.exception()) for offer in batch] == [InvariantError, InvariantError]
    loop.close()
