"""The tables of the MySQL store: as a new database gets them, and what leads older ones there.

Owns: DDL, migrations, the version, for MySQL 8 and MariaDB from 10.6 on. Must not know: what is asked of the tables.
An index takes 3072 bytes, four for each character: that bounds the lengths of keys.
Read next: `mysql_statements.py`; `migration.py` for the rules.
"""

from __future__ import annotations

from typing import Final

from .migration import Migration, SchemaStep, SchemaWords

# The session's time zone is UTC, so that this clock has no hour twice.
NOW: Final = "(UNIX_TIMESTAMP(SYSDATE(6)) + 0e0)"
_TABLE: Final = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin"

DDL: Final = f"""\
CREATE TABLE IF NOT EXISTS lw_schema (
    version INT NOT NULL PRIMARY KEY,
    created_at DOUBLE NOT NULL,
    cleaned_at DOUBLE
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_owners (owner VARCHAR(255) NOT NULL PRIMARY KEY, expires DOUBLE NOT NULL) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_sessions (
    `key` BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    session_id VARCHAR(700) NOT NULL,
    position BIGINT NOT NULL,
    window_start BIGINT NOT NULL DEFAULT 0,
    checkpoint BIGINT,
    epoch BIGINT NOT NULL DEFAULT 0,
    token BLOB,
    owner VARCHAR(255),
    inbox_seq BIGINT NOT NULL DEFAULT 0,
    takeovers INT NOT NULL DEFAULT 0,
    status VARCHAR(32) NOT NULL DEFAULT 'idle',
    updated_at DOUBLE NOT NULL,
    sends BIGINT NOT NULL DEFAULT 0,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    cached_tokens BIGINT NOT NULL DEFAULT 0,
    cache_write_tokens BIGINT NOT NULL DEFAULT 0,
    reasoning_tokens BIGINT NOT NULL DEFAULT 0,
    calls BIGINT NOT NULL DEFAULT 0,
    estimated INT NOT NULL DEFAULT 0,
    nanodollars BIGINT NOT NULL DEFAULT 0,
    unpriced_calls BIGINT NOT NULL DEFAULT 0,
    min_format INT NOT NULL,
    agent_name VARCHAR(700) NOT NULL,
    kind VARCHAR(255) NOT NULL,
    parent_id VARCHAR(700),
    lifecycle VARCHAR(255) NOT NULL,
    title LONGTEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    base_id VARCHAR(700),
    base_position BIGINT,
    UNIQUE INDEX lw_sessions_id (session_id),
    INDEX lw_sessions_parent (parent_id),
    INDEX lw_sessions_base (base_id),
    INDEX lw_sessions_status (status)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_records (
    `key` BIGINT NOT NULL,
    position BIGINT NOT NULL,
    kind VARCHAR(255) NOT NULL,
    version INT NOT NULL,
    at DOUBLE NOT NULL,
    body LONGBLOB NOT NULL,
    PRIMARY KEY (`key`, position)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_inbox (
    `key` BIGINT NOT NULL,
    item_id VARCHAR(700) NOT NULL,
    seq BIGINT NOT NULL,
    kind VARCHAR(255) NOT NULL,
    at DOUBLE NOT NULL,
    body LONGBLOB,
    position BIGINT,
    PRIMARY KEY (`key`, item_id),
    INDEX lw_inbox_waiting (`key`, position, seq),
    INDEX lw_inbox_work (position, `key`, kind)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_timers (
    `key` BIGINT NOT NULL,
    timer_id VARCHAR(700) NOT NULL,
    due_at DOUBLE NOT NULL,
    body LONGBLOB NOT NULL,
    paused INT NOT NULL DEFAULT 0,
    agent_name VARCHAR(700) NOT NULL DEFAULT '',
    PRIMARY KEY (`key`, timer_id),
    INDEX lw_timers_agent (paused, agent_name, due_at)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_artifacts (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    artifact_id VARCHAR(255) NOT NULL,
    `key` BIGINT NOT NULL,
    session_id VARCHAR(700) NOT NULL,
    media_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    digest VARCHAR(255) NOT NULL,
    complete INT NOT NULL,
    created_at DOUBLE,
    UNIQUE INDEX lw_artifacts_name (artifact_id),
    INDEX lw_artifacts_session (`key`)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_artifact_rows (id BIGINT NOT NULL, n INT NOT NULL, data LONGBLOB NOT NULL, PRIMARY KEY (id, n)) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_artifact_shares (
    id BIGINT NOT NULL,
    `key` BIGINT NOT NULL,
    PRIMARY KEY (id, `key`),
    INDEX lw_artifact_shares_session (`key`)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_tombstones (
    session_id VARCHAR(700) NOT NULL PRIMARY KEY,
    `key` BIGINT NOT NULL,
    swept INT NOT NULL DEFAULT 0,
    INDEX lw_tombstones_swept (swept)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_budgets (
    budget_key VARCHAR(382) NOT NULL PRIMARY KEY,
    spent BIGINT NOT NULL,
    held BIGINT NOT NULL
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_holds (
    hold_id VARCHAR(382) NOT NULL PRIMARY KEY,
    session_id VARCHAR(700) NOT NULL,
    nanodollars BIGINT NOT NULL,
    at DOUBLE NOT NULL,
    INDEX lw_holds_session (session_id)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_hold_caps (
    hold_id VARCHAR(382) NOT NULL,
    budget_key VARCHAR(382) NOT NULL,
    PRIMARY KEY (hold_id, budget_key),
    INDEX lw_hold_caps_budget (budget_key)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_boards (board_id VARCHAR(255) NOT NULL PRIMARY KEY, counter BIGINT NOT NULL) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_board_entries (
    board_id VARCHAR(255) NOT NULL,
    entry_id BIGINT NOT NULL,
    version BIGINT NOT NULL,
    entry_key VARCHAR(255) NOT NULL,
    posted_at DOUBLE NOT NULL,
    updated_at DOUBLE NOT NULL,
    body LONGBLOB NOT NULL,
    PRIMARY KEY (board_id, entry_id)
) {_TABLE};
CREATE TABLE IF NOT EXISTS lw_memories (
    namespace VARCHAR(255) NOT NULL,
    memory_id VARCHAR(255) NOT NULL,
    at DOUBLE NOT NULL,
    body LONGBLOB NOT NULL,
    embedding LONGBLOB,
    words LONGTEXT NOT NULL,
    PRIMARY KEY (namespace, memory_id),
    INDEX lw_memories_newest (namespace, at, memory_id),
    FULLTEXT INDEX lw_memories_text (words)
) {_TABLE};
"""

_HAS: Final = (
    "SELECT 1 FROM information_schema.columns"
    " WHERE table_schema = DATABASE() AND table_name = '{}' AND column_name = '{}'"
)

_HAS_INDEX: Final = (
    "SELECT 1 FROM information_schema.statistics"
    " WHERE table_schema = DATABASE() AND table_name = '{}' AND index_name = '{}'"
)

# Version 1 stores a timer by an INSERT that names no columns: one that it does not see leaves it at work. Each server
# reads its own comment.
_UNSEEN: Final = "/*M! INVISIBLE *//*!80023 INVISIBLE */"

MIGRATIONS: Final = (
    Migration(
        version=2,
        before=(
            SchemaStep("ALTER TABLE lw_schema ADD COLUMN cleaned_at DOUBLE", _HAS.format("lw_schema", "cleaned_at")),
            SchemaStep(
                f"ALTER TABLE lw_timers ADD COLUMN paused INT NOT NULL DEFAULT 0 {_UNSEEN}",
                _HAS.format("lw_timers", "paused"),
            ),
            SchemaStep(
                "ALTER TABLE lw_artifacts ADD COLUMN created_at DOUBLE", _HAS.format("lw_artifacts", "created_at")
            ),
        ),
    ),
    Migration(
        version=3,
        before=(
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN base_id VARCHAR(700)", _HAS.format("lw_sessions", "base_id")
            ),
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN base_position BIGINT", _HAS.format("lw_sessions", "base_position")
            ),
            SchemaStep(
                "ALTER TABLE lw_sessions ADD INDEX lw_sessions_base (base_id)",
                _HAS_INDEX.format("lw_sessions", "lw_sessions_base"),
            ),
        ),
    ),
    # Beside these columns there are new tables, which are made where they are missing.
    Migration(
        version=4,
        before=(
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN nanodollars BIGINT NOT NULL DEFAULT 0",
                _HAS.format("lw_sessions", "nanodollars"),
            ),
            SchemaStep(
                "ALTER TABLE lw_sessions ADD COLUMN unpriced_calls BIGINT NOT NULL DEFAULT 0",
                _HAS.format("lw_sessions", "unpriced_calls"),
            ),
        ),
    ),
    # Beside these steps there are new tables, which are made where they are missing. A version before goes on arming timers
    # without a name, which are looked for as well, and on naming the index of times.
    Migration(
        version=5,
        before=(
            SchemaStep(
                "ALTER TABLE lw_sessions ADD INDEX lw_sessions_status (status)",
                _HAS_INDEX.format("lw_sessions", "lw_sessions_status"),
            ),
            SchemaStep(
                "ALTER TABLE lw_inbox ADD INDEX lw_inbox_work (position, `key`, kind)",
                _HAS_INDEX.format("lw_inbox", "lw_inbox_work"),
            ),
            SchemaStep(
                f"ALTER TABLE lw_timers ADD COLUMN agent_name VARCHAR(700) NOT NULL DEFAULT '' {_UNSEEN}",
                _HAS.format("lw_timers", "agent_name"),
            ),
            SchemaStep(
                "UPDATE lw_timers AS t JOIN lw_sessions AS s ON s.`key` = t.`key` SET t.agent_name = s.agent_name",
                _HAS_INDEX.format("lw_timers", "lw_timers_agent"),
            ),
            SchemaStep(
                "ALTER TABLE lw_timers ADD INDEX lw_timers_agent (paused, agent_name, due_at)",
                _HAS_INDEX.format("lw_timers", "lw_timers_agent"),
            ),
        ),
        after=(
            SchemaStep(
                "ALTER TABLE lw_timers DROP INDEX lw_timers_due",
                f"SELECT 1 FROM DUAL WHERE NOT EXISTS ({_HAS_INDEX.format('lw_timers', 'lw_timers_due')})",
            ),
        ),
    ),
)
"""In order. A new version is one entry here, the same columns in the tables above, and the version of both."""

WORDS: Final = SchemaWords(
    ddl=DDL,
    version=5,
    new=(
        "INSERT INTO lw_schema (version, created_at, cleaned_at)"
        f" SELECT {{version}}, {NOW}, {NOW} FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM lw_schema)"
    ),
    migrated=(
        f"INSERT IGNORE INTO lw_schema (version, created_at, cleaned_at) VALUES ({{version}}, {NOW}, {{cleaned}})"
    ),
    now=NOW,
    keep="a dump of the database",
)
