"""A store on a server that something is wrong with: what its first call raises, and what is left in the database.

Owns: the two shapes that tests of faults have. Must not know: any server.
"""

from __future__ import annotations

from tests.servers.asking import ask

from loopwright import open_store
from loopwright.model.errors import LoopwrightError
from loopwright.ports.store_admin import SchemaPolicy
from loopwright.testing.store_kit import Writer, new_session, texts

TABLES = {
    "postgresql": "SELECT tablename FROM pg_tables WHERE tablename LIKE 'lw%'",
    "mysql": "SHOW TABLES",
}


async def first_error(
    dsn: str, schema: SchemaPolicy = SchemaPolicy.AUTO_CREATE, *, busy_wait_s: float = 0.3
) -> LoopwrightError:
    """What opening this address, or the first call on it, raises."""
    try:
        store = open_store(dsn, schema=schema, busy_wait_s=busy_wait_s)
    except LoopwrightError as error:
        return error
    try:
        await store.create(new_session())
    except LoopwrightError as error:
        return error
    finally:
        await store.aclose()
    raise AssertionError("nothing was raised")


async def tables(dsn: str) -> list[str]:
    """The names of our tables in a database."""
    return [row[0] for row in await ask(dsn, TABLES[dsn.partition(":")[0]])]


async def busy(writer: Writer, commits: int) -> None:
    """Two records a commit, one commit after the other."""
    for _ in range(commits):
        await writer.write(2, sync=True)


async def are_whole(writers: list[Writer], commits: int) -> None:
    """Each journal holds what its writer was told, once."""
    for writer in writers:
        assert len(await texts(writer.store, writer.session_id)) == writer.position == 2 + 2 * commits
