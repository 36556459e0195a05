"""Tools that are kept back until the model finds them.

Owns: answering a search, and listing what was found. Must not know: how tools are ranked (`core/tool_ranking.py`).
What was found is a record in the commit of the search's result. Before the next model call it is listed, behind the tools
that were listed before, by a new prompt epoch: the definitions are in the journal then, so that every process makes the
same request. Loaded with the first tool that is kept back. Read next: `epochs.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.tool_ranking import best_tools, line_of
from ..model.codec import encode
from ..model.control_records import ToolsRevealed
from ..model.records import Record
from ..ports.tool import ToolDefinition
from ..ports.tools_sought import ToolsSought
from . import epochs
from .running import RunContext, found_by, specs_of

if TYPE_CHECKING:
    from .tool_call import ToolRun

MOST = 20
"""Tools that one search shows."""
SHOWN_NAMES = 200
"""Names that a search shows which found nothing."""
SCHEMA_CHARS = 8_000
"""Of a definition that is shown with what is wrong with a call."""


async def answer(one: ToolRun, sought: ToolsSought) -> None:
    """Answers a search with what fits best among the deferred tools that this send may use."""
    run = one.run_context
    names = [name for name in run.tools.names() if run.allowed is None or name in run.allowed]
    kept = [tool.spec for name in names if (tool := run.tools.get(name)) is not None and tool.deferred]
    best = best_tools(sought.query, kept, max(min(sought.limit, MOST), 1))
    if not best:
        shown = ", ".join(sorted([spec.name for spec in kept])[:SHOWN_NAMES])
        text = (
            f"No tool fits these words. Other words may; these can be found: {shown}"
            if kept
            else "There are no others."
        )
        await one.answer("finished", text, data={"tools": []})
        return
    fresh = tuple([spec.name for spec in best if spec.name not in found_by(run.state)])
    records: list[Record] = [ToolsRevealed(names=fresh, call_id=one.call.call.id)] if fresh else []
    lines = ["You can call these from now on:", *[f"- {line_of(spec)}" for spec in best]]
    await one.answer("finished", "\n".join(lines), data={"tools": [spec.name for spec in best]}, also=records)


async def list_found(run: RunContext) -> None:
    """Begins an epoch that lists what was found since the current one began; nothing where there is nothing new."""
    state = run.state
    found, current = found_by(state), epochs.current_epoch(state)
    if current is None:
        run.narrow()
        return
    listed = {spec.name for spec in current.tools}
    if not (lacking := [name for name in found if name not in listed]):
        return
    specs = specs_of(run.tools, run.allowed, found)
    fresh = [spec.name for spec in specs if spec.name in lacking]
    if fresh:
        await run.journal.commit(
            [await epochs.with_tools(run.kernel, state, specs, f"tools found: {', '.join(fresh)}")]
        )


def with_definition(problem: str, tool: ToolDefinition) -> str:
    """What is wrong with a call of a tool that may not be listed, with what its arguments are."""
    schema = encode(tool.parameters).decode()
    shown = schema if len(schema) <= SCHEMA_CHARS else f"{schema[:SCHEMA_CHARS]}…"
    return f"{problem}\nThe arguments of {tool.name}, as JSON Schema: {shown}"
