"""The tool that looks after commands in the background.

Owns: `background`: what is shown of them. Must not know: how they are kept (`background.py`), how they are started (`shell.py`).
Read next: `background.py`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from msgspec import Meta

from ..model.call_errors import ToolFailure
from ..model.errors import CancellationRequested
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult
from .background import BackgroundCommand, BackgroundCommands
from .decorator import tool
from .descriptions import description_of
from .workspace import Workspace

MAX_WAIT_S = 300
_SHOWN = 200
"""Characters of a command in a list."""


def background_tool(workspace: Workspace) -> ToolDefinition:
    """`background` in a workspace: only commands of the session that asks."""

    @tool(
        name="background",
        description=description_of("background"),
        effect="idempotent",
        timeout_s=MAX_WAIT_S + 30,
        touches="session",
    )
    async def background(
        ctx: ToolContext,
        command_id: str = "",
        action: Literal["check", "stop"] = "check",
        wait: Annotated[int, Meta(ge=0, le=MAX_WAIT_S)] = 0,
    ) -> ToolHandlerResult | str:
        """Look after commands in the background.

        Args:
            command_id: Of the command; empty: all of them.
            action: What to do.
            wait: Seconds to wait for its end.
        """
        commands = BackgroundCommands(str(workspace.root), ctx.session_id)
        if not command_id:
            if action == "stop":
                raise ToolFailure("stop needs the command_id; without it and action they are listed")
            return "\n".join(_line(one) for one in commands.all()) or "(nothing was started in the background)"
        if action == "stop":
            found = await commands.stop(command_id)
        else:
            found = await _waited(commands, command_id, float(wait), ctx)
        text = commands.output(command_id).rstrip("\n") or "(no output)"
        data = {"state": found.state, "exit_code": found.exit_code}
        return ToolHandlerResult(f"{text}\n[{_state(found)}]", data=data)

    return background


async def _waited(commands: BackgroundCommands, command_id: str, wait_s: float, ctx: ToolContext) -> BackgroundCommand:
    stopped = asyncio.ensure_future(ctx.cancellation.wait())
    ended = asyncio.ensure_future(commands.ended(command_id, wait_s))
    try:
        await asyncio.wait({stopped, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            raise CancellationRequested(ctx.cancellation.reason)
        return ended.result()
    finally:
        stopped.cancel()
        ended.cancel()


def _line(one: BackgroundCommand) -> str:
    command = " ".join(one.command.split())
    return f"{one.id}  {_state(one)}  {command[:_SHOWN]}{'…' if len(command) > _SHOWN else ''}"


def _state(one: BackgroundCommand) -> str:
    match one.state:
        case "running":
            return "running"
        case "lost":
            return "lost: what kept it is gone, as after a restart of the machine; how it ended is not known"
        case "timed_out":
            return "stopped: it ran for a day"
        case "stopped":
            return "stopped"
        case "exited":
            code = one.exit_code or 0
            return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
