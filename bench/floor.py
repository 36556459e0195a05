"""The floor: the durable agent loop that one writes by hand, with nothing in it that is not needed.

Owns: messages as JSON in one table, one commit a message, the conversation in a list. No lease, no head row, no limits,
no crash recovery beyond reading the rows again: it is what any of that is measured against.
Must not know: Loopwright, except for the fake model's reply type.
Read next: `figures_turn.py`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from .workload import look_up_text

TABLE = (
    "CREATE TABLE IF NOT EXISTS messages (session TEXT, position INTEGER, body TEXT, PRIMARY KEY (session, position))"
)
INSERT = "INSERT INTO messages VALUES (?, ?, ?)"
SELECT = "SELECT body FROM messages WHERE session = ? ORDER BY position"

DRIVERS = ("sqlite3", "apsw")
SYNC = {"relaxed": "NORMAL", "barrier": "FULL"}
"""Our durability → the floor's `synchronous` at the same promise."""


class FloorStore:
    """One connection in autocommit mode: an insert is a commit."""

    def __init__(self, path: Path, driver: str, level: str) -> None:
        connection: Any
        if driver == "sqlite3":
            connection = sqlite3.connect(path, isolation_level=None)
        else:
            connection = apsw.Connection(str(path))
        self._connection = connection
        self._execute: Callable[..., Any] = connection.execute
        self._execute("PRAGMA journal_mode = WAL")
        self._execute(f"PRAGMA synchronous = {SYNC[level]}")
        self._execute(TABLE)

    def append(self, session: str, position: int, message: dict[str, Any]) -> None:
        self._execute(INSERT, (session, position, json.dumps(message)))

    def read(self, session: str) -> list[dict[str, Any]]:
        return [json.loads(row[0]) for row in self._execute(SELECT, (session,))]

    def close(self) -> None:
        self._connection.close()


class FloorSession:
    """One conversation."""

    def __init__(self, store: FloorStore, session: str, *, write_intents: bool = False) -> None:
        self._store = store
        self._session = session
        self._write_intents = write_intents
        self._position = 0
        self.messages: list[dict[str, Any]] = []

    async def send(self, model: Any, text: str) -> str:
        """User message committed, model asked, reply committed; calls are run and their results committed."""
        self._add({"role": "user", "content": text})
        while True:
            reply = await model.complete(self.messages)
            message: dict[str, Any] = {"role": "assistant", "content": reply.text}
            if not reply.tool_calls:
                self._add(message)
                return str(reply.text)
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in reply.tool_calls
            ]
            self._add(message)
            for call in reply.tool_calls:
                if self._write_intents:
                    self._keep({"intent": call.id, "name": call.name, "arguments": call.arguments})
                result = await _run_tool(call.name, json.loads(call.arguments))
                self._add({"role": "tool", "tool_call_id": call.id, "content": result})

    def _add(self, message: dict[str, Any]) -> None:
        self._keep(message)
        self.messages.append(message)

    def _keep(self, row: dict[str, Any]) -> None:
        self._store.append(self._session, self._position, row)
        self._position += 1


async def _run_tool(name: str, arguments: dict[str, Any]) -> str:
    if name != "look_up":
        raise ValueError(name)
    return look_up_text(**arguments)
