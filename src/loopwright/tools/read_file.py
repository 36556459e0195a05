"""The tool that shows what is there: `read_file`.

Owns: pages with line numbers, pages of PDF files, folder listings. Must not know: how escaping is prevented (`../jail.py`).
Read next: `write_file.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from ..late import Late
from ..model.call_errors import ToolFailure
from ..ports.tool import ToolContext, ToolDefinition
from .decorator import tool
from .descriptions import description_of
from .text_file import decode_for_reading, remember, stamp_of
from .workspace import Workspace

if TYPE_CHECKING:
    from . import document_text
else:
    document_text = Late("loopwright.tools.document_text")

PAGE_LINES = 2_000
MAX_LINES = 20_000
MAX_BYTES = 5 * 1024 * 1024
"""A file over this is read with `limit` only."""
MAX_LISTED = 200
PDF_PAGES = 20
_MAX_LINE_BYTES = 1024 * 1024
_PDF = b"%PDF-"


def read_file_tool(workspace: Workspace) -> ToolDefinition:
    """`read_file` in a workspace. Effect pure: after a crash it is simply read again."""

    @tool(description=description_of("read_file"), effect="pure", subjects={"path": "path"})
    def read_file(
        path: str,
        ctx: ToolContext,
        offset: Annotated[int, Meta(ge=1)] = 1,
        limit: Annotated[int, Meta(ge=1, le=MAX_LINES)] | None = None,
    ) -> str:
        """Read a file.

        Args:
            path: File or folder, relative to the workspace.
            offset: First line to show, from 1; of a PDF the first page.
            limit: Lines to show; without it 2000. Of a PDF pages, at most 100; without it 20.
        """
        if workspace.kind(path) == "folder":
            return _listing(workspace, path)
        with workspace.open_file(path) as handle:
            if os.pread(handle, len(_PDF), 0) == _PDF:
                return _pdf(handle, path, offset, limit or PDF_PAGES, ctx)
            if os.fstat(handle).st_size > MAX_BYTES:
                return _large(handle, path, offset, limit)
            with os.fdopen(os.dup(handle), "rb") as file:
                data = file.read()
        text, note = decode_for_reading(data, path)
        remember(ctx, str(workspace.root), workspace.display(path), stamp_of(data))
        return _page(text, note, path, offset, limit or PAGE_LINES)

    return read_file


def _pdf(handle: int, path: str, offset: int, limit: int, ctx: ToolContext) -> str:
    with os.fdopen(os.dup(handle), "rb") as file:
        data = file.read(document_text.MAX_PDF_BYTES + 1)
    found = document_text.pdf_pages(data, path, offset, limit, ctx.cancellation)
    last = found.pages[-1][0]
    more = f"; continue with offset={last + 1}" if last < found.total else ""
    pages = [f"[page {number}]\n{text}" for number, text in found.pages]
    return "\n\n".join([*pages, f"(pages {offset}-{last} of {found.total}{more})"])


def numbered(lines: list[str], first: int) -> str:
    """Lines behind their numbers, the form in which models are shown file content."""
    return "\n".join(f"{number:>6}\t{line.removesuffix(chr(13))}" for number, line in enumerate(lines, first))


def _page(text: str, note: str, path: str, offset: int, limit: int) -> str:
    if not text:
        return f"({path} is empty)"
    lines = text.removesuffix("\n").split("\n")
    if offset > len(lines):
        raise ToolFailure(f"{path} has {len(lines)} lines; offset {offset} is past its end")
    shown = lines[offset - 1 : offset - 1 + limit]
    end = offset - 1 + len(shown)
    notes = [note] if note else []
    if offset > 1 or end < len(lines):
        more = f"; continue with offset={end + 1}" if end < len(lines) else ""
        notes.append(f"lines {offset}-{end} of {len(lines)}{more}")
    return numbered(shown, offset) + "".join(f"\n({entry})" for entry in notes)


def _large(handle: int, path: str, offset: int, limit: int | None) -> str:
    """A page of a file that is not held in memory."""
    size = os.fstat(handle).st_size
    if limit is None:
        raise ToolFailure(
            f"{path} has {size} bytes, over {MAX_BYTES}; read a part with offset and limit, or search it with grep"
        )
    taken: list[bytes] = []
    with os.fdopen(os.dup(handle), "rb") as file:
        number = 0
        while len(taken) < limit and (line := file.readline(_MAX_LINE_BYTES)):
            if not line.endswith(b"\n") and len(line) == _MAX_LINE_BYTES:
                raise ToolFailure(f"{path} has a line of over {_MAX_LINE_BYTES} bytes; it cannot be paged by lines")
            number += 1
            if number >= offset:
                taken.append(line)
    if not taken:
        raise ToolFailure(f"{path} has {number} lines; offset {offset} is past its end")
    text, note = decode_for_reading(b"".join(taken), path)
    last = offset + len(taken) - 1
    notes = [
        *([note] if note else []),
        f"lines {offset}-{last} of a file of {size} bytes; continue with offset={last + 1}",
    ]
    return numbered(text.removesuffix("\n").split("\n"), offset) + "".join(f"\n({entry})" for entry in notes)


def _listing(workspace: Workspace, path: str) -> str:
    with workspace.open_folder(path) as handle, os.scandir(handle) as entries:
        names = sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)
    if not names:
        return f"({path} is an empty folder)"
    more = f"\n({len(names) - MAX_LISTED} more entries; use glob)" if len(names) > MAX_LISTED else ""
    return "\n".join(names[:MAX_LISTED]) + more
