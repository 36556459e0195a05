"""The tool that applies a unified diff to one file.

Owns: the tool. Must not know: how hunks are found (`patch.py`).
Read next: `patch.py`.
"""

from __future__ import annotations

from ..model.call_errors import ToolFailure
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult, UnknownOutcome
from .aftermath import reconciled
from .decorator import tool
from .descriptions import description_of
from .edit_file import load_for_edit, store_edit
from .patch import Hunk, Patch, PatchError, parse_patch, spans_of
from .text_file import TextFile
from .workspace import Workspace


def apply_patch_tool(workspace: Workspace) -> ToolDefinition:
    """`apply_patch` in a workspace.

    Effect once: a hunk that only adds lines could be applied twice. After a crash `reconcile` tries the patch forwards and
    backwards on the file, without writing, which mostly tells whether it is in place.
    """

    def reconcile(call: UnknownOutcome) -> ToolHandlerResult | None:
        path = str(call.arguments.get("path"))
        try:
            hunks = parse_patch(str(call.arguments.get("patch"))).hunks
        except PatchError:
            return None
        exists = workspace.kind(path) is not None
        text = load_for_edit(workspace, path)[0].text if exists else ""
        undo = tuple([hunk.reversed() for hunk in hunks])
        return reconciled(path, in_place=exists and _fits(undo, text), applicable=_fits(hunks, text))

    @tool(description=description_of("apply_patch"), effect="once", reconcile=reconcile, subjects={"path": "path"})
    def apply_patch(path: str, patch: str, ctx: ToolContext) -> str:
        """Apply a patch.

        Args:
            path: File, relative to the workspace.
            patch: Unified diff of this one file.
        """
        try:
            parsed = parse_patch(patch)
            with workspace.editing:
                file, data = _present(workspace, path, parsed)
                spans = spans_of(parsed.hunks, file.text)
                if data is None:
                    created = file.spliced(spans)
                    workspace.write_bytes(path, created)
                    return f"created {workspace.resolve(path)}: {len(created)} bytes"
                return store_edit(workspace, path, (file, data), spans, ctx)
        except PatchError as error:
            raise ToolFailure(f"{workspace.display(path)}: {error}. Nothing was changed.") from error

    return apply_patch


def _fits(hunks: tuple[Hunk, ...], text: str) -> bool:
    try:
        spans_of(hunks, text)
    except PatchError:
        return False
    return True


def _present(workspace: Workspace, path: str, patch: Patch) -> tuple[TextFile, bytes | None]:
    """The file, or an empty one with None for a patch that creates it."""
    if workspace.kind(path) is None and (patch.creates or not any(hunk.old for hunk in patch.hunks)):
        return TextFile("", "", bom=False, newline="\n", crlf_at=()), None
    file, data = load_for_edit(workspace, path)
    if patch.creates:
        raise PatchError("the patch creates the file, but it exists; send a patch against what it holds now")
    return file, data
