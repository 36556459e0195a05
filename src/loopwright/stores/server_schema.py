"""The tables on a server: what they lack, as the exact script, and running it.

Owns: `SchemaPolicy` on servers, that one process changes tables while the others wait. Must not know: any server's SQL,
sessions.
Read next: `migration.py` for the rules, `postgres_statements.py` for tables and migrations.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.errors import StoreSchemaError, StoreUnavailableError
from ..ports.schema_policy import SchemaPolicy
from .migration import Migration, SchemaGap, SchemaStep, check_known, gap_between, left_of, tables_of
from .server_dialect import ServerConnection, ServerDialect


class ServerSchema:
    """Makes sure, once for each store object, that the tables are those of this version.

    A connection on which anything here failed must be dropped: that gives up the lock and rolls back what can be. Where
    the server commits each change of a table by itself (MySQL), the steps that were done are left out the next time.
    """

    def __init__(
        self, dialect: ServerDialect, policy: SchemaPolicy, migrations: Sequence[Migration] | None = None
    ) -> None:
        """`migrations`: other steps than this version's own."""
        self._place = dialect.place
        self._sql = dialect.statements
        self._policy = policy
        self._migrations = self._sql.MIGRATIONS if migrations is None else migrations
        self.is_prepared = False
        """Whether tables of ours were found or made."""

    async def prepare(self, connection: ServerConnection) -> None:
        """Looks at the tables and does what the policy allows; nothing when that was done before.

        Raises: `StoreSchemaError` with the script of what is missing, or for newer tables; `StoreUnavailableError` when
        another process changes them for too long. A statement of ours that failed raises what the driver raises.
        """
        if self.is_prepared:
            return
        repair = self._policy is SchemaPolicy.MIGRATE
        gap = await self._gap(connection)
        if gap.script:
            self._refuse_broken(gap)
            if self._policy is SchemaPolicy.VERIFY:
                raise StoreSchemaError(gap.lacking(self._place), ddl=gap.ddl)
        if gap.script or repair:
            await self._lock(connection)
            # Another process may have been first: what is missing is asked again under the lock.
            await self._run(connection, await self._gap(connection))
            if repair:
                await self._clean_up(connection)
            await connection.rows(self._sql.UNLOCK_SCHEMA)
        self.is_prepared = True

    async def cleanup(self, connection: ServerConnection) -> list[tuple[int, list[str]]]:
        """(version, statements) of clean-ups that were not done yet, in order."""
        open_ = {row[0] for row in await connection.rows(self._sql.UNCLEANED)}
        found: list[tuple[int, list[str]]] = []
        for one in sorted(self._migrations, key=lambda migration: migration.version):
            if one.version in open_ and one.after:
                left = await self._left(connection, one.after)
                found.append((one.version, [step.statement for step in left]))
        return found

    async def _gap(self, connection: ServerConnection) -> SchemaGap:
        sql = self._sql
        present = {str(row[0]) for row in await connection.rows(sql.TABLES)}
        version: int | None = None
        if tables_of(sql.SCHEMA.ddl)[0] in present:  # the one that holds the version
            version = (await connection.rows(sql.VERSION))[0][0]
        check_known(version, sql.SCHEMA, self._migrations, self._place)
        steps = [step for migration in self._migrations for step in migration.before]
        left = {step.applied for step in await self._left(connection, steps)}
        return gap_between(
            sql.SCHEMA,
            self._migrations,
            self._place,
            present=present,
            version=version,
            is_there=lambda query: query not in left,
        )

    async def _left(self, connection: ServerConnection, steps: Sequence[SchemaStep]) -> list[SchemaStep]:
        """Steps whose effect is not there, asked in one round trip."""
        if not steps:
            return []
        queries = list(dict.fromkeys(step.applied for step in steps))
        asked = ", ".join(f"EXISTS ({query})" for query in queries)
        (answers,) = await connection.rows(f"SELECT {asked}")
        there = {query for query, answer in zip(queries, answers, strict=True) if answer}
        return left_of(steps, there.__contains__)

    async def _lock(self, connection: ServerConnection) -> None:
        ((is_ours,),) = await connection.rows(self._sql.LOCK_SCHEMA)
        if not is_ours:
            raise StoreUnavailableError(f"another process is changing the tables of {self._place}; try again later")

    async def _run(self, connection: ServerConnection, gap: SchemaGap) -> None:
        self._refuse_broken(gap)
        await connection.run(self._sql.BEGIN)
        for statement in gap.script:
            await connection.run(statement)
        await connection.run(self._sql.COMMIT)

    async def _clean_up(self, connection: ServerConnection) -> None:
        """Each statement commits alone: what is not done then can be done by anybody later."""
        for version, statements in await self.cleanup(connection):
            for statement in statements:
                await connection.run(statement)
            await connection.run(self._sql.CLEANED, version)

    def _refuse_broken(self, gap: SchemaGap) -> None:
        if gap.broken and self._policy is not SchemaPolicy.MIGRATE:
            raise StoreSchemaError(gap.broken, ddl=gap.ddl)
