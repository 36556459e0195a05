"""A `once` call that was started and has no result: what may be said about it.

Owns: asking the outside world, else telling the model or the host. Must not know: how handlers run.
Loaded with the first such call. Read next: `tool_call.py`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ..model.errors import ToolNotFound
from ..model.records import ToolStarted
from ..ports.tool import Reconcile, ToolHandlerResult, UnknownOutcome
from ..prompts import prompt
from .stopping import Won, race

if TYPE_CHECKING:
    from .tool_call import ToolRun


async def settle(one: ToolRun, started: ToolStarted) -> None:
    """Answers the call by what `reconcile` found, else as uncertain; left to the host it is held. It is never run again."""
    run = one.run_context
    one.name, one.arguments = started.name, started.arguments
    try:
        one.tool = run.tool(started.name)
    except ToolNotFound:
        one.tool = None  # this loop does not have it any more; what happened is as unknown as before
    if one.tool is not None and one.tool.reconcile is not None:
        unknown = UnknownOutcome(
            run.session_id, one.call.call.id, started.name, started.arguments, started.key, one.call.started_at
        )
        try:
            raced = await race(
                _reconciled(one.tool.reconcile, unknown),
                run.token,
                run.kernel.deadlines,
                timeout_s=one.tool.timeout_s or run.kernel.config.tool_timeout_s,
                grace_s=run.kernel.config.stop_grace_s,
            )
            found = raced.value if isinstance(raced, Won) else None
        except Exception as error:  # noqa: BLE001 - the tool boundary: a failing reconcile knows nothing
            run.note(f"reconcile of {started.name} raised {type(error).__name__}: {error}")
            found = None
        if found is not None:
            return await one.returned(found)
    if run.kernel.config.on_uncertain == "ask_host":
        one.held = True
        return None
    return await one.answer("uncertain", prompt("uncertain"))


async def _reconciled(ask: Reconcile, unknown: UnknownOutcome) -> ToolHandlerResult | str | None:
    found = ask(unknown)
    return await found if inspect.isawaitable(found) else found
