"""The numbers of inbox items as a store has them, before a run goes by them.

Owns: which numbers can be. Must not know: what items say.
A run that waits for a number that never comes would not end, so a number from an edited database is an error.
Read next: `journal.py`.
"""

from __future__ import annotations

from ..model.errors import StoreCorruptError
from ..ports.store import Lookup


def taken_up_to(found: Lookup) -> int:
    """The number before that of the first item that waits; at least one does.

    Raises `StoreCorruptError` naming the item when its body is not bytes, or its number is none that the head has given.
    """
    head = found.head
    for item in found.waiting:
        if type(item.body) is not bytes:
            raise StoreCorruptError(
                f"session {head.session_id!r}, inbox item {item.item_id!r}: its body is {type(item.body).__name__}, not"
                " bytes; the database was changed: restore a backup"
            )
        if type(item.seq) is not int or type(head.inbox_seq) is not int or not 0 < item.seq <= head.inbox_seq:
            raise StoreCorruptError(
                f"session {head.session_id!r}, inbox item {item.item_id!r}: it has number {item.seq!r}, the newest one is"
                f" {head.inbox_seq!r}; the database was changed: restore a backup, or correct lw_inbox.seq"
            )
    return min(item.seq for item in found.waiting) - 1
