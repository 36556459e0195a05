"""The command on an encrypted store: keys come from the environment, and never from an option."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tests.scenario.cli.command_line import CommandLine, session_of

WORDS = "the password is swordfish"


@pytest.fixture
def with_keys(without_model: CommandLine) -> CommandLine:
    path = without_model.folder / "keys"
    path.write_text(f"2026-01 {base64.b64encode(bytes(range(32))).decode()}\n")
    without_model.env["LOOPWRIGHT_KEY_FILE"] = "keys"
    return without_model


def without_keys(command: CommandLine) -> CommandLine:
    return CommandLine(command.folder)


def test_a_conversation_goes_on_with_the_keys_and_nothing_of_it_is_in_the_file(with_keys: CommandLine) -> None:
    begun = with_keys("run", WORDS, "--model", "echo:")
    assert begun.code == 0
    assert "swordfish" in with_keys("run", "and on", "--model", "echo:", "--session", "last").out + begun.out
    assert "swordfish" in with_keys("sessions", "list").out
    assert "swordfish" in with_keys("sessions", "show", session_of(begun)).out
    assert with_keys("db", "check").out == ".loopwright/sessions.db: no problems\n"
    for path in (with_keys.folder / ".loopwright").iterdir():
        assert b"swordfish" not in path.read_bytes()


def test_without_the_keys_a_session_is_said_to_be_encrypted(with_keys: CommandLine) -> None:
    session_id = session_of(with_keys("run", WORDS, "--model", "echo:"))
    done = without_keys(with_keys)("run", "more", "--model", "echo:", "--session", session_id)
    assert (done.code, "encrypted" in done.err, "LOOPWRIGHT_KEY_FILE" in done.err) == (5, True, True)
    listed = without_keys(with_keys)("sessions", "list").out
    assert ("swordfish" in listed, "sealed:" in listed, "(encrypted)" in listed) == (False, False, True)
    for look in (("sessions", "show", session_id), ("doctor",)):
        said = without_keys(with_keys)(*look).out
        assert ("encrypted" in said, "LOOPWRIGHT_KEY_FILE" in said) == (True, True)
        assert not any(word in said for word in ("damage", "unreadable", "delete")), "nothing is wrong with it"


def test_sessions_of_before_are_refused_until_they_may_be_read(with_keys: CommandLine) -> None:
    session_id = session_of(without_keys(with_keys)("run", WORDS, "--model", "echo:"))
    refused = with_keys("run", "more", "--model", "echo:", "--session", session_id)
    assert (refused.code, "not encrypted" in refused.err) == (5, True)
    with_keys.env["LOOPWRIGHT_PLAIN_RECORDS"] = "read"
    assert with_keys("run", "more", "--model", "echo:", "--session", session_id).code == 0
    with_keys.env["LOOPWRIGHT_PLAIN_RECORDS"] = "perhaps"
    assert with_keys("sessions", "list").code == 2


def test_an_export_is_sealed_and_comes_in_with_the_keys_only(with_keys: CommandLine) -> None:
    with_keys("run", WORDS, "--model", "echo:")
    assert with_keys("db", "export", "-o", "sealed.jsonl").code == 0
    assert with_keys("db", "export", "-o", "plain.jsonl", "--plain").code == 0
    said = {path.name: b"swordfish" in path.read_bytes() for path in with_keys.folder.glob("*.jsonl")}
    assert said == {"sealed.jsonl": False, "plain.jsonl": True}
    refused = without_keys(with_keys)("db", "import", "sealed.jsonl", "--db", "other.db")
    assert (refused.code, "it is encrypted" in refused.err) == (2, True)
    assert with_keys("db", "import", "sealed.jsonl", "--db", "other.db").code == 0
    assert "swordfish" in with_keys("sessions", "list", "--db", "other.db").out


@pytest.mark.parametrize("content", ["", "2026-01 tooshort", None])
def test_a_bad_key_file_is_an_error_before_a_store_is_made(with_keys: CommandLine, content: str | None) -> None:
    path: Path = with_keys.folder / "keys"
    path.unlink() if content is None else path.write_text(content)
    done = with_keys("run", WORDS, "--model", "echo:")
    assert (done.code, "key file" in done.err) == (2, True)
    assert not (with_keys.folder / ".loopwright" / "sessions.db").exists()
