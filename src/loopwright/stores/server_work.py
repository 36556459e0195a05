"""A tool's own statements inside a transaction of ours on a database server.

Owns: the thread in which synchronous work runs while the event loop carries its statements; which statements it may
send; its time limit; which of its faults begin the transaction anew. Must not know: any server, transitions.
What a statement does on a server cannot be judged there for one transaction, so its text is: a guard against mistakes.
Against malice there are rights: the work is done by the user of the store's DSN.
Read next: `work_cursor.py`.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from ..model.call_errors import OnCommitError
from ..model.errors import UsageError
from ..ports.store import RunInside
from .migration import tables_of
from .server_dialect import Remedy, ServerConnection, ServerDialect
from .work_cursor import WorkCursor, perform, said, too_slow

LIMIT_S: Final = 2.0
"""All other writes of this store object wait in line meanwhile."""

LOSSES: Final = 3
"""Work whose connection went so often is taken for the reason: each time everybody waits for a new one."""

_DATA: Final = re.compile(r"[\s(]*(?:select|insert|update|delete|replace|merge|with|values)\b", re.IGNORECASE)

_HIDING: Final = (";", "/*!", "/*M!", "U&")
"""More than one statement, or names that are not spelled out; in upper case."""

_BEYOND: Final = re.compile(
    r"\b(?:set_config|pg_(?:terminate|cancel)_backend|pg_(?:try_)?advisory_(?:un)?lock\w*|get_lock|release_(?:all_)?locks?)\b",
    re.IGNORECASE,
)
"""Functions whose effect stays after the transaction, or ends it."""


async def run_inside(
    connection: ServerConnection, dialect: ServerDialect, op: RunInside, losses: list[BaseException]
) -> None:
    """Does the work in the open transaction. Raises `OnCommitError`, or a native fault after which all is to be done
    again; the transaction is the caller's to undo.

    `losses` is one list for all tries of this work, and is written here: after `LOSSES` of them the work has failed.
    When this returns or raises, no statement of the work is under way, and none will be. A thread that does not come
    back is left behind with a dead cursor.
    """
    # Said in the try after the last loss, on a connection that can still undo the transaction.
    if len(losses) >= LOSSES:
        why = f"its connection was lost {LOSSES} times in it, the last time by {said(losses[-1])}"
        raise OnCommitError(op.call_id, why) from losses[-1]
    sql = dialect.statements
    await connection.run(sql.WORK_BEGIN)
    fault = await _performed(connection, sql.SCHEMA.ddl, op)
    if fault is not None and _begins_anew(dialect, fault, losses):
        raise fault
    if sql.WORK_OVER:
        await connection.run(sql.WORK_OVER)
    if isinstance(fault, OnCommitError):
        raise fault
    if fault is not None:
        raise OnCommitError(op.call_id, said(fault)) from fault
    if not sql.WORK_DONE:
        return
    try:
        await connection.run(sql.WORK_DONE)
    except dialect.native_faults as error:
        if _begins_anew(dialect, error, losses):
            raise
        raise OnCommitError(op.call_id, said(error)) from error


async def _performed(connection: ServerConnection, ddl: str, op: RunInside) -> BaseException | None:
    """What went wrong with the work: a statement's fault where there was one, else the work's own."""
    loop, busy, is_over = asyncio.get_running_loop(), asyncio.Lock(), False

    async def carried(statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        async with busy:
            if is_over:
                raise UsageError("the transaction is over")
            return await connection.foreign(statement, values)

    def send(statement: str, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        _check(statement, ddl)
        return asyncio.run_coroutine_threadsafe(carried(statement, values), loop).result()

    cursor = WorkCursor(send)
    done = _in_thread(loop, partial(perform, op, cursor))
    try:
        async with asyncio.timeout(LIMIT_S):
            fault = await done
    except TimeoutError:
        fault = too_slow(op, LIMIT_S)
    finally:
        cursor.close()
        is_over = True
        async with busy:
            pass  # the server ends a statement after LIMIT_S
    # Without a result the thread may still be at it: then its fault, if any, is that of being too late.
    if isinstance(fault, OnCommitError) and fault.limit_s is None and cursor.fault is not None:
        return cursor.fault
    return fault


def _in_thread(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> asyncio.Future[BaseException | None]:
    """What `work` raised, or None. Nobody has to wait for the thread."""
    done: asyncio.Future[BaseException | None] = loop.create_future()

    def finish(fault: BaseException | None) -> None:
        if not done.done():
            done.set_result(fault)

    def body() -> None:
        fault: BaseException | None = None
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - carried to the waiting task, which raises it
            fault = error
        try:
            loop.call_soon_threadsafe(finish, fault)
        except RuntimeError:
            return  # the event loop is closed: nobody waits any more

    threading.Thread(target=body, name="loopwright-on-commit", daemon=True).start()
    return done


def _begins_anew(dialect: ServerDialect, fault: BaseException, losses: list[BaseException]) -> bool:
    """True when the transaction is lost through no fault of the work; a lost connection is added to `losses`."""
    if not isinstance(fault, dialect.native_faults):
        return False
    remedy = dialect.fault(fault)
    if remedy is Remedy.LOST:
        losses.append(fault)
    return remedy in (Remedy.LOST, Remedy.AGAIN)


def _check(statement: str, ddl: str) -> None:
    """Raises `UsageError` for a text that is not one statement about the host's own data."""
    if not _DATA.match(statement):
        raise UsageError(
            "on_commit takes SELECT, INSERT, UPDATE, DELETE, REPLACE, MERGE, VALUES and WITH statements only"
        )
    text = statement.rstrip().removesuffix(";").upper()
    if any(sign in text for sign in _HIDING):
        raise UsageError(
            "on_commit takes one plain statement at a time, without ; /*! or U& in it: pass text as a value"
        )
    beyond = _BEYOND.search(statement)
    if beyond is not None:
        raise UsageError(f"{beyond[0]} reaches beyond the transaction, which on_commit may not: pass text as a value")
    found = _ours(ddl).search(statement)
    if found is not None:
        raise UsageError(f"table {found[0]} belongs to the store; on_commit is for tables of your own")


@lru_cache(maxsize=16)
def _ours(ddl: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, tables_of(ddl)))})\b", re.IGNORECASE)
