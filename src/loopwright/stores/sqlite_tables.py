"""The tables of the SQLite store, as a new file gets them.

Owns: DDL. Must not know: what is asked of the tables, how older ones come to it.
Read next: `sqlite_migrations.py`, `sqlite_statements.py`.
"""

from __future__ import annotations

from typing import Final

# Records keep their place by a computed integer id and not by (session, position): one b-tree without a second index, rows
# of any size in its leaves, a third less work per commit. Head rows change with every commit, so nothing of what changes
# there in a usual send is indexed: `list` reads the (small) head rows instead, which is a rare call, and what runs is in an
# index only while nobody holds it (`sqlite_claims.py`). Taken inbox items keep their id for the life of the session; the
# partial index holds the waiting ones only. The full-text index of memories gets names of words (`search_terms.py`) and
# keeps no text.
DDL: Final = """\
CREATE TABLE IF NOT EXISTS lw_schema (
    version INTEGER NOT NULL PRIMARY KEY,
    created_at REAL NOT NULL,
    cleaned_at REAL
);
CREATE TABLE IF NOT EXISTS lw_owners (
    owner TEXT NOT NULL PRIMARY KEY,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    expires REAL NOT NULL,
    ttl_s REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lw_sessions (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL UNIQUE,
    position INTEGER NOT NULL,
    window_start INTEGER NOT NULL DEFAULT 0,
    checkpoint INTEGER,
    epoch INTEGER NOT NULL DEFAULT 0,
    token BLOB,
    owner TEXT,
    inbox_seq INTEGER NOT NULL DEFAULT 0,
    takeovers INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'idle',
    updated_at REAL NOT NULL,
    sends INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    calls INTEGER NOT NULL DEFAULT 0,
    estimated INTEGER NOT NULL DEFAULT 0,
    nanodollars INTEGER NOT NULL DEFAULT 0,
    unpriced_calls INTEGER NOT NULL DEFAULT 0,
    min_format INTEGER NOT NULL,
    agent_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    parent_id TEXT,
    lifecycle TEXT NOT NULL,
    title TEXT NOT NULL,
    created_at REAL NOT NULL,
    base_id TEXT,
    base_position INTEGER
);
CREATE INDEX IF NOT EXISTS lw_sessions_parent ON lw_sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS lw_sessions_base ON lw_sessions (base_id) WHERE base_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS lw_sessions_running ON lw_sessions (key) WHERE owner IS NULL AND status = 'running';
CREATE TABLE IF NOT EXISTS lw_records (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    at REAL NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS lw_inbox (
    key INTEGER NOT NULL,
    item_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    body BLOB,
    position INTEGER,
    PRIMARY KEY (key, item_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lw_inbox_waiting ON lw_inbox (key, seq) WHERE position IS NULL;
CREATE TABLE IF NOT EXISTS lw_timers (
    key INTEGER NOT NULL,
    timer_id TEXT NOT NULL,
    due_at REAL NOT NULL,
    body BLOB NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    agent_name TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (key, timer_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lw_timers_agent ON lw_timers (agent_name, due_at) WHERE paused = 0;
CREATE TABLE IF NOT EXISTS lw_artifacts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    artifact_id TEXT NOT NULL UNIQUE,
    key INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    digest TEXT NOT NULL,
    complete INTEGER NOT NULL,
    created_at REAL
);
CREATE INDEX IF NOT EXISTS lw_artifacts_session ON lw_artifacts (key);
CREATE TABLE IF NOT EXISTS lw_artifact_rows (
    id INTEGER NOT NULL,
    n INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (id, n)
);
CREATE TABLE IF NOT EXISTS lw_artifact_shares (
    id INTEGER NOT NULL,
    key INTEGER NOT NULL,
    PRIMARY KEY (id, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lw_artifact_shares_session ON lw_artifact_shares (key);
CREATE TABLE IF NOT EXISTS lw_tombstones (
    session_id TEXT NOT NULL PRIMARY KEY,
    key INTEGER NOT NULL,
    swept INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lw_budgets (
    budget_key TEXT NOT NULL PRIMARY KEY,
    spent INTEGER NOT NULL,
    held INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lw_holds (
    hold_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    nanodollars INTEGER NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lw_holds_session ON lw_holds (session_id);
CREATE TABLE IF NOT EXISTS lw_hold_caps (
    hold_id TEXT NOT NULL,
    budget_key TEXT NOT NULL,
    PRIMARY KEY (hold_id, budget_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lw_hold_caps_budget ON lw_hold_caps (budget_key);
CREATE TABLE IF NOT EXISTS lw_boards (board_id TEXT NOT NULL PRIMARY KEY, counter INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lw_board_entries (
    board_id TEXT NOT NULL,
    entry_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    entry_key TEXT NOT NULL,
    posted_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (board_id, entry_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lw_memories (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    at REAL NOT NULL,
    body BLOB NOT NULL,
    embedding BLOB,
    UNIQUE (namespace, memory_id)
);
CREATE INDEX IF NOT EXISTS lw_memories_newest ON lw_memories (namespace, at, memory_id);
CREATE VIRTUAL TABLE IF NOT EXISTS lw_memories_text USING fts5 (words, content = '', contentless_delete = 1);
CREATE TRIGGER IF NOT EXISTS lw_memories_drop AFTER DELETE ON lw_memories BEGIN
    DELETE FROM lw_memories_text WHERE rowid = old.id; END;
"""
