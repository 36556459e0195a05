"""`loopwright db`: what an operator does to a store, in scripts and on a terminal."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import apsw
import pytest
from tests.scenario.cli.command_line import CommandLine, session_of

from loopwright.cli.quantities import age_of, bytes_in, size_text
from loopwright.model.errors import ConfigError

SCHEMA_1 = Path(__file__).parents[2] / "history" / "schema_1.sql"
LOOKING = ("check", "stats", "vacuum", "checkpoint", "backup x.db", "migrate", "export", "prune --keep 1")


@pytest.fixture
def filled(without_model: CommandLine) -> CommandLine:
    """A store with three sessions."""
    for text in ("good morning", "hello", "more"):
        without_model("run", text, "--model", "echo:")
    return without_model


@pytest.mark.parametrize("words", LOOKING)
def test_without_a_store_there_is_nothing_to_look_after_and_none_is_made(
    without_model: CommandLine, words: str
) -> None:
    done = without_model("db", *words.split())
    assert (done.code, "no store at .loopwright/sessions.db" in done.err) == (2, True)
    assert list(without_model.folder.iterdir()) == []


def test_the_printed_script_makes_a_store_that_is_checked_as_sound(without_model: CommandLine) -> None:
    script = without_model("db", "ddl").out
    connection = apsw.Connection(str(without_model.folder / "x.db"))
    for _ in range(2):
        connection.execute(script).fetchall()
    connection.close()
    done = without_model("db", "check", "--db", "x.db")
    assert (done.code, done.out) == (0, "x.db: no problems\n")


def test_check_ends_with_1_and_says_what_to_do_when_something_is_wrong(filled: CommandLine) -> None:
    assert filled("db", "check", "--json").json == {"ok": True, "problems": []}
    connection = apsw.Connection(str(filled.folder / ".loopwright" / "sessions.db"))
    connection.execute("DELETE FROM lw_records WHERE id & 4294967295 = 2")
    connection.close()
    done = filled("db", "check")
    assert (done.code, "3 problems" in done.out, "export what can be read" in done.out) == (1, True, True)
    assert len(filled("db", "check", "--json").json["problems"]) == 3


def test_stats_says_how_many_and_how_much(filled: CommandLine) -> None:
    found = filled("db", "stats", "--json").json
    assert (found["sessions"], found["by_status"], found["records"]) == (3, {"idle": 3}, 18)
    assert found["by_agent"] == {"cli": {"idle": 3}}
    shown = filled("db", "stats").out
    assert [line.split()[:2] for line in shown.splitlines()[:2]] == [["agent", "idle"], ["cli", "3"]]
    assert "tables of version" in shown


def test_a_backup_is_checked_and_never_overwrites_unasked(filled: CommandLine) -> None:
    done = filled("db", "backup", "copy.db")
    assert (done.code, "copied to copy.db; the copy opens and has no problems" in done.err) == (0, True)
    assert len(filled("sessions", "list", "--db", "copy.db", "--json").json) == 3
    again = filled("db", "backup", "copy.db")
    assert (again.code, "exists and is not overwritten" in again.err) == (2, True)
    assert filled("db", "backup", "copy.db", "--force", "--json").json["problems"] == []


def test_vacuum_gives_back_what_deletion_freed(filled: CommandLine) -> None:
    filled("run", "x" * 500_000, "--model", "echo:")
    filled("sessions", "delete", "last", "--yes")
    before = filled("db", "stats", "--json").json
    sizes = filled("db", "vacuum", "--json").json
    assert sizes["before"] - sizes["after"] > 900_000
    assert sizes["artifacts_removed"] == 0
    assert filled("db", "stats", "--json").json["file_bytes"] < before["file_bytes"] - 900_000
    assert "no log is left" in filled("db", "checkpoint").err


def test_what_is_exported_can_be_imported_elsewhere_and_goes_on(filled: CommandLine) -> None:
    out = filled("db", "export", "-o", "all.jsonl")
    assert (out.code, "3 sessions written to all.jsonl: 18 records" in out.err) == (0, True)
    into = filled("db", "import", "all.jsonl", "--db", "new.db")
    assert (into.code, "3 sessions stored in new.db: 18 records" in into.err) == (0, True)
    assert filled("db", "check", "--db", "new.db").code == 0
    assert filled("run", "again", "--session", "last", "--db", "new.db").out == "again\n"
    assert filled("db", "export", "-o", "all.jsonl").code == 2, "a file is not overwritten unasked"
    assert filled("db", "export", "last", "-o", "all.jsonl", "--force").code == 0
    assert len((filled.folder / "all.jsonl").read_text().splitlines()) == 1 + 1 + 6 + 1 + 1


def test_a_clash_is_refused_before_anything_is_stored(filled: CommandLine) -> None:
    filled("db", "export", "-o", "all.jsonl")
    filled("db", "export", "last", "-o", "one.jsonl")
    filled("db", "import", "one.jsonl", "--db", "new.db")
    done = filled("db", "import", "all.jsonl", "--db", "new.db")
    assert (done.code, "nothing was stored; leave them out with --skip-existing" in done.err) == (2, True)
    assert len(filled("sessions", "list", "--db", "new.db", "--json").json) == 1
    report = filled("db", "import", "all.jsonl", "--db", "new.db", "--skip-existing", "--json").json
    assert (len(report["sessions"]), len(report["skipped"])) == (2, 1)


def test_an_export_streams_through_a_pipe(filled: CommandLine) -> None:
    text = filled.process("db", "export").out
    assert json.loads(text.splitlines()[0])["type"] == "loopwright_export"
    done = filled.process("db", "import", "-", "--db", "piped.db", stdin=text)
    assert (done.code, "3 sessions stored in piped.db" in done.err) == (0, True)


def test_a_file_that_is_no_export_is_refused_with_its_line(without_model: CommandLine) -> None:
    (without_model.folder / "notes.txt").write_text("hello\n")
    done = without_model("db", "import", "notes.txt", "--db", "new.db")
    assert (done.code, done.err.startswith("loopwright: ")) == (2, True)
    assert without_model("db", "import", "missing.jsonl").code == 2


def test_prune_says_what_would_go_and_deletes_when_it_is_told_to(filled: CommandLine) -> None:
    oldest = filled("sessions", "list", "--json").json[-1]["session_id"]
    plan = filled("db", "prune", "--keep", "2", "--dry-run", "--json").json
    assert plan["sessions"] == [oldest]
    dry = filled("db", "prune", "--keep", "2", "--dry-run")
    assert (dry.code, oldest in dry.out, "1 session with" in dry.out) == (0, True, True)
    asked = filled("db", "prune", "--keep", "2")
    assert (asked.code, "needs --yes" in asked.err) == (2, True)
    assert len(filled("sessions", "list", "--json").json) == 3
    done = filled("db", "prune", "--keep", "2", "--yes")
    assert (done.code, "1 session deleted" in done.err) == (0, True)
    assert "nothing to delete" in filled("db", "prune", "--older-than", "30d", "--yes").out
    assert filled("db", "prune", "--max-size", "1B", "--yes", "--json").json["deleted"] == 2
    assert filled("db", "prune").code == 2
    assert "no age" in filled("db", "prune", "--older-than", "soon").err


def test_prune_asks_on_a_terminal_and_any_answer_but_yes_keeps_everything(filled: CommandLine) -> None:
    filled.env["COLUMNS"] = "80"
    with filled.terminal("db", "prune", "--keep", "1") as screen:
        screen.until("delete 2 sessions for good? [y/N]")
        screen.type("n\n")
        assert screen.end() == 1
        assert max(len(line) for line in screen.text.splitlines()) <= 80
    with filled.terminal("db", "prune", "--keep", "1") as screen:
        screen.until("[y/N]")
        screen.type("y\n")
        screen.until("2 sessions deleted")
        assert screen.end() == 0


def test_a_store_of_an_older_version_is_migrated_when_it_is_asked_for(without_model: CommandLine) -> None:
    connection = apsw.Connection(str(without_model.folder / "old.db"))
    connection.execute(SCHEMA_1.read_text("ascii")).fetchall()
    connection.close()
    refused = without_model("sessions", "list", "--db", "old.db")
    assert (refused.code, "`loopwright db migrate --db old.db` brings it to this version" in refused.err) == (5, True)
    checked = without_model("db", "check", "--db", "old.db")
    assert (checked.code, "loopwright db migrate --db old.db" in checked.out) == (1, True)
    dry = without_model("db", "migrate", "--db", "old.db", "--dry-run")
    assert (dry.code, "ADD COLUMN paused" in dry.out, "nothing was changed" in dry.err) == (0, True, True)
    assert without_model("sessions", "list", "--db", "old.db").code == 5
    done = without_model("db", "migrate", "--db", "old.db")
    assert (done.code, bool(re.search(r"migrated with \d+ statements", done.err))) == (0, True)
    assert "nothing to do" in without_model("db", "migrate", "--db", "old.db").err
    assert without_model("db", "check", "--db", "old.db").code == 0


def test_stats_on_a_terminal_fit_80_columns(filled: CommandLine) -> None:
    filled.env["COLUMNS"] = "80"
    filled("run", "hello", "--model", "echo:", "--agent", "an-agent-with-quite-a-long-name-for-a-narrow-terminal")
    with filled.terminal("db", "stats") as screen:
        assert screen.end() == 0
    lines = screen.text.splitlines()
    assert any(line.startswith("all agents") for line in lines)
    assert max(len(line.rstrip()) for line in lines) <= 80


@pytest.mark.parametrize("text, seconds", [("90min", 5400), ("12h", 43_200), ("30d", 2_592_000), ("1.5 w", 907_200)])
def test_an_age_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert age_of(text) == seconds


@pytest.mark.parametrize("text, count", [("10", 10), ("2GB", 2 * 10**9), ("1.5GiB", 3 * 2**29), ("500 kb", 500_000)])
def test_a_size_is_a_number_with_a_unit(text: str, count: int) -> None:
    assert bytes_in(text) == count


@pytest.mark.parametrize("text", ["", "d", "-3d", "3 moons", "1e9GB"])
def test_what_is_neither_age_nor_size_says_how_they_are_written(text: str) -> None:
    for read in (age_of, bytes_in):
        with pytest.raises(ConfigError, match="write a number and a unit"):
            read(text)


def test_sizes_are_shown_in_a_fitting_unit() -> None:
    shown = [size_text(n) for n in (0, 999, 1000, 45_056, 999_960, 2_500_000_000, 10**15)]
    assert shown == ["0 B", "999 B", "1.0 kB", "45.1 kB", "1.0 MB", "2.5 GB", "1,000.0 TB"]


def test_an_artifact_that_nothing_refers_to_goes_with_the_vacuum_after_an_hour(filled: CommandLine) -> None:
    sid = filled("sessions", "list", "--json").json[0]["session_id"]
    connection = apsw.Connection(str(filled.folder / ".loopwright" / "sessions.db"))
    for name, age in (("a", 7200), ("b", 60)):
        connection.execute(
            "INSERT INTO lw_artifacts (artifact_id, key, session_id, media_type, size, digest, complete, created_at)"
            " SELECT ?, key, session_id, 'text/plain', 0, '', 1, ? FROM lw_sessions WHERE session_id = ?",
            (f"art_{name * 32}", time.time() - age, sid),
        )
    connection.close()
    assert "1 unreferenced artifact removed" in filled("db", "vacuum").err
    assert filled("db", "stats", "--json").json["artifacts"] == 1
    assert session_of(filled("run", "still works", "--model", "echo:"))
