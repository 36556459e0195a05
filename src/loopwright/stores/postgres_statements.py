"""Every statement of the PostgreSQL store, each with its purpose.

Owns: all SQL of this dialect but its tables. Must not know: Python values, connections.
Written for READ COMMITTED: whatever a transaction decides on is locked by `HEADS_LOCKED` first, and every write to a session
goes through its head row.
Read next: `postgres_tables.py`, `server_batch.py`, `server_reads.py`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from .derived import HEAD_COLUMNS, WAKING
from .migration import Migration, SchemaWords, tables_of
from .postgres_memories import MEMORIES
from .postgres_tables import DDL, MIGRATIONS, NOW, WORDS
from .server_board_statements import board_statements
from .server_dialect import BoardStatements, MemoryStatements

_S: Final = ", ".join(f"s.{column.strip()}" for column in HEAD_COLUMNS.split(","))
_LEFT: Final = f"(SELECT o.expires - {NOW} FROM lw_owners AS o WHERE o.owner = s.owner)"
_ITEM: Final = "i.key, i.item_id, i.seq, i.kind, i.at, i.position"

_COMMIT_PLAIN: Final = """\
WITH asked AS (
    SELECT * FROM unnest(
        $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::integer[], $7::bigint[], $8::integer[], $9::text[],
        $10::double precision[], $11::integer[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],
        $17::bigint[], $18::bigint[], $19::integer[], $20::bigint[], $21::bigint[], $22::integer[]
    ) AS a (
        session_id, expect, epoch, token, release, if_inbox, n, status, at, clears, sends, input_tokens, output_tokens,
        cached_tokens, cache_write_tokens, reasoning_tokens, calls, estimated, nanodollars, unpriced_calls, held
    )
),
locked AS (
    SELECT s.key, a.* FROM lw_sessions AS s JOIN asked AS a ON a.session_id = s.session_id
    WHERE s.position = a.expect AND (a.if_inbox IS NULL OR a.if_inbox = s.inbox_seq)
    AND CASE a.held WHEN 1 THEN s.epoch = a.epoch AND s.token = a.token ELSE s.owner IS NULL OR s.owner = $1 END
    ORDER BY s.session_id FOR UPDATE OF s
),
moved AS (
    UPDATE lw_sessions AS s SET position = s.position + l.n, status = coalesce(l.status, s.status),
        updated_at = greatest(s.updated_at, l.at), epoch = s.epoch + 1 - l.held,
        owner = CASE l.release WHEN 1 THEN NULL ELSE $1 END, token = CASE l.release WHEN 1 THEN NULL ELSE l.token END,
        takeovers = CASE l.clears WHEN 1 THEN 0 ELSE s.takeovers END, sends = s.sends + l.sends,
        input_tokens = s.input_tokens + l.input_tokens, output_tokens = s.output_tokens + l.output_tokens,
        cached_tokens = s.cached_tokens + l.cached_tokens,
        cache_write_tokens = s.cache_write_tokens + l.cache_write_tokens,
        reasoning_tokens = s.reasoning_tokens + l.reasoning_tokens, calls = s.calls + l.calls,
        estimated = s.estimated | l.estimated, nanodollars = s.nanodollars + l.nanodollars,
        unpriced_calls = s.unpriced_calls + l.unpriced_calls
    FROM locked AS l WHERE s.key = l.key
    RETURNING s.session_id, s.key, l.expect, s.position, s.epoch, s.inbox_seq, s.takeovers
),
written AS (
    INSERT INTO lw_records SELECT m.key, m.expect + r.n, r.kind, r.version, r.at, r.body
    FROM unnest($23::text[], $24::bigint[], $25::text[], $26::integer[], $27::double precision[], $28::bytea[])
        AS r (session_id, n, kind, version, at, body)
    JOIN moved AS m ON m.session_id = r.session_id
)
SELECT session_id, position, epoch, inbox_seq, takeovers FROM moved"""

_OURS: Final = ", ".join(f"'{name}'" for name in tables_of(DDL))


_ARTIFACTS_ASTRAY = (
    "SELECT a.session_id, a.artifact_id, a.size, count(r.n), coalesce(sum(length(r.data)), 0)::bigint FROM lw_artifacts AS a"
    " LEFT JOIN lw_artifact_rows AS r ON r.id = a.id WHERE a.complete = 1{}"
    " GROUP BY a.id, a.session_id, a.artifact_id, a.size HAVING a.size <> coalesce(sum(length(r.data)), 0)"
    " OR count(r.n) <> (a.size + 262143) / 262144 OR max(r.n) >= count(r.n)"
)


class PostgresStatements(Struct, frozen=True):
    """The SQL by purpose; see `server_dialect.Statements`."""

    SCHEMA: SchemaWords = WORDS
    MIGRATIONS: tuple[Migration, ...] = MIGRATIONS
    """See `postgres_tables.py`."""
    TABLES: str = (
        "SELECT c.relname::text FROM pg_class AS c"
        " WHERE starts_with(c.relname::text, 'lw_') AND c.relkind IN ('r', 'i') AND pg_table_is_visible(c.oid)"
    )
    VERSION: str = "SELECT max(version) FROM lw_schema"
    UNCLEANED: str = "SELECT version FROM lw_schema WHERE cleaned_at IS NULL"
    CLEANED: str = f"UPDATE lw_schema SET cleaned_at = {NOW} WHERE version = $1"
    LOCK_SCHEMA: str = "SELECT 1 FROM pg_advisory_lock(hashtext('lw_schema'))"
    UNLOCK_SCHEMA: str = "SELECT pg_advisory_unlock(hashtext('lw_schema'))"
    BEGIN: str = "BEGIN ISOLATION LEVEL READ COMMITTED"
    BEGIN_DURABLE: str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = on"
    COMMIT: str = "COMMIT"
    ROLLBACK: str = "ROLLBACK"
    WORK_BEGIN: str = "SET LOCAL statement_timeout = 2000"
    WORK_DONE: str = "SET CONSTRAINTS ALL IMMEDIATE; SET LOCAL statement_timeout = 0"
    WORK_OVER: str = ""
    BEGIN_READ: str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    # --- a batch -------------------------------------------------------------------------------------------------------
    # Locks, checks, moves and writes in one round trip; what it leaves out was refused. Heads are locked in the order of
    # their ids; a row that changed while it was waited for is judged as it is then.
    COMMIT_PLAIN: str = _COMMIT_PLAIN
    HEADS_LOCKED: str = f"SELECT {HEAD_COLUMNS}, token FROM lw_sessions WHERE session_id = ANY($1::text[]) ORDER BY session_id FOR UPDATE"
    GONE: str = "SELECT session_id FROM lw_tombstones WHERE session_id = ANY($1::text[])"
    LEFT: str = f"SELECT owner, expires - {NOW} FROM lw_owners WHERE owner = ANY($1::text[])"
    ITEMS: str = (
        f"SELECT {_ITEM} FROM unnest($1::bigint[], $2::text[]) AS asked (key, item_id)"
        " JOIN lw_inbox AS i ON i.key = asked.key AND i.item_id = asked.item_id"
    )
    WAITING_IDS: str = f"SELECT {_ITEM} FROM lw_inbox AS i WHERE i.key = $1 AND i.position IS NULL ORDER BY i.seq"
    CHILDREN: str = "SELECT session_id FROM lw_sessions WHERE parent_id = ANY($1::text[])"
    READERS: str = (
        "SELECT session_id FROM lw_sessions WHERE base_id = ANY($1::text[])"
        " UNION SELECT h.session_id FROM lw_sessions AS g JOIN lw_artifacts AS a ON a.key = g.key"
        " JOIN lw_artifact_shares AS x ON x.id = a.id JOIN lw_sessions AS h ON h.key = x.key"
        " WHERE g.session_id = ANY($1::text[])"
    )
    KEYS: str = "SELECT session_id, key FROM lw_sessions WHERE session_id = ANY($1::text[])"
    INSERT_SESSION: str = (
        "INSERT INTO lw_sessions (session_id, position, inbox_seq, agent_name, kind, parent_id, lifecycle, title,"
        " min_format, status, created_at, updated_at, base_id, base_position, window_start, checkpoint)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
    )
    INSERT_RECORD: str = "INSERT INTO lw_records VALUES ($1, $2, $3, $4, $5, $6)"
    MOVE_HEAD: str = (
        "UPDATE lw_sessions SET position = $1, window_start = $2, checkpoint = $3, epoch = $4, owner = $5, token = $6,"
        " inbox_seq = $7, takeovers = $8, title = $9, min_format = $10, status = $11, updated_at = $12, sends = $13,"
        " input_tokens = $14, output_tokens = $15, cached_tokens = $16, cache_write_tokens = $17, reasoning_tokens = $18,"
        " calls = $19, estimated = $20, nanodollars = $21, unpriced_calls = $22 WHERE key = $23"
    )
    ORPHAN: str = "UPDATE lw_sessions SET parent_id = NULL WHERE key = $1"
    REBASE: str = "UPDATE lw_sessions SET base_id = $1, base_position = $2 WHERE key = $3"
    COPY_RECORDS: str = (
        "INSERT INTO lw_records SELECT $1::bigint, position, kind, version, at, body FROM lw_records"
        " WHERE key = $2 AND position >= $3 AND position < $4"
    )
    SHARE_ARTIFACTS: str = (
        "INSERT INTO lw_artifact_shares SELECT id, $1::bigint FROM lw_artifacts"
        " WHERE complete = 1 AND key <> $1 AND artifact_id = ANY($2::text[]) ON CONFLICT DO NOTHING"
    )
    # Artifacts of sessions that went, each with one of those that hold it as well.
    HEIRS: str = (
        "SELECT a.id, min(x.key) FROM lw_artifacts AS a JOIN lw_artifact_shares AS x ON x.id = a.id"
        " JOIN lw_sessions AS h ON h.key = x.key WHERE a.key = ANY($1::bigint[]) GROUP BY a.id"
    )
    PASS_ON: str = (
        "UPDATE lw_artifacts SET key = h.key, session_id = h.session_id FROM lw_sessions AS h"
        " WHERE lw_artifacts.id = $1 AND h.key = $2"
    )
    DROP_SHARE: str = "DELETE FROM lw_artifact_shares WHERE id = $1 AND key = $2"
    BURY: str = (
        "INSERT INTO lw_tombstones (session_id, key)"
        " SELECT session_id, key FROM lw_sessions WHERE session_id = ANY($1::text[])"
    )
    DELETE_SESSION: str = "DELETE FROM lw_sessions WHERE session_id = ANY($1::text[])"
    INSERT_ITEM: str = (
        "INSERT INTO lw_inbox (key, item_id, seq, kind, at, body, position) VALUES ($1, $2, $3, $4, $5, $6, $7)"
    )
    TAKE_ITEM: str = "UPDATE lw_inbox SET position = $1, body = NULL WHERE key = $2 AND item_id = $3"
    PUT_TIMER: str = (
        "INSERT INTO lw_timers (key, timer_id, due_at, body, agent_name) VALUES ($1, $2, $3, $4, $5)"
        " ON CONFLICT (key, timer_id)"
        " DO UPDATE SET due_at = excluded.due_at, body = excluded.body, paused = 0, agent_name = excluded.agent_name"
    )
    DROP_TIMER: str = (
        "DELETE FROM lw_timers WHERE key = $1 AND timer_id = $2 AND ($3::double precision IS NULL OR due_at = $3)"
    )
    ARMED: str = (
        "SELECT t.key, t.timer_id, t.due_at FROM unnest($1::bigint[], $2::text[]) AS asked (key, timer_id)"
        " JOIN lw_timers AS t ON t.key = asked.key AND t.timer_id = asked.timer_id"
    )
    # --- money ---------------------------------------------------------------------------------------------------------
    # Locked after the heads: holds by id, then accounts by key.
    HOLDS_LOCKED: str = (
        "SELECT hold_id, session_id, nanodollars, at FROM lw_holds WHERE hold_id = ANY($1::text[])"
        " ORDER BY hold_id FOR UPDATE"
    )
    HOLDS_OF_LOCKED: str = (
        "SELECT hold_id, session_id, nanodollars, at FROM lw_holds WHERE session_id = ANY($1::text[])"
        " ORDER BY hold_id FOR UPDATE"
    )
    HOLD_CAPS: str = "SELECT hold_id, budget_key FROM lw_hold_caps WHERE hold_id = ANY($1::text[])"
    ADD_BUDGET: str = "INSERT INTO lw_budgets (budget_key, spent, held) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING"
    BUDGETS_LOCKED: str = "SELECT budget_key, spent, held FROM lw_budgets WHERE budget_key = ANY($1::text[]) ORDER BY budget_key FOR UPDATE"
    SET_BUDGET: str = "UPDATE lw_budgets SET spent = $1, held = $2 WHERE budget_key = $3"
    INSERT_HOLD: str = "INSERT INTO lw_holds (hold_id, session_id, nanodollars, at) VALUES ($1, $2, $3, $4)"
    INSERT_HOLD_CAP: str = "INSERT INTO lw_hold_caps (hold_id, budget_key) VALUES ($1, $2)"
    DROP_HOLDS: str = "DELETE FROM lw_holds WHERE hold_id = ANY($1::text[])"
    DROP_HOLD_CAPS: str = "DELETE FROM lw_hold_caps WHERE hold_id = ANY($1::text[])"
    BUDGET: str = (
        "SELECT budget_key, spent, held, (SELECT count(*) FROM lw_hold_caps AS c WHERE c.budget_key = b.budget_key)"
        " FROM lw_budgets AS b WHERE budget_key = $1"
    )
    BUDGETS: str = (
        "SELECT budget_key, spent, held, (SELECT count(*) FROM lw_hold_caps AS c WHERE c.budget_key = b.budget_key)"
        " FROM lw_budgets AS b WHERE budget_key > $1 AND (spent <> 0 OR held <> 0) ORDER BY budget_key LIMIT $2"
    )
    BUDGETS_ASTRAY: str = (
        "SELECT b.budget_key, b.held, coalesce(sum(h.nanodollars), 0)::bigint FROM lw_budgets AS b"
        " LEFT JOIN lw_hold_caps AS c ON c.budget_key = b.budget_key LEFT JOIN lw_holds AS h ON h.hold_id = c.hold_id"
        " GROUP BY b.budget_key HAVING b.held <> coalesce(sum(h.nanodollars), 0)"
    )

    # --- waking, leases ------------------------------------------------------------------------------------------------
    CHANNEL: str = "lw_work"
    NOTIFY: str = "NOTIFY lw_work"
    BEAT: str = (
        f"INSERT INTO lw_owners AS o VALUES ($1, {NOW} + $2::double precision)"
        " ON CONFLICT (owner) DO UPDATE SET expires = greatest(o.expires, excluded.expires)"
    )
    RELEASE: str = "UPDATE lw_sessions SET owner = NULL, token = NULL WHERE owner = $1 AND session_id = ANY($2::text[])"
    FORGET_OWNER: str = "DELETE FROM lw_owners WHERE owner = $1"
    FORGET_OWNERS: str = (
        f"DELETE FROM lw_owners AS o WHERE o.expires < {NOW} - 3600"
        " AND NOT EXISTS (SELECT 1 FROM lw_sessions AS s WHERE s.owner = o.owner)"
    )

    # --- reading -------------------------------------------------------------------------------------------------------
    HEAD: str = "SELECT key, position, base_id, base_position FROM lw_sessions WHERE session_id = $1"
    CHAIN: str = (
        "WITH RECURSIVE links AS ("
        " SELECT session_id, key, position, base_id, base_position, 1 AS depth FROM lw_sessions WHERE session_id = $1"
        " UNION ALL SELECT b.session_id, b.key, b.position, b.base_id, b.base_position, c.depth + 1"
        " FROM links AS c JOIN lw_sessions AS b ON b.session_id = c.base_id"
        " WHERE c.base_position > $2::bigint AND c.depth < 500"
        ") SELECT session_id, key, position, base_id, base_position FROM links ORDER BY depth"
    )
    HEAD_AND_LEFT: str = f"SELECT {_S}, {_LEFT} FROM lw_sessions AS s WHERE s.session_id = $1"
    RECORDS: str = (
        "SELECT position, kind, version, at, body FROM lw_records"
        " WHERE key = $1 AND position >= $2 AND position < $3 ORDER BY position"
    )
    WAITING: str = "SELECT item_id, kind, body, at, seq FROM lw_inbox WHERE key = $1 AND position IS NULL ORDER BY seq"
    ITEM_POSITION: str = "SELECT coalesce(position, -1) FROM lw_inbox WHERE key = $1 AND item_id = $2"
    LIST: str = (
        f"SELECT {_S}, {_LEFT} FROM lw_sessions AS s WHERE ($1::text IS NULL OR s.status = $1)"
        " AND ($2::text[] IS NULL OR s.agent_name = ANY($2)) AND ($3::text IS NULL OR s.parent_id = $3)"
        " AND ($4::double precision IS NULL OR s.updated_at < $4) AND ($6::text IS NULL OR s.kind = $6)"
        " ORDER BY s.updated_at DESC, s.key DESC LIMIT $5"
    )
    INTERRUPTED: str = (
        f"SELECT {_S}, {_LEFT} FROM lw_sessions AS s WHERE s.key IN ("
        "SELECT r.key FROM lw_sessions AS r WHERE r.status = 'running'"
        " UNION SELECT i.key FROM lw_inbox AS i JOIN lw_sessions AS q ON q.key = i.key WHERE i.position IS NULL"
        f" AND (q.status = 'idle' OR (q.status = 'waiting' AND i.kind IN ({WAKING}))))"
        f" AND (s.owner IS NULL OR s.owner = ANY($2::text[]) OR coalesce({_LEFT}, 0) <= 0)"
        " AND s.agent_name = ANY($1::text[]) AND s.min_format <= $3"
        " ORDER BY s.updated_at, s.key LIMIT $4 FOR UPDATE OF s SKIP LOCKED"
    )
    DUE: str = (
        "SELECT s.session_id, t.timer_id, t.due_at, t.body FROM lw_timers AS t JOIN lw_sessions AS s ON s.key = t.key"
        " WHERE t.agent_name = $1 AND t.due_at <= $2 AND t.paused = 0 AND s.min_format <= $3"
        " AND s.agent_name = ANY($4::text[]) ORDER BY t.due_at, t.key, t.timer_id LIMIT $5"
    )
    NEXT_DUE: str = (
        "SELECT (SELECT t.due_at FROM lw_timers AS t JOIN lw_sessions AS s ON s.key = t.key"
        " WHERE t.agent_name = $1 AND t.due_at > $2 AND t.paused = 0 AND s.min_format <= $3"
        " AND s.agent_name = ANY($4::text[]) ORDER BY t.due_at LIMIT 1)"
    )
    RENEWED: str = "SELECT session_id, epoch, inbox_seq FROM lw_sessions WHERE session_id = ANY($1::text[])"
    OF_KINDS: str = (
        "SELECT s.session_id, r.position, r.kind, r.version, r.at, r.body"
        " FROM lw_records AS r JOIN lw_sessions AS s ON s.key = r.key"
        " WHERE r.kind = ANY($1::text[]) ORDER BY r.key, r.position"
    )

    # --- artifacts -----------------------------------------------------------------------------------------------------
    ARTIFACT: str = (
        "SELECT id, artifact_id, session_id, media_type, size, digest FROM lw_artifacts"
        " WHERE artifact_id = $1 AND complete = 1"
    )
    BEGIN_ARTIFACT: str = (
        "INSERT INTO lw_artifacts (artifact_id, key, session_id, media_type, size, digest, complete, created_at)"
        f" SELECT $1, key, session_id, $3, $4, $5, 0, {NOW} FROM lw_sessions WHERE session_id = $2"
        " ON CONFLICT (artifact_id) DO UPDATE SET created_at = excluded.created_at"
    )
    ARTIFACT_STATE: str = "SELECT id, complete FROM lw_artifacts WHERE artifact_id = $1"
    ARTIFACT_ROW: str = (
        "INSERT INTO lw_artifact_rows VALUES ($1, $2, $3) ON CONFLICT (id, n) DO UPDATE SET data = excluded.data"
    )
    # Complete artifacts whose rows are not those of their size.
    ARTIFACTS_ASTRAY: str = _ARTIFACTS_ASTRAY.format("")
    IS_ARTIFACT_ASTRAY: str = _ARTIFACTS_ASTRAY.format(" AND a.id = $1")
    # A damaged artifact that is put again: hidden until all of its rows are written.
    REOPEN_ARTIFACT: str = "UPDATE lw_artifacts SET complete = 0, size = $2 WHERE id = $1"
    DROP_ROWS_FROM: str = "DELETE FROM lw_artifact_rows WHERE id = $1 AND n >= $2"
    FINISH_ARTIFACT: str = "UPDATE lw_artifacts SET complete = 1 WHERE id = $1"
    ARTIFACT_ROWS: str = "SELECT n, data FROM lw_artifact_rows WHERE id = $1 AND n >= $2 AND n < $3 ORDER BY n"

    # --- deleting and checking -----------------------------------------------------------------------------------------
    UNSWEPT: str = "SELECT session_id, key FROM lw_tombstones WHERE swept = 0 LIMIT 1"
    SWEPT: str = "UPDATE lw_tombstones SET swept = 1 WHERE session_id = $1"
    SWEEP: tuple[str, ...] = (
        "DELETE FROM lw_artifact_shares WHERE key = $1",
        "DELETE FROM lw_records WHERE key = $1 AND position IN (SELECT position FROM lw_records WHERE key = $1 LIMIT 500)",
        "DELETE FROM lw_inbox WHERE key = $1 AND item_id IN (SELECT item_id FROM lw_inbox WHERE key = $1 LIMIT 500)",
        "DELETE FROM lw_timers WHERE key = $1",
        "DELETE FROM lw_artifact_rows WHERE id IN (SELECT id FROM lw_artifacts WHERE key = $1 LIMIT 20)",
        """DELETE FROM lw_artifacts WHERE key = $1
        AND NOT EXISTS (SELECT 1 FROM lw_artifact_rows AS r WHERE r.id = lw_artifacts.id)""",
    )
    LEFT_OVER: tuple[str, ...] = (
        "SELECT 1 FROM lw_records WHERE key = $1 LIMIT 1",
        "SELECT 1 FROM lw_inbox WHERE key = $1 LIMIT 1",
        "SELECT 1 FROM lw_artifacts WHERE key = $1 LIMIT 1",
    )
    GAPS: str = (
        "SELECT s.session_id, s.position, count(r.position), min(r.position), max(r.position)"
        " FROM lw_sessions AS s LEFT JOIN lw_records AS r ON r.key = s.key GROUP BY s.key"
        " HAVING count(r.position) <> s.position - coalesce(s.base_position, 0)"
        " OR (s.position > coalesce(s.base_position, 0)"
        " AND (min(r.position) <> coalesce(s.base_position, 0) OR max(r.position) <> s.position - 1))"
    )
    FORKS_ASTRAY: str = (
        "SELECT f.session_id, f.base_id, f.base_position FROM lw_sessions AS f"
        " LEFT JOIN lw_sessions AS b ON b.session_id = f.base_id WHERE f.base_id IS NOT NULL"
        " AND (b.key IS NULL OR f.base_position > b.position OR f.base_position <= coalesce(b.base_position, 0))"
    )
    HEADS_ASTRAY: str = (
        "SELECT session_id FROM lw_sessions AS s WHERE window_start > position OR checkpoint >= position"
        " OR inbox_seq < (SELECT coalesce(max(seq), 0) FROM lw_inbox AS i WHERE i.key = s.key)"
    )
    STRAYS: str = (
        "SELECT count(*) FROM lw_records AS r WHERE NOT EXISTS (SELECT 1 FROM lw_sessions AS s WHERE s.key = r.key)"
        " AND NOT EXISTS (SELECT 1 FROM lw_tombstones AS t WHERE t.key = r.key AND t.swept = 0)"
    )

    # --- figures, sizes, unreferenced artifacts ------------------------------------------------------------------------
    FIGURES: str = (
        "SELECT (SELECT count(*) FROM lw_records), (SELECT coalesce(sum(octet_length(body)), 0)::bigint FROM lw_records),"
        " (SELECT count(*) FROM lw_inbox WHERE position IS NULL),"
        " (SELECT count(*) FROM lw_inbox WHERE position IS NOT NULL),"
        " (SELECT count(*) FROM lw_timers WHERE paused = 0), (SELECT count(*) FROM lw_timers WHERE paused <> 0),"
        " (SELECT count(*) FROM lw_artifacts WHERE complete = 1),"
        " (SELECT coalesce(sum(size), 0)::bigint FROM lw_artifacts WHERE complete = 1),"
        " (SELECT count(*) FROM lw_tombstones), (SELECT count(*) FROM lw_sessions WHERE base_id IS NOT NULL),"
        " (SELECT max(version) FROM lw_schema)"
    )
    DISK: str = (
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint, 0 FROM pg_class AS c"
        f" WHERE c.relname IN ({_OURS}) AND c.relkind = 'r' AND pg_table_is_visible(c.oid)"
    )
    SIZES: str = (
        "SELECT s.session_id, ((SELECT coalesce(sum(octet_length(body)), 0) FROM lw_records AS r WHERE r.key = s.key)"
        " + (SELECT coalesce(sum(octet_length(body)), 0) FROM lw_inbox AS i WHERE i.key = s.key)"
        " + (SELECT coalesce(sum(size), 0) FROM lw_artifacts AS a WHERE a.key = s.key))::bigint FROM lw_sessions AS s"
    )
    STAMP_ARTIFACTS: str = f"UPDATE lw_artifacts SET created_at = {NOW} WHERE created_at IS NULL"
    OLD_ARTIFACTS: str = (
        "SELECT a.id, a.artifact_id, s.session_id, s.key, s.position, a.complete FROM lw_artifacts AS a"
        " JOIN lw_sessions AS s ON s.key = a.key WHERE a.created_at < $1"
        " AND NOT EXISTS (SELECT 1 FROM lw_artifact_shares AS x WHERE x.id = a.id) ORDER BY s.key"
    )
    NAMING_ARTIFACTS: str = "SELECT body FROM lw_records WHERE key = $1 AND position >= $2 AND position < $3 AND position('art_'::bytea IN body) > 0"
    # Whether a record from position $2 on, a waiting item or a timer of session $1 names $3.
    REFERS: str = (
        "SELECT 1 FROM lw_records WHERE key = $1 AND position >= $2 AND position($3::bytea IN body) > 0"
        " UNION ALL SELECT 1 FROM lw_inbox WHERE key = $1 AND position IS NULL AND position($3::bytea IN body) > 0"
        " UNION ALL SELECT 1 FROM lw_timers WHERE key = $1 AND position($3::bytea IN body) > 0"
    )
    HIDE_ARTIFACT: str = (
        "UPDATE lw_artifacts SET complete = 0 WHERE id = $1 AND created_at < $2"
        " AND NOT EXISTS (SELECT 1 FROM lw_artifact_shares AS x WHERE x.id = lw_artifacts.id)"
    )
    # Under its lock, so that whoever puts it again waits until this batch of its rows is gone.
    HIDDEN_LOCKED: str = "SELECT 1 FROM lw_artifacts WHERE id = $1 AND complete = 0 AND created_at < $2 FOR UPDATE"
    SWEEP_HIDDEN_ROWS: str = (
        "DELETE FROM lw_artifact_rows WHERE id = $1 AND n IN (SELECT n FROM lw_artifact_rows WHERE id = $1 LIMIT 100)"
    )
    ARTIFACT_ROW_LEFT: str = "SELECT 1 FROM lw_artifact_rows WHERE id = $1 LIMIT 1"
    SWEEP_HIDDEN: str = "DELETE FROM lw_artifacts WHERE id = $1"
    # Space is free for new rows then; to give more than the end of a table back to the system would keep everybody out.
    VACUUM: tuple[str, ...] = (f"VACUUM (ANALYZE) {', '.join(tables_of(DDL))}",)

    # --- out of one store and into another -----------------------------------------------------------------------------
    KNOWN_ITEMS: str = "SELECT item_id, position FROM lw_inbox WHERE key = $1 AND position IS NOT NULL"
    TIMERS: str = "SELECT timer_id, due_at, body, paused FROM lw_timers WHERE key = $1"
    ARTIFACTS_OF: str = (
        "SELECT artifact_id, session_id, media_type, size, digest FROM lw_artifacts WHERE complete = 1 AND (key = $1"
        " OR id IN (SELECT id FROM lw_artifact_shares WHERE key = $1) OR artifact_id = ANY($2::text[]))"
    )
    OWNERS_OF: str = "SELECT session_id FROM lw_artifacts WHERE artifact_id = ANY($1::text[])"
    RESTORE_TIMER: str = (
        "INSERT INTO lw_timers (key, timer_id, due_at, body, paused, agent_name) VALUES ($1, $2, $3, $4, $5, $6)"
    )
    BOARDS: BoardStatements = board_statements(
        "INSERT INTO lw_boards (board_id, counter) VALUES ($1, 0) ON CONFLICT DO NOTHING"
    )
    MEMORIES: MemoryStatements = MEMORIES
    """See `postgres_memories.py`."""
