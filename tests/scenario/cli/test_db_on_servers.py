"""`loopwright db` on a server's address: the same commands as on a file, and what the server does by itself."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.contract.stores.later_server_schema import run
from tests.scenario.cli.command_line import CommandLine
from tests.servers.asking import ask

HISTORY = Path(__file__).parents[2] / "history"

pytestmark = pytest.mark.server


@pytest.fixture
def filled(without_model: CommandLine, either: str) -> CommandLine:
    """A store with three sessions."""
    for text in ("good morning", "hello", "more"):
        assert without_model("run", text, "--model", "echo:", "--db", either).code == 0
    return without_model


def test_the_printed_script_makes_a_store_that_is_checked_as_sound(without_model: CommandLine, either: str) -> None:
    lacking = without_model("db", "stats", "--db", either)
    assert (lacking.code, "lacks lw_schema" in lacking.err) == (5, True)
    script = without_model("db", "ddl", "--db", either).out
    for _ in range(2):
        asyncio.run(run(either, script))
    assert without_model("db", "check", "--db", either, "--json").json == {"ok": True, "problems": []}


def test_the_script_is_printed_without_a_server(without_model: CommandLine) -> None:
    for scheme in ("postgresql", "mysql"):
        done = without_model("db", "ddl", "--db", f"{scheme}://nobody@127.0.0.1:1/nowhere?prefix=our_")
        assert (done.code, "CREATE TABLE IF NOT EXISTS our_records" in done.out, "lw_" in done.out) == (0, True, False)


def test_stats_vacuum_and_prune(filled: CommandLine, either: str) -> None:
    found = filled("db", "stats", "--db", either, "--json").json
    assert (found["sessions"], found["by_status"], found["records"]) == (3, {"idle": 3}, 18)
    shown = [line.split()[:1] for line in filled("db", "stats", "--db", either).out.splitlines()]
    assert (["tables"] in shown, ["log"] in shown) == (True, False)
    assert filled("db", "prune", "--keep", "2", "--yes", "--db", either, "--json").json["deleted"] == 1
    assert filled("db", "prune", "--max-size", "1B", "--yes", "--db", either, "--json").json["deleted"] == 2
    assert filled("db", "vacuum", "--db", either, "--json").json["before"] > 0
    assert filled("db", "stats", "--db", either, "--json").json["tombstones"] == 3


def test_what_is_exported_to_a_file_comes_back_into_other_tables(filled: CommandLine, either: str) -> None:
    assert filled("db", "export", "-o", "all.jsonl", "--db", either).code == 0
    other = f"{either}?prefix=other_"
    assert filled("db", "import", "all.jsonl", "--db", other, "--json").json["records"] == 18
    assert filled("db", "import", "all.jsonl", "--db", other).code == 2
    assert filled("run", "again", "--session", "last", "--model", "echo:", "--db", other).out == "again\n"


def test_what_the_server_does_by_itself_is_said(filled: CommandLine, either: str) -> None:
    copied = filled("db", "backup", "copy.db", "--db", either)
    assert (copied.code, "-dump" in copied.err or "pg_dump" in copied.err) == (2, True)
    assert not (filled.folder / "copy.db").exists()
    log = filled("db", "checkpoint", "--db", either)
    assert (log.code, "is on a server, which copies its log by itself" in log.err) == (2, True)


def test_a_store_of_an_older_version_is_migrated_when_it_is_asked_for(without_model: CommandLine, either: str) -> None:
    kind = "postgres" if either.startswith("postgresql:") else "mysql"
    asyncio.run(run(either, (HISTORY / f"{kind}_schema_1.sql").read_text("ascii")))
    refused = without_model("sessions", "list", "--db", either)
    assert (refused.code, f"`loopwright db migrate --db {either}` brings it to this version" in refused.err) == (
        5,
        True,
    )
    dry = without_model("db", "migrate", "--db", either, "--dry-run")
    assert (dry.code, "ADD COLUMN paused" in dry.out, "nothing was changed" in dry.err) == (0, True, True)
    done = without_model("db", "migrate", "--db", either)
    assert (done.code, "migrated with " in done.err) == (0, True)
    assert "nothing to do" in without_model("db", "migrate", "--db", either).err
    assert without_model("db", "check", "--db", either).code == 0


def test_a_password_is_not_shown(without_model: CommandLine) -> None:
    done = without_model("db", "checkpoint", "--db", "postgresql://me:secret@127.0.0.1:1/nowhere")
    assert ("secret" in done.err, "postgresql://me@127.0.0.1:1/nowhere" in done.err) == (False, True)


@pytest.mark.parametrize(
    "words", [("sessions", "list"), ("db", "stats"), ("db", "prune", "--older-than", "1d"), ("doctor",)]
)
def test_advice_repeats_no_password(mariadb: str, without_model: CommandLine, words: tuple[str, ...]) -> None:
    user, secret = f"u{uuid.uuid4().hex[:8]}", "hunter/2#x"
    database = mariadb.rpartition("/")[2]
    asyncio.run(ask(mariadb, f"CREATE USER {user} IDENTIFIED BY '{secret}'", f"GRANT ALL ON {database}.* TO {user}"))
    try:
        dsn = mariadb.replace("root@", f"{user}:{quote(secret, safe='')}@")
        done = without_model(*words, "--db", dsn)
        assert ("lacks" in done.err + done.out, quote(secret, safe="") in done.err + done.out) == (True, False)
        without_model.env["LOOPWRIGHT_DB"] = dsn
        assert without_model("run", "hi", "--model", "echo:").code == 0
        assert "hi" in without_model("sessions", "list").out
        again = without_model(*words)
        assert quote(secret, safe="") not in again.err + again.out
    finally:
        asyncio.run(ask(mariadb, f"DROP USER {user}"))
