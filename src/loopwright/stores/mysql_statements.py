"""Every statement of the MySQL store, for MySQL 8 and MariaDB from 10.6 on, each with its purpose.

Owns: all SQL of this dialect but its tables. Must not know: Python values, connections.
Parameters are filled in by `mysql_text.py`: `$1` a value, `$1[]` a list in brackets, `$1?` whether there is a value at all,
`$1|$2` a table of pairs from two lists.
Written for READ COMMITTED: whatever a transaction decides on is locked by `HEADS_LOCKED` first, and every write to a session
goes through its head row. That statement names its index: a scan of the table would wait for everybody's heads.
Read next: `mysql_tables.py`, `server_batch.py`, `server_reads.py`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from .derived import HEAD_COLUMNS, WAKING
from .migration import Migration, SchemaWords, tables_of
from .mysql_memories import MEMORIES
from .mysql_tables import DDL, MIGRATIONS, NOW, WORDS
from .server_board_statements import board_statements
from .server_dialect import BoardStatements, MemoryStatements

_COLUMNS: Final = ", ".join(f"`{column.strip()}`" for column in HEAD_COLUMNS.split(","))
_S: Final = ", ".join(f"s.`{column.strip()}`" for column in HEAD_COLUMNS.split(","))
_LEFT: Final = f"(SELECT o.expires - {NOW} FROM lw_owners AS o WHERE o.owner = s.owner)"
_ITEM: Final = "i.`key`, i.item_id, i.seq, i.kind, i.at, i.position"

_OURS: Final = ", ".join(f"'{name}'" for name in tables_of(DDL))


_ARTIFACTS_ASTRAY = (
    "SELECT a.session_id, a.artifact_id, a.size, count(r.n), CAST(coalesce(sum(length(r.data)), 0) AS SIGNED) FROM lw_artifacts AS a"
    " LEFT JOIN lw_artifact_rows AS r ON r.id = a.id WHERE a.complete = 1{}"
    " GROUP BY a.id, a.session_id, a.artifact_id, a.size HAVING a.size <> coalesce(sum(length(r.data)), 0)"
    " OR count(r.n) <> (a.size + 262143) DIV 262144 OR max(r.n) >= count(r.n)"
)


class MysqlStatements(Struct, frozen=True):
    """The SQL by purpose; see `server_dialect.Statements`."""

    SCHEMA: SchemaWords = WORDS
    MIGRATIONS: tuple[Migration, ...] = MIGRATIONS
    """See `mysql_tables.py`."""
    TABLES: str = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND locate('lw_', table_name) = 1"
    VERSION: str = "SELECT max(version) FROM lw_schema"
    UNCLEANED: str = "SELECT version FROM lw_schema WHERE cleaned_at IS NULL"
    CLEANED: str = f"UPDATE lw_schema SET cleaned_at = {NOW} WHERE version = $1"
    LOCK_SCHEMA: str = "SELECT GET_LOCK(SHA1(CONCAT(DATABASE(), '.lw_schema')), 30)"
    UNLOCK_SCHEMA: str = "SELECT RELEASE_LOCK(SHA1(CONCAT(DATABASE(), '.lw_schema')))"
    BEGIN: str = "START TRANSACTION"
    BEGIN_DURABLE: str = BEGIN
    COMMIT: str = "COMMIT"
    ROLLBACK: str = "ROLLBACK"
    # MariaDB knows the first setting and reads only its own kind of comment; MySQL has the second, for SELECT alone.
    WORK_BEGIN: str = (
        "SET SESSION innodb_lock_wait_timeout = 2 /*M!100600 , max_statement_time = 2 */"
        " /*!80000 , max_execution_time = 2000 */"
    )
    WORK_DONE: str = ""
    WORK_OVER: str = (
        "SET SESSION innodb_lock_wait_timeout = 10 /*M!100600 , max_statement_time = 0 */"
        " /*!80000 , max_execution_time = 0 */"
    )
    BEGIN_READ: str = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
    )

    # --- a batch -------------------------------------------------------------------------------------------------------
    COMMIT_PLAIN: str = ""
    HEADS_LOCKED: str = (
        f"SELECT {_COLUMNS}, token FROM lw_sessions FORCE INDEX (lw_sessions_id)"
        " WHERE session_id IN $1[] ORDER BY session_id FOR UPDATE"
    )
    GONE: str = "SELECT session_id FROM lw_tombstones WHERE session_id IN $1[]"
    LEFT: str = f"SELECT owner, expires - {NOW} FROM lw_owners WHERE owner IN $1[]"
    ITEMS: str = (
        f"SELECT {_ITEM} FROM ($1|$2) AS asked STRAIGHT_JOIN lw_inbox AS i ON i.`key` = asked.a AND i.item_id = asked.b"
    )
    WAITING_IDS: str = f"SELECT {_ITEM} FROM lw_inbox AS i WHERE i.`key` = $1 AND i.position IS NULL ORDER BY i.seq"
    CHILDREN: str = "SELECT session_id FROM lw_sessions WHERE parent_id IN $1[]"
    READERS: str = (
        "SELECT session_id FROM lw_sessions WHERE base_id IN $1[]"
        " UNION SELECT h.session_id FROM lw_sessions AS g JOIN lw_artifacts AS a ON a.`key` = g.`key`"
        " JOIN lw_artifact_shares AS x ON x.id = a.id JOIN lw_sessions AS h ON h.`key` = x.`key`"
        " WHERE g.session_id IN $1[]"
    )
    KEYS: str = "SELECT session_id, `key` FROM lw_sessions WHERE session_id IN $1[]"
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
        " calls = $19, estimated = $20, nanodollars = $21, unpriced_calls = $22 WHERE `key` = $23"
    )
    ORPHAN: str = "UPDATE lw_sessions SET parent_id = NULL WHERE `key` = $1"
    REBASE: str = "UPDATE lw_sessions SET base_id = $1, base_position = $2 WHERE `key` = $3"
    COPY_RECORDS: str = (
        "INSERT INTO lw_records SELECT $1, position, kind, version, at, body FROM lw_records"
        " WHERE `key` = $2 AND position >= $3 AND position < $4"
    )
    SHARE_ARTIFACTS: str = (
        "INSERT IGNORE INTO lw_artifact_shares SELECT id, $1 FROM lw_artifacts"
        " WHERE complete = 1 AND `key` <> $1 AND artifact_id IN $2[]"
    )
    # Artifacts of sessions that went, each with one of those that hold it as well.
    HEIRS: str = (
        "SELECT a.id, min(x.`key`) FROM lw_artifacts AS a JOIN lw_artifact_shares AS x ON x.id = a.id"
        " JOIN lw_sessions AS h ON h.`key` = x.`key` WHERE a.`key` IN $1[] GROUP BY a.id"
    )
    PASS_ON: str = (
        "UPDATE lw_artifacts AS a JOIN lw_sessions AS h ON h.`key` = $2"
        " SET a.`key` = h.`key`, a.session_id = h.session_id WHERE a.id = $1"
    )
    DROP_SHARE: str = "DELETE FROM lw_artifact_shares WHERE id = $1 AND `key` = $2"
    BURY: str = (
        "INSERT INTO lw_tombstones (session_id, `key`)"
        " SELECT session_id, `key` FROM lw_sessions WHERE session_id IN $1[]"
    )
    DELETE_SESSION: str = "DELETE FROM lw_sessions WHERE session_id IN $1[]"
    INSERT_ITEM: str = (
        "INSERT INTO lw_inbox (`key`, item_id, seq, kind, at, body, position) VALUES ($1, $2, $3, $4, $5, $6, $7)"
    )
    TAKE_ITEM: str = "UPDATE lw_inbox SET position = $1, body = NULL WHERE `key` = $2 AND item_id = $3"
    PUT_TIMER: str = (
        "INSERT INTO lw_timers (`key`, timer_id, due_at, body, agent_name) VALUES ($1, $2, $3, $4, $5)"
        " ON DUPLICATE KEY UPDATE due_at = VALUES(due_at), body = VALUES(body), paused = 0, agent_name = VALUES(agent_name)"
    )
    DROP_TIMER: str = "DELETE FROM lw_timers WHERE `key` = $1 AND timer_id = $2 AND (NOT $3? OR due_at = $3)"
    ARMED: str = (
        "SELECT t.`key`, t.timer_id, t.due_at FROM ($1|$2) AS asked"
        " STRAIGHT_JOIN lw_timers AS t ON t.`key` = asked.a AND t.timer_id = asked.b"
    )
    # --- money ---------------------------------------------------------------------------------------------------------
    # Locked after the heads: holds by id, then accounts by key.
    HOLDS_LOCKED: str = (
        "SELECT hold_id, session_id, nanodollars, at FROM lw_holds FORCE INDEX (PRIMARY)"
        " WHERE hold_id IN $1[] ORDER BY hold_id FOR UPDATE"
    )
    HOLDS_OF_LOCKED: str = (
        "SELECT hold_id, session_id, nanodollars, at FROM lw_holds FORCE INDEX (lw_holds_session)"
        " WHERE session_id IN $1[] ORDER BY hold_id FOR UPDATE"
    )
    HOLD_CAPS: str = "SELECT hold_id, budget_key FROM lw_hold_caps WHERE hold_id IN $1[]"
    # Locks the row that is there: with IGNORE two of these would share it, and then wait for each other.
    ADD_BUDGET: str = "INSERT INTO lw_budgets SET budget_key = $1, spent = 0, held = 0 ON DUPLICATE KEY UPDATE spent = lw_budgets.spent"
    BUDGETS_LOCKED: str = (
        "SELECT budget_key, spent, held FROM lw_budgets FORCE INDEX (PRIMARY)"
        " WHERE budget_key IN $1[] ORDER BY budget_key FOR UPDATE"
    )
    SET_BUDGET: str = "UPDATE lw_budgets SET spent = $1, held = $2 WHERE budget_key = $3"
    INSERT_HOLD: str = "INSERT INTO lw_holds (hold_id, session_id, nanodollars, at) VALUES ($1, $2, $3, $4)"
    INSERT_HOLD_CAP: str = "INSERT INTO lw_hold_caps (hold_id, budget_key) VALUES ($1, $2)"
    DROP_HOLDS: str = "DELETE FROM lw_holds WHERE hold_id IN $1[]"
    DROP_HOLD_CAPS: str = "DELETE FROM lw_hold_caps WHERE hold_id IN $1[]"
    BUDGET: str = (
        "SELECT budget_key, spent, held, (SELECT count(*) FROM lw_hold_caps AS c WHERE c.budget_key = b.budget_key)"
        " FROM lw_budgets AS b WHERE budget_key = $1"
    )
    # As bytes: a shorter key comes before a longer one that begins with it.
    BUDGETS: str = (
        "SELECT budget_key, spent, held, (SELECT count(*) FROM lw_hold_caps AS c WHERE c.budget_key = b.budget_key)"
        " FROM lw_budgets AS b WHERE CAST(budget_key AS BINARY) > CAST($1 AS BINARY) AND (spent <> 0 OR held <> 0)"
        " ORDER BY CAST(budget_key AS BINARY) LIMIT $2"
    )
    BUDGETS_ASTRAY: str = (
        "SELECT b.budget_key, b.held, CAST(coalesce(sum(h.nanodollars), 0) AS SIGNED) FROM lw_budgets AS b"
        " LEFT JOIN lw_hold_caps AS c ON c.budget_key = b.budget_key LEFT JOIN lw_holds AS h ON h.hold_id = c.hold_id"
        " GROUP BY b.budget_key, b.held HAVING b.held <> coalesce(sum(h.nanodollars), 0)"
    )

    # --- waking, leases ------------------------------------------------------------------------------------------------
    NOTIFY: str = ""
    BEAT: str = (
        f"INSERT INTO lw_owners VALUES ($1, {NOW} + $2)"
        " ON DUPLICATE KEY UPDATE expires = greatest(lw_owners.expires, VALUES(expires))"
    )
    RELEASE: str = "UPDATE lw_sessions SET owner = NULL, token = NULL WHERE owner = $1 AND session_id IN $2[]"
    FORGET_OWNER: str = "DELETE FROM lw_owners WHERE owner = $1"
    FORGET_OWNERS: str = (
        f"DELETE FROM lw_owners WHERE expires < {NOW} - 3600"
        " AND NOT EXISTS (SELECT 1 FROM lw_sessions AS s WHERE s.owner = lw_owners.owner)"
    )

    # --- reading -------------------------------------------------------------------------------------------------------
    HEAD: str = "SELECT `key`, position, base_id, base_position FROM lw_sessions WHERE session_id = $1"
    CHAIN: str = (
        "WITH RECURSIVE links AS ("
        " SELECT session_id, `key`, position, base_id, base_position, 1 AS depth FROM lw_sessions WHERE session_id = $1"
        " UNION ALL SELECT b.session_id, b.`key`, b.position, b.base_id, b.base_position, c.depth + 1"
        " FROM links AS c JOIN lw_sessions AS b ON b.session_id = c.base_id"
        " WHERE c.base_position > $2 AND c.depth < 500"
        ") SELECT session_id, `key`, position, base_id, base_position FROM links ORDER BY depth"
    )
    HEAD_AND_LEFT: str = f"SELECT {_S}, {_LEFT} FROM lw_sessions AS s WHERE s.session_id = $1"
    RECORDS: str = (
        "SELECT position, kind, version, at, body FROM lw_records"
        " WHERE `key` = $1 AND position >= $2 AND position < $3 ORDER BY position"
    )
    WAITING: str = (
        "SELECT item_id, kind, body, at, seq FROM lw_inbox WHERE `key` = $1 AND position IS NULL ORDER BY seq"
    )
    ITEM_POSITION: str = "SELECT coalesce(position, -1) FROM lw_inbox WHERE `key` = $1 AND item_id = $2"
    LIST: str = (
        f"SELECT {_S}, {_LEFT} FROM lw_sessions AS s WHERE (NOT $1? OR s.status = $1)"
        " AND (NOT $2? OR s.agent_name IN $2[]) AND (NOT $3? OR s.parent_id = $3)"
        " AND (NOT $4? OR s.updated_at < $4) AND (NOT $6? OR s.kind = $6)"
        " ORDER BY s.updated_at DESC, s.`key` DESC LIMIT $5"
    )
    INTERRUPTED: str = (
        f"SELECT {_S}, {_LEFT} FROM ("
        "SELECT r.`key` FROM lw_sessions AS r FORCE INDEX (lw_sessions_status) WHERE r.status = 'running'"
        " UNION SELECT q.`key` FROM lw_inbox AS i FORCE INDEX (lw_inbox_work)"
        " STRAIGHT_JOIN lw_sessions AS q ON q.`key` = i.`key` WHERE i.position IS NULL"
        f" AND (q.status = 'idle' OR (q.status = 'waiting' AND i.kind IN ({WAKING})))"
        ") AS work STRAIGHT_JOIN lw_sessions AS s ON s.`key` = work.`key`"
        f" WHERE (s.owner IS NULL OR s.owner IN $2[] OR coalesce({_LEFT}, 0) <= 0)"
        " AND s.agent_name IN $1[] AND s.min_format <= $3"
        " ORDER BY s.updated_at, s.`key` LIMIT $4 FOR UPDATE SKIP LOCKED"
    )
    # By time alone: with the ids of timers the order is longer than the keys that a server takes, and it would sort.
    DUE: str = (
        "SELECT s.session_id, t.timer_id, t.due_at, t.body FROM lw_timers AS t FORCE INDEX (lw_timers_agent)"
        " STRAIGHT_JOIN lw_sessions AS s ON s.`key` = t.`key`"
        " WHERE t.paused = 0 AND t.agent_name = $1 AND t.due_at <= $2 AND s.min_format <= $3 AND s.agent_name IN $4[]"
        " ORDER BY t.due_at LIMIT $5"
    )
    NEXT_DUE: str = (
        "SELECT (SELECT t.due_at FROM lw_timers AS t FORCE INDEX (lw_timers_agent)"
        " STRAIGHT_JOIN lw_sessions AS s ON s.`key` = t.`key`"
        " WHERE t.paused = 0 AND t.agent_name = $1 AND t.due_at > $2 AND s.min_format <= $3 AND s.agent_name IN $4[]"
        " ORDER BY t.due_at LIMIT 1)"
    )
    RENEWED: str = "SELECT session_id, epoch, inbox_seq FROM lw_sessions WHERE session_id IN $1[]"
    OF_KINDS: str = (
        "SELECT s.session_id, r.position, r.kind, r.version, r.at, r.body"
        " FROM lw_records AS r JOIN lw_sessions AS s ON s.`key` = r.`key`"
        " WHERE r.kind IN $1[] ORDER BY r.`key`, r.position"
    )

    # --- artifacts -----------------------------------------------------------------------------------------------------
    ARTIFACT: str = (
        "SELECT id, artifact_id, session_id, media_type, size, digest FROM lw_artifacts"
        " WHERE artifact_id = $1 AND complete = 1"
    )
    BEGIN_ARTIFACT: str = (
        "INSERT INTO lw_artifacts (artifact_id, `key`, session_id, media_type, size, digest, complete, created_at)"
        f" SELECT $1, s.`key`, s.session_id, $3, $4, $5, 0, {NOW} FROM lw_sessions AS s WHERE s.session_id = $2"
        f" ON DUPLICATE KEY UPDATE created_at = {NOW}"
    )
    ARTIFACT_STATE: str = "SELECT id, complete FROM lw_artifacts WHERE artifact_id = $1"
    ARTIFACT_ROW: str = "INSERT INTO lw_artifact_rows VALUES ($1, $2, $3) ON DUPLICATE KEY UPDATE data = VALUES(data)"
    # Complete artifacts whose rows are not those of their size.
    ARTIFACTS_ASTRAY: str = _ARTIFACTS_ASTRAY.format("")
    IS_ARTIFACT_ASTRAY: str = _ARTIFACTS_ASTRAY.format(" AND a.id = $1")
    # A damaged artifact that is put again: hidden until all of its rows are written.
    REOPEN_ARTIFACT: str = "UPDATE lw_artifacts SET complete = 0, size = $2 WHERE id = $1"
    DROP_ROWS_FROM: str = "DELETE FROM lw_artifact_rows WHERE id = $1 AND n >= $2"
    FINISH_ARTIFACT: str = "UPDATE lw_artifacts SET complete = 1 WHERE id = $1"
    ARTIFACT_ROWS: str = "SELECT n, data FROM lw_artifact_rows WHERE id = $1 AND n >= $2 AND n < $3 ORDER BY n"

    # --- deleting and checking -----------------------------------------------------------------------------------------
    UNSWEPT: str = "SELECT session_id, `key` FROM lw_tombstones WHERE swept = 0 LIMIT 1"
    SWEPT: str = "UPDATE lw_tombstones SET swept = 1 WHERE session_id = $1"
    SWEEP: tuple[str, ...] = (
        "DELETE FROM lw_artifact_shares WHERE `key` = $1",
        "DELETE FROM lw_records WHERE `key` = $1 LIMIT 500",
        "DELETE FROM lw_inbox WHERE `key` = $1 LIMIT 500",
        "DELETE FROM lw_timers WHERE `key` = $1",
        """DELETE FROM lw_artifact_rows WHERE id = (SELECT id FROM (SELECT min(a.id) AS id FROM lw_artifacts AS a
        JOIN lw_artifact_rows AS r ON r.id = a.id WHERE a.`key` = $1) AS chosen) LIMIT 100""",
        """DELETE FROM lw_artifacts WHERE `key` = $1
        AND NOT EXISTS (SELECT 1 FROM lw_artifact_rows AS r WHERE r.id = lw_artifacts.id)""",
    )
    LEFT_OVER: tuple[str, ...] = (
        "SELECT 1 FROM lw_records WHERE `key` = $1 LIMIT 1",
        "SELECT 1 FROM lw_inbox WHERE `key` = $1 LIMIT 1",
        "SELECT 1 FROM lw_artifacts WHERE `key` = $1 LIMIT 1",
    )
    GAPS: str = (
        "SELECT s.session_id, s.position, count(r.position), min(r.position), max(r.position)"
        " FROM lw_sessions AS s LEFT JOIN lw_records AS r ON r.`key` = s.`key` GROUP BY s.`key`"
        " HAVING count(r.position) <> s.position - coalesce(max(s.base_position), 0)"
        " OR (s.position > coalesce(max(s.base_position), 0)"
        " AND (min(r.position) <> coalesce(max(s.base_position), 0) OR max(r.position) <> s.position - 1))"
    )
    FORKS_ASTRAY: str = (
        "SELECT f.session_id, f.base_id, f.base_position FROM lw_sessions AS f"
        " LEFT JOIN lw_sessions AS b ON b.session_id = f.base_id WHERE f.base_id IS NOT NULL"
        " AND (b.`key` IS NULL OR f.base_position > b.position OR f.base_position <= coalesce(b.base_position, 0))"
    )
    HEADS_ASTRAY: str = (
        "SELECT session_id FROM lw_sessions AS s WHERE window_start > position OR checkpoint >= position"
        " OR inbox_seq < (SELECT coalesce(max(seq), 0) FROM lw_inbox AS i WHERE i.`key` = s.`key`)"
    )
    STRAYS: str = (
        "SELECT count(*) FROM lw_records AS r WHERE NOT EXISTS (SELECT 1 FROM lw_sessions AS s WHERE s.`key` = r.`key`)"
        " AND NOT EXISTS (SELECT 1 FROM lw_tombstones AS t WHERE t.`key` = r.`key` AND t.swept = 0)"
    )

    # --- figures, sizes, unreferenced artifacts ------------------------------------------------------------------------
    FIGURES: str = (
        "SELECT (SELECT count(*) FROM lw_records),"
        " (SELECT CAST(coalesce(sum(length(body)), 0) AS SIGNED) FROM lw_records),"
        " (SELECT count(*) FROM lw_inbox WHERE position IS NULL),"
        " (SELECT count(*) FROM lw_inbox WHERE position IS NOT NULL),"
        " (SELECT count(*) FROM lw_timers WHERE paused = 0), (SELECT count(*) FROM lw_timers WHERE paused <> 0),"
        " (SELECT count(*) FROM lw_artifacts WHERE complete = 1),"
        " (SELECT CAST(coalesce(sum(size), 0) AS SIGNED) FROM lw_artifacts WHERE complete = 1),"
        " (SELECT count(*) FROM lw_tombstones), (SELECT count(*) FROM lw_sessions WHERE base_id IS NOT NULL),"
        " (SELECT max(version) FROM lw_schema)"
    )
    DISK: str = (
        "SELECT CAST(coalesce(sum(data_length + index_length), 0) AS SIGNED), CAST(coalesce(sum(data_free), 0) AS SIGNED)"
        f" FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ({_OURS})"
    )
    SIZES: str = (
        "SELECT s.session_id,"
        " CAST((SELECT coalesce(sum(length(body)), 0) FROM lw_records AS r WHERE r.`key` = s.`key`)"
        " + (SELECT coalesce(sum(length(body)), 0) FROM lw_inbox AS i WHERE i.`key` = s.`key`)"
        " + (SELECT coalesce(sum(size), 0) FROM lw_artifacts AS a WHERE a.`key` = s.`key`) AS SIGNED) FROM lw_sessions AS s"
    )
    STAMP_ARTIFACTS: str = f"UPDATE lw_artifacts SET created_at = {NOW} WHERE created_at IS NULL"
    OLD_ARTIFACTS: str = (
        "SELECT a.id, a.artifact_id, s.session_id, s.`key`, s.position, a.complete FROM lw_artifacts AS a"
        " JOIN lw_sessions AS s ON s.`key` = a.`key` WHERE a.created_at < $1"
        " AND NOT EXISTS (SELECT 1 FROM lw_artifact_shares AS x WHERE x.id = a.id) ORDER BY s.`key`"
    )
    NAMING_ARTIFACTS: str = (
        "SELECT body FROM lw_records WHERE `key` = $1 AND position >= $2 AND position < $3"
        " AND locate(_binary'art_', body) > 0"
    )
    # Whether a record from position $2 on, a waiting item or a timer of session $1 names $3.
    REFERS: str = (
        "SELECT 1 FROM lw_records WHERE `key` = $1 AND position >= $2 AND locate($3, body) > 0"
        " UNION ALL SELECT 1 FROM lw_inbox WHERE `key` = $1 AND position IS NULL AND locate($3, body) > 0"
        " UNION ALL SELECT 1 FROM lw_timers WHERE `key` = $1 AND locate($3, body) > 0"
    )
    HIDE_ARTIFACT: str = (
        "UPDATE lw_artifacts SET complete = 0 WHERE id = $1 AND created_at < $2"
        " AND NOT EXISTS (SELECT 1 FROM lw_artifact_shares AS x WHERE x.id = lw_artifacts.id)"
    )
    # Under its lock, so that whoever puts it again waits until this batch of its rows is gone.
    HIDDEN_LOCKED: str = "SELECT 1 FROM lw_artifacts WHERE id = $1 AND complete = 0 AND created_at < $2 FOR UPDATE"
    SWEEP_HIDDEN_ROWS: str = "DELETE FROM lw_artifact_rows WHERE id = $1 LIMIT 100"
    ARTIFACT_ROW_LEFT: str = "SELECT 1 FROM lw_artifact_rows WHERE id = $1 LIMIT 1"
    SWEEP_HIDDEN: str = "DELETE FROM lw_artifacts WHERE id = $1"
    # Makes InnoDB's tables anew while others read and write them.
    VACUUM: tuple[str, ...] = tuple([f"OPTIMIZE TABLE {name}" for name in tables_of(DDL)])

    # --- out of one store and into another -----------------------------------------------------------------------------
    KNOWN_ITEMS: str = "SELECT item_id, position FROM lw_inbox WHERE `key` = $1 AND position IS NOT NULL"
    TIMERS: str = "SELECT timer_id, due_at, body, paused FROM lw_timers WHERE `key` = $1"
    ARTIFACTS_OF: str = (
        "SELECT artifact_id, session_id, media_type, size, digest FROM lw_artifacts WHERE complete = 1 AND (`key` = $1"
        " OR id IN (SELECT id FROM lw_artifact_shares WHERE `key` = $1) OR artifact_id IN $2[])"
    )
    OWNERS_OF: str = "SELECT session_id FROM lw_artifacts WHERE artifact_id IN $1[]"
    RESTORE_TIMER: str = (
        "INSERT INTO lw_timers (`key`, timer_id, due_at, body, paused, agent_name) VALUES ($1, $2, $3, $4, $5, $6)"
    )
    # The row that is there is locked: with IGNORE two of these would share it, and then wait for each other.
    BOARDS: BoardStatements = board_statements(
        "INSERT INTO lw_boards SET board_id = $1, counter = 0 ON DUPLICATE KEY UPDATE counter = lw_boards.counter"
    )
    MEMORIES: MemoryStatements = MEMORIES
    """See `mysql_memories.py`."""
