"""The tool that runs shell commands.

Owns: `bash`: limits, what the model is told about the end. Must not know: where commands run (`ports/shell.py`), how a shell lives
on (`shell_session.py`), what becomes of a command in the background (`background.py`).
Read next: `shell_session.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Annotated, cast

from msgspec import Meta

from ..model.call_errors import ToolFailure
from ..ports.shell import ShellBackend
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult
from .background import BackgroundCommands
from .choosing_shell import shell_backend_for_here
from .decorator import tool
from .descriptions import description_of
from .process import TERM_GRACE_S, BoundedOutput
from .shell_session import Answer, ShellSession
from .workspace import Workspace

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
MAX_OUTPUT_BYTES = 1_000_000
"""Kept of one command's output, half from its start and half from its end."""

_numbers = itertools.count()


def bash_tool(workspace: Workspace, backend: ShellBackend | None = None) -> ToolDefinition:
    """`bash` in a workspace. Effect once: nobody can know what a command did, so it is never repeated silently.

    Each session has a shell of its own, which ends with what this process knows of the session, after half an hour without
    commands, and with the process. Without a backend it is that of `shell_backend_for_here`, chosen at the first call.
    """
    shells = _Shells(workspace, backend)

    # The command's own limit ends first, so that the model reads its output rather than a bare "timed out".
    @tool(
        description=description_of("bash"),
        effect="once",
        timeout_s=MAX_TIMEOUT_S + TERM_GRACE_S + 10,
        subjects={"command": "command"},
    )
    async def bash(
        command: str,
        ctx: ToolContext,
        timeout: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT_S)] = DEFAULT_TIMEOUT_S,
        restart: bool = False,
        background: bool = False,
    ) -> ToolHandlerResult:
        """Run a command.

        Args:
            command: Shell command; may be several lines.
            timeout: Seconds after which it is stopped.
            restart: Begin with a new shell.
            background: Start it apart from the shell and answer its id at once.
        """
        session = await shells.of(ctx)
        if restart and not background:
            session.close("was ended by restart")
            if not command.strip():
                return ToolHandlerResult("the next command begins in a new shell")
        if not command.strip():
            raise ToolFailure("the command is empty")
        if background:
            return await shells.in_background(command, ctx)
        output = BoundedOutput(MAX_OUTPUT_BYTES)
        answer = await session.run(command, output, timeout_s=float(timeout), cancellation=ctx.cancellation)
        return shells.told(answer, output, timeout)

    return bash


class _Shells:
    """The shells of one tool."""

    def __init__(self, workspace: Workspace, backend: ShellBackend | None) -> None:
        self._workspace = workspace
        self._backend = backend
        self._notice = ""
        self._key = f"bash.{next(_numbers)}"

    async def of(self, ctx: ToolContext) -> ShellSession:
        """The one of a session; it goes when the session's scratch goes."""
        found = ctx.scratch.get(self._key)
        if found is None:
            backend = await self._chosen()
            found = ctx.scratch.setdefault(self._key, ShellSession(backend, str(self._workspace.root)))
        return cast("ShellSession", found)

    async def in_background(self, command: str, ctx: ToolContext) -> ToolHandlerResult:
        """Starts a command and answers its id."""
        backend = await self._chosen()
        root = str(self._workspace.root)
        commands = BackgroundCommands(root, ctx.session_id)

        def start() -> str:
            return commands.start(backend.launch(command, root), command)

        command_id = await asyncio.to_thread(start)
        text = f"started in the background with id {command_id}; background(command_id) shows how it is"
        return ToolHandlerResult(text + self._said_once(), data={"background_id": command_id})

    def told(self, answer: Answer, output: BoundedOutput, timeout: int) -> ToolHandlerResult:
        """What the model reads."""
        text = output.text().rstrip("\n") or "(no output)"
        data = {"exit_code": answer.exit_code, "timed_out": answer.timed_out, "output_bytes": output.total}
        notes = [_end(answer, timeout)]
        if answer.new and answer.lost:
            notes.append(f"[began in a new shell: the last one {answer.lost}; its folder, variables and jobs are gone]")
        elif answer.new:
            notes.append("[began in a new shell]")
        return ToolHandlerResult("\n".join([text, *notes]) + self._said_once(), ok=not answer.timed_out, data=data)

    async def _chosen(self) -> ShellBackend:
        if self._backend is None:
            chosen = await asyncio.to_thread(shell_backend_for_here)
            self._backend, self._notice = chosen.backend, chosen.notice
        return self._backend

    def _said_once(self) -> str:
        said, self._notice = self._notice, ""
        return f"\n[{said}]" if said else ""


def _end(answer: Answer, timeout: int) -> str:
    if answer.timed_out:
        return (
            f"[stopped after {timeout} s with the shell and everything it started; the next command begins in a new shell;"
            " use a longer timeout, a smaller step, or background=true]"
        )
    code = f"exit code {answer.exit_code}" if answer.exit_code >= 0 else f"ended by signal {-answer.exit_code}"
    return f"[{code}]" if answer.alive else f"[{code}; the shell itself ended, so the next command begins in a new one]"
