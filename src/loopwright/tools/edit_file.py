"""The tool that replaces one piece of a file.

Owns: finding the piece, saying the way out when it is not found or not unique. Must not know: how files are stored.
Read next: `apply_patch.py`.
"""

from __future__ import annotations

from ..model.call_errors import ToolFailure
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult, UnknownOutcome
from .aftermath import reconciled
from .decorator import tool
from .descriptions import description_of
from .difference import unified_diff
from .nearest import nearest_block
from .read_file import numbered
from .text_file import MAX_EDIT_BYTES, TextFile, decode_for_edit, known_stamp, remember, stamp_of
from .workspace import Workspace

_MAX_NAMED_LINES = 20


def edit_file_tool(workspace: Workspace) -> ToolDefinition:
    """`edit_file` in a workspace.

    Effect once: repeating an edit whose new text contains the old one would apply it twice. After a crash `reconcile` looks at
    the file, which mostly tells whether the edit is in place.
    """

    def reconcile(call: UnknownOutcome) -> ToolHandlerResult | None:
        arguments = call.arguments
        path, old, new = str(arguments.get("path")), _lf(arguments.get("old_text")), _lf(arguments.get("new_text"))
        text = load_for_edit(workspace, path)[0].text
        return reconciled(path, in_place=_may_be_after(text, old, new), applicable=old in text)

    @tool(description=description_of("edit_file"), effect="once", reconcile=reconcile, subjects={"path": "path"})
    def edit_file(path: str, old_text: str, new_text: str, ctx: ToolContext, replace_all: bool = False) -> str:
        """Edit a file.

        Args:
            path: File, relative to the workspace.
            old_text: The exact text to replace, as read_file shows it without the line numbers.
            new_text: What takes its place.
            replace_all: Replace every occurrence instead of the only one.
        """
        old, new = _lf(old_text), _lf(new_text)
        if not old:
            raise ToolFailure("old_text is empty; name the text to replace, or use write_file for a new file")
        if old == new:
            raise ToolFailure("old_text and new_text are the same; nothing to change")
        with workspace.editing:
            file, data = load_for_edit(workspace, path)
            spans = [(at, at + len(old), new) for at in _occurrences(file.text, old)]
            name = workspace.resolve(path)
            if not spans:
                raise ToolFailure(_not_found(file.text, old, name))
            if len(spans) > 1 and not replace_all:
                raise ToolFailure(_ambiguous(file.text, spans, name))
            return store_edit(workspace, path, (file, data), spans, ctx)

    return edit_file


def load_for_edit(workspace: Workspace, path: str) -> tuple[TextFile, bytes]:
    """A file as text and as bytes. Raises: `ToolFailure` when it is too large, binary or not UTF-8."""
    data = workspace.read_bytes(path, limit=MAX_EDIT_BYTES + 1)
    if len(data) > MAX_EDIT_BYTES:
        raise ToolFailure(
            f"{path} is larger than {MAX_EDIT_BYTES} bytes; edit it with a program, for example through bash"
        )
    return decode_for_edit(data, path), data


def store_edit(
    workspace: Workspace, path: str, before: tuple[TextFile, bytes], spans: list[tuple[int, int, str]], ctx: ToolContext
) -> str:
    """Writes the spans into the file and answers with the diff. Call it with `workspace.editing` held."""
    file, data = before
    changed = file.spliced(spans)
    name, root = workspace.resolve(path), str(workspace.root)
    if workspace.read_bytes(path, limit=MAX_EDIT_BYTES + 1) != data:
        raise ToolFailure(f"{name} was changed by somebody else during the edit; nothing was written. Read it again.")
    workspace.write_bytes(path, changed)
    if known_stamp(ctx, root, name) == stamp_of(data):
        # The session knew all of the file and knows what was changed, so it may replace it later without another read.
        remember(ctx, root, name, stamp_of(changed))
    diff = unified_diff(file.text, decode_for_edit(changed, name).text, name)
    return diff or f"{name}: only line ends changed"


def _lf(text: object) -> str:
    return str(text).replace("\r\n", "\n")


def _occurrences(text: str, piece: str) -> list[int]:
    found: list[int] = []
    at = text.find(piece)
    while at >= 0:
        found.append(at)
        at = text.find(piece, at + len(piece))
    return found


def _may_be_after(text: str, old: str, new: str) -> bool:
    """True when `text` can be what the edit leaves behind.

    An edit that only takes text away leaves nothing to look for; then the absence of the old text is all there is to see.
    """
    return new in text if new else old not in text


def _line_of(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def _ambiguous(text: str, spans: list[tuple[int, int, str]], name: str) -> str:
    lines = [str(_line_of(text, start)) for start, _, _ in spans[:_MAX_NAMED_LINES]]
    more = f" and {len(spans) - len(lines)} more" if len(spans) > len(lines) else ""
    return (
        f"old_text occurs {len(spans)} times in {name}, at lines {', '.join(lines)}{more}; nothing was changed."
        " Add lines around it until it is unique, or set replace_all."
    )


def _not_found(text: str, old: str, name: str) -> str:
    block = nearest_block(text, old)
    if block is None:
        return f"old_text is not in {name} and nothing near it is; nothing was changed. Read the file again."
    why = (
        "only white space or typographic characters differ"
        if block.equal_but_for_space
        else "this is the most similar place"
    )
    return (
        f"old_text is not in {name}; nothing was changed. At line {block.first_line} {why}; the file has:\n"
        f"{numbered(block.lines, block.first_line)}"
    )
