"""What children may be and do: limits, permissions, budgets, inheritance, time, shapes of answers, events."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Listener, Stage
from tests.scenario.crew import answers_of, cast, children_of, crew, ended, endings_of, spawn

from loopwright import LLMResponse, StatefulAgentLoop, Usage, tool
from loopwright.core.spawning import child_id_of
from loopwright.model.agent_spec import AgentSpec, SubagentLifecycle
from loopwright.model.errors import LLMTransientError, SessionGoneError
from loopwright.model.family_errors import SpawnRefusedError
from loopwright.model.records import SendStarted
from loopwright.ports.memory import MemorySnapshot, RecalledMemory
from loopwright.ports.store import SessionQuery
from loopwright.ports.tool import ToolContext
from loopwright.testing import calls
from loopwright.transports.price_table import PriceTable


@pytest.mark.parametrize("most", [0, 1, 2])
async def test_agents_are_nested_as_deep_as_the_loop_allows_and_the_model_hears_why_not_deeper(
    stage: Stage, most: int
) -> None:
    loop = crew(
        stage,
        root=[calls(spawn("chief")), "done"],
        chief=[calls(spawn("chief")), "led"],
        options={"max_spawn_depth": most},
    )
    result = await loop.send("go")
    assert result.ok
    heads = await loop.store.list(SessionQuery())
    assert len(heads) == most + 1
    deepest = result.session_id
    for _ in range(most):
        [deepest] = await children_of(stage, loop, deepest)
    [refused] = await answers_of(stage, loop, deepest)
    assert refused.status == "failed"
    assert f"nested {most} deep" in str(refused.content)


async def test_a_send_starts_no_more_agents_than_the_loop_allows_and_the_next_send_as_many_again(stage: Stage) -> None:
    batch = [spawn("brief") for _ in range(3)]
    loop = crew(
        stage, root=[calls(*batch), "1", calls(spawn("brief")), "2"], brief=["ok"], options={"max_children_per_send": 2}
    )
    first = await loop.send("go")
    found = await answers_of(stage, loop, first.session_id)
    assert sorted(one.status for one in found) == ["failed", "finished", "finished"]
    assert "one send may start 2 agents" in str([one.content for one in found if one.status == "failed"])
    await loop.send("again", session_id=first.session_id)
    assert (await answers_of(stage, loop, first.session_id))[-1].status == "finished"


async def test_an_agent_that_nobody_knows_is_named_to_the_model_with_those_that_are_known(stage: Stage) -> None:
    loop = crew(stage, root=[calls(spawn("ghost")), "done"])
    result = await loop.send("go")
    [answer] = await answers_of(stage, loop, result.session_id)
    assert answer.status == "failed"
    assert "no agent 'ghost'; known: scout, brief" in str(answer.content)


async def test_a_child_has_the_tools_that_both_its_spec_and_its_parents_send_allow_also_when_it_is_resumed(
    stage: Stage,
) -> None:
    scripts: dict[str, list[Any]] = {
        "root": [calls(spawn("reader")), "done"],
        "reader": [calls(("touch", {}), ("look", {})), "read"],
    }
    loop = crew(stage, **scripts)
    result = await loop.send("go", tools=["spawn_agent", "look"])
    assert result.ok
    [child] = await children_of(stage, loop, result.session_id)
    statuses = {one.name: one.status for one in await answers_of(stage, loop, child)}
    assert statuses == {"touch": "invalid", "look": "finished"}
    # A later send to the child, by whoever knows its id, has no more.
    await stage.bury(loop)
    model = cast(reader=["", "", calls(("touch", {})), "again"])
    later = crew(stage, model)
    await later.send("and touch", session_id=child)
    assert [one.status for one in await answers_of(stage, later, child)][-1] == "invalid"
    starts = [r for r in await stage.records(later, child) if isinstance(r, SendStarted)]
    assert [start.tools for start in starts] == [("look",), ("look",)]
    assert [spec.name for request in model.requests for spec in request.tools] == ["look", "look"]


async def test_what_children_use_counts_for_the_parents_send_and_once_in_a_sum_over_sessions(stage: Stage) -> None:
    loop = crew(
        stage,
        root=[calls(spawn("chief")), "done"],
        chief=[calls(spawn("scout"), spawn("brief")), "led"],
        scout=["found"],
        brief=["short"],
    )
    result = await loop.send("go")
    assert result.usage.calls == 6
    own = [
        (await loop.get_session_stats(head.session_id)).usage.calls for head in await loop.store.list(SessionQuery())
    ]
    assert sorted(own) == [1, 2, 2]  # the brief one is gone with its figures, which its parent's send has
    [chief] = await children_of(stage, loop, result.session_id)
    inner = await loop.get_result(chief)
    assert inner is not None
    assert inner.usage.calls == 4


async def test_a_child_gets_what_is_left_of_its_parents_tokens(stage: Stage) -> None:
    loop = crew(stage, root=[calls(spawn("scout")), "done"], scout=["found"])
    result = await loop.send("go", run_token_budget=1_000_000)
    [child] = await children_of(stage, loop, result.session_id)
    [start] = [r for r in await stage.records(loop, child) if isinstance(r, SendStarted)]
    first = result.usage.total_tokens
    assert start.run_token_budget is not None
    assert 1_000_000 - first < start.run_token_budget < 1_000_000


def priced(text: str) -> LLMResponse:
    return LLMResponse(text=text, finish_reason="stop", usage=Usage(20, 100, calls=1), model="cast")


async def test_eight_children_at_once_spend_no_more_money_than_their_parent_may_by_one_reservation(
    stage: Stage,
) -> None:
    # A call costs 0.00102 dollars; the parent's own first one and three of eight children fit.
    limit = 0.0045
    batch = calls(*[spawn("scout") for _ in range(8)])
    model = cast(root=[batch, "done"], scout=[lambda _: priced("found")])
    prices = PriceTable({"cast": {"input": 1, "output": 10}})
    loop = crew(stage, model, options={"prices": prices, "max_output_tokens": 100, "run_cost_budget_usd": limit})
    result = await loop.send("go")
    found = await answers_of(stage, loop, result.session_id)
    outcomes = [one.data["status"] for one in found]
    assert "budget_exceeded" in outcomes
    assert "completed" in outcomes
    assert result.usage.nanodollars <= limit * 1e9
    account = await loop.store.budget(f"send:{result.session_id}:1")
    assert (account.holds, account.held) == (0, 0)
    assert account.spent <= limit * 1e9


async def test_children_retry_as_their_parent_does_and_do_not_see_its_memory(stage: Stage) -> None:
    class Memory:
        def __init__(self) -> None:
            self.asked: list[str] = []
            self.told: list[str] = []

        async def recall(self, messages: Any, session_id: str, budget_tokens: int) -> list[RecalledMemory]:
            self.asked.append(session_id)
            return []

        async def remember(self, snapshot: MemorySnapshot, session_id: str) -> None:
            self.told.append(snapshot.session_id)

    failures = [LLMTransientError("overloaded", status=503)]

    def flaky(_: Any) -> str:
        if failures:
            raise failures.pop()
        return "found"

    memory = Memory()
    loop = crew(stage, root=[calls(spawn("scout")), "done"], scout=[flaky], options={"memory": [memory]})
    result = await loop.send("go")
    assert (result.ok, result.usage.calls >= 3) == (True, True)
    await loop.aclose()
    assert set(memory.asked) == {result.session_id}
    assert memory.told == [result.session_id]


async def test_a_child_that_takes_longer_than_its_spec_allows_is_stopped_and_failed_for_its_parent(
    stage: Stage,
) -> None:
    @tool(effect="pure")
    async def dawdle(ctx: ToolContext) -> str:
        """Wait."""
        await ctx.cancellation.wait()
        return "never"

    loop = crew(stage, root=[calls(spawn("hasty")), "done"], hasty=[calls(("dawdle", {})), "late"], tools=[dawdle])
    result = await loop.send("go")
    [answer] = await answers_of(stage, loop, result.session_id)
    assert (result.ok, answer.status, answer.data["status"]) == (True, "failed", "failed")
    assert "took longer than the 0.05 s" in str(answer.content)
    [end] = await endings_of(stage, loop, result.session_id)
    assert end.outcome == "failed"
    inner = await loop.get_result(end.child_id)
    assert inner is not None
    assert inner.status == "cancelled"


async def test_a_child_that_waits_for_a_person_for_too_long_is_ended_by_its_parents_timer(stage: Stage) -> None:
    loop = crew(
        stage,
        root=[calls(spawn("hasty")), "done"],
        hasty=[calls(("request_user_input", {"prompt": "which?"})), "late"],
    )
    waiting = await loop.send("go")
    assert waiting.status == "waiting_for_input"
    result = await ended(loop, waiting.session_id)
    [answer] = await answers_of(stage, loop, waiting.session_id)
    assert (result.final_text, answer.data["status"]) == ("done", "failed")
    [child] = await children_of(stage, loop, waiting.session_id)
    inner = await loop.get_result(child)
    assert inner is not None
    assert inner.status == "cancelled"
    assert not await loop.list_timers(waiting.session_id)


async def test_a_shaped_answer_of_a_child_is_data_for_its_parent(stage: Stage) -> None:
    loop = crew(stage, root=[calls(spawn("counter")), "done"], counter=['{"n": "x"}', '{"n": 3}'])
    result = await loop.send("go")
    [answer] = await answers_of(stage, loop, result.session_id)
    assert (answer.data["output"], answer.content) == ({"n": 3}, '{"n":3}')


async def test_events_name_the_path_of_agents_and_each_child_that_starts_is_seen_to_end(stage: Stage) -> None:
    listener = Listener()
    loop = crew(
        stage,
        root=[calls(spawn("chief")), "done"],
        chief=[calls(spawn("scout"), spawn("brief", background=True)), "led", "heard"],
        scout=["found"],
        brief=["short"],
    )
    loop.event_bus.subscribe(listener)
    result = await loop.send("go")
    for head in await loop.store.list(SessionQuery()):
        await ended(loop, head.session_id)
    await loop.event_bus.drain()
    paths = {"/".join(event.agent) for event in listener.events if event.type.value == "round_started"}
    assert paths == {"default", "default/chief", "default/chief/scout", "default/chief/brief"}
    started = [event.data.child_id for event in listener.events if event.type.value == "subagent_started"]
    completed = [event.data.child_id for event in listener.events if event.type.value == "subagent_completed"]
    assert sorted(started) == sorted(completed)
    assert len(started) == 3
    [outer] = [e for e in listener.events if e.type.value == "subagent_started" and e.session_id == result.session_id]
    assert outer.agent == ("default",)


async def test_a_once_tool_that_spawns_or_waits_is_told_how_to_be_declared(stage: Stage) -> None:
    @tool(effect="once")
    async def hire(ctx: ToolContext) -> str:
        """Hire."""
        return (await ctx.agents.spawn(AgentSpec(name="x"), "go")).text

    loop = crew(stage, root=[calls(("hire", {})), "done"], tools=[hire])
    result = await loop.send("go")
    [answer] = await answers_of(stage, loop, result.session_id)
    assert (answer.status, "declare the tool idempotent" in str(answer.content)) == ("failed", True)
    assert await children_of(stage, loop, result.session_id) == []


async def test_only_ones_own_children_can_be_spoken_to(stage: Stage) -> None:
    loop = crew(stage, root=["hi"])
    other = (await loop.send("hello")).session_id
    refused: list[str] = []

    @tool(effect="idempotent")
    async def meddle(ctx: ToolContext) -> str:
        """Meddle."""
        for work in (ctx.agents.nudge(other, "go"), ctx.agents.stop(other), ctx.agents.wait(other)):
            with pytest.raises(SpawnRefusedError) as found:
                await work
            refused.append(found.value.code)
        with pytest.raises(SpawnRefusedError):
            await ctx.agents.wait("nobody")
        return "no"

    second = crew(stage, root=[calls(("meddle", {})), "done"], tools=[meddle])
    assert (await second.send("go")).ok
    assert refused == ["spawn.refused"] * 3


async def test_a_handler_that_runs_twice_has_the_same_children(stage: Stage) -> None:
    ids: list[str] = []

    @tool(effect="idempotent")
    async def team(ctx: ToolContext) -> str:
        """Team."""
        spec = AgentSpec(name="scout", system_prompt="You scout.", lifecycle=SubagentLifecycle.LINKED)
        found = [await ctx.agents.spawn(spec, f"part {n}") for n in range(2)]
        ids.extend(one.session_id for one in found)
        assert ids[-2:] == [child_id_of(ctx.idempotency_key, n) for n in range(2)]
        return " and ".join(one.text for one in found)

    scripts: dict[str, list[Any]] = {
        "root": [calls(("team", {})), "done"],
        "scout": [lambda request: f"did {request.messages[0].text}"],
    }
    dying = crew(stage, tools=[team], **scripts)
    await stage.bury(dying)
    mortal = stage.mortal("tool.after:team#1", llm=cast(**scripts), tools=[team])
    await stage.dies(mortal, mortal.send("go"))
    later = crew(stage, tools=[team], **scripts)
    [found] = await later.recover()
    assert found.result is not None
    assert found.result.ok
    assert ids[:2] == ids[2:]
    assert len(await later.store.list(SessionQuery())) == 3


async def test_results_of_ephemeral_children_that_fail_are_told_and_the_children_gone(stage: Stage) -> None:
    def broken(_: Any) -> str:
        raise ValueError("no")

    loop: StatefulAgentLoop = crew(stage, root=[calls(spawn("brief")), "done"], brief=[broken])
    result = await loop.send("go")
    [answer] = await answers_of(stage, loop, result.session_id)
    assert (result.ok, answer.status, answer.data["status"]) == (True, "failed", "failed")
    [child] = await children_of(stage, loop, result.session_id)
    with pytest.raises(SessionGoneError):
        await loop.get_messages(child)
