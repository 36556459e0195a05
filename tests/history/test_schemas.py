"""Files of every schema that was ever released: they open, hold what they held, and go on."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import apsw
import pytest

from loopwright.loop import StatefulAgentLoop
from loopwright.stores.sqlite import SqliteStore
from loopwright.stores.sqlite_statements import SCHEMA_VERSION

SCHEMAS = sorted(Path(__file__).parent.glob("schema_*.sql"))


def test_there_is_a_script_of_every_schema_before_this_one() -> None:
    assert [path.stem for path in SCHEMAS] == [f"schema_{n}" for n in range(1, SCHEMA_VERSION)]


def columns(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def aged(path: Path, script: str, target: Path) -> None:
    """Writes what a store of today holds into a file as an older version would have made it."""
    old = apsw.Connection(str(target))
    old.execute("PRAGMA page_size = 2048; PRAGMA journal_mode = WAL;" + script).fetchall()
    old.execute("ATTACH ? AS today", (str(path),)).fetchall()
    for table in re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", script):
        if table != "lw_schema":
            names = ", ".join(columns(old, table))
            old.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM today.{table}").fetchall()
    old.execute("DETACH today").fetchall()
    old.close()


@pytest.mark.parametrize("script", SCHEMAS, ids=lambda path: path.stem)
def test_a_store_of_every_released_schema_opens_and_its_sessions_go_on(script: Path, tmp_path: Path) -> None:
    text = script.read_text("ascii")

    async def live() -> None:
        async with StatefulAgentLoop(llm="echo:", dsn=str(tmp_path / "today.db")) as loop:
            sid = (await loop.send("good morning")).session_id
            artifact = await loop.store.put_artifact(sid, b"kept", "text/plain")
        aged(tmp_path / "today.db", text, tmp_path / "old.db")
        async with StatefulAgentLoop(llm="echo:", dsn=str(tmp_path / "old.db")) as loop:
            assert list(await loop.store.check()) == []
            assert (await loop.send("and again", session_id=sid)).final_text == "and again"
            assert len(await loop.get_messages(sid)) == 4
            assert await loop.store.read_artifact(artifact.artifact_id) == b"kept"
            # It has no time, so it is as old as the first look at it.
            assert await loop.store.sweep_artifacts(0.0) == 0
            assert await loop.store.sweep_artifacts(4e9) == 1
        assert (await _figures(tmp_path / "old.db")) == SCHEMA_VERSION

    asyncio.run(live())


async def _figures(path: Path) -> int | None:
    store = SqliteStore(path)
    try:
        return (await store.figures()).schema_version
    finally:
        await store.aclose()
