"""What waits for a person in a whole store, and answers that others go on with."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.scenario.conftest import Stage, texts
from tests.scenario.crew import cast, crew, spawn

from loopwright import AgentHooks, HookPoint, ToolContext, tool
from loopwright.model.call_errors import InteractionError
from loopwright.model.errors import InvalidMessageError, SessionNotFoundError
from loopwright.ports.hook import ToolBeforeContext
from loopwright.testing import calls
from loopwright.tools.ask import request_user_input_tool

ASK = request_user_input_tool()
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@tool(effect="once")
async def act(ctx: ToolContext) -> str:
    """Asks, then acts."""
    return f"did {await ctx.ask('how?')}"


async def test_questions_of_all_sessions_are_listed_with_who_asks_and_since_when(stage: Stage) -> None:
    ask = ("request_user_input", {"prompt": "first?", "kind": "choice", "options": ["a", "b"]})
    loop = stage.loop(calls(ask, ("act", {})), "hello", tools=[ASK, act], ambient=stage.time)
    one = await loop.send("go")
    await loop.send("hi")
    found = (await loop.open_questions()).questions
    assert [(q.question.prompt, q.question.options, q.session_id, q.asked_by, q.agents) for q in found] == [
        ("first?", ("a", "b"), one.session_id, one.session_id, ("default",)),
        ("how?", (), one.session_id, one.session_id, ("default",)),
    ]
    assert all(q.asked_at is not None and q.asked_at <= stage.time.now() for q in found)
    await loop.submit_input(one.session_id, found[1].question.id, "well")
    left = await loop.open_questions(one.session_id)
    assert [q.question.prompt for q in left.questions] == ["first?"]
    with pytest.raises(SessionNotFoundError):
        await loop.open_questions("nobody")
    await loop.abort_pending(one.session_id)
    assert (await loop.open_questions()).questions == ()


async def test_an_answer_that_runs_nothing_needs_no_tools_and_a_worker_goes_on_with_it(stage: Stage) -> None:
    first = stage.loop(calls(("act", {}), ("request_user_input", {"prompt": "?"})), tools=[ASK, act])
    waiting = await first.send("go", tools=["act", "request_user_input"])
    await stage.bury(first)
    clerk = stage.loop()
    for question, value in zip(waiting.pending_interactions, ("fast", "yes"), strict=True):
        assert await clerk.answer_input(waiting.session_id, question.id, value, by="ann") == waiting.session_id
        with pytest.raises(InteractionError):
            await clerk.answer_input(waiting.session_id, question.id, value)
    assert (await clerk.open_questions()).questions == ()
    await stage.bury(clerk)
    worker = stage.loop("done", tools=[ASK, act])
    await worker.serve(once=True)
    result = await worker.get_result(waiting.session_id)
    assert result is not None
    assert result.status == "completed"
    assert texts(await worker.get_messages(waiting.session_id))[2:4] == ["tool: did fast", "tool: yes"]


async def test_a_wrong_answer_that_runs_nothing_changes_nothing(stage: Stage) -> None:
    form = {"prompt": "?", "kind": "form", "schema": FORM}
    loop = stage.loop(calls(("request_user_input", form)), "done", tools=[ASK])
    waiting = await loop.send("go")
    [question] = waiting.pending_interactions
    before = (await loop.store.lookup(waiting.session_id)).head.position
    for wrong, path in (({"n": "x"}, r"\$\.n"), ({"n": 1, "m": 2}, "m"), ({}, "n")):
        with pytest.raises(InvalidMessageError, match=path):
            await loop.answer_input(waiting.session_id, question.id, wrong)
    assert (await loop.store.lookup(waiting.session_id)).head.position == before
    assert (await loop.submit_input(waiting.session_id, question.id, {"n": 1})).status == "completed"


async def test_a_grandchild_that_is_answered_without_a_run_is_gone_on_with_by_a_worker_up_to_the_root(
    stage: Stage,
) -> None:
    model = cast(
        root=[calls(spawn("chief")), "good"], chief=[calls(spawn("asker")), "well"], asker=[calls(("act", {})), "done"]
    )
    first = crew(stage, model, tools=[act])
    waiting = await first.send("go")
    [found] = (await first.open_questions()).questions
    assert (found.session_id, found.agents) == (waiting.session_id, ("default", "chief", "asker"))
    assert [q.asked_by for q in (await first.open_questions(found.asked_by)).questions] == [found.asked_by]
    assert await first.answer_input(waiting.session_id, found.question.id, "fast") == found.asked_by
    await stage.bury(first)
    worker = crew(stage, model, tools=[act])
    await worker.serve(once=True)
    result = await worker.get_result(waiting.session_id)
    assert result is not None
    assert (result.status, result.final_text) == ("completed", "good")


async def test_an_approval_that_is_stored_without_a_run_is_judged_when_the_call_runs(stage: Stage) -> None:
    hooks, ran = AgentHooks(), list[str]()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def approve(context: ToolBeforeContext) -> None:
        if not context.answered:
            context.ask("may it?")

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    loop = stage.loop(calls(("pay", {})), calls(("pay", {})), "done", tools=[pay], hooks=hooks)
    result = await loop.send("go")
    for value in ("deny", "approve"):
        await loop.answer_input(result.session_id, result.pending_interactions[0].id, value)
        assert ran == []
        result = await loop.resume(result.session_id)
    assert (result.status, ran) == ("completed", ["pay"])


BAD_FORMS: list[tuple[Any, str]] = [
    (None, "needs a schema"),
    ({"properties": {}}, "at least one field"),
    ({"properties": {"a": {"type": "object"}}}, r"\$\.properties\.a\.type"),
    ({"properties": {"a": {"type": "string", "minLenght": 3}}}, "minLenght"),
    ({"properties": {"a": {"type": "string"}}, "required": ["b"]}, r"\$\.required"),
    ({"properties": {"a": {"enum": []}}}, "enum"),
    ({"properties": {f"f{n}": {"type": "string"} for n in range(51)}}, "at most 50"),
]


@pytest.mark.parametrize("schema, why", BAD_FORMS)
async def test_a_form_that_a_model_writes_is_flat_and_bounded_and_it_is_told_what_is_wrong(
    stage: Stage, schema: Any, why: str
) -> None:
    asked = {"prompt": "?", "kind": "form"} | ({} if schema is None else {"schema": schema})
    loop = stage.loop(calls(("request_user_input", asked)), "sorry", tools=[ASK])
    result = await loop.send("go")
    assert result.status == "completed"
    said = texts(await loop.get_messages(result.session_id))[2]
    assert re.search(why, said), said
