"""Rows of a file that somebody changed by hand: each is a typed error or a finding, in bounded time, and never a hang."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.contract.stores.sealing import KEYS

from loopwright import AgentLoopConfig, LoopwrightError, StatefulAgentLoop, open_store, tool
from loopwright.model.archive_errors import SealKeyError
from loopwright.model.errors import StoreCorruptError
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.encrypted import EncryptedStore
from loopwright.stores.static_keys import StaticKeys
from loopwright.testing import ScriptedLLM, calls

LINKED = AgentLoopConfig(hash_chain=True, hash_chain_key=b"k" * 32, tool_output_limit=300)


@tool(effect="pure")
async def big() -> str:
    """A large output."""
    return "abc " * 40_000


def opened(path: Path, kind: str) -> SessionStore:
    store = open_store(str(path))
    return EncryptedStore(store, KEYS) if kind == "sealed" else store


def loop_over(store: SessionStore, *replies: Any) -> StatefulAgentLoop:
    return StatefulAgentLoop(llm=ScriptedLLM(replies) if replies else "echo:", store=store, tools=[big], config=LINKED)


@pytest.fixture(params=["plain", "sealed"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def path(kind: str, tmp_path: Path) -> Path:
    """A file with session "s": a send with a stored output, and an item that waits."""
    file = tmp_path / "app.db"
    store = opened(file, kind)
    async with loop_over(store, calls(("big", {})), "done") as loop:
        await loop.new_session(session_id="s", title="a title")
        await loop.send("one", session_id="s")
        await loop.enqueue("later", session_id="s", item_id="i")
    await store.aclose()
    return file


def change(path: Path, script: str, *values: Any) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(script, values or None)
    connection.close()


@pytest.mark.parametrize("seq", [10, 0, -1, 2**62, "x", 1.5, b""])
async def test_an_item_with_a_number_that_was_never_given_stops_a_send_and_is_named(
    path: Path, kind: str, seq: Any
) -> None:
    change(path, "UPDATE lw_inbox SET seq = ? WHERE item_id = 'i'", seq)
    store = opened(path, kind)
    async with loop_over(store) as loop:
        for _ in range(2):
            with pytest.raises(StoreCorruptError, match="session 's', inbox item 'i'"):
                await loop.send("next", session_id="s")
    await store.aclose()


CHANGES = {
    "a body is a number": "UPDATE lw_records SET body = 5 WHERE id & 4294967295 = 2",
    "a body is text": "UPDATE lw_records SET body = 'x' WHERE id & 4294967295 = 2",
    "an item is a number": "UPDATE lw_inbox SET body = 5 WHERE item_id = 'i'",
    "a title is a number": "UPDATE lw_sessions SET title = X'00'",
    "a size is text": "UPDATE lw_artifacts SET size = 'x'",
    "a size is large": "UPDATE lw_artifacts SET size = 4611686018427387904",
    "a size is below zero": "UPDATE lw_artifacts SET size = -1",
    "rows of an output are gone": "DELETE FROM lw_artifact_rows",
    "a version is bytes": "UPDATE lw_records SET version = X'00' WHERE id & 4294967295 = 2",
    "a position is no whole number": "UPDATE lw_sessions SET position = 1e300",
    "a record is gone": "DELETE FROM lw_records WHERE id & 4294967295 = 2",
}


async def outcome(work: Callable[[], Awaitable[Any]]) -> None:
    """Whatever is said of a damaged row is said with a typed error."""
    try:
        await work()
    except LoopwrightError:
        pass


@pytest.mark.parametrize("what", CHANGES)
async def test_values_of_another_type_are_typed_errors_and_check_ends(path: Path, kind: str, what: str) -> None:
    change(path, CHANGES[what])
    store = opened(path, kind)
    async with loop_over(store) as loop:
        if kind == "sealed":
            assert await store.check()
        await outcome(lambda: loop.verify("s"))
        await outcome(lambda: loop.get_messages("s"))
        await outcome(lambda: loop.send("next", session_id="s"))
    await store.aclose()


@pytest.mark.parametrize("kind", ["sealed"], indirect=True)
@pytest.mark.parametrize("body", [b"plain", b"\x8fLWS\x01 mine", 5])
async def test_a_record_that_does_not_open_is_a_finding_of_verify_at_its_place(
    path: Path, kind: str, body: Any
) -> None:
    change(path, "UPDATE lw_records SET body = ? WHERE id & 4294967295 = 2", body)
    store = opened(path, kind)
    async with loop_over(store) as loop:
        report = await loop.verify("s")
        assert [(one.position, one.why) for one in report.problems] == [(2, "unopened")]
        assert "position 2" in report.problems[0].detail
    await store.aclose()


@pytest.mark.parametrize("kind", ["sealed"], indirect=True)
async def test_verify_without_the_key_is_refused(path: Path) -> None:
    change(path, "UPDATE lw_sessions SET title = ''")
    change(path, "UPDATE lw_inbox SET position = 1 WHERE item_id = 'i'")
    store = EncryptedStore(open_store(str(path)), StaticKeys({"other": bytes(32)}))
    async with loop_over(store) as loop:
        with pytest.raises(SealKeyError):
            await loop.verify("s")
    await store.aclose()
