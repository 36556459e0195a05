"""Tables of every schema that was ever released for servers: they open, hold what they held, and go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.contract.stores.later_server_schema import connected, dialect_of
from tests.servers import client

from loopwright import StatefulAgentLoop
from loopwright.stores.server_dialect import ServerConnection

HERE = Path(__file__).parent
SCRIPTS = sorted([*HERE.glob("postgres_schema_*.sql"), *HERE.glob("mysql_schema_*.sql")])

pytestmark = pytest.mark.server


def text_of(script: Path) -> str:
    return script.read_text("ascii")


async def age(connection: ServerConnection, script: str, *, postgres: bool) -> None:
    """Copies what tables of today (prefix `today_`) hold into tables as an older version would have made them."""
    for statement in script.split(";\n"):
        if statement.strip():
            await connection.run(statement)
    quote, own_keys = ('"', "OVERRIDING SYSTEM VALUE") if postgres else ("`", "")
    here = "current_schema()" if postgres else "DATABASE()"
    for table in re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", script):
        columns = await connection.rows(
            f"SELECT column_name FROM information_schema.columns WHERE table_schema = {here} AND table_name = '{table}'"
        )
        if table != "lw_schema":
            names = ", ".join([f"{quote}{row[0]}{quote}" for row in columns])
            today = table.replace("lw_", "today_")
            await connection.run(f"INSERT INTO {table} ({names}) {own_keys} SELECT {names} FROM {today}")
    if postgres:
        for table, key in (("lw_sessions", "key"), ("lw_artifacts", "id")):
            await connection.rows(f"SELECT setval(pg_get_serial_sequence('{table}', '{key}'), 100)")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
async def test_a_store_of_every_released_schema_opens_and_its_sessions_go_on(script: Path) -> None:
    kind = "postgres" if script.name.startswith("postgres") else "mariadb"
    with client.shared(kind).database() as dsn:
        async with StatefulAgentLoop(llm="echo:", dsn=f"{dsn}?prefix=today_") as loop:
            sid = (await loop.send("good morning")).session_id
            artifact = await loop.store.put_artifact(sid, b"kept", "text/plain")
        async with connected(dsn) as connection:
            await age(connection, text_of(script), postgres=kind == "postgres")
        async with StatefulAgentLoop(llm="echo:", dsn=dsn) as loop:
            assert list(await loop.store.check()) == []
            assert (await loop.send("and again", session_id=sid)).final_text == "and again"
            assert len(await loop.get_messages(sid)) == 4
            assert (await loop.send("a new one")).status == "completed"
            assert await loop.store.read_artifact(artifact.artifact_id) == b"kept"
            # It has no time, so it is as old as the first look at it.
            assert await loop.store.sweep_artifacts(0.0) == 0
            assert await loop.store.sweep_artifacts(4e9) == 1
            assert (await loop.store.figures()).schema_version == dialect_of(dsn).statements.SCHEMA.version
