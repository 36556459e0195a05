"""Which commits the engine asks to survive a power failure."""

from __future__ import annotations

from collections.abc import Awaitable

from tests.scenario.conftest import Stage

from loopwright import InputNeeded, ToolDefinition, tool
from loopwright.ports.store import Committed, Transition
from loopwright.stores.memory import MemoryStore
from loopwright.testing import calls


class Watched(MemoryStore):
    """Remembers what was to be synced."""

    def __init__(self) -> None:
        super().__init__("")
        self.synced: list[str] = []
        self.unsynced: list[str] = []

    def commit(self, transition: Transition) -> Awaitable[Committed]:
        kinds = "+".join(r.kind for r in transition.records)
        (self.synced if transition.sync else self.unsynced).append(kinds)
        return super().commit(transition)


@tool(effect="once")
async def pay() -> str:
    """Pay."""
    return "paid"


@tool(effect="pure")
async def ask() -> InputNeeded:
    """Ask."""
    return InputNeeded("really?")


async def test_inputs_outcomes_and_intents_of_once_calls_are_synced_and_nothing_else(stage: Stage) -> None:
    store = Watched()
    await stage.loop(calls(("pay", {})), "done", store=store, tools=[pay]).send("go")
    assert store.synced == [
        "prompt_epoch_started+send_started+user_message_added",
        "tool_started",
        "assistant_message_added+send_finished",
    ]
    assert store.unsynced == ["assistant_message_added", "tool_finished"]


async def test_pauses_and_answers_from_outside_are_synced(stage: Stage) -> None:
    store = Watched()
    ship = ToolDefinition(name="ship", description="Ship.", parameters={"type": "object"})
    loop = stage.loop(calls(("ask", {})), calls(("ship", {})), "done", store=store, tools=[ask, ship])
    waiting = await loop.send("go")
    waiting = await loop.submit_input(waiting.session_id, waiting.pending_interactions[0].id, "yes")
    await loop.submit_tool_results(waiting.session_id, {waiting.pending_tool_calls[0].id: "shipped"})
    assert store.synced == [
        "prompt_epoch_started+send_started+user_message_added",
        "send_paused",
        "question_answered+tool_finished",
        "send_paused",
        "tool_finished",
        "assistant_message_added+send_finished",
    ]
