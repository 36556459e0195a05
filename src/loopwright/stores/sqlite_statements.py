"""Every statement of the SQLite store, each with its purpose.

Owns: all SQL but the tables. Must not know: Python values, threads, when a statement runs.
Read next: `sqlite_tables.py`, `sqlite_writes.py`, `sqlite_reads.py`.
"""

from __future__ import annotations

from typing import Final

from .derived import HEAD_COLUMNS, WAKING

SCHEMA_VERSION: Final = 5

POSITIONS_PER_SESSION: Final = 1 << 32
"""A record's id is `key * POSITIONS_PER_SESSION + position`, so that a journal lies in one run of one b-tree."""

IS_CURRENT: Final = """\
SELECT 1 WHERE 28 = (
    SELECT count(*) FROM sqlite_schema WHERE name IN (
        'lw_schema', 'lw_owners', 'lw_sessions', 'lw_sessions_parent', 'lw_sessions_base', 'lw_sessions_running', 'lw_records', 'lw_inbox',
        'lw_inbox_waiting', 'lw_timers', 'lw_timers_agent', 'lw_artifacts', 'lw_artifacts_session', 'lw_artifact_rows',
        'lw_artifact_shares', 'lw_artifact_shares_session', 'lw_tombstones', 'lw_budgets', 'lw_holds',
        'lw_holds_session', 'lw_hold_caps', 'lw_hold_caps_budget', 'lw_boards', 'lw_board_entries', 'lw_memories', 'lw_memories_newest',
        'lw_memories_text', 'lw_memories_drop'
    )
) AND (SELECT max(version) FROM lw_schema) = 5
  AND NOT EXISTS (SELECT lw_schema.cleaned_at, lw_timers.paused, lw_timers.agent_name, lw_artifacts.created_at, lw_sessions.base_id,
        lw_sessions.base_position, lw_sessions.nanodollars, lw_sessions.unpriced_calls FROM lw_schema, lw_timers, lw_artifacts, lw_sessions LIMIT 0)
"""
"""Answers a row when every table, index, trigger and migrated column of this version is there; fails or answers none otherwise.

Opening a file asks this first, since looking for what is missing takes as long as reading a long session.
"""

# --- writing ------------------------------------------------------------------------------------------------------------

# What a transition is checked against, inside the transaction that has the file's one write lock.
GUARD: Final = (
    "SELECT key, position, epoch, token, owner, inbox_seq, status, takeovers, updated_at FROM lw_sessions"
    " WHERE session_id = ?"
)

# The head after a transition whose guard held. Few columns: most transitions change no more than these.
MOVE_HEAD: Final = (
    "UPDATE lw_sessions SET position = ?2, status = ?3, updated_at = ?4, epoch = ?5, owner = ?6, token = ?7,"
    " takeovers = ?8 WHERE key = ?1"
)

# The same for one that began a send, for one that used tokens, and for one with money or with both. SQLite works for each
# column that is named, and finding a prepared statement again reads its text: so each names what it changes.
MOVE_AND_BEGIN: Final = MOVE_HEAD.replace(" WHERE", ", sends = sends + ?9 WHERE")
MOVE_AND_SPEND: Final = MOVE_HEAD.replace(
    " WHERE",
    ", input_tokens = input_tokens + ?9, output_tokens = output_tokens + ?10, cached_tokens = cached_tokens + ?11,"
    " cache_write_tokens = cache_write_tokens + ?12, reasoning_tokens = reasoning_tokens + ?13, calls = calls + ?14,"
    " estimated = estimated | ?15 WHERE",
)
MOVE_AND_COUNT: Final = MOVE_AND_SPEND.replace(
    " WHERE",
    ", nanodollars = nanodollars + ?16, unpriced_calls = unpriced_calls + ?17, sends = sends + ?18 WHERE",
)

# What changes rarely; null leaves a column as it is.
ADJUST_HEAD: Final = (
    "UPDATE lw_sessions SET window_start = coalesce(?2, window_start), checkpoint = coalesce(?3, checkpoint),"
    " min_format = coalesce(?4, min_format), title = coalesce(?5, title) WHERE key = ?1"
)

IS_GONE: Final = "SELECT 1 FROM lw_tombstones WHERE session_id = ?"

# A new session, unless its id was ever used.
INSERT_SESSION: Final = (
    "INSERT INTO lw_sessions"
    " (session_id, position, min_format, agent_name, kind, parent_id, lifecycle, title, created_at, updated_at, base_id,"
    "  base_position, window_start, checkpoint, status)"
    " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, ?13, ?14 WHERE NOT EXISTS (SELECT 1 FROM lw_tombstones WHERE session_id = ?1)"
    " ON CONFLICT (session_id) DO NOTHING RETURNING key"
)

INSERT_RECORD: Final = "INSERT INTO lw_records VALUES (?, ?, ?, ?, ?)"

INSERT_RECORDS: Final = tuple(INSERT_RECORD + ", (?, ?, ?, ?, ?)" * more for more in range(8))
"""By number of records less one: one statement for the usual transitions."""

# Count an item that is about to be stored, unless its id is known.
COUNT_ITEM: Final = (
    "UPDATE lw_sessions SET inbox_seq = inbox_seq + 1, updated_at = max(updated_at, ?3)"
    " WHERE session_id = ?1 AND NOT EXISTS"
    " (SELECT 1 FROM lw_inbox WHERE lw_inbox.key = lw_sessions.key AND item_id = ?2)"
    " RETURNING key, inbox_seq, status"
)

INSERT_ITEM: Final = "INSERT INTO lw_inbox (key, item_id, seq, kind, at, body) VALUES (?, ?, ?, ?, ?, ?)"

COUNT_WAITING: Final = "SELECT count(*) FROM lw_inbox WHERE key = ? AND position IS NULL"

# Take a waiting item; its id stays, its body goes.
TAKE_ITEM: Final = (
    "UPDATE lw_inbox SET position = ?3, body = NULL WHERE key = ?1 AND item_id = ?2 AND position IS NULL RETURNING 1"
)

# An id that is accepted without ever waiting.
MARK_ITEM: Final = (
    "INSERT INTO lw_inbox (key, item_id, seq, kind, at, position) VALUES (?, ?, 0, 'marked', 0, ?)"
    " ON CONFLICT DO NOTHING RETURNING 1"
)

PUT_TIMER: Final = (
    "INSERT INTO lw_timers (key, timer_id, due_at, body, agent_name)"
    " VALUES (?1, ?2, ?3, ?4, (SELECT agent_name FROM lw_sessions WHERE key = ?1))"
    " ON CONFLICT (key, timer_id)"
    " DO UPDATE SET due_at = excluded.due_at, body = excluded.body, paused = 0, agent_name = excluded.agent_name"
)

DROP_TIMER: Final = "DELETE FROM lw_timers WHERE key = ?1 AND timer_id = ?2 AND (?3 IS NULL OR due_at = ?3)"

IS_ARMED: Final = "SELECT 1 FROM lw_timers WHERE key = (SELECT key FROM lw_sessions WHERE session_id = ?) AND timer_id = ? AND due_at = ?"

# Money. Limits are compared before these, under the file's one write lock.
HOLD: Final = "SELECT nanodollars FROM lw_holds WHERE hold_id = ?"
HOLDS_OF: Final = "SELECT hold_id, nanodollars FROM lw_holds WHERE session_id = ? ORDER BY hold_id"
ACCOUNT: Final = "SELECT spent, held FROM lw_budgets WHERE budget_key = ?"
INSERT_HOLD: Final = "INSERT INTO lw_holds (hold_id, session_id, nanodollars, at) VALUES (?, ?, ?, ?)"
INSERT_HOLD_CAP: Final = "INSERT INTO lw_hold_caps (hold_id, budget_key) VALUES (?, ?)"
HOLD_IN: Final = (
    "INSERT INTO lw_budgets (budget_key, spent, held) VALUES (?1, 0, ?2)"
    " ON CONFLICT (budget_key) DO UPDATE SET held = held + excluded.held"
)
SETTLE: Final = (
    "UPDATE lw_budgets SET held = held - ?2, spent = spent + ?3"
    " WHERE budget_key IN (SELECT budget_key FROM lw_hold_caps WHERE hold_id = ?1)"
)
DROP_HOLD: Final = "DELETE FROM lw_holds WHERE hold_id = ?"
DROP_HOLD_CAPS: Final = "DELETE FROM lw_hold_caps WHERE hold_id = ?"

# An owner's heartbeat; never shortened.
RENEW_OWNER: Final = (
    "INSERT INTO lw_owners VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (owner) DO UPDATE SET expires = max(expires, excluded.expires), ttl_s = max(ttl_s, excluded.ttl_s)"
)

OWNER: Final = "SELECT owner, pid, started, boot_id, pid_namespace, expires, ttl_s FROM lw_owners WHERE owner = ?"

OWNERS: Final = "SELECT owner, pid, started, boot_id, pid_namespace, expires, ttl_s FROM lw_owners"

# Rows of owners that died long ago and hold no lease any more.
FORGET_OWNERS: Final = (
    "DELETE FROM lw_owners WHERE owner IN (SELECT value FROM json_each(?))"
    " AND owner NOT IN (SELECT owner FROM lw_sessions WHERE owner IS NOT NULL)"
)

# Give up all leases of one owner, those too whose own transition to give them back was refused; and its heartbeat. Reads all
# heads: an index by owner would change with every lease.
RELEASE: Final = "UPDATE lw_sessions SET owner = NULL, token = NULL WHERE owner = ?"
FORGET_OWNER: Final = "DELETE FROM lw_owners WHERE owner = ?"

# --- reading ------------------------------------------------------------------------------------------------------------

HEAD: Final = f"SELECT {HEAD_COLUMNS} FROM lw_sessions WHERE session_id = ?"

KEY_AND_POSITION: Final = "SELECT key, position, base_id, base_position FROM lw_sessions WHERE session_id = ?"

RECORDS: Final = "SELECT id, kind, version, at, body FROM lw_records WHERE id >= ? AND id < ? ORDER BY id"

WAITING: Final = "SELECT item_id, kind, body, at, seq FROM lw_inbox WHERE key = ? AND position IS NULL ORDER BY seq"

ITEM_POSITION: Final = "SELECT coalesce(position, -1) FROM lw_inbox WHERE key = ? AND item_id = ?"

# Heads, newest first. ?1 status, ?2 agent names (JSON), ?3 parent, ?4 before, ?5 limit, ?6 kind; null asks for all.
LIST: Final = (
    f"SELECT {HEAD_COLUMNS} FROM lw_sessions WHERE (?1 IS NULL OR status = ?1)"
    " AND (?2 IS NULL OR agent_name IN (SELECT value FROM json_each(?2)))"
    " AND (?3 IS NULL OR parent_id = ?3) AND (?4 IS NULL OR updated_at < ?4) AND (?6 IS NULL OR kind = ?6)"
    " ORDER BY updated_at DESC, key DESC LIMIT ?5"
)

# The same for the children of one parent, through its index.
LIST_CHILDREN: Final = LIST.replace("(?3 IS NULL OR parent_id = ?3)", "parent_id = ?3")

# Work that nobody alive does, found through the partial indexes of what runs and what waits. ?1 agent names, ?2 owners that live (JSON), ?3 highest format, ?4 limit.
INTERRUPTED: Final = (
    f"SELECT {HEAD_COLUMNS} FROM lw_sessions AS s"
    " WHERE key IN (SELECT r.key FROM lw_sessions AS r WHERE r.owner IS NULL AND r.status = 'running'"
    "  UNION SELECT i.key FROM lw_inbox AS i JOIN lw_sessions AS q ON q.key = i.key WHERE i.position IS NULL"
    f"  AND (q.status = 'idle' OR (q.status = 'waiting' AND i.kind IN ({WAKING}))))"
    " AND (owner IS NULL OR owner NOT IN (SELECT value FROM json_each(?2)))"
    " AND agent_name IN (SELECT value FROM json_each(?1)) AND min_format <= ?3"
    " ORDER BY updated_at, key LIMIT ?4"
)

# The same beside what owners hold that do not live: reads all heads.
INTERRUPTED_AND_LEFT: Final = INTERRUPTED.replace("r.owner IS NULL AND ", "")

# Who holds sessions of agents (JSON) up to a format: reads all heads.
HOLDERS: Final = (
    "SELECT DISTINCT owner FROM lw_sessions WHERE owner IS NOT NULL"
    " AND agent_name IN (SELECT value FROM json_each(?1)) AND min_format <= ?2"
)

# Whether these tables were made by a version whose owners could go without giving everything back.
WAS_OLDER: Final = "SELECT 1 FROM lw_schema WHERE version < 5"

# Timers that are due and not paused, of sessions that exist. ?1 the name that stands with them, ?2 now, ?3 highest format,
# ?4 agent names, ?5 limit.
DUE: Final = (
    "SELECT s.session_id, t.timer_id, t.due_at, t.body FROM lw_timers AS t JOIN lw_sessions AS s ON s.key = t.key"
    " WHERE t.agent_name = ?1 AND t.due_at <= ?2 AND t.paused = 0 AND s.min_format <= ?3"
    " AND s.agent_name IN (SELECT value FROM json_each(?4)) ORDER BY t.due_at, t.key, t.timer_id LIMIT ?5"
)

# When the next of such timers is due.
NEXT_DUE: Final = (
    "SELECT (SELECT t.due_at FROM lw_timers AS t JOIN lw_sessions AS s ON s.key = t.key"
    " WHERE t.agent_name = ?1 AND t.due_at > ?2 AND t.paused = 0 AND s.min_format <= ?3"
    " AND s.agent_name IN (SELECT value FROM json_each(?4)) ORDER BY t.due_at LIMIT 1)"
)

ARMED: Final = "SELECT timer_id, due_at, body FROM lw_timers WHERE key = ? AND paused = 0 ORDER BY due_at, timer_id"

RENEWED: Final = (
    "SELECT session_id, epoch, inbox_seq FROM lw_sessions WHERE session_id IN (SELECT value FROM json_each(?))"
)

BUDGET: Final = (
    "SELECT budget_key, spent, held, (SELECT count(*) FROM lw_hold_caps AS c WHERE c.budget_key = b.budget_key)"
    " FROM lw_budgets AS b WHERE budget_key = ?"
)

# Accounts with something in them, by key. ?1 after this key, ?2 limit.
BUDGETS: Final = (
    "SELECT budget_key, spent, held, (SELECT count(*) FROM lw_hold_caps AS c WHERE c.budget_key = b.budget_key)"
    " FROM lw_budgets AS b WHERE budget_key > ?1 AND (spent <> 0 OR held <> 0) ORDER BY budget_key LIMIT ?2"
)

# All records of the named kinds, in order within each session.
OF_KINDS: Final = (
    "SELECT s.session_id, r.id & 4294967295, r.kind, r.version, r.at, r.body"
    " FROM lw_records AS r JOIN lw_sessions AS s ON s.key = r.id >> 32"
    " WHERE r.kind IN (SELECT value FROM json_each(?)) ORDER BY r.id"
)

# --- artifacts ----------------------------------------------------------------------------------------------------------

ARTIFACT_COLUMNS: Final = "artifact_id, session_id, media_type, size, digest"
ARTIFACT: Final = f"SELECT id, {ARTIFACT_COLUMNS} FROM lw_artifacts WHERE artifact_id = ? AND complete = 1"
# Putting equal content again makes it young again: somebody is about to refer to it.
BEGIN_ARTIFACT: Final = (
    "INSERT INTO lw_artifacts (artifact_id, key, session_id, media_type, size, digest, complete, created_at)"
    " SELECT ?1, key, session_id, ?3, ?4, ?5, 0, unixepoch('subsec') FROM lw_sessions WHERE session_id = ?2"
    " ON CONFLICT (artifact_id) DO UPDATE SET created_at = excluded.created_at RETURNING id, complete"
)
ARTIFACT_ROW: Final = "INSERT OR REPLACE INTO lw_artifact_rows VALUES (?, ?, ?)"
FINISH_ARTIFACT: Final = "UPDATE lw_artifacts SET complete = 1 WHERE id = ?"
# Complete artifacts whose rows are not those of their size; only lengths are looked at, no bytes are read.
ARTIFACTS_ASTRAY: Final = (
    "SELECT a.session_id, a.artifact_id, a.size, count(r.n), coalesce(sum(length(r.data)), 0) FROM lw_artifacts AS a"
    " LEFT JOIN lw_artifact_rows AS r ON r.id = a.id WHERE a.complete = 1 AND (?1 IS NULL OR a.id = ?1) GROUP BY a.id"
    " HAVING a.size <> coalesce(sum(length(r.data)), 0) OR count(r.n) <> (a.size + 262143) / 262144"
    " OR max(r.n) >= count(r.n)"
)
# A damaged artifact that is put again: hidden until all of its rows are written.
REOPEN_ARTIFACT: Final = "UPDATE lw_artifacts SET complete = 0, size = ?2 WHERE id = ?1"
DROP_ROWS_FROM: Final = "DELETE FROM lw_artifact_rows WHERE id = ? AND n >= ?"
ARTIFACT_ROWS: Final = "SELECT n, data FROM lw_artifact_rows WHERE id = ? AND n >= ? AND n < ? ORDER BY n"

# --- deleting and checking ----------------------------------------------------------------------------------------------

CHILDREN: Final = "SELECT session_id, lifecycle FROM lw_sessions WHERE parent_id = ?"
CHILD: Final = "SELECT parent_id, lifecycle FROM lw_sessions WHERE session_id = ?"
ORPHAN: Final = "UPDATE lw_sessions SET parent_id = NULL WHERE session_id = ?"
BURY: Final = "INSERT INTO lw_tombstones (session_id, key) SELECT session_id, key FROM lw_sessions WHERE session_id = ?"
# Who reads the beginning of its journal from this session.
FORKS: Final = "SELECT key, session_id, base_position FROM lw_sessions WHERE base_id = ? ORDER BY session_id"
# A fork (?1) gets the base's (?2) own records from ?3 to before ?4, and reads on from where the base read, if it did.
COPY_RECORDS: Final = (
    "INSERT INTO lw_records SELECT (id & 4294967295) | (?1 << 32), kind, version, at, body FROM lw_records"
    " WHERE id >= (?2 << 32) + ?3 AND id < (?2 << 32) + ?4"
)
REBASE: Final = "UPDATE lw_sessions SET base_id = ?2, base_position = ?3 WHERE key = ?1"
# Another session holds an artifact as well.
SHARE_ARTIFACTS: Final = (
    "INSERT OR IGNORE INTO lw_artifact_shares SELECT id, ?1 FROM lw_artifacts"
    " WHERE complete = 1 AND key <> ?1 AND artifact_id IN (SELECT value FROM json_each(?2))"
)
DROP_SHARES: Final = "DELETE FROM lw_artifact_shares WHERE key = ?"
# Artifacts of a session that goes, each with one of those that hold it as well.
HEIRS: Final = (
    "SELECT a.id, s.key, h.session_id FROM lw_artifacts AS a JOIN lw_artifact_shares AS s ON s.id = a.id"
    " JOIN lw_sessions AS h ON h.key = s.key WHERE a.key = ? GROUP BY a.id HAVING s.key = min(s.key)"
)
PASS_ON: Final = "UPDATE lw_artifacts SET key = ?2, session_id = ?3 WHERE id = ?1"
DROP_SHARE: Final = "DELETE FROM lw_artifact_shares WHERE id = ? AND key = ?"
DELETE_SESSION: Final = "DELETE FROM lw_sessions WHERE session_id = ?"
UNSWEPT: Final = "SELECT session_id, key FROM lw_tombstones WHERE swept = 0 LIMIT 1"
SWEPT: Final = "UPDATE lw_tombstones SET swept = 1 WHERE session_id = ?"

# Each removes at most 500 rows of one deleted session (?1 its key); run until none changes anything.
SWEEP: Final = (
    "DELETE FROM lw_records WHERE id IN (SELECT id FROM lw_records WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32 LIMIT 500)",
    "DELETE FROM lw_inbox WHERE key = ?1 AND item_id IN (SELECT item_id FROM lw_inbox WHERE key = ?1 LIMIT 500)",
    "DELETE FROM lw_timers WHERE key = ?1 AND timer_id IN (SELECT timer_id FROM lw_timers WHERE key = ?1 LIMIT 500)",
    """DELETE FROM lw_artifact_rows WHERE rowid IN (SELECT r.rowid FROM lw_artifact_rows AS r
    JOIN lw_artifacts AS a ON a.id = r.id WHERE a.key = ?1 LIMIT 500)""",
    """DELETE FROM lw_artifacts WHERE key = ?1 AND NOT EXISTS
    (SELECT 1 FROM lw_artifact_rows AS r WHERE r.id = lw_artifacts.id)""",
)

# Journals whose own records are not exactly the positions from 0, or from where a fork begins, to the head's, less one.
GAPS: Final = (
    "SELECT s.session_id, s.position, count(r.id), min(r.id & 4294967295), max(r.id & 4294967295)"
    " FROM lw_sessions AS s LEFT JOIN lw_records AS r ON r.id >= s.key << 32 AND r.id < (s.key + 1) << 32"
    " GROUP BY s.key HAVING count(r.id) <> s.position - coalesce(s.base_position, 0) OR (s.position >"
    " coalesce(s.base_position, 0) AND (min(r.id & 4294967295) <> coalesce(s.base_position, 0)"
    " OR max(r.id & 4294967295) <> s.position - 1))"
)

# Forks whose base is not there, is too short, or has not itself the last record that they read.
FORKS_ASTRAY: Final = (
    "SELECT f.session_id, f.base_id, f.base_position FROM lw_sessions AS f"
    " LEFT JOIN lw_sessions AS b ON b.session_id = f.base_id WHERE f.base_id IS NOT NULL"
    " AND (b.key IS NULL OR f.base_position > b.position OR f.base_position <= coalesce(b.base_position, 0))"
)

# Heads that point behind their journal's end.
HEADS_ASTRAY: Final = (
    "SELECT session_id FROM lw_sessions WHERE window_start > position OR checkpoint >= position"
    " OR inbox_seq < (SELECT coalesce(max(seq), 0) FROM lw_inbox AS i WHERE i.key = lw_sessions.key)"
)

# Records that belong to no session and to no deletion under way.
STRAYS: Final = (
    "SELECT count(*) FROM lw_records AS r WHERE NOT EXISTS (SELECT 1 FROM lw_sessions AS s WHERE s.key = r.id >> 32)"
    " AND NOT EXISTS (SELECT 1 FROM lw_tombstones AS t WHERE t.key = r.id >> 32 AND t.swept = 0)"
)

# Accounts that hold something else than their open holds say.
BUDGETS_ASTRAY: Final = (
    "SELECT b.budget_key, b.held, coalesce(sum(h.nanodollars), 0) FROM lw_budgets AS b"
    " LEFT JOIN lw_hold_caps AS c ON c.budget_key = b.budget_key LEFT JOIN lw_holds AS h ON h.hold_id = c.hold_id"
    " GROUP BY b.budget_key HAVING b.held <> coalesce(sum(h.nanodollars), 0)"
)

# --- figures, sizes, unreferenced artifacts -------------------------------------------------------------------------------

FIGURES: Final = (
    "SELECT (SELECT count(*) FROM lw_records), (SELECT coalesce(sum(length(body)), 0) FROM lw_records),"
    " (SELECT count(*) FROM lw_inbox WHERE position IS NULL), (SELECT count(*) FROM lw_inbox WHERE position IS NOT NULL),"
    " (SELECT count(*) FROM lw_timers WHERE paused = 0), (SELECT count(*) FROM lw_timers WHERE paused <> 0),"
    " (SELECT count(*) FROM lw_artifacts WHERE complete = 1),"
    " (SELECT coalesce(sum(size), 0) FROM lw_artifacts WHERE complete = 1), (SELECT count(*) FROM lw_tombstones),"
    " (SELECT count(*) FROM lw_sessions WHERE base_id IS NOT NULL), (SELECT max(version) FROM lw_schema)"
)

SIZES: Final = (
    "SELECT s.session_id,"
    " (SELECT coalesce(sum(length(body)), 0) FROM lw_records AS r WHERE r.id >= s.key << 32 AND r.id < (s.key + 1) << 32)"
    " + (SELECT coalesce(sum(length(body)), 0) FROM lw_inbox AS i WHERE i.key = s.key)"
    " + (SELECT coalesce(sum(size), 0) FROM lw_artifacts AS a WHERE a.key = s.key) FROM lw_sessions AS s"
)

# Artifacts of processes of an older version have no time: they are as old as the first look at them.
STAMP_ARTIFACTS: Final = "UPDATE lw_artifacts SET created_at = unixepoch('subsec') WHERE created_at IS NULL"

OLD_ARTIFACTS: Final = (
    "SELECT a.id, a.artifact_id, a.key, a.complete, s.position FROM lw_artifacts AS a JOIN lw_sessions AS s ON s.key = a.key"
    " WHERE a.created_at < ? AND a.id NOT IN (SELECT id FROM lw_artifact_shares) ORDER BY a.key"
)

NAMING_ARTIFACTS: Final = (
    "SELECT body FROM lw_records WHERE id >= ?1 AND id < ?2 AND instr(body, CAST('art_' AS BLOB)) > 0"
)

# Hides an artifact that is still old, that no other session holds, and to which no record from position id ?3 on, waiting
# item or timer refers.
HIDE_ARTIFACT: Final = (
    "UPDATE lw_artifacts SET complete = 0 WHERE id = ?1 AND created_at < ?2"
    " AND NOT EXISTS (SELECT 1 FROM lw_artifact_shares WHERE id = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM lw_records WHERE id >= ?3 AND id < (?4 + 1) << 32 AND instr(body, ?5) > 0)"
    " AND NOT EXISTS (SELECT 1 FROM lw_inbox WHERE key = ?4 AND position IS NULL AND instr(body, ?5) > 0)"
    " AND NOT EXISTS (SELECT 1 FROM lw_timers WHERE key = ?4 AND instr(body, ?5) > 0) RETURNING 1"
)

# The rows of a hidden artifact that nobody writes anew, in batches, then the artifact itself.
SWEEP_HIDDEN_ROWS: Final = (
    "DELETE FROM lw_artifact_rows WHERE rowid IN (SELECT r.rowid FROM lw_artifact_rows AS r"
    " JOIN lw_artifacts AS a ON a.id = r.id WHERE a.id = ?1 AND a.complete = 0 AND a.created_at < ?2 LIMIT 100) RETURNING 1"
)
SWEEP_HIDDEN: Final = "DELETE FROM lw_artifacts WHERE id = ?1 AND complete = 0 AND created_at < ?2 RETURNING 1"

# --- out of one file and into another -------------------------------------------------------------------------------------

KNOWN_ITEMS: Final = "SELECT item_id, position FROM lw_inbox WHERE key = ? AND position IS NOT NULL ORDER BY item_id"
TIMERS: Final = "SELECT timer_id, due_at, body, paused FROM lw_timers WHERE key = ? ORDER BY timer_id"
# Those of a session (?1), those that it holds as well, and those of these names (JSON).
ARTIFACTS_OF: Final = (
    f"SELECT {ARTIFACT_COLUMNS} FROM lw_artifacts WHERE complete = 1 AND (key = ?1"
    " OR id IN (SELECT id FROM lw_artifact_shares WHERE key = ?1)"
    " OR artifact_id IN (SELECT value FROM json_each(?2))) ORDER BY artifact_id"
)

RESTORE_SESSION: Final = (
    "INSERT INTO lw_sessions (session_id, position, window_start, checkpoint, epoch, inbox_seq, takeovers, agent_name,"
    " kind, parent_id, lifecycle, title, min_format, status, created_at, updated_at, sends, input_tokens, output_tokens,"
    " cached_tokens, cache_write_tokens, reasoning_tokens, calls, estimated, nanodollars, unpriced_calls)"
    f" SELECT {', '.join(f'?{n}' for n in range(1, 27))}"
    " WHERE NOT EXISTS (SELECT 1 FROM lw_tombstones WHERE session_id = ?1)"
    " ON CONFLICT (session_id) DO NOTHING RETURNING key"
)
RESTORE_KNOWN: Final = "INSERT INTO lw_inbox (key, item_id, seq, kind, at, position) VALUES (?, ?, 0, 'marked', 0, ?)"
RESTORE_TIMER: Final = (
    "INSERT INTO lw_timers (key, timer_id, due_at, body, paused, agent_name) VALUES (?, ?, ?, ?, ?, ?)"
)
RESTORE_ARTIFACT: Final = (
    "INSERT INTO lw_artifacts (artifact_id, key, session_id, media_type, size, digest, complete, created_at)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, unixepoch('subsec')) RETURNING id"
)

# What a copy forgets: nobody holds a lease in it.
FORGET_LEASES: Final = "UPDATE lw_sessions SET owner = NULL, token = NULL"
FORGET_ALL_OWNERS: Final = "DELETE FROM lw_owners"
