"""Handlers that ask a person and run again with the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scenario.conftest import Stage, texts
from tests.scenario.crew import cast, crew, spawn

from loopwright import AgentHooks, HookPoint, InputNeeded, ToolContext, tool
from loopwright.model.call_errors import InteractionError
from loopwright.model.control_records import HandlerAsked
from loopwright.model.errors import AgentUnavailableError, InvalidMessageError
from loopwright.model.records import ToolFinished, ToolStarted
from loopwright.ports.hook import ToolBeforeContext
from loopwright.testing import calls

RAN: list[str] = []
FORM = {"type": "object", "properties": {"seats": {"type": "integer", "minimum": 1}}, "required": ["seats"]}


@tool(effect="once")
async def book(ctx: ToolContext) -> str:
    """Asks twice, then acts."""
    where = await ctx.ask("where to?", kind="choice", options=["Oslo", "Rome"])
    form = await ctx.ask("how many?", kind="form", schema=FORM)
    RAN.append(f"{where} {form['seats']}")
    return f"booked {form['seats']} to {where}"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def open_ids(result: Any) -> list[str]:
    return [question.id for question in result.pending_interactions]


async def test_a_handler_runs_again_with_each_answer_and_acts_once_days_later_in_other_processes(stage: Stage) -> None:
    first = stage.loop(calls(("book", {})), tools=[book])
    waiting = await first.send("go")
    [where] = waiting.pending_interactions
    assert (waiting.status, where.prompt, where.options) == ("waiting_for_input", "where to?", ("Oslo", "Rome"))
    await stage.bury(first)
    second = stage.loop(tools=[book])
    again = await second.submit_input(waiting.session_id, where.id, "Rome")
    [how_many] = again.pending_interactions
    assert how_many.id != where.id
    assert RAN == []
    await stage.bury(second)
    third = stage.loop("done", tools=[book])
    result = await third.submit_input(waiting.session_id, how_many.id, {"seats": 2})
    assert (result.status, RAN) == ("completed", ["Rome 2"])
    assert texts(await third.get_messages(waiting.session_id))[2] == "tool: booked 2 to Rome"
    assert await third.store.uncertain_calls() == []


async def test_an_answer_to_a_handler_is_taken_once_and_only_when_it_fits(stage: Stage) -> None:
    loop = stage.loop(calls(("book", {})), "done", tools=[book])
    waiting = await loop.send("go")
    [first] = open_ids(waiting)
    with pytest.raises(InvalidMessageError, match="Oslo"):
        await loop.submit_input(waiting.session_id, first, "Paris")
    again = await loop.submit_input(waiting.session_id, first, "Oslo")
    [second] = open_ids(again)
    with pytest.raises(InteractionError) as caught:
        await loop.submit_input(waiting.session_id, first, "Rome")
    assert caught.value.answered
    for wrong, path in (({"seats": 0}, r"\$\.seats"), ({}, "seats"), ({"seats": 1, "x": "y" * 300_000}, "large")):
        with pytest.raises(InvalidMessageError, match=path):
            await loop.submit_input(waiting.session_id, second, wrong)
    assert open_ids(await loop.resume(waiting.session_id)) == [second]
    await loop.submit_input(waiting.session_id, second, {"seats": 1})
    assert RAN == ["Oslo 1"]


async def test_four_parallel_calls_ask_and_are_answered_in_any_order(stage: Stage) -> None:
    @tool(effect="idempotent")
    async def sure(n: int, ctx: ToolContext) -> str:
        """Asks."""
        return "did" if await ctx.ask(f"do {n}?", kind="confirm") else "did not"

    loop = stage.loop(calls(*[("sure", {"n": n}) for n in range(4)]), "done", tools=[sure])
    result = await loop.send("go")
    asked = {question.prompt: question.id for question in result.pending_interactions}
    for n in (2, 0, 3, 1):
        assert result.status == "waiting_for_input"
        result = await loop.submit_input(result.session_id, asked[f"do {n}?"], n % 2 == 0)
    assert result.status == "completed"
    said = texts(await loop.get_messages(result.session_id))[2:6]
    assert said == ["tool: did", "tool: did not", "tool: did", "tool: did not"]


async def test_an_approval_stays_approved_while_the_handler_asks(stage: Stage) -> None:
    hooks, seen = AgentHooks(), list[Any]()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def approve(context: ToolBeforeContext) -> None:
        seen.append((context.answered, context.answer))
        if not context.answered:
            context.ask("may it?")

    loop = stage.loop(calls(("book", {})), "done", tools=[book], hooks=hooks)
    result = await loop.send("go")
    ids = list[str]()
    for value in ("approve", "Oslo", {"seats": 3}):
        [question] = open_ids(result)
        ids.append(question)
        result = await loop.submit_input(result.session_id, question, value)
    assert (result.status, RAN, len(set(ids))) == ("completed", ["Oslo 3"], 3)
    assert seen == [(False, None), (True, "approve"), (True, "approve"), (True, "approve")]


async def test_a_handler_whose_question_becomes_the_result_may_have_been_approved_before(stage: Stage) -> None:
    hooks = AgentHooks()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def approve(context: ToolBeforeContext) -> None:
        if not context.answered:
            context.ask("may it?")

    @tool(effect="pure")
    async def which() -> InputNeeded:
        """Asks."""
        return InputNeeded("which?")

    loop = stage.loop(calls(("which", {})), "done", tools=[which], hooks=hooks)
    result = await loop.send("go")
    result = await loop.submit_input(result.session_id, *open_ids(result), "approve")
    assert [question.prompt for question in result.pending_interactions] == ["which?"]
    result = await loop.submit_input(result.session_id, *open_ids(result), "red")
    assert texts(await loop.get_messages(result.session_id))[2] == "tool: red"


async def test_an_elicitation_may_be_declined_and_its_content_is_checked(stage: Stage) -> None:
    got = list[Any]()

    @tool(effect="pure")
    async def serve(ctx: ToolContext) -> str:
        """Asks for a server."""
        got.append(await ctx.ask("your seat?", kind="elicitation", schema=FORM, source="planes"))
        return "ok"

    loop = stage.loop(calls(("serve", {}), ("serve", {})), "done", tools=[serve])
    result = await loop.send("go")
    one, other = open_ids(result)
    assert result.pending_interactions[0].metadata == {"source": "planes"}
    for wrong, path in (
        ("yes", "action"),
        ({"action": "maybe"}, r"\$\.action"),
        ({"action": "accept", "content": {"seats": "two"}}, r"\$\.content\.seats"),
        ({"action": "accept"}, "seats"),
        ({"action": "decline", "content": {"seats": 2}}, r"\$\.content"),
    ):
        with pytest.raises(InvalidMessageError, match=path):
            await loop.submit_input(result.session_id, one, wrong)
    await loop.submit_input(result.session_id, one, {"action": "accept", "content": {"seats": 2}})
    assert (await loop.submit_input(result.session_id, other, {"action": "decline"})).status == "completed"
    assert got == [{"action": "accept", "content": {"seats": 2}}, {"action": "decline"}]


async def test_words_that_change_with_each_run_end_in_an_error_and_not_in_questions_for_ever(stage: Stage) -> None:
    runs = 0

    @tool(effect="pure")
    async def fickle(ctx: ToolContext) -> str:
        """Asks something else each time."""
        nonlocal runs
        runs += 1
        return str(await ctx.ask(f"question {runs}"))

    loop = stage.loop(calls(("fickle", {})), "done", tools=[fickle])
    result = await loop.send("go")
    while result.status == "waiting_for_input":
        result = await loop.submit_input(result.session_id, *open_ids(result), "yes")
    assert runs == 33
    assert "32" in texts(await loop.get_messages(result.session_id))[2]


@pytest.mark.parametrize(
    "asked, why",
    [
        ({"prompt": " "}, "empty"),
        ({"prompt": "?" * 20_001}, "20,000"),
        ({"prompt": "?", "kind": "choice"}, "options"),
        ({"prompt": "?", "kind": "approval"}, "confirm"),
        ({"prompt": "?", "schema": {"type": "nothing"}}, "JSON Schema"),
        ({"prompt": "?", "metadata": {"x": "y" * 70_000}}, "metadata"),
    ],
)
async def test_what_cannot_be_asked_fails_the_call_and_nobody_is_asked(stage: Stage, asked: Any, why: str) -> None:
    @tool(effect="pure")
    async def badly(ctx: ToolContext) -> str:
        """Asks badly."""
        return str(await ctx.ask(**asked))

    loop = stage.loop(calls(("badly", {})), "done", tools=[badly])
    result = await loop.send("go")
    assert result.status == "completed"
    assert why in texts(await loop.get_messages(result.session_id))[2]


async def test_tasks_of_a_handler_may_ask_too(stage: Stage) -> None:
    @tool(effect="pure")
    async def both(ctx: ToolContext) -> str:
        """Asks in two tasks."""
        async with asyncio.TaskGroup() as group:
            one = group.create_task(ctx.ask("one?"))
            two = group.create_task(ctx.ask("two?"))
        return f"{one.result()} {two.result()}"

    loop = stage.loop(calls(("both", {})), "done", tools=[both])
    result = await loop.send("go")
    while result.status == "waiting_for_input":
        [question] = result.pending_interactions
        result = await loop.submit_input(result.session_id, question.id, question.prompt[:3])
    assert texts(await loop.get_messages(result.session_id))[2] == "tool: one two"


async def test_what_a_handler_wrote_before_it_asked_is_stored_once_with_its_result(stage: Stage) -> None:
    @tool(effect="pure")
    async def noting(ctx: ToolContext) -> str:
        """Writes, then asks."""
        lists: Any = ctx
        lists.notes.write("n1", "seen")
        return str(await ctx.ask("sure?"))

    loop = stage.loop(calls(("noting", {})), "done", tools=[noting])
    result = await loop.send("go")
    kinds = [type(r).__name__ for r in await stage.records(loop, result.session_id)]
    assert "NoteWritten" not in kinds
    await loop.submit_input(result.session_id, *open_ids(result), "yes")
    kinds = [type(r).__name__ for r in await stage.records(loop, result.session_id)]
    assert kinds.count("NoteWritten") == 1


async def test_a_once_call_that_waits_for_an_answer_is_not_uncertain_when_it_is_aborted(stage: Stage) -> None:
    loop = stage.loop(calls(("book", {})), "after", tools=[book])
    waiting = await loop.send("go")
    assert await loop.store.uncertain_calls() == []
    assert await loop.abort_pending(waiting.session_id, reason="no time") == 1
    [answer] = [r for r in await stage.records(loop, waiting.session_id) if isinstance(r, ToolFinished)]
    assert (answer.status, answer.content) == ("aborted", "<aborted: no time>")
    with pytest.raises(InteractionError):
        await loop.submit_input(waiting.session_id, *open_ids(waiting), "Oslo")
    assert (await loop.send("next", session_id=waiting.session_id)).final_text == "after"


async def test_a_once_call_that_dies_after_its_answers_is_uncertain_and_not_run_again(stage: Stage) -> None:
    first = stage.loop(calls(("book", {})), tools=[book])
    result = await first.send("go")
    result = await first.submit_input(result.session_id, *open_ids(result), "Oslo")
    await stage.bury(first)
    dying = stage.mortal("tool.after:book", tools=[book])
    await stage.dies(dying, dying.submit_input(result.session_id, *open_ids(result), {"seats": 1}))
    loop = stage.loop("told", tools=[book])
    assert [one.name for one in await loop.store.uncertain_calls()] == ["book"]
    assert (await loop.resume(result.session_id)).final_text == "told"
    assert RAN == ["Oslo 1"]


async def test_a_fork_does_not_take_an_open_question_along(stage: Stage) -> None:
    loop = stage.loop(calls(("book", {})), "done", "forked", tools=[book])
    waiting = await loop.send("go")
    fork = await loop.fork(waiting.session_id)
    assert (await loop.get_pending(fork))[1] == ()
    result = await loop.submit_input(waiting.session_id, *open_ids(waiting), "Oslo")
    await loop.submit_input(waiting.session_id, *open_ids(result), {"seats": 1})
    assert (await loop.send("and?", session_id=fork)).final_text == "forked"


async def test_a_handler_is_needed_where_its_question_is_answered(stage: Stage) -> None:
    first = stage.loop(calls(("book", {})), tools=[book])
    waiting = await first.send("go", tools=["book"])
    await stage.bury(first)
    without = stage.loop()
    with pytest.raises(AgentUnavailableError, match="book"):
        await without.submit_input(waiting.session_id, *open_ids(waiting), "Oslo")
    assert open_ids(await without.resume(waiting.session_id)) == open_ids(waiting)


async def test_a_question_three_agents_deep_is_answered_at_the_top_from_another_process(stage: Stage) -> None:
    twice = calls(("book", {}), ("book", {}))
    model = cast(root=[calls(spawn("chief")), "good"], chief=[calls(spawn("asker")), "well"], asker=[twice, "done"])
    first = crew(stage, model, tools=[book])
    result = await first.send("go")
    ids = open_ids(result)
    assert len(ids) == 2
    found = await first.open_questions()
    assert [(one.session_id, one.agents[-1]) for one in found.questions] == [(result.session_id, "asker")] * 2
    await stage.bury(first)
    second = crew(stage, model, tools=[book])
    for prompt, value in [("where to?", "Oslo")] * 2 + [("how many?", {"seats": 4})] * 2:
        question = next(one for one in result.pending_interactions if one.prompt == prompt)
        result = await second.submit_input(result.session_id, question.id, value)
    assert (result.status, result.final_text) == ("completed", "good")
    assert RAN == ["Oslo 4", "Oslo 4"]


async def test_the_intent_of_a_handler_that_asked_is_in_the_journal_each_time_it_ran(stage: Stage) -> None:
    loop = stage.loop(calls(("book", {})), "done", tools=[book])
    result = await loop.send("go")
    for value in ("Oslo", {"seats": 1}):
        result = await loop.submit_input(result.session_id, *open_ids(result), value)
    kinds = [type(r) for r in await stage.records(loop, result.session_id)]
    assert (kinds.count(ToolStarted), kinds.count(HandlerAsked), kinds.count(ToolFinished)) == (3, 2, 1)
    assert (await loop.store.lookup(result.session_id)).head.min_format == 5
