-- The tables of version 4, as MySQL and MariaDB stores were made by it.
CREATE TABLE IF NOT EXISTS lw_schema (
    version INT NOT NULL PRIMARY KEY,
    created_at DOUBLE NOT NULL,
    cleaned_at DOUBLE
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_owners (owner VARCHAR(255) NOT NULL PRIMARY KEY, expires DOUBLE NOT NULL) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
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
    INDEX lw_sessions_base (base_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_records (
    `key` BIGINT NOT NULL,
    position BIGINT NOT NULL,
    kind VARCHAR(255) NOT NULL,
    version INT NOT NULL,
    at DOUBLE NOT NULL,
    body LONGBLOB NOT NULL,
    PRIMARY KEY (`key`, position)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_inbox (
    `key` BIGINT NOT NULL,
    item_id VARCHAR(700) NOT NULL,
    seq BIGINT NOT NULL,
    kind VARCHAR(255) NOT NULL,
    at DOUBLE NOT NULL,
    body LONGBLOB,
    position BIGINT,
    PRIMARY KEY (`key`, item_id),
    INDEX lw_inbox_waiting (`key`, position, seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_timers (
    `key` BIGINT NOT NULL,
    timer_id VARCHAR(700) NOT NULL,
    due_at DOUBLE NOT NULL,
    body LONGBLOB NOT NULL,
    paused INT NOT NULL DEFAULT 0,
    PRIMARY KEY (`key`, timer_id),
    INDEX lw_timers_due (due_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
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
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_artifact_rows (id BIGINT NOT NULL, n INT NOT NULL, data LONGBLOB NOT NULL, PRIMARY KEY (id, n)) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_artifact_shares (
    id BIGINT NOT NULL,
    `key` BIGINT NOT NULL,
    PRIMARY KEY (id, `key`),
    INDEX lw_artifact_shares_session (`key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_tombstones (
    session_id VARCHAR(700) NOT NULL PRIMARY KEY,
    `key` BIGINT NOT NULL,
    swept INT NOT NULL DEFAULT 0,
    INDEX lw_tombstones_swept (swept)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_budgets (
    budget_key VARCHAR(382) NOT NULL PRIMARY KEY,
    spent BIGINT NOT NULL,
    held BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_holds (
    hold_id VARCHAR(382) NOT NULL PRIMARY KEY,
    session_id VARCHAR(700) NOT NULL,
    nanodollars BIGINT NOT NULL,
    at DOUBLE NOT NULL,
    INDEX lw_holds_session (session_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS lw_hold_caps (
    hold_id VARCHAR(382) NOT NULL,
    budget_key VARCHAR(382) NOT NULL,
    PRIMARY KEY (hold_id, budget_key),
    INDEX lw_hold_caps_budget (budget_key)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
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
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
INSERT INTO lw_schema (version, created_at, cleaned_at) SELECT 4, (UNIX_TIMESTAMP(SYSDATE(6)) + 0e0), (UNIX_TIMESTAMP(SYSDATE(6)) + 0e0) FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM lw_schema);
