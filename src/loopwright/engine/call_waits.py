"""Calls that go on later: they asked a person, or wait for a child, a time or a signal.

Owns: what is stored then. Must not know: who answers (`answers.py`), who wakes (`wakes.py`), how handlers run.
Loaded with the first such call. Read next: `tool_call.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..core import questions, waking
from ..core.calls import text_of
from ..model.control_records import HandlerAsked
from ..model.errors import UsageError
from ..model.event_types import AgentEventType
from ..model.family_records import CallWaits, WaitsOn
from ..model.records import Interaction, QuestionAsked
from ..ports.store import Op, PutTimer
from ..ports.tool import InputNeeded, WaitNeeded
from . import arming, wakes

if TYPE_CHECKING:
    from .tool_call import ToolRun


async def ask(one: ToolRun, needed: InputNeeded) -> None:
    """Stores a question of this call; the batch goes on, the run pauses when nothing else is left."""
    # Handlers may hand in anything for words.
    options = tuple([text_of(option) for option in needed.options])
    needed = replace(needed, prompt=text_of(needed.prompt), kind=text_of(needed.kind), options=options)
    if (why := questions.asking_problem(needed, one.run_context.kernel.limits.validate)) is not None:
        await one.failed(UsageError(f"{one.name} cannot ask this: {why}"), last=True)
        return
    await _store(one, QuestionAsked(_interaction(one, needed)))


async def ask_for_handler(one: ToolRun, needed: InputNeeded) -> None:
    """Likewise, of a handler that runs again with the answer. Its intent is void: what it did, it does again."""
    await _store(one, HandlerAsked(_interaction(one, needed)))


def _interaction(one: ToolRun, needed: InputNeeded) -> Interaction:
    asking = one.call.asking
    number = (one.call.question is not None) + (0 if asking is None else len(asking.replies))
    return Interaction(
        id=f"ask_{one.key[:24]}" + (f"_{number + 1}" if number else ""),
        call_id=one.call.call.id,
        tool_name=one.name,
        prompt=needed.prompt,
        kind=needed.kind,
        options=needed.options,
        schema=needed.schema,
        metadata=needed.metadata,
    )


async def _store(one: ToolRun, asked: QuestionAsked) -> None:
    run = one.run_context
    await run.journal.append([*one.riders(), asked])
    run.emit(AgentEventType.INPUT_REQUESTED, asked.interaction)


async def wait_for(one: ToolRun, needed: WaitNeeded, wrote: bool) -> None:
    """The handler wants to be run again when something happened."""
    assert one.tool is not None
    problem = None
    if wrote:
        problem = "wrote to notes, the todo list, timers or on_commit; that goes with a result"
    elif one.tool.effect == "once":
        problem = "is declared once, and its handler would have to run again; declare it pure or idempotent"
    elif needed.until is None and needed.signal is None:
        problem = "names neither a time nor a signal"
    if problem is not None:
        await one.failed(UsageError(f"{one.name} asked to wait, but it {problem}"), last=True)
        return
    on: WaitsOn = "signal" if needed.signal is not None else "time"
    await wait(one, CallWaits(call_id=one.call.call.id, on=on, until=needed.until, signal=needed.signal))


async def wait(one: ToolRun, waits: CallWaits) -> None:
    """Stores that the call waits; the batch goes on, the run pauses when nothing else is left."""
    run = one.run_context
    ops: tuple[Op, ...] = ()
    if waits.until is not None:
        ops = (PutTimer(wakes.timer_id(waits.call_id), waits.until, wakes.time_has_come(waits.call_id)),)
    kept = waking.oldest(run.state, waits.signal, run.promised)
    records = [*one.riders(), *waking.beginning(waits, kept)]
    if kept is None:
        await run.journal.append(records, ops)
    else:
        ops = ()  # it goes on at once
        run.promised.add(kept.item_id)
        try:
            await run.journal.append(records)
        finally:
            run.promised.discard(kept.item_id)
    if ops and waits.until is not None:
        arming.announce(run.kernel, run.session_id, wakes.timer_id(waits.call_id), waits.until)
    run.emit(AgentEventType.CALL_WAITS, waits.call_id, waits.on, waits.child_id, waits.until, waits.signal)
