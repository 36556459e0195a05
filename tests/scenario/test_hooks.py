"""Hooks at every point that fires: what each directive does, and what a raising one costs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Counting, Stage, texts

from loopwright import AgentHooks, AssistantMessage, HookDirective, HookPoint, LLMResponse, ToolCall, UserMessage, tool
from loopwright.model.errors import HookFailedError, SessionReentrantError
from loopwright.model.records import AssistantMessageAdded, AttemptFailed, ToolFinished
from loopwright.testing import calls

LOOK = calls(("look", {}), ("look", {}))


class Looking(Counting):
    """A tool that notes its calls, and hooks to be filled."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.hooks = AgentHooks()
        self.contexts: list[Any] = []

        @tool(effect="pure")
        async def look(x: int = 0) -> str:
            """Look."""
            self.note(f"look {x}")
            if fails:
                raise ValueError("blind")
            return f"saw {x}"

        self.look = look

    def at(self, point: str, directive: HookDirective | None = None, *, once: bool = True, **values: Any) -> None:
        """Registers a hook that sets these values and returns the directive, the first time only unless told otherwise."""

        def hook(context: Any) -> HookDirective | None:
            self.contexts.append(context)
            if once and len(self.contexts) > 1:
                return None
            for name, value in values.items():
                setattr(context, name, value)
            return directive

        self.hooks.register(point, hook, name="mine")

    async def send(self, stage: Stage, *steps: Any, **options: Any) -> tuple[Any, list[str]]:
        loop = stage.loop(*steps, tools=[self.look], hooks=self.hooks, **options)
        result = await loop.send("go")
        self.loop, self.sid = loop, result.session_id
        return result, texts(await loop.get_messages(result.session_id))


SKIP, BREAK, SHORT_CIRCUIT = HookDirective.SKIP, HookDirective.BREAK, HookDirective.SHORT_CIRCUIT


@pytest.mark.parametrize("point", ["session.start", "round.start", "llm.before"])
async def test_break_before_the_model_completes_the_send_and_nothing_is_paid(stage: Stage, point: str) -> None:
    world = Looking()
    world.at(point, BREAK)
    result, said = await world.send(stage)
    assert (result.status, result.final_text, result.usage.calls) == ("completed", "", 0)
    assert said == ["user: go"]


@pytest.mark.parametrize("point", ["session.start", "round.start"])
async def test_a_follow_up_that_arrives_during_a_break_is_not_left_behind(stage: Stage, point: str) -> None:
    world = Looking()

    async def hook(context: Any) -> HookDirective | None:
        world.contexts.append(context)
        if len(world.contexts) > 1:
            return None
        await world.loop.follow_up("wait", session_id=context.session_id)
        return BREAK

    world.hooks.register(point, hook)
    world.loop = stage.loop("I am here", hooks=world.hooks)
    result = await world.loop.send("go")
    assert (result.status, result.final_text) == ("completed", "I am here")
    assert (await world.loop.get_session_stats(result.session_id)).status == "idle"


async def test_an_edit_of_the_request_counts_for_this_call_only(stage: Stage) -> None:
    world = Looking()
    world.at("llm.before", None, messages=[UserMessage("instead")], system_prompt="you are X", temperature=0.5)
    _, said = await world.send(stage, "ok")
    request = world.loop._kernel.llm.requests[0]  # type: ignore[attr-defined]
    assert texts(request.messages) == ["user: instead"]
    assert (request.system_prompt, request.temperature) == ("you are X", 0.5)
    assert said == ["user: go", "assistant: ok"]


async def test_a_hooks_own_reply_is_used_instead_of_a_call(stage: Stage) -> None:
    world = Looking()
    world.at("llm.before", SHORT_CIRCUIT, response=LLMResponse(text="from the cache", finish_reason="stop"))
    result, said = await world.send(stage)
    assert result.final_text == "from the cache"
    assert said[-1] == "assistant: from the cache"


async def test_short_circuit_without_a_reply_fails_and_says_so(stage: Stage) -> None:
    world = Looking()
    world.at("llm.before", SHORT_CIRCUIT)
    result, _ = await world.send(stage)
    assert result.status == "failed"
    assert "SHORT_CIRCUIT without" in str(result.error_message)


async def test_a_hook_cannot_send_a_window_that_providers_refuse(stage: Stage) -> None:
    world = Looking()
    world.at("llm.before", None, messages=[LLMResponse(tool_calls=()).message(), *_open_call()])
    result, _ = await world.send(stage)
    assert result.status == "failed"
    assert "providers refuse" in str(result.error_message)


def _open_call() -> list[Any]:
    return [AssistantMessage((ToolCall("a", "t", "{}"),))]


async def test_a_reply_may_be_replaced_before_it_is_stored(stage: Stage) -> None:
    world = Looking()
    world.at("llm.after", None, response=LLMResponse(text="clean", finish_reason="stop"))
    result, said = await world.send(stage, "dirty")
    assert (result.final_text, said[-1]) == ("clean", "assistant: clean")


async def test_break_after_the_model_drops_the_calls_and_takes_the_text(stage: Stage) -> None:
    world = Looking()
    world.at("llm.after", BREAK)
    result, said = await world.send(stage, calls(("look", {}), text="that is all"))
    assert (result.status, result.final_text) == ("completed", "that is all")
    assert said == ["user: go", "assistant: that is all"]


@pytest.mark.parametrize("point", ["round.decide", "tools.batch.before"])
async def test_skip_answers_all_calls_of_the_batch_and_the_model_goes_on(stage: Stage, point: str) -> None:
    world = Looking()
    world.at(point, SKIP, output="not now")
    result, said = await world.send(stage, LOOK, "fine")
    assert result.final_text == "fine"
    assert said[2:4] == ["tool: not now", "tool: not now"]
    assert world.calls == []


async def test_break_at_the_decision_answers_all_calls_and_ends_the_send(stage: Stage) -> None:
    world = Looking()
    world.at("round.decide", BREAK)
    result, said = await world.send(stage, LOOK)
    assert result.status == "completed"
    assert said[2:] == ["tool: [skipped by a hook]", "tool: [skipped by a hook]"]
    stage_loop = stage.loop("sendable")
    assert (await stage_loop.send("more", session_id=world.sid)).status == "completed"


async def test_a_refused_call_is_not_run_and_the_model_reads_why(stage: Stage) -> None:
    world = Looking()
    world.at("tool.before", SKIP, output="not allowed")
    _, said = await world.send(stage, LOOK, "fine", max_parallel_tools=1)
    assert said[2:4] == ["tool: not allowed", "tool: saw 0"]
    assert world.calls == ["look 0"]


async def test_changed_arguments_are_validated_stored_and_used(stage: Stage) -> None:
    world = Looking()
    world.at("tool.before", None, arguments={"x": 7}, once=False)
    _, said = await world.send(stage, calls(("look", {"x": 1})), "fine")
    assert said[2] == "tool: saw 7"
    bad = Looking()
    bad.at("tool.before", None, arguments={"x": "seven"}, once=False)
    _, said = await bad.send(stage, calls(("look", {"x": 1})), "fine")
    assert "x" in said[2]
    assert bad.calls == []


async def test_a_call_may_be_led_to_another_tool_but_not_past_the_sends_own_list(stage: Stage) -> None:
    @tool(effect="pure")
    async def other() -> str:
        """Other."""
        return "other"

    for allowed, answer in ((None, "tool: other"), (["look"], "tool: no tool named 'other'; available: look")):
        world = Looking()
        world.at("tool.before", None, tool_name="other")
        loop = stage.loop(calls(("look", {})), "fine", tools=[world.look, other], hooks=world.hooks)
        result = await loop.send("go", tools=allowed)
        assert texts(await loop.get_messages(result.session_id))[2] == answer


async def test_an_output_may_be_changed_before_it_is_stored(stage: Stage) -> None:
    world = Looking()
    world.at("tool.after", None, output="redacted", failed=True)
    _, said = await world.send(stage, calls(("look", {})), "fine")
    assert said[2] == "tool: redacted"
    [finished] = [r for r in await stage.records(world.loop, world.sid) if isinstance(r, ToolFinished)]
    assert finished.status == "failed"


async def test_break_after_a_tool_skips_what_has_not_started_and_leaves_every_call_answered(stage: Stage) -> None:
    world = Looking()
    world.at("tool.after", BREAK)
    result, said = await world.send(stage, LOOK, "fine", max_parallel_tools=1)
    assert result.status == "completed"
    assert said[2:4] == ["tool: saw 0", "tool: [skipped: a hook ended this batch]"]


async def test_an_error_may_be_given_a_result_or_one_more_try(stage: Stage) -> None:
    world = Looking(fails=True)
    world.at("tool.error", SKIP, output="let us say nothing")
    _, said = await world.send(stage, calls(("look", {})), "fine")
    assert (said[2], world.calls) == ("tool: let us say nothing", ["look 0"])
    again = Looking(fails=True)
    again.at("tool.error", SHORT_CIRCUIT, once=False)
    _, said = await again.send(stage, calls(("look", {})), "fine")
    assert (said[2], again.calls) == ("tool: ValueError: blind", ["look 0", "look 0"])


async def test_a_user_message_may_be_replaced_before_it_is_stored(stage: Stage) -> None:
    world = Looking()
    world.at("message.append", None, message=UserMessage("go, please"))
    _, said = await world.send(stage, "ok")
    assert said[0] == "user: go, please"


async def test_a_completion_may_be_vetoed_a_bounded_number_of_times(stage: Stage) -> None:
    world = Looking()
    world.at("completion", SKIP, message="not yet", once=False)
    result, said = await world.send(stage, "a", "b", "c", "d")
    assert (result.status, result.final_text) == ("completed", "d")
    assert said.count("user: not yet") == 3


async def test_session_end_sees_the_outcome_and_cannot_change_it(stage: Stage) -> None:
    world = Looking()
    world.at("session.end")
    await world.send(stage, "done")
    assert (world.contexts[0].outcome, world.contexts[0].final_text) == ("completed", "done")


RAISING = [
    ("session.start", []),
    ("round.start", []),
    ("llm.before", []),
    ("llm.after", ["one"]),
    ("round.decide", [LOOK]),
    ("tools.batch.before", [LOOK]),
    ("tools.batch.after", [LOOK]),
    ("tool.before", [LOOK]),
    ("tool.after", [LOOK]),
    ("tool.error", [LOOK]),
    ("round.end", [LOOK]),
    ("completion", ["one"]),
]


@pytest.mark.parametrize("point, steps", RAISING, ids=[p for p, _ in RAISING])
async def test_a_raising_hook_fails_the_send_by_name_and_the_session_stays_sendable(
    stage: Stage, point: str, steps: list[Any]
) -> None:
    world = Looking(fails=point == "tool.error")

    def broken(context: Any) -> None:
        raise RuntimeError("oh")

    world.hooks.register(point, broken, name="the broken one")
    result, _ = await world.send(stage, *steps)
    assert (result.status, result.error_code) == ("failed", "hook.failed")
    assert isinstance(result.error, HookFailedError)
    assert (result.error.hook, result.error.point) == ("the broken one", point)
    healthy = stage.loop("fine", tools=[world.look])
    assert (await healthy.send("more", session_id=world.sid)).status == "completed"


@pytest.mark.parametrize("point", ["session.end", "round.end"])
async def test_a_hook_that_raises_after_the_outcome_is_durable_changes_nothing(stage: Stage, point: str) -> None:
    world = Looking()

    def broken(context: Any) -> None:
        raise RuntimeError("oh")

    world.hooks.register(point, broken)
    result, _ = await world.send(stage, "done")
    assert (result.status, result.final_text, result.error) == ("completed", "done", None)


async def test_a_hook_that_refuses_the_input_by_raising_stores_nothing(stage: Stage) -> None:
    world = Looking()

    def broken(context: Any) -> None:
        raise RuntimeError("oh")

    world.hooks.register("message.append", broken)
    loop = stage.loop(hooks=world.hooks)
    sid = await loop.new_session()
    with pytest.raises(HookFailedError):
        await loop.send("go", session_id=sid)
    assert len(await loop.store.read(sid)) == 1


@pytest.mark.parametrize("point", ["llm.after", "completion"])
async def test_a_reply_that_was_paid_for_is_counted_though_a_hook_fails_on_it(stage: Stage, point: str) -> None:
    world = Looking()

    def broken(context: Any) -> None:
        raise RuntimeError("oh")

    world.hooks.register(point, broken)
    result, _ = await world.send(stage, "three words here")
    assert (result.usage.calls, result.usage.output_tokens) == (1, 3)
    kinds = AttemptFailed | AssistantMessageAdded
    assert len([r for r in await stage.records(world.loop, world.sid) if isinstance(r, kinds)]) == 1


async def test_hooks_run_in_order_and_by_string_or_enum(stage: Stage) -> None:
    world = Looking()
    world.hooks.register(HookPoint.ROUND_START, lambda c: world.note("late") and None, order=5, name="late")
    world.hooks.register("round.start", lambda c: world.note("early") and None, order=-5, name="early")
    await world.send(stage, "ok")
    assert world.calls == ["early", "late"]


async def test_a_hook_that_sends_to_its_own_session_is_told(stage: Stage) -> None:
    world = Looking()

    async def nested(context: Any) -> None:
        await world.loop.send("me again", session_id=context.session_id)

    world.hooks.register("round.start", nested)
    world.loop = stage.loop(hooks=world.hooks)
    result = await world.loop.send("go")
    assert isinstance(result.error.__cause__, SessionReentrantError)  # type: ignore[union-attr]
