"""`loopwright verify` in scripts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest
from tests.scenario.cli.command_line import CommandLine

from loopwright import AgentLoopConfig, StatefulAgentLoop

KEY = b"\x00 the key of these tests \xff"


async def talk(path: Path, key: bytes | None) -> None:
    config = AgentLoopConfig(hash_chain=True, hash_chain_key=key)
    async with StatefulAgentLoop(llm="echo:", dsn=path, config=config) as loop:
        await loop.send("pay nobody")


@pytest.fixture
def linked(without_model: CommandLine) -> CommandLine:
    """A folder with a store `x.db` of one linked session."""
    asyncio.run(talk(without_model.folder / "x.db", None))
    return without_model


def tampered(place: CommandLine) -> None:
    connection = apsw.Connection(str(place.folder / "x.db"))
    connection.execute("UPDATE lw_records SET body = CAST(replace(body, 'nobody', 'me \x1b[1m!') AS BLOB)")
    connection.close()


def test_an_intact_session_gives_0_and_the_digest_to_keep(linked: CommandLine) -> None:
    first = linked("verify", "last", "--db", "x.db", "--json")
    assert (first.code, first.json["intact"], first.json["records"]) == (0, True, 8)
    digest = first.json["digest"]
    done = linked("verify", "last", "--db", "x.db", "--expected", f" {digest.upper()}\n")
    assert done.code == 0
    assert "intact, 8 of 8 records linked" in done.out
    assert "the expected digest is that of 7" in done.out
    assert f"digest {digest} at 7" in "".join(done.out.split("\n"))


def test_a_changed_session_gives_1_and_a_table_of_what_is_wrong(linked: CommandLine) -> None:
    digest = linked("verify", "last", "--db", "x.db", "--json").json["digest"]
    tampered(linked)
    done = linked("verify", "last", "--db", "x.db", "--expected", digest)
    assert (done.code, "changed body" in done.out, "\x1b" in done.out) == (1, True, False)
    assert linked("verify", "last", "--db", "x.db", "--json").json["problems"][0]["why"] == "changed_body"


def test_an_expected_digest_that_is_none_and_a_key_that_is_not_there_are_wrong_usage(linked: CommandLine) -> None:
    done = linked("verify", "last", "--db", "x.db", "--expected", "abc")
    assert (done.code, "64 hexadecimal digits" in done.err) == (2, True)
    done = linked("verify", "last", "--db", "x.db", "--key-file", "nowhere")
    assert (done.code, "cannot read nowhere" in done.err) == (2, True)
    assert linked("verify", "nobody", "--db", "x.db").code == 2


def test_a_chain_with_a_key_is_verified_with_a_file_of_its_bytes(without_model: CommandLine) -> None:
    asyncio.run(talk(without_model.folder / "x.db", KEY))
    (without_model.folder / "key").write_bytes(KEY)
    assert without_model("verify", "last", "--db", "x.db", "--key-file", "key").code == 0
    without = without_model("verify", "last", "--db", "x.db")
    assert (without.code, "other key" in without.out) == (1, True)


def test_what_the_command_itself_writes_is_not_linked_and_said_so(linked: CommandLine) -> None:
    linked("run", "more", "--session", "last", "--agent", "default", "--model", "echo:", "--db", "x.db")
    done = linked("verify", "last", "--db", "x.db")
    assert (done.code, "not linked: 8 to 12" in done.out) == (1, True)


def test_links_are_shown_in_the_journal(linked: CommandLine) -> None:
    assert "links from 0 on: " in linked("sessions", "show", "last", "--journal", "--db", "x.db").out
