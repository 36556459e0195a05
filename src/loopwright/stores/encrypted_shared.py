"""What an encrypted store keeps for all sessions together: budgets, memories, boards.

Owns: `MemoryIndex`, `Ledger` and `Board` of `EncryptedStore`. Must not know: ciphers, sessions.
Read next: `encrypted_memories.py`, `encrypted_boards.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from ..late import Late
from ..ports.ledger import BudgetAccount
from ..ports.store_admin import SessionStore
from .encrypted_envelope import Sealer

if TYPE_CHECKING:
    from ..ports.board import BoardChange, BoardEntry, BoardPolicy, BoardPost
    from ..ports.memory_index import MemoryEntry, MemoryHit
    from . import encrypted_boards, encrypted_memories
else:
    encrypted_boards = Late("loopwright.stores.encrypted_boards")
    encrypted_memories = Late("loopwright.stores.encrypted_memories")


class EncryptedShared:
    """What belongs to no session, around another store."""

    def __init__(self, inner: SessionStore, sealer: Sealer) -> None:
        self._inner = inner
        self._sealer = sealer

    def budget(self, key: str) -> Awaitable[BudgetAccount]:
        """See `Ledger.budget`. Keys and amounts are not sealed."""
        return self._inner.budget(key)

    def budgets(self, *, after: str = "", limit: int = 100) -> Awaitable[Sequence[BudgetAccount]]:
        """See `Ledger.budgets`."""
        return self._inner.budgets(after=after, limit=limit)

    def put_memory(self, entry: MemoryEntry, *, keep: int | None = None) -> Awaitable[None]:
        """See `MemoryIndex.put_memory`."""
        return self._inner.put_memory(encrypted_memories.sealed_memory(self._sealer, entry), keep=keep)

    def drop_memory(self, namespace: str, memory_id: str) -> Awaitable[bool]:
        """See `MemoryIndex.drop_memory`."""
        return self._inner.drop_memory(namespace, memory_id)

    def search_memories(self, namespace: str, query: str, limit: int = 10) -> Awaitable[Sequence[MemoryHit]]:
        """See `MemoryIndex.search_memories`. Opens the newest 2,000 entries of the namespace: older ones are not found."""
        return encrypted_memories.search(self._inner, self._sealer, namespace, query, limit)

    def list_memories(
        self, namespace: str, *, limit: int = 100, behind: MemoryEntry | None = None
    ) -> Awaitable[Sequence[MemoryEntry]]:
        """See `MemoryIndex.list_memories`. One that does not open is left out."""
        return encrypted_memories.newest(self._inner, self._sealer, namespace, limit, behind)

    def post_entry(self, post: BoardPost, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        """See `Board.post_entry`."""
        return encrypted_boards.post(self._inner, self._sealer, post, policy)

    def read_board(self, board_id: str, *, kind: str | None = None, after: int = 0) -> Awaitable[Sequence[BoardEntry]]:
        """See `Board.read_board`. An entry that does not open is left out, with a line in the log."""
        return encrypted_boards.read(self._inner, self._sealer, board_id, kind, after)

    def update_entry(self, change: BoardChange, policy: BoardPolicy | None = None) -> Awaitable[BoardEntry]:
        """See `Board.update_entry`."""
        return encrypted_boards.change(self._inner, self._sealer, change, policy)

    def remove_entry(self, board_id: str, entry_id: int, *, version: int | None = None) -> Awaitable[bool]:
        """See `Board.remove_entry`."""
        return self._inner.remove_entry(board_id, entry_id, version=version)

    def drop_board(self, board_id: str) -> Awaitable[int]:
        """See `Board.drop_board`."""
        return self._inner.drop_board(board_id)
