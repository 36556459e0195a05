"""Records of permissions and found tools in a few words each.

Owns: their short form. Must not know: terminals.
Read next: `journal_lines.py`.
"""

from __future__ import annotations

from ..model.codec import encode
from ..model.control_records import (
    ControlRecord,
    HandlerAsked,
    PermissionDecided,
    PermissionGranted,
    PermissionModeSet,
)


def control_words(record: ControlRecord) -> str:
    """What the record says."""
    if isinstance(record, PermissionDecided):
        why = "; ".join([part for part in (record.rule, record.why) if part])
        return f"{record.tool_name}: {record.decision}" + (f" ({why})" if why else "")
    if isinstance(record, PermissionGranted):
        by = f" by {record.by}" if record.by else ""
        return f"for this {record.standing}{by}: {encode(record.rule).decode()}"
    if isinstance(record, PermissionModeSet):
        return record.mode + (f" by {record.by}" if record.by else "")
    if isinstance(record, HandlerAsked):
        return f"{record.interaction.prompt} ({record.interaction.id})"
    return ", ".join(record.names)
