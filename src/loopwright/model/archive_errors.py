"""Errors of keeping sessions beside the run: export and import.

Owns: these branches of the tree in `errors.py`. Must not know: who raises them. Read next: `errors.py`.
"""

from __future__ import annotations

from .errors import UsageError


class ExportFileError(UsageError):
    """A file is no export of sessions, is damaged, or was written by a newer version; this session was not stored."""

    code = "export.refused"
