"""A conversation about three rooms, and what folds and shows it: for tests of what can be read again."""

from __future__ import annotations

from typing import Any

from tests.scenario.conftest import Stage

from loopwright import Message, StatefulAgentLoop, UserMessage, tool
from loopwright.engine.actor import ACTORS
from loopwright.model.messages import ToolResultMessage
from loopwright.model.records import SendStarted
from loopwright.ports.fold import FoldDesk, FoldResult, FoldTask
from loopwright.ports.representation import FinishedSend
from loopwright.testing import calls

BUDGET = 1_000_000
"""Never reached: folds are made where the test says so."""


class Short:
    """A strategy that keeps one send and says nothing of the rest."""

    fold_id = "short"
    keep_last_sends = 1
    trigger_ratio = 1.0
    summary_max_tokens = 100

    async def fold(self, task: FoldTask, desk: FoldDesk) -> FoldResult | None:
        return FoldResult(note="much was said")


class Terse:
    """A representation that shows nothing of a send but its label."""

    kind = "terse"
    version = 1

    def project(self, send: FinishedSend) -> tuple[Message, ...]:
        return (UserMessage(f"#{send.label}"),)


@tool(effect="pure")
async def look(where: str) -> str:
    """Looks."""
    return f"seen {where}"


def opened(stage: Stage, *steps: Any, **options: Any) -> StatefulAgentLoop:
    options = {"tools": [look], "fold": Short(), "context_budget_tokens": BUDGET, **options}
    return stage.loop(*steps, **options)


async def labels(stage: Stage, loop: StatefulAgentLoop, sid: str) -> list[int]:
    return [n for n, record in enumerate(await stage.records(loop, sid)) if isinstance(record, SendStarted)]


async def answers(loop: StatefulAgentLoop, sid: str) -> list[str]:
    """Results of the newest send's calls."""
    shown = await loop.get_messages(sid, include_compacted=True)
    last = max(n for n, message in enumerate(shown) if isinstance(message, UserMessage))
    return [message.text for message in shown[last:] if isinstance(message, ToolResultMessage)]


async def recalled(stage: Stage, sid: str, *wanted: tuple[str, dict[str, Any]], **options: Any) -> list[str]:
    """What these calls answer, made by a process that knows nothing yet."""
    loop = opened(stage, calls(*wanted), "done", **options)
    ACTORS.drop(loop.store.identity)
    assert (await loop.send("recall", session_id=sid)).status == "completed"
    return await answers(loop, sid)


async def told(stage: Stage) -> tuple[StatefulAgentLoop, str, list[int]]:
    """Three sends about three rooms, all but the newest folded."""
    steps = [
        step
        for room in ("attic", "cellar", "hall")
        for step in (calls(("look", {"where": room}), text="hm"), f"The {room}.")
    ]
    loop = opened(stage, *steps)
    sid = await loop.new_session()
    for room in ("attic", "cellar", "hall"):
        await loop.send(f"What is in the {room}?", session_id=sid)
    assert await loop.fold(sid)
    return loop, sid, await labels(stage, loop, sid)
