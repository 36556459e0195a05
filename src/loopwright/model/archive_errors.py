"""Errors of what is kept beside the run: export and import, forks, encryption, memories.

Owns: these branches of the tree in `errors.py`. Must not know: who raises them. Read next: `errors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import StoreError, UsageError


class ExportFileError(UsageError):
    """A file is no export of sessions, is damaged, or was written by a newer version; this session was not stored."""

    code = "export.refused"


class SealBrokenError(StoreError):
    """A sealed value does not open: it was changed, moved, swapped, or sealed with another key; nothing of it was read.

    `position` is that of a record, None for anything else; `what` names the value in words.
    """

    code = "seal.broken"

    def __init__(self, session_id: str, what: str, position: int | None = None) -> None:
        self.session_id = session_id
        self.what = what
        self.position = position
        super().__init__(
            f"session {session_id!r}, {what}: its seal is broken, so it was changed or is not what was stored there"
            " (or its key has another value now); find who writes to the database, and restore a backup"
        )


class SealKeyError(StoreError):
    """A value is sealed with a key that is not at hand; nothing of it was read."""

    code = "seal.key"

    def __init__(self, session_id: str, what: str, key_id: str, position: int | None = None) -> None:
        self.session_id = session_id
        self.what = what
        self.key_id = key_id
        self.position = position
        super().__init__(
            f"session {session_id!r}, {what}: it is sealed with key {key_id!r}, which is not among the keys given; add it"
        )


class UnsealedError(StoreError):
    """A value in an encrypted store is plain: written before encryption was turned on, or put there by somebody else."""

    code = "seal.absent"

    def __init__(self, session_id: str, what: str, position: int | None = None) -> None:
        self.session_id = session_id
        self.what = what
        self.position = position
        super().__init__(
            f"session {session_id!r}, {what}: it is not encrypted; was it stored before the keys were set? then export"
            " the sessions without keys and import them with keys, or open the store with plain='read'"
        )


class ForkPositionError(UsageError):
    """A session can be forked at round boundaries only, and this position is none; no fork was made."""

    code = "session.fork_position"

    def __init__(self, session_id: str, position: int, nearest: Sequence[int]) -> None:
        self.session_id = session_id
        self.position = position
        self.nearest = tuple(nearest)
        """The boundaries before and after it, as far as there are any."""
        near = " and ".join(str(one) for one in self.nearest) or "none"
        super().__init__(
            f"session {session_id!r} has no round boundary at position {position}; the nearest: {near};"
            " fork there, or leave the position out for the newest boundary"
        )


class SessionReferencedError(UsageError):
    """Forks read the records of a session that was to be deleted; nothing was deleted."""

    code = "session.referenced"

    def __init__(self, session_id: str, forks: Sequence[str]) -> None:
        self.session_id = session_id
        self.forks = tuple(forks)
        """Ids of the forks that would stay without their beginning, in order."""
        more = f" and {len(self.forks) - 5} more" if len(self.forks) > 5 else ""
        super().__init__(
            f"session {session_id!r} is read by its forks ({', '.join(self.forks[:5])}{more}); nothing was deleted;"
            " delete them first, or let them have what they read of it (copy_to_forks=True, --copy-to-forks)"
        )


class MemoryRefusedError(UsageError):
    """A memory is over its bounds, or has a name or value that not every store can hold; nothing was stored."""

    code = "memory.refused"
