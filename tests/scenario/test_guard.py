"""The one guard: a record that would make a session unsendable is not written, whoever asks for it."""

from __future__ import annotations

import pytest
from tests.scenario.conftest import Stage

from loopwright.engine.actor import ACTORS
from loopwright.engine.journal import Journal
from loopwright.model.errors import InvariantError
from loopwright.model.messages import UserMessage
from loopwright.model.records import ToolFinished, UserMessageAdded


async def test_a_record_that_must_not_follow_is_refused_at_commit_and_the_session_goes_on(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    sid = (await loop.send("go")).session_id
    kernel = loop._kernel
    async with ACTORS.turn(loop.store.identity, sid, 1) as actor:
        for record in (UserMessageAdded(UserMessage("nobody asked")), ToolFinished("c", "t", "finished", "x")):
            journal = Journal(kernel, actor)
            await journal.load()
            with pytest.raises(InvariantError):
                await journal.commit([record])
    assert (await loop.send("again", session_id=sid)).final_text == "two"
