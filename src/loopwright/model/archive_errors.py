"""Errors of keeping sessions beside the run: export, import, forks.

Owns: these branches of the tree in `errors.py`. Must not know: who raises them. Read next: `errors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import UsageError


class ExportFileError(UsageError):
    """A file is no export of sessions, is damaged, or was written by a newer version; this session was not stored."""

    code = "export.refused"


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
