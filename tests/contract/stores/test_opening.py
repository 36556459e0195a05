"""Opening a store says at once what is wrong, what to do about it, and changes nothing then."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest

from loopwright.model.errors import (
    ConfigError,
    LoopwrightError,
    StoreCorruptError,
    StoreForkedError,
    StoreFullError,
    StoreSchemaError,
    StoreUnavailableError,
)
from loopwright.ports.store_admin import SchemaPolicy
from loopwright.stores.dsn import open_store
from loopwright.stores.memory import MemoryStore
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.faulty_vfs import Fault, FaultyVfs
from loopwright.testing.store_kit import begin, head_of, item, new_session, raises, texts


def close(store: object) -> None:
    asyncio.run(store.aclose())  # type: ignore[attr-defined]


def write_some(path: Path) -> None:
    async def write() -> None:
        store = SqliteStore(path)
        await (await begin(store)).write(500)
        await store.aclose()

    asyncio.run(write())


@pytest.mark.parametrize(
    "dsn, kind",
    [
        ("", ConfigError),
        ("sqlite:///", ConfigError),
        ("sqlite://relative.db", ConfigError),
        ("redis://localhost/0", ConfigError),
        ("postgresql://localhost", ConfigError),
        ("postgresql://localhost/db?prefix=No-name", ConfigError),
        ("mysql+asyncmy://localhost", ConfigError),
        ("mariadb://localhost/db?charset=latin1", ConfigError),
        ("mysql://localhost/db?prefix=no-", ConfigError),
        ("folder-that-is-missing/store.db", ConfigError),
        (".", ConfigError),
    ],
)
def test_a_dsn_that_means_nothing_is_refused_and_no_file_appears(
    tmp_path: Path, dsn: str, kind: type[Exception]
) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        with pytest.raises(kind):
            open_store(dsn)
        assert list(tmp_path.iterdir()) == []
    finally:
        os.chdir(before)


def test_paths_and_schemes_reach_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    stores = [
        open_store(path),
        open_store(str(path)),
        open_store(f"sqlite:///{path}"),
        open_store(f"sqlite+apsw:///{path}"),
    ]
    assert len({store.identity for store in stores}) == 1
    for store in stores:
        close(store)
    assert isinstance(open_store("memory:"), MemoryStore)
    assert open_store("memory:").identity != open_store(":memory:").identity
    assert open_store("memory:shared").identity == open_store("memory:shared").identity


@pytest.mark.parametrize("settings", [{"durability": "sometimes"}, {"busy_wait_s": -1.0}])
def test_a_wrong_setting_is_refused(tmp_path: Path, settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        open_store(tmp_path / "store.db", **settings)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_sqlite_is_loaded_only_for_a_file() -> None:
    program = "import sys; from loopwright.stores.dsn import open_store; open_store('memory:'); assert 'apsw' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but something of value\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_damaged_page_is_corrupt_where_it_is_read_and_found_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write_some(path)
    data = bytearray(path.read_bytes())
    page_size = int.from_bytes(data[16:18], "big")  # the file format's own header
    connection = apsw.Connection(str(path))
    leaves = list(connection.execute("SELECT pageno FROM dbstat WHERE name = 'lw_records' AND pagetype = 'leaf'"))
    connection.close()
    for page in [int(str(number)) - 1 for (number,) in leaves]:
        data[page * page_size : page * page_size + 200] = b"\xff" * 200
    path.write_bytes(data)

    async def verify() -> None:
        store = SqliteStore(path)
        with raises(StoreCorruptError):
            await store.read("s")
        assert list(await store.check()) != []
        assert (await head_of(store)).position == 502
        store.abandon()

    asyncio.run(verify())


def test_a_hole_in_a_journal_is_corrupt_and_found_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write_some(path)
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM lw_records WHERE id & 4294967295 = 7")
    connection.close()

    async def verify() -> None:
        store = SqliteStore(path)
        with raises(StoreCorruptError):
            await store.read("s")
        problems = await store.check()
        assert [problem.session_id for problem in problems] == ["s"]
        await store.aclose()

    asyncio.run(verify())


def test_a_newer_schema_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write_some(path)
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO lw_schema (version, created_at) VALUES (99, 0)")
    connection.close()
    before = path.read_bytes()
    for policy in SchemaPolicy:
        with pytest.raises(StoreSchemaError, match="upgrade"):
            SqliteStore(path, schema=policy)
    assert path.read_bytes() == before


def test_verify_names_what_is_missing_and_gives_the_script_that_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with pytest.raises(StoreSchemaError) as missing:
        SqliteStore(path, schema=SchemaPolicy.VERIFY)
    assert list(tmp_path.iterdir()) == []
    connection = apsw.Connection(str(path))
    for _ in range(2):
        connection.execute(missing.value.ddl).fetchall()
    connection.execute("DROP TABLE lw_timers")
    with pytest.raises(StoreSchemaError, match="lw_timers") as lacking:
        SqliteStore(path, schema=SchemaPolicy.VERIFY)
    connection.execute(lacking.value.ddl).fetchall()
    connection.close()
    store = SqliteStore(path, schema=SchemaPolicy.VERIFY)
    assert store.ddl() == missing.value.ddl
    close(store)


def test_tables_of_the_host_in_the_same_file_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    host = sqlite3.connect(path)
    host.execute("CREATE TABLE orders (id INTEGER)")
    host.commit()
    host.close()
    write_some(path)
    host = sqlite3.connect(path)
    assert host.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    host.close()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are a POSIX matter")
def test_a_file_or_folder_that_cannot_be_written_says_so() -> None:
    """As another user, since root may write everything."""
    program = (
        "import os, sys\n"
        "from loopwright.model.errors import StoreReadOnlyError\n"
        "from loopwright.stores.sqlite import SqliteStore\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "for path in sys.argv[1:]:\n"
        "    try: SqliteStore(path).abandon()\n"
        "    except StoreReadOnlyError: pass\n"
        "    else: sys.exit(f'{path} could be opened')\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "closed").mkdir()
        write_some(place / "closed" / "store.db")
        write_some(place / "file.db")
        (place / "closed" / "store.db").chmod(0o666)
        (place / "file.db").chmod(0o444)
        (place / "closed").chmod(0o555)
        place.chmod(0o777)
        paths = [str(place / "file.db"), str(place / "closed" / "new.db"), str(place / "closed" / "store.db")]
        done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=False)
        (place / "closed").chmod(0o755)
        assert done.returncode == 0, done.stderr


def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_space(tmp_path: Path) -> None:
    async def verify() -> None:
        vfs = FaultyVfs(Fault.FULL, 1)
        store = SqliteStore(tmp_path / "store.db", vfs=vfs.vfs_name)
        writer = await begin(store)
        vfs.armed = True
        with raises(StoreFullError):
            await writer.write(200)
        with raises(StoreFullError):
            await writer.write(200, sync=True)
        vfs.armed = False
        assert (await writer.write(200)).position == 202
        assert len(await texts(store)) == 202
        await store.aclose()

    asyncio.run(verify())


def test_a_file_that_stays_locked_is_unavailable_after_the_wait_and_works_again(tmp_path: Path) -> None:
    async def verify() -> None:
        path = tmp_path / "store.db"
        store = SqliteStore(path, busy_wait_s=0.05)
        writer = await begin(store)
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        for sync in (False, True):
            with raises(StoreUnavailableError):
                await writer.write(sync=sync)
        assert len(await texts(store)) == 2
        other.execute("ROLLBACK")
        other.close()
        assert (await writer.write()).position == 3
        await store.aclose()

    asyncio.run(verify())


def test_an_error_that_somebody_keeps_does_not_hold_the_file(tmp_path: Path) -> None:
    """A kept traceback keeps what the failed call was reading; that must not pin an old view of the file."""

    async def verify() -> None:
        store, other = SqliteStore(tmp_path / "store.db", busy_wait_s=0.2), SqliteStore(tmp_path / "store.db")
        await store.create(new_session("gone"))
        await store.delete("gone")
        kept: list[LoopwrightError] = []
        for call in (
            lambda: store.delete("gone"),
            lambda: store.lookup("gone"),
            lambda: store.enqueue("gone", item()),
            lambda: store.put_artifact("gone", b"x", "text/plain"),
        ):
            try:
                await call()
            except LoopwrightError as error:
                kept.append(error)
            await other.create(new_session(f"new-{len(kept)}"))
            await store.delete(f"new-{len(kept)}")
            await store.create(new_session(f"next-{len(kept)}"))
        assert len(kept) == 4
        for one in (store, other):
            await one.aclose()

    asyncio.run(verify())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_is_told_to_open_its_own_store(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from loopwright.model.errors import StoreForkedError\n"
        "from loopwright.stores.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "pid = os.fork()\n"
        "async def use():\n"
        "    try: await store.lookup('s')\n"
        "    except StoreForkedError: return 7\n"
        "    return 1\n"
        "if pid == 0: os._exit(asyncio.run(use()))\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "store.db")], check=False)
    assert done.returncode == 7
    assert issubclass(StoreForkedError, LoopwrightError)


def test_one_file_is_the_whole_state_after_closing(tmp_path: Path) -> None:
    write_some(tmp_path / "store.db")
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


def test_the_log_does_not_grow_for_ever_under_constant_writing(tmp_path: Path) -> None:
    async def verify() -> None:
        store = SqliteStore(tmp_path / "store.db", durability="relaxed")
        await store.create(new_session("t"))
        writer = await begin(store)
        for _ in range(60):
            await writer.write(500)
        log = (tmp_path / "store.db-wal").stat().st_size
        await store.aclose()
        assert log < 40_000_000

    asyncio.run(verify())


@pytest.mark.parametrize("wrong", [" {}", "\n{}", "'{}'", "DSN={}", "sqlite://u:swordfish@h/x"])
def test_an_address_with_something_before_it_is_no_file_and_its_password_is_not_repeated(wrong: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_store(wrong.format("postgresql://me:swordfish@127.0.0.1/x"))
    assert "swordfish" not in str(refused.value)
