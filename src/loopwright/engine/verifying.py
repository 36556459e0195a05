"""Reading a stored session to see whether its links hold.

Owns: reading a journal that may be damaged, page by page. Must not know: how a link is made or judged (`core/chain.py`).
Read next: `core/chain.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..core.chain import ChainAudit, ChainReport
from ..model.archive_errors import SealBrokenError, UnsealedError
from ..model.errors import ConfigError, StoreCorruptError
from ..ports.ambient import breathe
from ..ports.store import Store, StoredRecord

_PAGE: Final = 500
_DIGEST: Final = re.compile("[0-9a-f]{64}")


async def verify(store: Store, session_id: str, *, key: bytes | None, expected: str | None) -> ChainReport:
    """The judgement over the session as of now, which others may go on writing.

    Raises: `ConfigError` when `expected` is no digest, `SessionNotFoundError`, `SessionGoneError` (also when it is deleted
    meanwhile), `StoreCorruptError` when the head has no number of records; of an encrypted store also `SealKeyError`, and
    `SealBrokenError` or `UnsealedError` when the title or a waiting inbox item does not open. Damage of records is never
    raised: it is in the report.
    """
    digest = expected.strip().lower() if expected is not None else None
    if digest is not None and not _DIGEST.fullmatch(digest):
        raise ConfigError("expected must be the digest of an earlier report: 64 hexadecimal digits")
    length = (await store.lookup(session_id)).head.position
    if type(length) is not int:
        raise StoreCorruptError(f"session {session_id!r} has position {length!r}; restore a backup")
    audit = ChainAudit(session_id, key=key, expected=digest)
    for start in range(0, length, _PAGE):
        for row in await _rows(store, session_id, start, min(start + _PAGE, length)):
            if isinstance(row, StoredRecord):
                audit.take(row)
            else:
                audit.take_unopened(*row)
        await breathe()
    return audit.report(length)


async def _rows(store: Store, session_id: str, start: int, end: int) -> Sequence[StoredRecord | tuple[int, str]]:
    """What is there of these positions; of a sealed record that does not open its position, and why.

    A store refuses a range with gaps or with such a record, so that one is read in halves, down to single records.
    """
    try:
        return await store.read(session_id, after=start, limit=end - start)
    except (StoreCorruptError, SealBrokenError, UnsealedError) as error:
        if end - start == 1:
            return () if isinstance(error, StoreCorruptError) else ((start, str(error)),)
    middle = (start + end) // 2
    return [*await _rows(store, session_id, start, middle), *await _rows(store, session_id, middle, end)]
