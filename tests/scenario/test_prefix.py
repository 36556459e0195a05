"""Within a prompt epoch each request begins with the one before, to the byte, and `prompt_prefix` says when it does not."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.scenario.conftest import Listener, Stage, said

from loopwright import (
    AgentHooks,
    AgentLoopConfig,
    LLMRequest,
    LLMResponse,
    StatefulAgentLoop,
    ToolCall,
    UserMessage,
    tool,
)
from loopwright.context.projected import ProjectedRepresentation
from loopwright.engine.actor import ACTORS
from loopwright.model.codec import encode
from loopwright.model.events import PromptPrefix
from loopwright.model.usage import Usage

TEXTS = st.text(max_size=20).filter(str.strip)
KINDS = st.sampled_from(["answer", "cut", "tools", "follow_up"])
MOVES = st.lists(st.tuples(st.sampled_from(["send", "cold", "fork"]), TEXTS, st.lists(KINDS, max_size=3)), max_size=5)


@tool(effect="pure")
async def look(x: str = "") -> Any:
    """Look."""
    return {"seen": x, "odd": "\ud800 日本"}


class Playing:
    """A model that does what the next kind says and keeps what it was asked, serialised."""

    def __init__(self) -> None:
        self.script: list[str] = []
        self.requests: list[LLMRequest] = []
        self.loop: StatefulAgentLoop | None = None
        self.session_id = ""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        self.requests.append(request)
        kind = self.script.pop(0) if self.script else "answer"
        number = len(self.requests)
        if kind == "tools":
            wanted = [ToolCall(f"c{number}_{i}", "look", encode({"x": str(i)}).decode()) for i in range(2)]
            return LLMResponse(tool_calls=tuple(wanted), finish_reason="tool_calls", model="m")
        if kind == "follow_up" and self.loop is not None:
            await self.loop.follow_up(f"and {number}", session_id=self.session_id)
        return LLMResponse(text=f"said {number}", finish_reason="length" if kind == "cut" else "stop", model="m")


def prefix(request: LLMRequest) -> bytes:
    """What stands before the tail, as bytes that the next request's have to begin with."""
    stable = request.messages if request.stable is None else request.messages[: request.stable]
    return encode((request.system_prompt, request.tools, request.temperature, stable))[:-2]


def reminded() -> AgentHooks:
    """Hooks that add something to the end of each request, another text each time."""
    hooks, numbers = AgentHooks(), itertools.count()

    @hooks.on("llm.before")
    async def remind(context: Any) -> None:
        context.messages.append(UserMessage(f"reminder {next(numbers)}"))

    return hooks


async def conversation(moves: list[tuple[str, str, list[str]]], *, hooks: bool, cache: int) -> list[list[LLMRequest]]:
    """Requests of one conversation with its forks, each with those of the sessions that it came from."""
    dsn, model = f"memory:{uuid.uuid4()}", Playing()
    lines: list[list[LLMRequest]] = []

    def opened() -> StatefulAgentLoop:
        config = AgentLoopConfig(session_cache_size=cache, system_prompt="be exact 日", on_interrupted="abort")
        given_hooks = reminded() if hooks else None
        return StatefulAgentLoop(llm=model, dsn=dsn, tools=[look], config=config, hooks=given_hooks)

    loops = [opened()]
    sid = await loops[0].new_session()
    try:
        for kind, text, script in [("send", "begin", ["tools"]), *moves]:
            if kind == "cold":
                ACTORS.drop(loops[-1].store.identity)
                loops.append(opened())
            elif kind == "fork":
                before = len(model.requests)
                model.script = []
                await loops[-1].send("only in the base", session_id=sid)
                lines.append(list(model.requests))
                del model.requests[before:]
                records = await loops[-1].store.read(sid)
                starts = [row.position for row in records if row.kind == "send_started"]
                sid = await loops[-1].fork(sid, at=starts[-1])
            model.script, model.loop, model.session_id = list(script), loops[-1], sid
            await loops[-1].send(text, session_id=sid)
        lines.append(list(model.requests))
        return lines
    finally:
        for loop in loops:
            await loop.aclose(drain_timeout_s=0.0)


@pytest.mark.parametrize("hooks", [False, True])
@given(moves=MOVES, cache=st.sampled_from([0, 64]))
@settings(max_examples=30, deadline=None)
def test_each_request_of_a_verbatim_session_begins_with_the_one_before(
    hooks: bool, moves: list[tuple[str, str, list[str]]], cache: int
) -> None:
    for line in asyncio.run(conversation(moves, hooks=hooks, cache=cache)):
        assert len(line) >= 2
        for earlier, later in itertools.pairwise(line):
            assert prefix(later).startswith(prefix(earlier))
            tail = len(earlier.messages) - (earlier.stable if earlier.stable is not None else len(earlier.messages))
            assert tail == int(hooks)


def sent(request: LLMRequest) -> bytes:
    """All of a request but the session's id, which each conversation has for itself."""
    return encode(replace(request, cache_key=None))


@given(moves=MOVES)
@settings(max_examples=15, deadline=None)
def test_a_warm_and_a_cold_loop_ask_with_the_same_bytes(moves: list[tuple[str, str, list[str]]]) -> None:
    warm = asyncio.run(conversation(moves, hooks=False, cache=64))
    cold = asyncio.run(conversation([("cold" if k == "send" else k, t, s) for k, t, s in moves], hooks=False, cache=0))
    assert [[sent(r) for r in line] for line in cold] == [[sent(r) for r in line] for line in warm]


def reported(listener: Listener) -> list[PromptPrefix]:
    return [event.data for event in listener.events if isinstance(event.data, PromptPrefix)]


def listening(loop: StatefulAgentLoop) -> Listener:
    listener = Listener()
    loop.event_bus.subscribe(listener, "prompt_prefix")
    return listener


def paid(text: str, *, read: int = 4000, cached: int = 0, model: str = "m") -> LLMResponse:
    usage = Usage(read, 10, cached_tokens=cached, calls=1)
    return LLMResponse(text=text, finish_reason="stop", usage=usage, model=model)


async def test_each_call_tells_what_it_shares_with_the_one_before_and_what_was_reused(stage: Stage) -> None:
    steps = (paid("one"), paid("two", cached=3000), paid("three"))
    loop = stage.loop(*steps, tools=[look], system_prompt="x" * 8000, ambient=stage.time)
    listener = listening(loop)
    sid = await loop.new_session()
    for text in ("a", "b", "c"):
        stage.time.advance(30.0)
        await loop.send(text, session_id=sid)
    first, second, third = reported(listener)
    assert (first.reusable_tokens, first.cached_tokens, first.broke) == (0, 0, "first request")
    assert second.reusable_tokens == first.stable_tokens > 2000
    assert second.stable_tokens > second.reusable_tokens
    assert (second.cached_tokens, second.broke) == (3000, None)
    assert third.reusable_tokens == second.stable_tokens
    assert third.broke == "the provider reported nothing reused (expired after 30 s or evicted)"


async def test_a_new_process_that_is_asked_tells_the_same_from_the_records(stage: Stage) -> None:
    loop = stage.loop("one", "two", tools=[look], system_prompt="be exact")
    listener = listening(loop)
    sid = await loop.new_session()
    await loop.send("a", session_id=sid)
    await loop.send("b", session_id=sid)
    ACTORS.drop(loop.store.identity)
    other = stage.loop("three", tools=[look], system_prompt="be exact")
    theirs = listening(other)
    await other.send("c", session_id=sid)
    (report,) = reported(theirs)
    assert report.reusable_tokens == reported(listener)[1].stable_tokens
    assert (report.broke, report.cached_tokens) == (None, None)


async def test_what_changed_between_two_processes_is_named(stage: Stage) -> None:
    loop = stage.loop("one", tools=[look], system_prompt="be exact")
    sid = await loop.new_session()
    await loop.send("a", session_id=sid)
    ACTORS.drop(loop.store.identity)
    other = stage.loop("two", tools=[look], system_prompt="be quick")
    listener = listening(other)
    await other.send("b", session_id=sid)
    assert [(r.reusable_tokens, r.broke) for r in reported(listener)] == [(0, "epoch: instructions changed")]


@pytest.mark.parametrize("cold", [True, False])
async def test_a_representation_that_was_taken_away_is_named(stage: Stage, cold: bool) -> None:
    loop = stage.loop("one", "two", representation=ProjectedRepresentation())
    listening(loop)
    sid = await loop.new_session()
    await loop.send("a", session_id=sid)
    await loop.send("b", session_id=sid)
    if cold:
        ACTORS.drop(loop.store.identity)
    other = stage.loop("three")
    listener = listening(other)
    await other.send("c", session_id=sid)
    assert [r.broke for r in reported(listener)] == ["epoch: representation: verbatim 1"]


async def test_a_hook_that_changes_the_stable_part_is_found_out(stage: Stage) -> None:
    loop = stage.loop("one", "two", "three", "four", system_prompt="be exact")
    listener, edits = listening(loop), iter(("", "message", "instructions", ""))

    @loop.hooks.on("llm.before")
    async def edit(context: Any) -> None:
        what = next(edits)
        if what == "message":
            context.messages[0] = UserMessage("something else")
        elif what == "instructions":
            context.system_prompt = "be quick"

    sid = await loop.new_session()
    for text in ("a", "b", "c", "d"):
        await loop.send(text, session_id=sid)
    assert [report.broke for report in reported(listener)] == [
        "first request",
        "a hook changed message 1",
        "a hook changed the instructions",
        "a hook changed the instructions",
    ]


async def test_what_a_hook_appends_is_tail_and_breaks_nothing(stage: Stage) -> None:
    model = stage.model("one", "two")
    loop = stage.loop(llm=model, hooks=reminded())
    listener = listening(loop)
    sid = await loop.new_session()
    await loop.send("a", session_id=sid)
    await loop.send("b", session_id=sid)
    assert [(len(request.messages), request.stable) for request in model.requests] == [(2, 1), (4, 3)]
    assert [report.broke for report in reported(listener)] == ["first request", None]


async def test_another_model_is_named(stage: Stage) -> None:
    loop = stage.loop(paid("one"), paid("two", model="n"))
    listener = listening(loop)
    sid = await loop.new_session()
    await loop.send("a", session_id=sid)
    await loop.send("b", session_id=sid)
    assert reported(listener)[1].broke == "another model: n after m"


async def test_a_listener_that_comes_late_is_told_from_the_records(stage: Stage) -> None:
    loop = stage.loop(*["fine"] * 4, system_prompt="be exact")
    sid = await loop.new_session()
    leave = loop.event_bus.subscribe(Listener(), "prompt_prefix")
    await loop.send("a", session_id=sid)
    leave()
    await loop.send("b", session_id=sid)
    listener = listening(loop)
    await loop.send("c", session_id=sid)
    await loop.send("d", session_id=sid)
    third, fourth = reported(listener)
    assert third.broke is None
    assert fourth.reusable_tokens == third.stable_tokens > third.reusable_tokens


async def test_a_reply_that_a_hook_gave_was_no_request(stage: Stage) -> None:
    loop = stage.loop()
    listener = listening(loop)

    @loop.hooks.on("llm.before")
    async def answer(context: Any) -> str:
        context.response = said("from a hook")
        return "short_circuit"

    assert (await loop.send("a")).final_text == "from a hook"
    assert reported(listener) == []
