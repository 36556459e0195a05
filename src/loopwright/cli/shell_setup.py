"""Where the commands of the tool `bash` run.

Owns: the choice by option, and what people are told about it. Must not know: sandboxes.
Read next: `../tools/choosing_shell.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from ..ports.shell import ShellBackend
from ..tools.choosing_shell import shell_backend_for_here
from ..tools.local_shell import LocalShellBackend
from .store_place import DEFAULT_DB

AUTO: Final = "auto"


async def shell_of(sandbox: str, db: str, workspace: str) -> ShellBackend:
    """The backend that `--sandbox` names; says on standard error what is not protected and could be.

    Raises: `ConfigError` when it cannot be had.
    """
    backend, notice = await asyncio.to_thread(shell_backend_for_here, sandbox)
    if not notice and not isinstance(backend, LocalShellBackend) and _is_in_reach(db, workspace):
        notice = f"shell commands can write to the store {db}, since it is in the workspace; keep it in .loopwright/"
    if notice:
        sys.stderr.write(f"loopwright: {notice}\n")
    return backend


def _is_in_reach(db: str, workspace: str) -> bool:
    path = db.removeprefix("sqlite:///")
    if "://" in path or path.startswith("memory:"):
        return False
    folder = os.path.realpath(os.path.dirname(path) or ".")
    kept = os.path.join(workspace, os.path.dirname(DEFAULT_DB))
    return os.path.commonpath([folder, workspace]) == workspace and os.path.commonpath([folder, kept]) != kept
