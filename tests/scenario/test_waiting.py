"""Runs that wait for a person or for the host, for days if need be."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Counting, Stage, texts

from loopwright import (
    AgentHooks,
    HookDirective,
    HookPoint,
    InputNeeded,
    SessionPendingError,
    ToolDefinition,
    ToolHandlerResult,
    tool,
)
from loopwright.model.call_errors import InteractionError, ToolResultError
from loopwright.model.errors import AgentUnavailableError, InvalidMessageError
from loopwright.model.records import QuestionAnswered, ToolFinished
from loopwright.testing import calls
from loopwright.tools.ask import request_user_input_tool

ASK = request_user_input_tool()


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "saw"


def host_tool(name: str) -> ToolDefinition:
    """A tool that the host executes."""
    return ToolDefinition(name=name, description=name, parameters={"type": "object"})


async def paused(stage: Stage, *steps: Any, **options: Any) -> tuple[Any, Any]:
    """A loop whose run waits, and its waiting result."""
    loop = stage.loop(*steps, tools=[ASK, look, host_tool("ship"), host_tool("bill")], **options)
    result = await loop.send("go")
    return loop, result


async def test_a_question_pauses_the_run_and_the_answer_is_placed_right_after_its_call_days_later(stage: Stage) -> None:
    first, waiting = await paused(stage, calls(("request_user_input", {"prompt": "which?"}), ("look", {})))
    assert waiting.status == "waiting_for_input"
    [question] = waiting.pending_interactions
    assert question.prompt == "which?"
    await stage.bury(first)
    later = stage.loop("thanks", tools=[ASK, look])
    result = await later.submit_input(waiting.session_id, question.id, "the red one", by="ann")
    assert (result.status, result.final_text) == ("completed", "thanks")
    assert texts(await later.get_messages(waiting.session_id)) == [
        "user: go",
        "assistant: ",
        "tool: the red one",
        "tool: saw",
        "assistant: thanks",
    ]
    [answer] = [r for r in await stage.records(later, waiting.session_id) if isinstance(r, QuestionAnswered)]
    assert answer.by == "ann"


async def test_an_answer_is_taken_once(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("request_user_input", {"prompt": "?"})), "thanks")
    question = waiting.pending_interactions[0].id
    await loop.submit_input(waiting.session_id, question, "a")
    with pytest.raises(InteractionError) as caught:
        await loop.submit_input(waiting.session_id, question, "b")
    assert caught.value.answered
    assert "tool: a" in texts(await loop.get_messages(waiting.session_id))


async def test_an_answer_to_a_question_nobody_asked_names_the_open_ones(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("request_user_input", {"prompt": "?"})))
    with pytest.raises(InteractionError, match=waiting.pending_interactions[0].id):
        await loop.submit_input(waiting.session_id, "ask_unknown", "b")
    assert len((await loop.get_pending(waiting.session_id))[1]) == 1


@pytest.mark.parametrize(
    "arguments, wrong, right",
    [
        ({"prompt": "?", "kind": "choice", "options": ["red", "blue"]}, "green", "red"),
        ({"prompt": "?", "kind": "confirm"}, "maybe", True),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    stage: Stage, arguments: Any, wrong: Any, right: Any
) -> None:
    loop, waiting = await paused(stage, calls(("request_user_input", arguments)), "thanks")
    question = waiting.pending_interactions[0].id
    with pytest.raises(InvalidMessageError):
        await loop.submit_input(waiting.session_id, question, wrong)
    assert (await loop.submit_input(waiting.session_id, question, right)).status == "completed"


async def test_a_tool_may_ask_with_a_schema_of_its_own(stage: Stage) -> None:
    @tool(effect="pure")
    async def form() -> InputNeeded:
        """Form."""
        return InputNeeded("fill in", "form", schema={"type": "object", "required": ["name"]})

    loop = stage.loop(calls(("form", {})), "thanks", tools=[form])
    waiting = await loop.send("go")
    question = waiting.pending_interactions[0].id
    with pytest.raises(InvalidMessageError, match="name"):
        await loop.submit_input(waiting.session_id, question, {})
    result = await loop.submit_input(waiting.session_id, question, {"name": "ann"})
    assert texts(await loop.get_messages(result.session_id))[2] == 'tool: {"name":"ann"}'


async def test_two_questions_are_answered_in_any_order_and_the_run_waits_for_both(stage: Stage) -> None:
    ask = ("request_user_input", {"prompt": "?"})
    loop, waiting = await paused(stage, calls(ask, ask), "thanks")
    one, other = waiting.pending_interactions
    again = await loop.submit_input(waiting.session_id, other.id, "second")
    assert (again.status, [i.id for i in again.pending_interactions]) == ("waiting_for_input", [one.id])
    await loop.submit_input(waiting.session_id, one.id, "first")
    assert texts(await loop.get_messages(waiting.session_id))[2:4] == ["tool: first", "tool: second"]


async def test_a_waiting_session_refuses_a_plain_send_and_lists_its_questions(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("request_user_input", {"prompt": "which?"})), "new")
    with pytest.raises(SessionPendingError, match="which"):
        await loop.send("hello?", session_id=waiting.session_id)
    assert (await loop.resume(waiting.session_id)).status == "waiting_for_input"
    result = await loop.send("never mind", session_id=waiting.session_id, heal_pending=True)
    assert result.final_text == "new"


async def test_a_follow_up_to_a_waiting_session_waits_with_it(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("request_user_input", {"prompt": "?"})), "thanks")
    queued = await loop.follow_up("by the way", session_id=waiting.session_id)
    assert queued.queue_depth == 1  # type: ignore[union-attr]
    await loop.submit_input(waiting.session_id, waiting.pending_interactions[0].id, "yes")
    assert texts(await loop.get_messages(waiting.session_id))[2:4] == ["tool: yes", "user: by the way"]


async def test_calls_without_a_handler_are_the_hosts_to_execute(stage: Stage) -> None:
    first, waiting = await paused(stage, calls(("ship", {"x": 1}), ("look", {}), ("bill", {})))
    assert (waiting.status, [c.name for c in waiting.pending_tool_calls]) == ("pending_tools", ["ship", "bill"])
    ship, bill = [c.id for c in waiting.pending_tool_calls]
    await stage.bury(first)
    loop = stage.loop("done", tools=[ASK, look, host_tool("ship"), host_tool("bill")])
    again = await loop.submit_tool_results(
        waiting.session_id, {bill: ToolHandlerResult("no funds", ok=False, data={"n": 1})}
    )
    assert (again.status, [c.id for c in again.pending_tool_calls]) == ("pending_tools", [ship])
    result = await loop.submit_tool_results(waiting.session_id, {ship: {"sent": True}})
    assert result.status == "completed"
    assert texts(await loop.get_messages(waiting.session_id))[2:5] == [
        'tool: {"sent":true}',
        "tool: saw",
        "tool: no funds",
    ]


async def test_two_results_for_one_call_are_refused_and_the_first_stays(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("ship", {}), ("bill", {})), "done")
    ship, bill = [c.id for c in waiting.pending_tool_calls]
    await loop.submit_tool_results(waiting.session_id, {ship: "first"})
    with pytest.raises(ToolResultError, match="has its result"):
        await loop.submit_tool_results(waiting.session_id, {ship: "second"})
    await loop.submit_tool_results(waiting.session_id, {bill: "x"})
    with pytest.raises(ToolResultError):
        await loop.submit_tool_results(waiting.session_id, {ship: "third"})
    finished = [r.content for r in await stage.records(loop, waiting.session_id) if isinstance(r, ToolFinished)]
    assert finished == ["first", "x"]


async def test_results_are_taken_all_or_none(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("ship", {}), ("bill", {})))
    ship = waiting.pending_tool_calls[0].id
    before = len(await loop.store.read(waiting.session_id))
    with pytest.raises(ToolResultError, match="unknown"):
        await loop.submit_tool_results(waiting.session_id, {ship: "ok", "unknown": "x"})
    with pytest.raises(InvalidMessageError):
        await loop.submit_tool_results(waiting.session_id, {})
    assert len(await loop.store.read(waiting.session_id)) == before


async def test_a_question_is_not_answered_with_a_tool_result(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("request_user_input", {"prompt": "?"})))
    with pytest.raises(ToolResultError, match="submit_input"):
        await loop.submit_tool_results(waiting.session_id, {waiting.pending_interactions[0].call_id: "x"})


async def test_abort_pending_answers_what_is_open_and_says_how_many(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("ship", {}), ("request_user_input", {"prompt": "?"})), "next")
    assert await loop.abort_pending(waiting.session_id, reason="too late") == 2
    assert await loop.abort_pending(waiting.session_id) == 0
    assert texts(await loop.get_messages(waiting.session_id))[2:] == ["tool: <aborted: too late>"] * 2
    assert (await loop.send("next", session_id=waiting.session_id)).status == "completed"


class Approvals(Counting):
    """A tool whose every run a person must approve."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks = AgentHooks()

        @tool(effect="once")
        async def pay(cents: int) -> str:
            """Pay."""
            return self.note(f"paid {cents}")

        @self.hooks.on("tool.before")
        def approve(context: Any) -> HookDirective | None:
            if not context.answered:
                context.ask(f"pay {context.arguments['cents']}?")
                return None
            if context.answer == "approve":
                return None
            context.output = f"denied: {context.answer}"
            return HookDirective.SKIP

        self.pay = pay


@pytest.mark.parametrize("answer, result", [("approve", "tool: paid 5 done"), ("deny", "tool: denied: deny")])
async def test_an_approval_is_asked_for_durably_and_decides_in_any_process(
    stage: Stage, answer: str, result: str
) -> None:
    world = Approvals()
    first = stage.loop(calls(("pay", {"cents": 5})), tools=[world.pay], hooks=world.hooks)
    waiting = await first.send("go")
    [question] = waiting.pending_interactions
    assert (question.kind, question.options, question.metadata) == (
        "approval",
        ("approve", "deny"),
        {"arguments": {"cents": 5}},
    )
    assert world.calls == []
    await stage.bury(first)
    later = stage.loop("fine", tools=[world.pay], hooks=world.hooks)
    await later.submit_input(waiting.session_id, question.id, answer)
    assert texts(await later.get_messages(waiting.session_id))[2] == result


async def test_approvals_of_parallel_calls_are_independent(stage: Stage) -> None:
    world = Approvals()
    loop = stage.loop(calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), "fine", tools=[world.pay], hooks=world.hooks)
    waiting = await loop.send("go")
    one, two = waiting.pending_interactions
    await loop.submit_input(waiting.session_id, two.id, "approve")
    assert world.calls == ["paid 2"]
    await loop.submit_input(waiting.session_id, one.id, "deny")
    assert world.calls == ["paid 2"]
    assert texts(await loop.get_messages(waiting.session_id))[2:4] == ["tool: denied: deny", "tool: paid 2 done"]


async def test_a_hook_that_ends_the_batch_while_a_question_is_open_leaves_every_call_answered(stage: Stage) -> None:
    world = Approvals()
    decided: list[Any] = []

    @world.hooks.on("round.decide")
    def end(context: Any) -> HookDirective | None:
        decided.append(context)
        return HookDirective.BREAK if len(decided) > 1 else None

    loop = stage.loop(calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), "on", tools=[world.pay], hooks=world.hooks)
    waiting = await loop.send("go")
    result = await loop.submit_input(waiting.session_id, waiting.pending_interactions[0].id, "approve")
    assert result.status == "completed"
    assert (await loop.send("more", session_id=result.session_id)).status == "completed"


async def test_a_long_result_of_the_host_is_cut_like_one_of_a_handler(stage: Stage) -> None:
    loop, waiting = await paused(stage, calls(("ship", {})), "done", tool_output_limit=100)
    await loop.submit_tool_results(waiting.session_id, {waiting.pending_tool_calls[0].id: "x" * 5000})
    assert len(texts(await loop.get_messages(waiting.session_id))[2]) < 1000


async def test_a_denial_holds_in_a_process_without_the_hook_that_asked(stage: Stage) -> None:
    ran: list[str] = []

    @tool(effect="idempotent")
    async def transfer() -> str:
        ran.append("transfer")
        return "transferred"

    def ask(context: Any) -> None:
        if not context.answered:
            context.ask("really?", ("approve", "later", "deny"))

    for answer in ("deny", "later"):
        asking = stage.loop(calls(("transfer", {})), tools=[transfer])
        asking.hooks.register(HookPoint.TOOL_BEFORE, ask)
        waiting = await asking.send("go")
        elsewhere = stage.loop("ok", tools=[transfer])
        with pytest.raises(InvalidMessageError, match="approve, later, deny"):
            await elsewhere.submit_input(waiting.session_id, waiting.pending_interactions[0].id, "maybe")
        done = await elsewhere.submit_input(waiting.session_id, waiting.pending_interactions[0].id, answer)
        assert (done.status, ran) == ("completed", [])


async def test_an_open_call_waits_for_a_process_that_has_its_tool(stage: Stage) -> None:
    @tool(effect="idempotent")
    async def work() -> str:
        return "worked"

    def ask(context: Any) -> None:
        if not context.answered:
            context.ask("really?")

    asking = stage.loop(calls(("work", {})), tools=[work])
    asking.hooks.register(HookPoint.TOOL_BEFORE, ask)
    waiting = await asking.send("go")
    question = waiting.pending_interactions[0].id
    with pytest.raises(AgentUnavailableError) as refused:
        await stage.loop().submit_input(waiting.session_id, question, "approve")
    assert refused.value.missing_tools == ("work",)
    done = await stage.loop("ok", tools=[work]).submit_input(waiting.session_id, question, "approve")
    assert texts(await stage.loop().get_messages(done.session_id))[2:] == ["tool: worked", "assistant: ok"]
