"""`loopwright db export` and `loopwright db import`.

Owns: the files, and what is said of an export or import. Must not know: lines (`engine/session_lines.py`), stores.
Read next: `engine/exporting.py`, `engine/importing.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
import typer

from .. import __version__
from ..engine.exporting import Exporter, ExportReport
from ..engine.importing import Importer, ImportReport
from ..model.errors import ConfigError, SessionExistsError
from ..ports.store_admin import SessionStore
from .journal_lines import counted
from .options import AsJson, Db
from .quantities import size_text
from .session_commands import with_store
from .session_drive import write_json
from .session_ids import resolved
from .store_place import DEFAULT_DB, check_there, made_store, shown

_SHOWN: Final = 5


def export_file(
    session_ids: Annotated[
        list[str] | None, typer.Argument(metavar="SESSION", help="Which; all without any.", show_default=False)
    ] = None,
    db: Db = DEFAULT_DB,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="A file instead of standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Readable lines from an encrypted store.")] = False,
) -> None:
    """Write whole sessions as lines that `import` reads.

    A session's children come along. Others may go on writing: each session is of one moment. What an encrypted store holds stays encrypted, unless --plain is given.
    """

    async def work(store: SessionStore, file: BinaryIO) -> ExportReport:
        chosen = [await resolved(store, session_id) for session_id in session_ids] if session_ids else None
        return await Exporter(store, file.write, plain=plain).run(chosen, library=__version__, at=time.time())

    check_there(db)
    with _output(out, force=force) as file:
        report = with_store(db, lambda store: work(store, file))
    where = "standard output" if out is None else str(out)
    figures = f"{counted(report.records, 'record')}, {counted(report.artifacts, 'artifact')}, {size_text(report.bytes)}"
    _say(f"{counted(report.sessions, 'session')} written to {where}: {figures}")
    if report.deleted_meanwhile:
        _say(f"{counted(report.deleted_meanwhile, 'session')} deleted meanwhile and left out")


def import_file(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="An export; - is standard input.", show_default=False)],
    db: Db = DEFAULT_DB,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave out sessions whose id the store knows.")
    ] = False,
    arm_timers: Annotated[
        bool, typer.Option("--arm-timers", help="Let timers fire here, instead of keeping them paused.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read exported sessions into a store.

    The store is made when missing. Each session is checked and stored whole or not at all: as it was, without a lease, its timers paused.
    """
    with _input(source) as file:
        report = asyncio.run(_import(db, file, skip_existing=skip_existing, arm_timers=arm_timers))
    if as_json:
        return write_json(msgspec.to_builtins(report))
    _tell(report, db)
    return None


async def _import(db: str, file: BinaryIO, *, skip_existing: bool, arm_timers: bool) -> ImportReport:
    store = made_store(db)
    importer = Importer(store, skip_existing=skip_existing, arm_timers=arm_timers)
    try:
        if file.seekable():
            known = await importer.clashes(file)
            if known and not skip_existing:
                raise _taken(known, db)
            file.seek(0)
        return await importer.run(file)
    except SessionExistsError as error:
        raise _taken([error.session_id], db, stored=len(importer.report.sessions)) from error
    finally:
        await store.aclose()


def _taken(session_ids: list[str], db: str, *, stored: int = 0) -> ConfigError:
    names = ", ".join(session_ids[:_SHOWN])
    more = f" and {len(session_ids) - _SHOWN} more" if len(session_ids) > _SHOWN else ""
    what = f"{counted(stored, 'session')} before it stored" if stored else "nothing was stored"
    return ConfigError(
        f"{shown(db)} has, or once had, {counted(len(session_ids), 'session')} of this file: {names}{more}; {what};"
        " leave them out with --skip-existing, or import into another store"
    )


def _tell(report: ImportReport, db: str) -> None:
    figures = f"{counted(report.records, 'record')}, {counted(report.artifacts, 'artifact')}"
    _say(f"{counted(len(report.sessions), 'session')} stored in {shown(db)}: {figures}")
    if report.skipped:
        _say(f"{counted(len(report.skipped), 'session')} left out, since the store knows {_these(report.skipped)}")
    if report.interrupted:
        _say(f"{counted(len(report.interrupted), 'session')} interrupted, to be resumed: {_these(report.interrupted)}")
    if report.paused_timers:
        _say(f"{counted(len(report.paused_timers), 'timer')} paused; no worker fires them:")
        for session_id, timer_id, due_at in report.paused_timers:
            due = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(max(due_at, 0), 2**35)))
            sys.stderr.write(f"  {timer_id} of {session_id}, due {due}\n")


def _these(session_ids: list[str]) -> str:
    more = f" and {len(session_ids) - _SHOWN} more" if len(session_ids) > _SHOWN else ""
    return ", ".join(session_ids[:_SHOWN]) + more


def _say(text: str) -> None:
    sys.stderr.write(f"loopwright: {text}\n")


@contextmanager
def _output(path: Path | None, *, force: bool) -> Generator[BinaryIO]:
    """Where the export goes: a file that is there when it is whole, or standard output."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.exists() and not force:
        raise ConfigError(f"{path} exists and is not overwritten; give another path, or --force")
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        try:
            with partial.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _input(path: Path) -> Generator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    with file:
        yield file
