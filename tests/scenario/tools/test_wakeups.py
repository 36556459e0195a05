"""A model has itself woken: what it may set, that a call sets it with its result or not at all, and what it sees of it."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.conftest import Stage, asked, said
from tests.scenario.tools.toolbox import Toolbox
from tests.scenario.worker_stage import QUICK
from tests.waiting import next_turn, until

from loopwright import AgentLoopConfig, LLMRequest, StatefulAgentLoop, tool
from loopwright.core.timer_rules import stamp
from loopwright.model.messages import ToolResultMessage
from loopwright.ports.store import DueTimer
from loopwright.stores.memory import MemoryStore
from loopwright.testing import ScriptedLLM, calls
from loopwright.tools import ToolRegistry
from loopwright.tools.timers import cancel_wakeup_tool, current_time_tool, list_wakeups_tool, schedule_wakeup_tool

WAKEUPS = [schedule_wakeup_tool(), list_wakeups_tool(), cancel_wakeup_tool(), current_time_tool()]
KEYS = [f"{n:02d}" + "a" * 62 for n in range(12)]


@pytest.fixture
def box() -> Toolbox:
    return Toolbox(ToolRegistry.of(*WAKEUPS))


async def test_wakeups_are_set_listed_and_cancelled(box: Toolbox) -> None:
    book = box.context.timers
    assert await box.text("list_wakeups") == "(no wakeups)"
    box.context.idempotency_key = KEYS[1]
    assert await box.text("schedule_wakeup", note="call Ann", delay_seconds=60) == (
        f"t01aaaaaaaa is set: due {stamp(book.at + 60)}, in 60 s"
    )
    box.context.idempotency_key = KEYS[2]
    await box.text("schedule_wakeup", note="look\nagain", every_seconds=30)
    book.at += 10
    assert await box.text("list_wakeups") == (
        f"- [t02aaaaaaaa] due {stamp(book.at + 20)}, in 20 s, then every 30 s: look\n  again\n"
        f"- [t01aaaaaaaa] due {stamp(book.at + 50)}, in 50 s: call Ann"
    )
    assert await box.text("cancel_wakeup", timer_id="t02aaaaaaaa") == "t02aaaaaaaa is cancelled"
    assert "set are: t01aaaaaaaa" in await box.failure("cancel_wakeup", timer_id="t02aaaaaaaa")


async def test_a_wakeup_may_follow_the_calendar_of_a_place(box: Toolbox) -> None:
    assert (await box.text("schedule_wakeup", note="n", cron="0 9 * * MON-FRI", timezone="Asia/Tokyo")).endswith(
        "due 2027-01-18T00:00:00Z, in 230400 s, then by cron '0 9 * * MON-FRI' in Asia/Tokyo"
    )


@pytest.mark.parametrize(
    "wish, what",
    [
        ({"note": "n"}, "it needs delay_seconds"),
        (
            {"note": " ", "delay_seconds": 4},
            "note must not be empty: it is what the session is told; delay_seconds must be",
        ),
        ({"note": "n", "delay_seconds": 2_592_001}, "from 5 to 2592000 seconds"),
        ({"note": "n", "every_seconds": 1}, "every_seconds must be from 5"),
        ({"note": "n", "cron": "often"}, "must have five fields"),
        ({"note": "n", "cron": "0 9 * * *", "timezone": "Mars"}, "timezone 'Mars' is no time zone"),
    ],
)
async def test_what_may_not_be_set_is_said_in_the_words_of_the_tool(
    box: Toolbox, wish: dict[str, Any], what: str
) -> None:
    assert what in await box.failure("schedule_wakeup", **wish)
    assert await box.context.timers.armed() == []


async def test_no_more_than_ten_may_be_set_at_once(box: Toolbox) -> None:
    for key in KEYS[:10]:
        box.context.idempotency_key = key
        await box.text("schedule_wakeup", note="n", delay_seconds=60)
    await box.text("schedule_wakeup", note="the same call once more", delay_seconds=60)
    box.context.idempotency_key = KEYS[10]
    assert "10 timers are armed, 10 are allowed" in await box.failure("schedule_wakeup", note="n", delay_seconds=60)


async def test_the_time_is_told_for_any_place(box: Toolbox) -> None:
    assert await box.text("current_time") == "2027-01-15T08:00:00Z (Friday)"
    assert await box.text("current_time", timezone="America/New_York") == "2027-01-15T03:00:00-05:00 (Friday)"
    assert "is not known" in await box.failure("current_time", timezone="../etc")


class NoTimers:
    """A context of a run that keeps no timers."""

    idempotency_key = KEYS[0]


async def test_where_there_are_no_timers_the_model_is_told_to_go_on_without() -> None:
    box = Toolbox(ToolRegistry.of(*WAKEUPS), NoTimers())  # type: ignore[arg-type]
    assert "go on without" in await box.failure("current_time")


async def test_a_model_sets_a_wakeup_and_is_woken_by_it(stage: Stage) -> None:
    heard: list[str] = []

    def answers(request: LLMRequest) -> Any:
        heard.append(request.messages[-1].text)
        return said("good morning")

    loop = stage.loop(
        calls(("schedule_wakeup", {"note": "wake up", "delay_seconds": 600})),
        "good night",
        answers,
        tools=WAKEUPS,
        ambient=stage.time,
    )
    result = await loop.send("sleep")
    assert result.final_text == "good night"
    [timer] = await loop.list_timers(result.session_id)
    assert timer.note == "wake up"
    await until(lambda: heard)
    assert heard[0].startswith(f'<timer id="{timer.id}" due="{stamp(timer.due_at)}"')
    assert await loop.list_timers(result.session_id) == []


async def test_calls_of_one_reply_see_each_others_wakeups_and_keep_the_bound_together(stage: Stage) -> None:
    wishes = [("schedule_wakeup", {"note": f"n{n}", "delay_seconds": 60 + n}) for n in range(12)]
    loop = stage.loop(
        calls(*wishes, ("list_wakeups", {})), "ok", tools=WAKEUPS, serve_timers=False, max_parallel_tools=13
    )
    result = await loop.send("many")
    assert len(await loop.list_timers(result.session_id)) == 10
    answers = [m for m in await loop.get_messages(result.session_id) if isinstance(m, ToolResultMessage)]
    assert sum(answer.ok for answer in answers[:12]) == 10, "whichever came first"
    assert answers[12].ok


class AnswersLate(MemoryStore):
    """Its first answer about timers is held until ten are stored."""

    asked = False

    def timers(self, session_id: str) -> Awaitable[Sequence[DueTimer]]:
        first, self.asked = not self.asked, True
        return self._held(session_id) if first else super().timers(session_id)

    async def _held(self, session_id: str) -> Sequence[DueTimer]:
        answer = await super().timers(session_id)
        while len(await super().timers(session_id)) < 10:
            await next_turn()
        return answer


async def test_a_call_that_learns_late_of_the_timers_counts_those_stored_meanwhile() -> None:
    wishes = [("schedule_wakeup", {"note": f"n{n}", "delay_seconds": 60 + n}) for n in range(12)]
    async with StatefulAgentLoop(
        llm=ScriptedLLM([calls(*wishes), "ok"]),
        tools=WAKEUPS,
        store=AnswersLate(),
        config=AgentLoopConfig(serve_timers=False, max_parallel_tools=12),
    ) as loop:
        result = await loop.send("many")
        answers = [m for m in await loop.get_messages(result.session_id) if isinstance(m, ToolResultMessage)]
        assert [answer.ok for answer in answers] == [False, *[True] * 10, False]
        assert len(await loop.list_timers(result.session_id)) == 10


async def test_a_handler_that_fails_after_it_set_a_timer_has_set_none(stage: Stage) -> None:
    set_timer = schedule_wakeup_tool().handler

    @tool(name="fails", effect="idempotent")
    async def fails(ctx: Any) -> str:
        return ""

    async def handler(arguments: dict[str, Any], context: Any) -> str:
        assert set_timer is not None
        await set_timer({"note": "n", "delay_seconds": 60}, context)
        raise RuntimeError("not this time")

    loop = stage.loop(calls(("fails", {})), "ok", tools=[replace(fails, handler=handler)], serve_timers=False)
    result = await loop.send("go")
    assert await loop.list_timers(result.session_id) == []


@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_wakeup_whose_process_died_around_its_commit_comes_once(stage: Stage, side: str) -> None:
    heard: list[str] = []

    def model() -> Any:
        class Model:
            async def complete(self, request: LLMRequest) -> Any:
                last = request.messages[-1]
                if isinstance(last, ToolResultMessage):
                    return said("set")
                if "<timer" in last.text:
                    heard.append(last.text)
                    return said("woken")
                return asked(("c1", "schedule_wakeup", '{"note": "n", "delay_seconds": 5}'))

        return Model()

    dying = stage.mortal(f"commit.{side}:tool_started+tool_finished", llm=model(), tools=WAKEUPS, serve_timers=False)
    sid = await dying.new_session()
    await stage.dies(dying, dying.send("go", session_id=sid))
    stage.time.advance(1e9)  # past any time that the dead process may have written
    loop: StatefulAgentLoop = stage.loop(llm=model(), tools=WAKEUPS, ambient=stage.time, serve_timers=False)
    await loop.serve(once=True, settings=QUICK)
    stage.time.advance(10)
    await loop.serve(once=True, settings=QUICK)
    assert len(heard) == 1
    assert await loop.list_timers(sid) == []
