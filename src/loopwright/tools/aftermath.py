"""What can be said about an edit that was started before the process stopped.

Owns: the answer from two looks at the file. Must not know: how the looks are taken.
Read next: `edit_file.py`, `apply_patch.py`.
"""

from __future__ import annotations

from ..ports.tool import ToolHandlerResult


def reconciled(path: str, *, in_place: bool, applicable: bool) -> ToolHandlerResult | None:
    """The result of an interrupted edit, or None when the file does not tell.

    `in_place`: the file can be what the edit leaves behind. `applicable`: it can be what the edit starts from. Files are
    replaced atomically, so it is one or the other; if both or neither fit, only the model can find out by reading.
    """
    if in_place and not applicable:
        return ToolHandlerResult(
            f"The process stopped during this call. {path} was looked at afterwards: the change is in place."
        )
    if applicable and not in_place:
        return ToolHandlerResult(
            f"The process stopped during this call. {path} was looked at afterwards: the change is not in place;"
            " repeat the call if it is still wanted.",
            ok=False,
        )
    return None
