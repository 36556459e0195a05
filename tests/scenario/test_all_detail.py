"""Nothing that was ever said is out of reach, whatever was folded, killed, reopened and forked."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenario.conftest import Stage, asked, said
from tests.scenario.rooms import Short, Terse, answers, look

from loopwright import run_sync
from loopwright.core.pairing import problem
from loopwright.engine.actor import ACTORS
from loopwright.model.context_records import FoldMade
from loopwright.model.records import AssistantMessageAdded, SendStarted, ToolFinished, UserMessageAdded
from loopwright.testing.crash_points import ProcessStopped

MARK = re.compile(r"zq\d+e")
STEPS = st.lists(st.sampled_from(["send", "send", "long", "fold", "reopen", "fork", "killed"]), min_size=4, max_size=14)
KILLS = ("tool.after:look", "commit.before:tool_finished", "commit.after:assistant_message_added")


class Marking:
    """Every text of this model has a mark of its own; it looks `rounds` more times before it answers."""

    def __init__(self) -> None:
        self.marks = count(1)
        self.rounds = 1
        self.recalls: list[tuple[str, dict[str, Any]]] = []

    def mark(self) -> str:
        return f"zq{next(self.marks)}e"

    async def complete(self, request: Any) -> Any:
        if self.recalls:
            wanted, self.recalls = self.recalls, []
            return asked(*[(f"r{n}", name, json.dumps(given)) for n, (name, given) in enumerate(wanted)])
        assert problem(request.messages) is None
        if self.rounds == 0:
            return said(f"done {self.mark()}")
        self.rounds -= 1
        return asked(*[(f"c{n}", "look", json.dumps({"where": self.mark()})) for n in range(2)], text=self.mark())


class World:
    """One session at a time, its processes and its model."""

    def __init__(self, stage: Stage, options: dict[str, Any]) -> None:
        self.stage = stage
        self.model = Marking()
        self.options = {"llm": self.model, "tools": [look], "fold": Short(), **options}
        self.loop = stage.loop(**self.options)
        self.sid = ""
        self.kills = 0

    async def step(self, name: str) -> None:
        if name == "fold":
            await self.loop.fold(self.sid)
        elif name == "reopen":
            ACTORS.drop(self.loop.store.identity)
        elif name == "fork":
            self.sid = await self.loop.fork(self.sid)
        elif name == "killed":
            await self.killed()
        else:
            self.model.rounds = 5 if name == "long" else 1
            assert (await self.loop.send(f"ask {self.model.mark()}", session_id=self.sid)).status == "completed"

    async def killed(self) -> None:
        """A process dies in the middle of a send, and another one goes on."""
        at, self.kills = KILLS[self.kills % len(KILLS)], self.kills + 1
        self.model.rounds = 2
        await self.loop.aclose()
        dying = self.stage.mortal(at, **self.options)
        try:
            await dying.send(f"ask {self.model.mark()}", session_id=self.sid)
        except ProcessStopped:
            await self.stage.bury(dying)
        ACTORS.drop(dying.store.identity)
        self.loop = self.stage.loop(**self.options)
        assert (await self.loop.resume(self.sid)).status == "completed"

    async def marks_of_sends(self) -> dict[int, set[str]]:
        """What the journal has, by the label of its send."""
        found: dict[int, set[str]] = {}
        label = 0
        for position, record in enumerate(await self.stage.records(self.loop, self.sid)):
            if isinstance(record, SendStarted):
                label = position
                found[label] = set()
            elif isinstance(record, UserMessageAdded | AssistantMessageAdded | ToolFinished):
                found[label] |= set(MARK.findall(str(record)))
        return found

    async def ask(self, *wanted: tuple[str, dict[str, Any]]) -> list[str]:
        self.model.recalls = list(wanted)
        self.model.rounds = 0
        assert (await self.loop.send("recall", session_id=self.sid)).status == "completed"
        return await answers(self.loop, self.sid)


async def everything_is_in_reach(stage: Stage, options: dict[str, Any], steps: list[str]) -> int:
    """Plays the steps, asks for every mark in both ways, and answers how often was folded."""
    world = World(stage, options)
    world.sid = await world.loop.new_session()
    await world.step("send")
    for name in steps:
        await world.step(name)
    await world.step("send")
    await world.step("fold")
    await world.loop.aclose()
    world.loop = stage.loop(**{**world.options, "context_budget_tokens": 1_000_000})
    known = await world.marks_of_sends()
    shown = await world.ask(*[("recall_send", {"send": f"#{label}"}) for label in known])
    for marks, text in zip(known.values(), shown, strict=True):
        assert marks <= set(MARK.findall(text))
    earlier = sorted(set[str]().union(*list(known.values())[:-1]))
    found = await world.ask(*[("recall_folded", {"query": mark}) for mark in earlier])
    for mark, text in zip(earlier, found, strict=True):
        assert mark in text
    return sum(isinstance(record, FoldMade) for record in await stage.records(world.loop, world.sid))


@pytest.mark.parametrize("representation", [None, Terse()], ids=["verbatim", "terse"])
@pytest.mark.parametrize("budget", [1_500, 1_000_000])
async def test_after_every_kind_of_step_all_detail_is_recallable(
    stage: Stage, budget: int, representation: Any
) -> None:
    options = {"context_budget_tokens": budget, "representation": representation}
    steps = ["send", "long", "killed", "fold", "fork", "send", "reopen", "killed", "long", "fork", "killed", "send"]
    assert await everything_is_in_reach(stage, options, steps) > 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from([1_500, 1_000_000]))
def test_after_any_steps_all_detail_is_recallable(steps: list[str], budget: int) -> None:
    async def play(folder: str) -> None:
        stage = Stage(f"memory:{folder}")
        try:
            assert await everything_is_in_reach(stage, {"context_budget_tokens": budget}, steps) > 0
        finally:
            await stage.close()

    with TemporaryDirectory() as folder:
        run_sync(play(str(Path(folder))))
