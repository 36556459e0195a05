"""The tool that writes a whole file.

Owns: when an existing file may be replaced. Must not know: how the replacement is made atomic (`../jail.py`).
Read next: `edit_file.py`.
"""

from __future__ import annotations

from ..model.call_errors import ToolFailure
from ..ports.tool import ToolContext, ToolDefinition
from .decorator import tool
from .descriptions import description_of
from .text_file import encode, known_stamp, remember, stamp_of
from .workspace import Workspace


def write_file_tool(workspace: Workspace) -> ToolDefinition:
    """`write_file` in a workspace.

    Effect idempotent: the content is whole, so running it again after a crash gives the same file. If the write had happened,
    the second run finds its own content and says so; if somebody has changed the file since, it is refused as unread.
    """

    @tool(description=description_of("write_file"), effect="idempotent", subjects={"path": "path"})
    def write_file(path: str, content: str, ctx: ToolContext, overwrite: bool = True) -> str:
        """Write a file.

        Args:
            path: File, relative to the workspace; missing folders are made.
            content: The whole new content.
            overwrite: False refuses when the file exists.
        """
        data = encode(content)
        with workspace.editing:
            existed = workspace.kind(path) is not None
            name = workspace.resolve(path)
            if existed and _unchanged(workspace, path, name, data, ctx, overwrite):
                return f"{name} has this content already; nothing was written"
            workspace.write_bytes(path, data)
            remember(ctx, str(workspace.root), name, stamp_of(data))
        lines = content.count("\n") + (not content.endswith("\n") and bool(content))
        return f"{'replaced' if existed else 'created'} {name}: {lines} lines, {len(data)} bytes"

    return write_file


def _unchanged(workspace: Workspace, path: str, name: str, data: bytes, ctx: ToolContext, overwrite: bool) -> bool:
    """True when the file holds `data` already. Raises: `ToolFailure` when it may not be replaced."""
    present = workspace.read_bytes(path)
    stamp = stamp_of(present)
    root = str(workspace.root)
    if present == data:
        remember(ctx, root, name, stamp)
        return True
    if not overwrite:
        raise ToolFailure(f"{name} exists and overwrite is false; nothing was written")
    known = known_stamp(ctx, root, name)
    if known is None:
        raise ToolFailure(
            f"{name} exists and was not read in this session; nothing was written. Read it first, or change a part with edit_file."
        )
    if known != stamp:
        raise ToolFailure(f"{name} has changed since it was last read; nothing was written. Read it again, then write.")
    return False
