"""`loopwright doctor` on healthy, damaged and strange stores."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scenario.cli.command_line import CommandLine, session_of
from tests.scenario.cli.test_interruptions import running

from loopwright.cli.sqlite_neighbours import is_old, neighbours_of, standard_version

STORE = ".loopwright/sessions.db"


def grades(findings: list[dict[str, str]], area: str) -> set[str]:
    return {finding["grade"] for finding in findings if finding["area"] == area}


def test_a_healthy_store_is_fine(loopwright: CommandLine) -> None:
    loopwright("run", "hello")
    done = loopwright("doctor", "--json")
    assert (done.code, done.json["ok"]) == (0, True)
    findings = done.json["findings"]
    assert grades(findings, "sessions") == grades(findings, "integrity") == grades(findings, "model") == {"good"}
    assert "no problems" in loopwright("doctor").out


def test_without_a_store_there_is_nothing_to_find(without_model: CommandLine) -> None:
    done = without_model("doctor")
    assert (done.code, "no store at" in done.out, "not set" in done.out) == (0, True, True)
    assert list(without_model.folder.iterdir()) == []


@pytest.mark.parametrize(
    "db, why",
    [
        ("no/such/x.db", "no/such does not exist"),
        ("a.md/x.db", "a.md is not a folder"),
        ("closed/x.db", "closed cannot be written"),
    ],
)
def test_a_store_that_could_not_be_made_is_a_problem(loopwright: CommandLine, db: str, why: str) -> None:
    (loopwright.folder / "closed").mkdir(mode=0o555)
    done = loopwright.without_power("doctor", "--db", db)
    assert (done.code, f"no store at {db}, and none can be made there" in done.out) == (1, True)
    assert why in done.out


def test_the_default_store_that_could_not_be_made_is_a_problem(without_model: CommandLine) -> None:
    without_model.folder.chmod(0o555)
    done = without_model.without_power("doctor")
    assert (done.code, "none can be made there" in done.out, "cannot be written" in done.out) == (1, True, True)
    without_model.folder.chmod(0o755)
    (without_model.folder / ".loopwright").write_text("")
    done = without_model("doctor")
    assert (done.code, ".loopwright is not a folder" in done.out) == (1, True)


def test_a_file_that_cannot_be_written_is_a_problem_with_a_way_to_look_at_it(loopwright: CommandLine) -> None:
    loopwright("run", "hello", "--db", "x.db")
    (loopwright.folder / "x.db").chmod(0o444)
    done = loopwright.without_power("doctor", "--db", "x.db")
    assert (done.code, "x.db cannot be written" in done.out, "copy the file" in done.out) == (1, True, True)


def test_a_damaged_session_is_named_once(loopwright: CommandLine) -> None:
    sid = session_of(loopwright("run", "hello"))
    with sqlite3.connect(loopwright.folder / STORE) as connection:
        connection.execute("UPDATE lw_records SET body = '{}' WHERE id = (SELECT max(id) FROM lw_records)")
    connection.close()
    line = next(f for f in loopwright("doctor", "--json").json["findings"] if f["grade"] == "problem")
    assert line["what"].count(sid) == 1
    assert line["what"].startswith(f"{sid} unreadable: position ")


def test_a_key_is_never_shown_and_a_missing_one_is_a_problem(without_model: CommandLine) -> None:
    without_model.env["OPENAI_MODEL"] = "gpt-x"
    done = without_model("doctor")
    assert (done.code, "set OPENAI_API_KEY" in done.out) == (1, True)
    without_model.env["OPENAI_API_KEY"] = "sk-very-secret"
    done = without_model("doctor")
    assert (done.code, "a key is set" in done.out, "secret" in done.out + done.err) == (0, True, False)


def test_what_waits_or_was_interrupted_or_is_unknown_is_listed_with_what_to_do(loopwright: CommandLine) -> None:
    asking = session_of(loopwright("run", "ask"))
    process = running(loopwright)
    process.kill()
    process.communicate(timeout=60)
    done = loopwright("doctor")
    assert done.code == 0
    assert f"loopwright sessions resume {asking} --answer TEXT" in done.out
    assert "was interrupted: open calls: bash" in done.out
    assert "may or may not have happened" in done.out


@pytest.mark.parametrize(
    "statement, said",
    [
        ("UPDATE lw_records SET body = '{}' WHERE id = (SELECT max(id) FROM lw_records)", "unreadable"),
        ("DELETE FROM lw_records WHERE id = (SELECT max(id) FROM lw_records)", "the head is at position"),
        ("UPDATE lw_sessions SET min_format = 99", "needs record format 99"),
        ("INSERT INTO lw_schema (version, created_at) VALUES (999, 0)", "tables of version 999"),
        ("DROP TABLE lw_records", "lacks lw_records"),
    ],
)
def test_damage_is_named_and_fails(loopwright: CommandLine, statement: str, said: str) -> None:
    loopwright("run", "hello")
    connection = sqlite3.connect(loopwright.folder / STORE)
    connection.execute(statement)
    connection.commit()
    connection.close()
    done = loopwright("doctor")
    assert (done.code, said in done.out) == (1, True), done.out


def test_a_file_that_is_no_database_is_named_and_fails(loopwright: CommandLine) -> None:
    done = loopwright("doctor", "--db", "a.md")
    assert (done.code, "is not a database or is damaged" in done.out) == (1, True)


def test_a_torn_file_does_not_end_in_a_traceback(loopwright: CommandLine) -> None:
    loopwright("run", "hello")
    path = loopwright.folder / STORE
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * 4096 + whole[12288:])
    assert loopwright("doctor").code == 1


def test_old_versions_of_sqlite_are_known() -> None:
    assert is_old("3.40.1")
    assert is_old("3.51.2")
    assert not is_old("3.51.3")
    assert not is_old("3.54.1")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux shows who has a file open")
def test_another_process_with_the_file_open_is_found_with_its_version(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    program = f"import sqlite3, sys; c = sqlite3.connect({str(path)!r}); c.execute('create table t (a)'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        found = neighbours_of(path)
        assert [n.pid for n in found] == [other.pid]
        assert found[0].version in (None, standard_version())
        other.communicate()
