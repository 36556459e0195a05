"""The same by hand: `cold_floor.py DATABASE SESSION LEVEL [--http]`. Standard library only."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import time

if "--http" in sys.argv:
    import httpx2  # noqa: F401 - what a real transport loads


async def model(messages: list[dict[str, str]]) -> None:
    said = {"cpu_s": time.process_time(), "monotonic_s": time.monotonic(), "messages": len(messages)}
    sys.stdout.write(json.dumps(said))
    sys.stdout.flush()
    os._exit(0)


async def main() -> None:
    _, path, session_id, level = sys.argv[:4]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if level == 'barrier' else 'NORMAL'}")
    rows = connection.execute("SELECT body FROM messages WHERE session = ? ORDER BY position", (session_id,))
    messages = [json.loads(row[0]) for row in rows]
    message = {"role": "user", "content": "And now?"}
    connection.execute("INSERT INTO messages VALUES (?, ?, ?)", (session_id, len(messages), json.dumps(message)))
    messages.append(message)
    await model(messages)


asyncio.run(main())
