"""The tool that finds files by name.

Owns: `glob`. Must not know: how a tree is walked.
Read next: `tree.py`.
"""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from ..model.call_errors import ToolFailure
from ..ports.tool import ToolDefinition
from .decorator import tool
from .descriptions import description_of
from .tree import MAX_ENTRIES, GlobPattern, TooManyEntries, files_below
from .workspace import Workspace


def glob_tool(workspace: Workspace) -> ToolDefinition:
    """`glob` in a workspace. Effect pure."""

    @tool(description=description_of("glob"), effect="pure", subjects={"path": "path"})
    def glob(
        pattern: Annotated[str, Meta(min_length=1, max_length=1000)],
        path: str = ".",
        max_results: Annotated[int, Meta(ge=1, le=500)] = 100,
        include_hidden: bool = False,
    ) -> str:
        """Find files.

        Args:
            pattern: Like *.py, src/**/*.ts or {a,b}.txt; without a slash it matches names in every folder.
            path: Folder to search in, relative to the workspace.
            max_results: Files to list.
            include_hidden: Also files and folders that start with a dot.
        """
        try:
            wanted = GlobPattern(pattern)
        except ValueError as error:
            raise ToolFailure(f"the pattern {pattern!r} cannot be used: {error}") from error
        with workspace.open_folder(path) as folder:
            try:
                found = list(files_below(folder, wanted.matches, include_hidden=include_hidden))
            except TooManyEntries:
                raise ToolFailure(f"over {MAX_ENTRIES} entries below {path!r}; give a path further down") from None
        if not found:
            return f"no file below {path!r} matches {pattern!r}"
        found.sort(key=lambda item: (-item.mtime_ns, item.path))
        top = workspace.display(path)
        lines = [item.path if top == "." else os.path.join(top, item.path) for item in found[:max_results]]
        more = len(found) - len(lines)
        return "\n".join(lines) + (f"\n({more} more; narrow the pattern or raise max_results)" if more else "")

    return glob
