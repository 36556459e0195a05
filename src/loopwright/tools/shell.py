"""The tool that runs shell commands.

Owns: `bash`: limits, what the model is told about the end. Must not know: where commands run (`ports/shell.py`).
Read next: `process.py`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from ..model.call_errors import ToolFailure
from ..ports.shell import ShellBackend
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult
from .decorator import tool
from .descriptions import description_of
from .local_shell import LocalShellBackend
from .process import TERM_GRACE_S, BoundedOutput, run_process
from .workspace import Workspace

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
MAX_OUTPUT_BYTES = 1_000_000
"""Kept of one command's output, half from its start and half from its end."""


def bash_tool(workspace: Workspace, backend: ShellBackend | None = None) -> ToolDefinition:
    """`bash` in a workspace. Effect once: nobody can know what a command did, so it is never repeated silently."""
    shell: ShellBackend = backend if backend is not None else LocalShellBackend()

    # The command's own limit ends first, so that the model reads its output rather than a bare "timed out".
    @tool(
        description=description_of("bash"),
        effect="once",
        timeout_s=MAX_TIMEOUT_S + TERM_GRACE_S + 10,
        subjects={"command": "command"},
    )
    async def bash(
        command: str, ctx: ToolContext, timeout: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT_S)] = DEFAULT_TIMEOUT_S
    ) -> ToolHandlerResult:
        """Run a command.

        Args:
            command: Shell command; may be several lines.
            timeout: Seconds after which it is stopped.
        """
        if not command.strip():
            raise ToolFailure("the command is empty")
        output = BoundedOutput(MAX_OUTPUT_BYTES)
        launch = shell.launch(command, str(workspace.root))
        ended = await run_process(launch, output, timeout_s=float(timeout), cancellation=ctx.cancellation)
        text = output.text().rstrip("\n") or "(no output)"
        data = {"exit_code": ended.exit_code, "timed_out": ended.timed_out, "output_bytes": output.total}
        if ended.timed_out:
            note = f"[stopped after {timeout} s with everything it started; use a longer timeout or a smaller step]"
            return ToolHandlerResult(f"{text}\n{note}", ok=False, data=data)
        return ToolHandlerResult(f"{text}\n{_end(ended.exit_code)}", data=data)

    return bash


def _end(exit_code: int) -> str:
    return f"[exit code {exit_code}]" if exit_code >= 0 else f"[ended by signal {-exit_code}]"
