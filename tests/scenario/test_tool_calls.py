"""Tool calls as a model makes them, right and wrong."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest
from tests.scenario.conftest import Counting, Listener, Stage, asked, texts
from tests.waiting import until

from loopwright import ToolContext, ToolDefinition, ToolFailure, ToolHandlerResult, tool
from loopwright.model.messages import FilePart, ImagePart, TextPart
from loopwright.model.records import ToolAbandoned, ToolFinished, ToolStarted
from loopwright.testing import calls


async def result_of_call(stage: Stage, definition: Any, arguments: Any = None, **options: Any) -> ToolFinished:
    """What became of one call of this tool; the send completes in any case."""
    name = getattr(definition, "name", "tool")
    loop = stage.loop(calls((name, arguments if arguments is not None else {})), "done", tools=[definition], **options)
    result = await loop.send("go")
    assert result.status == "completed"
    [finished] = [r for r in await stage.records(loop, result.session_id) if isinstance(r, ToolFinished)]
    return finished


async def test_an_unknown_tool_is_an_answer_that_lists_the_known_ones(stage: Stage) -> None:
    @tool
    async def known() -> str:
        """Known."""
        return ""

    loop = stage.loop(calls(("unknown", {})), "done", tools=[known])
    result = await loop.send("go")
    assert texts(await loop.get_messages(result.session_id))[2] == "tool: no tool named 'unknown'; available: known"


async def test_arguments_of_the_wrong_type_are_refused_with_their_path_and_the_handler_not_called(stage: Stage) -> None:
    world = Counting()

    @tool
    async def pay(order: dict[str, int], cents: int) -> str:
        """Pay."""
        return world.note("paid")

    finished = await result_of_call(stage, pay, {"order": {"a": "x"}, "cents": 1})
    assert finished.status == "invalid"
    assert "order" in str(finished.content)
    assert "a" in str(finished.content)
    assert world.calls == []


@pytest.mark.parametrize("arguments", ["[1]", "not json", '{"x": 1'])
async def test_arguments_that_are_no_object_are_refused(stage: Stage, arguments: str) -> None:
    @tool
    async def pay(x: int = 1) -> str:
        """Pay."""
        raise AssertionError("must not be called")

    finished = await result_of_call(stage, pay, arguments)
    assert finished.status == "invalid"
    assert "JSON object" in str(finished.content)


@pytest.mark.parametrize(
    "error, text", [(TypeError("bad"), "TypeError: bad"), (ToolFailure("no such order"), "no such order")]
)
async def test_a_handler_that_raises_is_called_once_and_the_model_is_told(
    stage: Stage, error: Exception, text: str
) -> None:
    world = Counting()

    @tool
    async def pay() -> str:
        """Pay."""
        world.note("x")
        raise error

    finished = await result_of_call(stage, pay)
    assert (finished.status, finished.content) == ("failed", text)
    assert world.calls == ["x"]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("leaving", [SystemExit(3), GeneratorExit()], ids=repr)
async def test_a_handler_that_wants_to_end_the_process_only_fails(
    stage: Stage, is_async: bool, leaving: BaseException
) -> None:
    if is_async:

        @tool(name="leave")
        async def leave() -> str:
            """Leave."""
            raise leaving
    else:

        @tool(name="leave")
        def leave() -> str:
            """Leave."""
            raise leaving

    assert (await result_of_call(stage, leave)).status == "failed"


async def test_a_handler_that_cancels_itself_only_fails(stage: Stage) -> None:
    @tool
    async def give_up() -> str:
        """Give up."""
        raise asyncio.CancelledError

    assert (await result_of_call(stage, give_up)).status == "failed"


@pytest.mark.parametrize(
    "value, status, content, data",
    [
        ("text", "finished", "text", None),
        ({"a": 1}, "finished", '{"a":1}', None),
        (None, "finished", "ok", None),
        (ToolHandlerResult("no", ok=False, data={"n": 1}), "failed", "no", {"n": 1}),
        (ToolHandlerResult((TextPart("see"), ImagePart(data=b"\x00")),), "finished", (TextPart("see"), ImagePart(data=b"\x00")), None),
        (ToolHandlerResult([TextPart("see"), ImagePart(data=b"\x00")]), "finished", (TextPart("see"), ImagePart(data=b"\x00")), None),
        (ToolHandlerResult(ImagePart(data=b"\x00")), "finished", (ImagePart(data=b"\x00"),), None),
        ([TextPart("see"), ImagePart(data=b"\x00")], "finished", (TextPart("see"), ImagePart(data=b"\x00")), None),
        (["see", ImagePart(data=b"\x00")], "finished", (TextPart("see"), ImagePart(data=b"\x00")), None),
        (ImagePart(data=b"\x00"), "finished", (ImagePart(data=b"\x00"),), None),
        (FilePart(data=b"\x00"), "finished", (FilePart(data=b"\x00"),), None),
        (TextPart("see"), "finished", (TextPart("see"),), None),
        (["a", "b"], "finished", '["a","b"]', None),
    ],
)  # fmt: skip
async def test_what_a_handler_may_return(stage: Stage, value: Any, status: str, content: Any, data: Any) -> None:
    @tool
    async def act() -> Any:
        """Act."""
        return value

    finished = await result_of_call(stage, act)
    assert (finished.status, finished.content, finished.data) == (status, content, data)


@pytest.mark.parametrize(
    "part, why",
    [
        (ImagePart(), "ImagePart needs exactly one of data, url and artifact_id; it has none of them"),
        (ImagePart(data=b"x", url="http://x/"), "it has data and url"),
        (FilePart(data=cast("Any", "/tmp/x.pdf")), "FilePart.data must be the bytes themselves, not str"),
    ],
)
async def test_a_part_that_names_nothing_makes_a_failed_result_that_says_so_and_keeps_the_rest(
    stage: Stage, part: Any, why: str
) -> None:
    @tool
    async def act() -> Any:
        """Act."""
        return [TextPart("see"), part]

    finished = await result_of_call(stage, act)
    assert (finished.status, finished.content[0]) == ("failed", TextPart("see"))
    assert why in finished.content[1].text


async def test_a_sync_handler_never_blocks_the_event_loop(stage: Stage) -> None:
    here = asyncio.Event()
    go_on = threading.Event()
    loop_now = asyncio.get_running_loop()

    @tool
    def block() -> str:
        """Block."""
        loop_now.call_soon_threadsafe(here.set)
        assert go_on.wait(10), "the event loop stood still"
        return "free"

    work = asyncio.create_task(result_of_call(stage, block))
    await here.wait()
    go_on.set()
    assert (await work).content == "free"


async def test_a_tool_that_never_ends_times_out(stage: Stage) -> None:
    @tool(effect="pure", timeout_s=0.05)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    finished = await result_of_call(stage, hang)
    assert (finished.status, finished.content) == ("timed_out", "<timed out after 0.05 s>")


async def test_a_sync_tool_that_never_ends_is_left_behind_and_that_is_noted(stage: Stage) -> None:
    release = threading.Event()

    @tool(effect="once", timeout_s=0.05)
    def hang() -> str:
        """Hang."""
        release.wait(60)
        return "late"

    loop = stage.loop(calls(("hang", {})), "done", tools=[hang])
    result = await loop.send("go")
    records = await stage.records(loop, result.session_id)
    release.set()
    [abandoned] = [r for r in records if isinstance(r, ToolAbandoned)]
    [finished] = [r for r in records if isinstance(r, ToolFinished)]
    assert abandoned.name == "hang"
    assert "may have had its effect" in str(finished.content)


async def test_a_long_output_is_cut_and_can_be_read_back_whole(stage: Stage) -> None:
    long = "".join(f"line {n} é\n" for n in range(2000))
    pages: list[str] = []

    @tool(effect="pure", output_limit=300)
    async def dump() -> str:
        """Dump."""
        return long

    @tool(effect="pure")
    async def page(artifact_id: str, ctx: ToolContext) -> str:
        """Page."""
        at, size = 0, 1
        while at < size:
            part = await ctx.read_output(artifact_id, offset=at, limit=5000)
            at, size = part.end, part.size
            pages.append(part.text)
        return "read"

    def ask(request: Any) -> Any:
        return asked(("c2", "page", f'{{"artifact_id": "{finished_id()}"}}'))

    def finished_id() -> str:
        shown = texts(loop._kernel.llm.requests[-1].messages)[-1]  # type: ignore[attr-defined]
        return str(shown.split("artifact_id='")[1].split("'")[0])

    loop = stage.loop(calls(("dump", {})), ask, "done", tools=[dump, page])
    result = await loop.send("go")
    shown = texts(await loop.get_messages(result.session_id))[2]
    assert shown.startswith("tool: line 0")
    assert shown.endswith("line 1999 é\n")
    assert len(shown) < 700
    assert f"of {len(long)} characters left out; of 2000 lines in all" in shown
    assert "".join(pages) == long


async def test_a_stored_output_of_another_session_cannot_be_read(stage: Stage) -> None:
    @tool(effect="pure", output_limit=10)
    async def dump() -> str:
        """Dump."""
        return "x" * 100

    first = await result_of_call(stage, dump)

    @tool(effect="pure")
    async def peek(ctx: ToolContext) -> str:
        """Peek."""
        return (await ctx.read_output(str(first.artifact_id))).text

    assert (await result_of_call(stage, peek)).status == "failed"


async def test_calls_run_side_by_side_up_to_the_limit_and_answer_in_call_order(stage: Stage) -> None:
    running, most = 0, 0
    doors = [asyncio.Event() for _ in range(4)]

    @tool(effect="pure")
    async def work(n: int) -> str:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await doors[n].wait()
        running -= 1
        return str(n)

    loop = stage.loop(calls(*[("work", {"n": n}) for n in range(4)]), "done", tools=[work], max_parallel_tools=2)
    task = asyncio.create_task(loop.send("go"))
    await until(lambda: running == 2)
    for door in reversed(doors):
        door.set()
    result = await task
    assert most == 2
    assert texts(await loop.get_messages(result.session_id))[2:6] == [f"tool: {n}" for n in range(4)]


async def test_each_call_has_a_key_of_its_own_that_is_on_its_records(stage: Stage) -> None:
    keys: list[str] = []

    @tool(effect="once")
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        return ctx.call_id

    loop = stage.loop(calls(("pay", {}), ("pay", {})), "done", tools=[pay])
    result = await loop.send("go")
    records = await stage.records(loop, result.session_id)
    assert len(set(keys)) == 2
    assert {r.key for r in records if isinstance(r, ToolStarted)} == set(keys)
    assert {r.key for r in records if isinstance(r, ToolFinished)} == set(keys)


async def test_the_intent_of_a_once_tool_is_durable_before_its_handler_runs(stage: Stage) -> None:
    seen: list[list[str]] = []

    @tool(effect="once")
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        seen.append([row.kind for row in await loop.store.read(ctx.session_id)])
        return "ok"

    @tool(effect="pure")
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append([row.kind for row in await loop.store.read(ctx.session_id)])
        return "ok"

    loop = stage.loop(calls(("pay", {})), calls(("look", {})), "done", tools=[pay, look])
    await loop.send("go")
    assert seen[0][-1] == "tool_started"
    assert seen[1][-1] == "assistant_message_added"


async def test_a_failed_call_is_told_as_failed_and_then_as_completed(stage: Stage) -> None:
    listener = Listener()

    @tool(effect="pure")
    async def pay() -> str:
        """Pay."""
        raise ToolFailure("no")

    loop = stage.loop(calls(("pay", {})), "done", tools=[pay])
    loop.event_bus.subscribe(listener)
    await loop.send("go")
    assert listener.kinds("tool_call_started", "tool_call_failed", "tool_call_completed") == [
        "tool_call_started",
        "tool_call_failed",
        "tool_call_completed",
    ]


async def test_scratch_values_live_with_the_session_in_this_process(stage: Stage) -> None:
    @tool(effect="pure")
    async def count(ctx: ToolContext) -> str:
        """Count."""
        ctx.scratch["n"] = ctx.scratch.get("n", 0) + 1
        return str(ctx.scratch["n"])

    loop = stage.loop(calls(("count", {})), calls(("count", {})), "done", tools=[count])
    result = await loop.send("go")
    assert [t for t in texts(await loop.get_messages(result.session_id)) if t.startswith("tool")] == [
        "tool: 1",
        "tool: 2",
    ]


async def test_a_tool_with_a_broken_schema_is_an_answer_not_a_crash(stage: Stage) -> None:
    broken = ToolDefinition(
        name="broken", description="", parameters={"type": "nonsense"}, handler=lambda a, c: "x", is_async=False
    )
    assert (await result_of_call(stage, broken)).status == "invalid"
