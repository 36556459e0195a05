"""Fifty megabytes of anything around a tool call neither break a session nor enter its window."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from tests.scenario.conftest import Stage, asked, texts

from loopwright import StatefulAgentLoop, ToolDefinition, ToolFailure, ToolHandlerResult, tool
from loopwright.model.records import AssistantMessageAdded, ToolFinished
from loopwright.ports.ambient import breathe
from loopwright.ports.artifact import Artifact
from loopwright.stores.memory import MemoryStore
from loopwright.testing import ScriptedLLM, calls
from loopwright.tools import ToolRegistry, create_default_tool_registry

MANY = 50_000_000


@tool(effect="pure")
async def dump(what: str = "text") -> Any:
    """Answers with more than anybody wants."""
    if what == "text":
        return "日本 line é\n" * (MANY // 10) + "the last words"
    if what == "data":
        return ToolHandlerResult("short", data={"rows": ["x" * 1000] * (MANY // 1000)})
    if what == "value":
        return {"rows": ["x" * 1000] * (MANY // 1000)}
    raise ToolFailure("e" * MANY)


def read_outputs() -> ToolRegistry:
    return ToolRegistry.of(create_default_tool_registry("explore", workspace="."), dump)


def artifact_in(text: str) -> str:
    found = re.search(r"art_[0-9a-f]{32}", text)
    assert found is not None
    return found[0]


async def journal_bytes(stage: Stage, loop: Any, session_id: str) -> int:
    return sum(len(row.body) for row in await loop.store.read(session_id))


@pytest.mark.parametrize("what", ["text", "data", "value", "error"])
async def test_fifty_megabytes_out_of_a_tool_stay_out_of_journal_and_window(stage: Stage, what: str) -> None:
    loop = stage.loop(calls(("dump", {"what": what})), "done", "well", tools=[dump])
    sid = (await loop.send("go")).session_id
    assert await journal_bytes(stage, loop, sid) < 200_000
    assert (await loop.send("and?", session_id=sid)).status == "completed"
    assert len(str(loop._kernel.llm.requests[-1].messages)) < 70_000  # type: ignore[attr-defined]
    [kept] = (await loop.store.inventory(sid)).artifacts
    assert kept.size >= MANY


async def test_any_part_of_a_large_output_is_read_without_the_rest(stage: Stage) -> None:
    answers: list[str] = []
    asks = iter(
        [
            {"offset": MANY - 1, "limit": 30},
            {"line": 4_000_001, "lines": 2},
            {"search": "last words"},
            {"search": "é", "offset": 100},
            {"line": 5_000_000},
            {"line": 5_000_002},
            {"line": 2, "offset": 3},
        ]
    )

    def reads(request: Any) -> Any:
        answers.append(texts(request.messages)[-1])
        arguments = next(asks, None)
        if arguments is None:
            return "done"
        return asked(("c", "read_output", json.dumps({"artifact_id": artifact_in(answers[0]), **arguments})))

    loop = stage.loop(calls(("dump", {})), *[reads] * 8, tools=read_outputs())
    assert (await loop.send("go")).status == "completed"
    shown, by_offset, by_line, found, first_found, near_the_end, past, both = answers
    assert "of 50000014 characters left out; of 5000001 lines in all" in shown
    row = "日本 line é\n"
    # That byte is the second of a character, which is shown whole; so is the last one that begins within the limit.
    assert by_offset.startswith(f"tool: 本 line é\n{row}日\n(bytes {MANY - 2} to {MANY + 28} of ")
    assert by_line.startswith(f"tool: {row}{row}\n(lines 4000001 to 4000002, bytes ")
    assert f"line 5000001, offset {5_000_000 * len(row.encode()) + 4}: the last words" in found
    # Byte 100 is inside the seventh line, behind its beginning.
    assert first_found.startswith("tool: line 7, offset ")
    assert first_found.count("\n") == 50
    assert "there are more; go on with offset=" in first_found
    assert near_the_end == f"tool: {row}the last words"
    assert "has 5000001 lines" in past
    assert "give one of line" in both


async def test_arguments_that_are_too_much_are_refused_and_not_kept(stage: Stage) -> None:
    @tool
    async def write(text: str) -> str:
        """Writes."""
        raise AssertionError("must not be called")

    loop = stage.loop(asked(("c", "write", json.dumps({"text": "x" * MANY}))), "sorry", tools=[write])
    result = await loop.send("go")
    assert result.final_text == "sorry"
    assert await journal_bytes(stage, loop, result.session_id) < 10_000
    records = await stage.records(loop, result.session_id)
    [finished] = [r for r in records if isinstance(r, ToolFinished)]
    assert finished.status == "invalid"
    assert "nothing was run" in str(finished.content)
    [reply] = [r for r in records if isinstance(r, AssistantMessageAdded) and r.message.tool_calls]
    assert reply.message.tool_calls[0].arguments.startswith('{"text": "xxx')


async def test_large_results_and_answers_from_outside_are_kept_like_those_of_tools(stage: Stage) -> None:
    charge = ToolDefinition(name="charge", description="Charges.", parameters={"type": "object", "properties": {}})
    loop = stage.loop(calls(("charge", {})), "done", tools=[charge])
    waiting = await loop.send("go")
    result = ToolHandlerResult("é" * 3_000_000, data=["x" * 3_000_000])
    done = await loop.submit_tool_results(waiting.session_id, {waiting.pending_tool_calls[0].id: result})
    assert done.status == "completed"
    [finished] = [r for r in await stage.records(loop, done.session_id) if isinstance(r, ToolFinished)]
    assert finished.data["bytes"] == 3_000_004
    data = await loop.store.read_artifact(finished.data["artifact_id"])
    assert json.loads(data) == result.data
    assert await journal_bytes(stage, loop, done.session_id) < 200_000


async def test_the_event_loop_turns_while_a_large_output_is_made_to_bytes() -> None:
    turns = ended = put = 0

    class Watched(MemoryStore):
        async def put_artifact(self, session_id: str, data: bytes, media_type: str, **digest: Any) -> Artifact:
            nonlocal put
            put = turns
            return await super().put_artifact(session_id, data, media_type, **digest)

    @tool(effect="pure")
    async def large() -> str:
        """Large."""
        nonlocal ended
        text = "é" * MANY
        ended = turns
        return text

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await breathe()

    turning = asyncio.create_task(turn())
    async with StatefulAgentLoop(
        llm=ScriptedLLM([calls(("large", {})), "done"]), store=Watched(), tools=[large]
    ) as loop:
        await loop.send("go")
    turning.cancel()
    assert put - ended > 20


@pytest.mark.parametrize("point", ["artifact.before", "artifact.after", "commit.before:tool_started+tool_finished"])
async def test_a_process_that_dies_between_a_large_output_and_its_record_leaves_one_that_is_swept(
    stage: Stage, point: str
) -> None:
    @tool(effect="pure")
    async def count() -> str:
        """Something else each time."""
        nonlocal runs
        runs += 1
        return f"{runs}" * 100_000

    runs = 0
    mortal = stage.mortal(point, calls(("count", {})), tools=[count])
    sid = await mortal.new_session()
    await stage.dies(mortal, mortal.send("go", session_id=sid))
    loop = stage.loop("done", tools=[count])
    assert (await loop.resume(sid)).status == "completed"
    assert len((await loop.store.inventory(sid)).artifacts) == (1 if point == "artifact.before" else 2)
    await loop.store.sweep_artifacts(4e9)
    [kept] = (await loop.store.inventory(sid)).artifacts
    assert await loop.store.read_artifact(kept.artifact_id, limit=3) == b"222"
