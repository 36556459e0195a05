"""Tools that are kept back until the model finds them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage

from loopwright import AgentLoopConfig, LLMRequest, StatefulAgentLoop, ToolDefinition, tool
from loopwright.context import ProjectedRepresentation
from loopwright.core.control_state import MAX_REVEALED
from loopwright.model.context_records import PromptEpochStarted
from loopwright.model.control_records import ToolsRevealed
from loopwright.model.errors import ConfigError
from loopwright.model.records import ToolFinished
from loopwright.testing import FakeTool, calls
from loopwright.tools import ToolRegistry

PAY = FakeTool(
    "pay_invoice",
    lambda arguments, _: f"paid {arguments['number']}",
    description="Pay an open invoice.\nMore about it.",
    parameters={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    deferred=True,
).tool
MAIL = FakeTool("sendMail", lambda *_: "sent", description="Write to a customer.", deferred=True).tool
LOOK = FakeTool("look", lambda *_: "seen", description="Look at an invoice.").tool
TOOLS = (LOOK, PAY, MAIL)


def search(query: str, **more: Any) -> Any:
    return calls(("tool_search", {"query": query, **more}))


def listed(request: LLMRequest) -> list[str]:
    return [spec.name for spec in request.tools]  # type: ignore[union-attr]


async def of_kind(stage: Stage, loop: StatefulAgentLoop, session_id: str, kind: type[Any]) -> list[Any]:
    return [record for record in await stage.records(loop, session_id) if isinstance(record, kind)]


async def test_a_deferred_tool_is_listed_from_the_round_after_the_search_that_found_it(stage: Stage) -> None:
    model = stage.model(search("settle an invoice"), calls(("pay_invoice", {"number": 7})), "done", "again")
    loop = stage.loop(llm=model, tools=TOOLS)
    session = (await loop.send("go")).session_id
    await loop.send("more", session_id=session)
    plain = ["look", "tool_search"]
    assert [listed(request) for request in model.requests] == [plain, *[[*plain, "pay_invoice"]] * 3]
    assert model.requests[1].tools[-1] == PAY.spec
    [found, paid] = await of_kind(stage, loop, session, ToolFinished)
    assert found.content == "You can call these from now on:\n- pay_invoice: Pay an open invoice."
    assert (found.data, paid.content) == ({"tools": ["pay_invoice"]}, "paid 7")
    assert [r.names for r in await of_kind(stage, loop, session, ToolsRevealed)] == [("pay_invoice",)]


async def test_what_was_found_is_listed_behind_the_others_by_one_new_epoch_that_says_so(stage: Stage) -> None:
    both = calls(("tool_search", {"query": "invoice"}), ("tool_search", {"query": "customer"}))
    model = stage.model(both, "done", "again")
    loop = stage.loop(llm=model, tools=TOOLS, system_prompt="Be brief.")
    session = (await loop.send("go")).session_id
    await loop.send("more", session_id=session)
    epochs = await of_kind(stage, loop, session, PromptEpochStarted)
    assert [epoch.reason for epoch in epochs] == ["first", "tools found: pay_invoice, sendMail"]
    assert epochs[1].tools[: len(epochs[0].tools)] == epochs[0].tools
    assert (epochs[1].instructions, epochs[1].number) == ("Be brief.", 2)


async def test_every_loop_lists_the_same_whether_it_is_warm_or_cold_or_goes_on_with_a_fork(stage: Stage) -> None:
    model = stage.model(search("invoice"), "done", "warm", "cold", "forked")
    loop = stage.loop(llm=model, tools=TOOLS)
    session = (await loop.send("go")).session_id
    fork = await loop.fork(session)
    await loop.send("again", session_id=session)
    cold = stage.loop(llm=model, tools=TOOLS)
    await cold.send("again", session_id=session)
    await cold.send("again", session_id=fork)
    assert [request.tools for request in model.requests[2:]] == [model.requests[1].tools] * 3


FOUND = "tool_started+tools_revealed+tool_finished"


@pytest.mark.parametrize(
    "at", [f"commit.before:{FOUND}", f"commit.after:{FOUND}", "commit.before:prompt_epoch_started", "model.before"]
)
async def test_a_process_that_dies_around_a_search_leaves_what_was_found(stage: Stage, at: str) -> None:
    mortal = stage.mortal(f"{at}#{2 if at == 'model.before' else 1}", search("invoice"), tools=TOOLS)
    session = await mortal.new_session()
    await stage.dies(mortal, mortal.send("go", session_id=session))
    model = stage.model("done")
    loop = stage.loop(llm=model, tools=TOOLS)
    await loop.recover()
    assert listed(model.requests[0]) == ["look", "tool_search", "pay_invoice"]
    assert len(await of_kind(stage, loop, session, PromptEpochStarted)) == 2


async def test_a_tool_that_was_not_found_yet_runs_all_the_same_when_its_arguments_fit(stage: Stage) -> None:
    model = stage.model(calls(("pay_invoice", {})), calls(("pay_invoice", {"number": 3})), "done")
    loop = stage.loop(llm=model, tools=TOOLS)
    session = (await loop.send("go")).session_id
    refused, paid = await of_kind(stage, loop, session, ToolFinished)
    assert refused.status == "invalid"
    assert '"number":{"type":"integer"}' in refused.content.replace(" ", "")
    assert paid.content == "paid 3"
    assert [listed(request) for request in model.requests] == [["look", "tool_search"]] * 3


async def test_a_search_never_shows_what_the_send_may_not_use(stage: Stage) -> None:
    names = ["look", "tool_search", "sendMail"]
    steps = [search("invoice"), search("customer"), calls(("pay_invoice", {"number": 1})), "done", search("pay"), "end"]
    model = stage.model(*steps)
    loop = stage.loop(llm=model, tools=TOOLS)
    first = await loop.send("go", tools=names)
    nothing, found, refused = await of_kind(stage, loop, first.session_id, ToolFinished)
    assert nothing.content == "No tool fits these words. Other words may; these can be found: sendMail"
    assert found.data == {"tools": ["sendMail"]}
    assert "no tool named 'pay_invoice'; available: look, tool_search, sendMail" in refused.content
    await loop.send("all", session_id=first.session_id)
    assert listed(model.requests[-1]) == ["look", "tool_search", "sendMail", "pay_invoice"]


async def test_what_was_found_for_one_send_is_not_listed_in_one_that_may_not_use_it(stage: Stage) -> None:
    model = stage.model(search("invoice"), "done", "narrow", "wide")
    loop = stage.loop(llm=model, tools=TOOLS)
    session = (await loop.send("go")).session_id
    await loop.send("narrow", session_id=session, tools=["look"])
    await loop.send("wide", session_id=session)
    assert [listed(r) for r in model.requests[1:]] == [
        ["look", "tool_search", "pay_invoice"],
        ["look"],
        ["look", "tool_search", "pay_invoice"],
    ]


async def test_a_send_that_cannot_search_is_shown_the_deferred_tools_that_it_may_use(stage: Stage) -> None:
    model = stage.model("done", "late")
    loop = stage.loop(llm=model, tools=TOOLS)
    await loop.send("go", tools=["look", "pay_invoice"])
    registry = ToolRegistry.of(LOOK)
    late = stage.loop(llm=model, tools=registry)
    registry.register(PAY)  # behind the loop's back
    await late.send("go")
    assert [listed(request) for request in model.requests] == [["look", "pay_invoice"]] * 2


async def test_beyond_a_number_of_tools_the_others_are_kept_back_except_those_of_the_session(stage: Stage) -> None:
    @tool(effect="idempotent", touches="session")
    async def remember() -> None:
        """Remember."""

    tools = [FakeTool(f"tool_{n}", lambda *_: "ok").tool for n in range(5)]
    model = stage.model(search("tool_4", limit=1), "done")
    loop = stage.loop(llm=model, tools=[*tools, remember], defer_tools_beyond=2)
    await loop.send("go")
    assert [listed(r) for r in model.requests] == [
        ["tool_0", "tool_1", "remember", "tool_search"],
        ["tool_0", "tool_1", "remember", "tool_search", "tool_4"],
    ]
    few = stage.model("done")
    await stage.loop(llm=few, tools=tools[:2], defer_tools_beyond=2).send("go")
    assert listed(few.requests[0]) == ["tool_0", "tool_1"]
    with pytest.raises(ConfigError, match="defer_tools_beyond must be 0 or more"):
        AgentLoopConfig(defer_tools_beyond=-1)


async def test_found_tools_are_listed_up_to_a_number_and_the_oldest_make_room(stage: Stage) -> None:
    tools = [FakeTool(f"tool_{n}", lambda *_: "ok", deferred=True).tool for n in range(MAX_REVEALED + 6)]
    rounds = [search(" ".join(f"tool_{n}" for n in range(at, at + 10)), limit=10) for at in range(0, 70, 10)]
    model = stage.model(*rounds, "done", "again")
    loop = stage.loop(llm=model, tools=tools, max_rounds=50)
    session = (await loop.send("go")).session_id
    await loop.send("again", session_id=session)
    shown = listed(model.requests[-2])
    assert (len(shown), shown[0], shown[1], shown[-1]) == (1 + MAX_REVEALED, "tool_search", "tool_6", "tool_69")
    assert listed(model.requests[-1]) == shown


async def test_what_was_found_is_still_listed_after_folds_and_projections(stage: Stage) -> None:
    model = stage.model(search("invoice"), "done", "again")
    loop = stage.loop(llm=model, tools=TOOLS, representation=ProjectedRepresentation(), checkpoint_every=1)
    session = (await loop.send("go")).session_id
    cold = stage.loop(llm=model, tools=TOOLS, representation=ProjectedRepresentation())
    await cold.send("more", session_id=session)
    assert listed(model.requests[-1])[-1] == "pay_invoice"


async def test_a_catalogue_in_the_instructions_names_what_was_found(stage: Stage) -> None:
    model = stage.model(search("invoice"), "done", "again")
    loop = stage.loop(llm=model, tools=TOOLS, inject_tool_descriptions=True)
    session = (await loop.send("go")).session_id
    await loop.send("again", session_id=session)
    told = [("pay_invoice" in str(request.system_prompt)) for request in model.requests]
    assert told == [False, True, True]


async def test_a_registry_of_one_send_can_be_searched_too_and_a_hosts_own_tool_search_stays(stage: Stage) -> None:
    model = stage.model(search("invoice"), "done")
    await stage.loop(llm=model).send("go", tools=ToolRegistry.of(*TOOLS))
    assert listed(model.requests[1]) == ["look", "tool_search", "pay_invoice"]
    own = FakeTool("tool_search", ["mine"], description="Mine.").tool
    model = stage.model(search("invoice"), "done")
    await stage.loop(llm=model, tools=[own, PAY]).send("go")
    assert model.requests[0].tools == (own.spec,)


async def test_without_deferred_tools_nothing_can_be_searched() -> None:
    plain = ToolRegistry.of(LOOK)
    async with StatefulAgentLoop(llm="echo:", dsn="memory:", tools=plain) as loop:
        assert loop._kernel.tools is plain


def test_a_definition_is_deferred_by_its_own_word() -> None:
    @tool(deferred=True)
    async def rare() -> None:
        """Rare."""

    assert isinstance(rare, ToolDefinition)
    assert rare.deferred
