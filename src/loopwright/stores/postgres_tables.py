"""The tables of the PostgreSQL store: as a new database gets them, and what leads older ones there.

Owns: DDL, migrations, the version. Must not know: what is asked of the tables.
Read next: `postgres_statements.py`; `migration.py` for the rules.
"""

from __future__ import annotations

from typing import Final

from .migration import Migration, SchemaStep, SchemaWords

NOW: Final = "EXTRACT(EPOCH FROM clock_timestamp())::double precision"

DDL: Final = """\
CREATE TABLE IF NOT EXISTS lw_schema (
    version integer NOT NULL PRIMARY KEY,
    created_at double precision NOT NULL,
    cleaned_at double precision
);
CREATE TABLE IF NOT EXISTS lw_owners (owner text COLLATE "C" NOT NULL PRIMARY KEY, expires double precision NOT NULL);
CREATE TABLE IF NOT EXISTS lw_sessions (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL UNIQUE,
    position bigint NOT NULL,
    window_start bigint NOT NULL DEFAULT 0,
    checkpoint bigint,
    epoch bigint NOT NULL DEFAULT 0,
    token bytea,
    owner text COLLATE "C",
    inbox_seq bigint NOT NULL DEFAULT 0,
    takeovers integer NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'idle',
    updated_at double precision NOT NULL,
    sends bigint NOT NULL DEFAULT 0,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    cached_tokens bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    reasoning_tokens bigint NOT NULL DEFAULT 0,
    calls bigint NOT NULL DEFAULT 0,
    estimated integer NOT NULL DEFAULT 0,
    nanodollars bigint NOT NULL DEFAULT 0,
    unpriced_calls bigint NOT NULL DEFAULT 0,
    min_format integer NOT NULL,
    agent_name text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    parent_id text COLLATE "C",
    lifecycle text NOT NULL,
    title text NOT NULL,
    created_at double precision NOT NULL,
    base_id text COLLATE "C",
    base_position bigint
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS lw_sessions_parent ON lw_sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS lw_sessions_base ON lw_sessions (base_id) WHERE base_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS lw_sessions_running ON lw_sessions (key) WHERE status = 'running';
CREATE TABLE IF NOT EXISTS lw_records (
    key bigint NOT NULL,
    position bigint NOT NULL,
    kind text NOT NULL,
    version integer NOT NULL,
    at double precision NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (key, position)
);
CREATE TABLE IF NOT EXISTS lw_inbox (
    key bigint NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    at double precision NOT NULL,
    body bytea,
    position bigint,
    PRIMARY KEY (key, item_id)
);
CREATE INDEX IF NOT EXISTS lw_inbox_waiting ON lw_inbox (key, seq) WHERE position IS NULL;
CREATE TABLE IF NOT EXISTS lw_timers (
    key bigint NOT NULL,
    timer_id text COLLATE "C" NOT NULL,
    due_at double precision NOT NULL,
    body bytea NOT NULL,
    paused integer NOT NULL DEFAULT 0,
    agent_name text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (key, timer_id)
);
CREATE INDEX IF NOT EXISTS lw_timers_agent ON lw_timers (agent_name, due_at) WHERE paused = 0;
CREATE TABLE IF NOT EXISTS lw_artifacts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    artifact_id text COLLATE "C" NOT NULL UNIQUE,
    key bigint NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    media_type text NOT NULL,
    size bigint NOT NULL,
    digest text NOT NULL,
    complete integer NOT NULL,
    created_at double precision
);
CREATE INDEX IF NOT EXISTS lw_artifacts_session ON lw_artifacts (key);
CREATE TABLE IF NOT EXISTS lw_artifact_rows (id bigint NOT NULL, n integer NOT NULL, data bytea NOT NULL, PRIMARY KEY (id, n));
CREATE TABLE IF NOT EXISTS lw_artifact_shares (id bigint NOT NULL, key bigint NOT NULL, PRIMARY KEY (id, key));
CREATE INDEX IF NOT EXISTS lw_artifact_shares_session ON lw_artifact_shares (key);
CREATE TABLE IF NOT EXISTS lw_tombstones (
    session_id text COLLATE "C" NOT NULL PRIMARY KEY,
    key bigint NOT NULL,
    swept integer NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS lw_budgets (
    budget_key text COLLATE "C" NOT NULL PRIMARY KEY,
    spent bigint NOT NULL,
    held bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS lw_holds (
    hold_id text COLLATE "C" NOT NULL PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    nanodollars bigint NOT NULL,
    at double precision NOT NULL
);
CREATE INDEX IF NOT EXISTS lw_holds_session ON lw_holds (session_id);
CREATE TABLE IF NOT EXISTS lw_hold_caps (
    hold_id text COLLATE "C" NOT NULL,
    budget_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (hold_id, budget_key)
);
CREATE INDEX IF NOT EXISTS lw_hold_caps_budget ON lw_hold_caps (budget_key);
CREATE TABLE IF NOT EXISTS lw_boards (board_id text COLLATE "C" NOT NULL PRIMARY KEY, counter bigint NOT NULL);
CREATE TABLE IF NOT EXISTS lw_board_entries (
    board_id text COLLATE "C" NOT NULL,
    entry_id bigint NOT NULL,
    version bigint NOT NULL,
    entry_key text COLLATE "C" NOT NULL,
    posted_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board_id, entry_id)
);
CREATE TABLE IF NOT EXISTS lw_memories (
    namespace text COLLATE "C" NOT NULL,
    memory_id text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    body bytea NOT NULL,
    embedding bytea,
    words tsvector NOT NULL,
    PRIMARY KEY (namespace, memory_id)
);
CREATE INDEX IF NOT EXISTS lw_memories_newest ON lw_memories (namespace, at, memory_id);
CREATE INDEX IF NOT EXISTS lw_memories_text ON lw_memories USING gin (words);
"""

_HAS: Final = "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('{}') AND attname = '{}' AND NOT attisdropped"

MIGRATIONS: Final = (
    Migration(
        version=2,
        before=(
            SchemaStep(
                "ALTER TABLE lw_schema ADD COLUMN cleaned_at double precision", _HAS.format("lw_schema", "cleaned_at")
            ),
            SchemaStep(
                "ALTER TABLE lw_timers ADD COLUMN paused integer NOT NULL DEFAULT 0", _HAS.format("lw_timers", "paused")
            ),
            SchemaStep(
                "ALTER TABLE lw_artifacts ADD COLUMN created_at double precision",
                _HAS.format("lw_artifacts", "created_at"),
            ),
        ),
    ),
    Migration(
        version=3,
        before=(
            SchemaStep(
                'ALTER TABLE lw_sessions ADD COLUMN base_id text COLLATE "C"', _HAS.format("lw_sessions", "base_id")
            ),
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN base_position bigint", _HAS.format("lw_sessions", "base_position")
            ),
        ),
    ),
    # Beside these columns there are new tables, which are made where they are missing.
    Migration(
        version=4,
        before=(
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN nanodollars bigint NOT NULL DEFAULT 0",
                _HAS.format("lw_sessions", "nanodollars"),
            ),
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN unpriced_calls bigint NOT NULL DEFAULT 0",
                _HAS.format("lw_sessions", "unpriced_calls"),
            ),
        ),
    ),
    # Beside these steps there are an index and new tables, which are made where they are missing. A version before goes on
    # arming timers without a name, which are looked for as well.
    Migration(
        version=5,
        before=(
            SchemaStep(
                "ALTER TABLE lw_timers ADD COLUMN agent_name text COLLATE \"C\" NOT NULL DEFAULT ''",
                _HAS.format("lw_timers", "agent_name"),
            ),
            SchemaStep(
                "UPDATE lw_timers AS t SET agent_name = s.agent_name FROM lw_sessions AS s WHERE s.key = t.key",
                _HAS.format("lw_timers", "agent_name"),
            ),
        ),
        after=(SchemaStep("DROP INDEX lw_timers_due", "SELECT 1 WHERE to_regclass('lw_timers_due') IS NULL"),),
    ),
)
"""In order. A new version is one entry here, the same columns in the tables above, and the version of both."""

WORDS: Final = SchemaWords(
    ddl=DDL,
    version=5,
    new=(
        "INSERT INTO lw_schema (version, created_at, cleaned_at)"
        f" SELECT {{version}}, {NOW}, {NOW} WHERE NOT EXISTS (SELECT 1 FROM lw_schema)"
    ),
    migrated=(
        "INSERT INTO lw_schema (version, created_at, cleaned_at)"
        f" VALUES ({{version}}, {NOW}, {{cleaned}}) ON CONFLICT DO NOTHING"
    ),
    now=NOW,
    keep="a dump of the database",
)
