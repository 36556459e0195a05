"""How many calls of a tool run at once, and how often a failed one is tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.scenario.conftest import Listener, Stage
from tests.waiting import until

from loopwright import AgentHooks, CancellationToken, HookPoint, StatefulAgentLoop, ToolContext, ToolFailure, tool
from loopwright.model.agent_spec import AgentSpec
from loopwright.model.errors import ConfigError
from loopwright.model.records import ToolFinished, ToolStarted
from loopwright.ports.tool_retry import ToolRetry
from loopwright.testing import FakeTool, calls, gated
from loopwright.tools import ToolRegistry


class Crowd:
    """A tool that counts how many calls of it run, and waits for its gate."""

    def __init__(self, **settings: Any) -> None:
        self.now = self.most = 0
        self.order: list[Any] = []
        self.gate = asyncio.Event()
        self.double = FakeTool("look", self._look, **settings)
        self.tool = self.double.tool

    async def _look(self, arguments: dict[str, Any], context: ToolContext) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(arguments.get("n"))
        try:
            await self.gate.wait()
        finally:
            self.now -= 1
        return f"saw {arguments.get('n')}"


def heard(loop: StatefulAgentLoop) -> Listener:
    listener = Listener()
    loop.event_bus.subscribe(listener)
    return listener


def many(count: int) -> Any:
    return calls(*[("look", {"n": n}) for n in range(count)])


async def test_calls_of_a_tool_with_a_limit_wait_for_each_other_and_run_in_the_order_in_which_they_came(
    stage: Stage,
) -> None:
    crowd = Crowd(max_parallel=2)
    loop = stage.loop(many(5), "done", tools=[crowd.tool])
    task = asyncio.ensure_future(loop.send("go"))
    await until(lambda: crowd.now == 2)
    crowd.gate.set()
    result = await task
    assert (result.status, crowd.most, crowd.order) == ("completed", 2, [0, 1, 2, 3, 4])


async def test_the_limit_holds_for_all_sessions_of_a_loop_and_other_tools_pass(stage: Stage) -> None:
    crowd, other = Crowd(max_parallel=1), FakeTool("other", lambda *_: "ok")
    model = stage.model(many(1), many(1), calls(("other", {})), "done", "done", "done")
    loop = stage.loop(llm=model, tools=[crowd.tool, other.tool])
    first = asyncio.ensure_future(loop.send("one"))
    await until(lambda: crowd.now == 1)
    second = asyncio.ensure_future(loop.send("two"))
    await until(lambda: len(model.requests) == 2)
    assert (await loop.send("three")).status == "completed"
    assert len(crowd.order) == 1
    crowd.gate.set()
    assert [one.status for one in await asyncio.gather(first, second)] == ["completed", "completed"]
    assert crowd.most == 1


async def test_a_call_that_waits_for_its_turn_has_not_started_and_is_stopped_at_once(stage: Stage) -> None:
    crowd, stop = Crowd(max_parallel=1, effect="once"), CancellationToken()
    model, hooks, permitted = stage.model(many(1), many(1), "done", many(1), "done"), AgentHooks(), list[str]()
    hooks.register(HookPoint.TOOL_BEFORE, lambda context: permitted.append(context.session_id))
    loop = stage.loop(llm=model, tools=[crowd.tool], hooks=hooks)
    first = asyncio.ensure_future(loop.send("one"))
    await until(lambda: crowd.now == 1)
    second = asyncio.ensure_future(loop.send("two", stop=stop))
    await until(lambda: len(permitted) == 2)
    stop.cancel("enough")
    stopped = await second
    assert stopped.status == "cancelled"
    records = await stage.records(loop, stopped.session_id)
    assert [r.status for r in records if isinstance(r, ToolFinished)] == ["aborted"]
    assert not [r for r in records if isinstance(r, ToolStarted)]
    crowd.gate.set()
    assert (await first).status == "completed"
    assert (await loop.send("three")).status == "completed"  # its place in line is gone with it


async def test_time_in_line_is_not_counted_against_the_time_limit(stage: Stage) -> None:
    never = asyncio.Event()
    slow = FakeTool("slow", [gated("first", never), "second"], max_parallel=1, timeout_s=0.1)
    loop = stage.loop(calls(("slow", {"n": 1}), ("slow", {"n": 2})), "done", tools=[slow.tool])
    result = await loop.send("go")
    records = await stage.records(loop, result.session_id)
    assert [r.status for r in records if isinstance(r, ToolFinished)] == ["timed_out", "finished"]


async def test_a_call_that_waits_for_a_child_lets_the_child_call_the_same_tool(stage: Stage) -> None:
    @tool(effect="idempotent", max_parallel=1)
    async def ask(depth: int, ctx: ToolContext) -> str:
        """Ask somebody else."""
        if depth == 0:
            return "the bottom"
        return (await ctx.agents.spawn(AgentSpec(name="deeper"), "go on")).text

    model = stage.model(calls(("ask", {"depth": 1})), calls(("ask", {"depth": 0})), "from below", "done")
    result = await asyncio.wait_for(stage.loop(llm=model, tools=[ask]).send("go"), 10)
    assert (result.status, result.final_text) == ("completed", "done")


async def test_a_handler_that_fails_is_called_again_under_the_same_key_after_growing_pauses(stage: Stage) -> None:
    double = FakeTool(
        "fetch", [OSError("reset"), OSError("again"), "there"], retry=ToolRetry(attempts=3, backoff_s=2.0)
    )
    loop = stage.loop(calls(("fetch", {})), "done", tools=[double.tool], ambient=stage.time)
    listener = heard(loop)
    began = stage.time.monotonic()
    result = await loop.send("go")
    assert result.status == "completed"
    double.assert_done()
    assert len(double.keys) == 1
    told: list[Any] = [event.data for event in listener.events if event.type == "tool_attempt_failed"]
    assert [(one.attempt, one.max_attempts, one.error, one.next_sleep_s) for one in told] == [
        (1, 3, "OSError: reset", 2.0),
        (2, 3, "OSError: again", 4.0),
    ]
    assert stage.time.monotonic() - began >= 6.0
    records = await stage.records(loop, result.session_id)
    assert [(r.status, r.content) for r in records if isinstance(r, ToolFinished)] == [("finished", "there")]
    assert listener.kinds("tool_call_started", "tool_call_failed") == ["tool_call_started"]


@pytest.mark.parametrize(
    "settings, steps, said",
    [
        ({"attempts": 2}, [OSError("a"), OSError("b")], "OSError: b (tried 2 times)"),
        ({"attempts": 3}, [ToolFailure("no such page")], "no such page"),
        ({"attempts": 3, "on": (TimeoutError,)}, [OSError("a")], "OSError: a"),
        ({"attempts": 3, "on": lambda error: "busy" in str(error)}, [OSError("gone")], "OSError: gone"),
        ({"attempts": 3, "on": lambda error: 1 / 0}, [OSError("gone")], "OSError: gone"),
        ({"attempts": 3, "backoff_s": 90.0}, [OSError("a")], "OSError: a"),
    ],
    ids=["attempts are used up", "said to the model", "another kind", "not asked for", "bad predicate", "no time left"],
)
async def test_what_ends_the_attempts(stage: Stage, settings: dict[str, Any], steps: list[Any], said: str) -> None:
    double = FakeTool("fetch", steps, retry=ToolRetry(**settings), timeout_s=60.0)
    loop = stage.loop(calls(("fetch", {})), "done", tools=[double.tool], ambient=stage.time)
    result = await loop.send("go")
    records = await stage.records(loop, result.session_id)
    assert [(r.status, r.content) for r in records if isinstance(r, ToolFinished)] == [("failed", said)]
    double.assert_done()


async def test_a_stop_ends_the_pause_between_attempts_and_the_handler_is_not_called_again(stage: Stage) -> None:
    double = FakeTool("fetch", [OSError("reset")], retry=ToolRetry(attempts=5, backoff_s=300.0))
    loop, stop = stage.loop(calls(("fetch", {})), tools=[double.tool], tool_timeout_s=10_000.0), CancellationToken()
    listener = heard(loop)
    task = asyncio.ensure_future(loop.send("go", stop=stop))
    await until(lambda: "tool_attempt_failed" in listener.kinds("tool_attempt_failed"))
    stop.cancel("enough")
    result = await asyncio.wait_for(task, 10)
    assert result.status == "cancelled"
    records = await stage.records(loop, result.session_id)
    assert [r.status for r in records if isinstance(r, ToolFinished)] == ["aborted"]
    double.assert_done()


async def test_attempts_end_with_the_time_limit_of_the_tool(stage: Stage) -> None:
    async def slow(arguments: dict[str, Any], context: ToolContext) -> str:
        await stage.time.sleep(40.0)
        raise OSError("slow and broken")

    double = FakeTool("fetch", slow, retry=ToolRetry(attempts=10, backoff_s=1.0), timeout_s=100.0)
    loop = stage.loop(calls(("fetch", {})), "done", tools=[double.tool], ambient=stage.time)
    await loop.send("go")
    assert len(double.calls) == 3


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"retry": ToolRetry()}, "declared pure or idempotent"),
        ({"effect": "pure", "retry": ToolRetry(attempts=11)}, "2 to 10"),
        ({"effect": "pure", "retry": ToolRetry(attempts=1)}, "2 to 10"),
        ({"effect": "pure", "retry": ToolRetry(backoff_s=-1)}, "0 or more"),
        ({"effect": "pure", "retry": ToolRetry(backoff_s=float("nan"))}, "0 or more"),
        ({"effect": "pure", "retry": ToolRetry(on=("OSError",))}, "exception classes"),  # type: ignore[arg-type]
        ({"max_parallel": 0}, "max_parallel"),
        ({"max_parallel": True}, "max_parallel"),
    ],
)
def test_settings_that_cannot_hold_are_refused_where_the_tool_is_made_and_where_it_is_registered(
    settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):

        @tool(**settings)
        async def fetch() -> None:
            """Fetch."""

    double = FakeTool("fetch", effect="pure")

    with pytest.raises(ConfigError, match=told):
        ToolRegistry.of(msgspec.structs.replace(double.tool, **({"effect": "once"} | settings)))
