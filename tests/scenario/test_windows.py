"""What the model sees: the same bytes from a warm and a cold loop, and always a continuation of what it saw before."""

from __future__ import annotations

import asyncio
import itertools
import signal
from typing import Any

import pytest
from tests.scenario.conftest import Stage, asked, said, texts

from loopwright import ImagePart, TextPart, UserMessage, tool
from loopwright.engine.actor import ACTORS
from loopwright.model.codec import encode
from loopwright.model.errors import SessionNotFoundError
from loopwright.testing import calls


@tool(effect="pure")
async def look(x: int = 0) -> Any:
    """Look."""
    return {"seen": x, "odd": "\ud800 日本 \x00"}


STEPS = (
    calls(("look", {"x": 1}), ("look", {"x": 2}), text="let me see"),
    "done",
    said("cut ", finish="length"),
    "on",
    "end",
)
INPUTS = (UserMessage((TextPart("a"), ImagePart(data=b"\x00\xff"))), "b \ud800", "c")


def window(request: Any) -> bytes:
    return encode((request.messages, request.system_prompt, request.tools))[:-1]


async def requests_of(stage: Stage, *, cold: bool, **settings: Any) -> list[Any]:
    """Every request of one conversation, from one warm loop or from a fresh process for each send."""
    model = stage.model(*STEPS)
    sid = await stage.loop().new_session(system_prompt="be exact")
    for text in INPUTS:
        loop = stage.loop(llm=model, tools=[look], **settings)
        assert (await loop.send(text, session_id=sid)).status == "completed"
        if cold:
            ACTORS.drop(loop.store.identity)
    return model.requests


async def test_a_cold_loop_sends_the_bytes_that_a_warm_one_sends(stage: Stage) -> None:
    warm = [window(r) for r in await requests_of(stage, cold=False)]
    assert [window(r) for r in await requests_of(stage, cold=True)] == warm


async def test_checkpoints_change_nothing_that_the_model_sees(stage: Stage) -> None:
    plain = [window(r) for r in await requests_of(stage, cold=True)]
    assert [window(r) for r in await requests_of(stage, cold=True, checkpoint_every=3)] == plain


async def test_each_request_begins_with_the_messages_of_the_one_before(stage: Stage) -> None:
    seen = await requests_of(stage, cold=True)
    for earlier, later in itertools.pairwise(seen):
        assert encode(later.messages).startswith(encode(earlier.messages)[:-1])
        assert (later.system_prompt, later.tools) == (earlier.system_prompt, earlier.tools)


async def test_a_wide_batch_of_every_kind_of_tool_is_answered_in_order(stage: Stage) -> None:
    @tool(effect="once")
    async def pay(x: int) -> str:
        """Pay."""
        return f"paid {x}"

    @tool(effect="idempotent")
    def put(x: int) -> str:
        """Put."""
        return f"put {x}"

    @tool(effect="pure")
    async def see(x: int) -> str:
        """See."""
        return f"saw {x}"

    wanted = [(("pay", "put", "see", "no such tool")[n % 4], {"x": n}) for n in range(32)]
    loop = stage.loop(calls(*wanted), "done", tools=[pay, put, see], max_parallel_tools=32)
    result = await loop.send("go")
    answers = texts(await loop.get_messages(result.session_id))[2:-1]
    assert len(answers) == 32
    for (name, given), answer in zip(wanted, answers, strict=True):
        assert answer.endswith(f" {given['x']}") or name == "no such tool"


HOLDER = """
import asyncio, sys
from loopwright import AgentLoopConfig, LoopwrightError, StatefulAgentLoop
from loopwright.testing import ScriptedLLM, gated

async def main():
    gate, reached = asyncio.Event(), asyncio.Event()
    model, config = ScriptedLLM([gated("theirs", gate, reached=reached)]), AgentLoopConfig(lease_ttl_s=0.6)
    async with StatefulAgentLoop(llm=model, dsn=sys.argv[1], config=config) as loop:
        run = asyncio.create_task(loop.send("from there", session_id=sys.argv[2]))
        await reached.wait()
        print("holding", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        gate.set()
        try:
            print((await run).status, flush=True)
        except LoopwrightError as error:
            print(error.code, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("dsn", ["sqlite"], indirect=True)
async def test_a_paused_process_whose_lease_ran_out_is_fenced_and_has_written_nothing(
    stage: Stage, python: Any
) -> None:
    loop = stage.loop("taken over", lease_wait_s=20.0)
    sid = await loop.new_session()
    other = await python(HOLDER, stage.dsn, sid)
    assert await other.stdout.readline() == b"holding\n"
    other.send_signal(signal.SIGSTOP)
    result = await loop.send("from here", session_id=sid)
    records = len(await loop.store.read(sid))
    other.send_signal(signal.SIGCONT)
    other.stdin.write(b"go\n")
    assert await other.stdout.readline() == b"session.fenced\n"
    assert result.final_text == "taken over"
    assert len(await loop.store.read(sid)) == records
    assert texts(await loop.get_messages(sid)) == ["user: from there", "user: from here", "assistant: taken over"]


FOLLOWER = """
import asyncio, sys
from loopwright import StatefulAgentLoop
from loopwright.testing import ScriptedLLM

async def main():
    async with StatefulAgentLoop(llm=ScriptedLLM(), dsn=sys.argv[1]) as loop:
        print(type(await loop.follow_up("from far away", session_id=sys.argv[2])).__name__, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("dsn", ["sqlite"], indirect=True)
async def test_a_follow_up_from_another_process_is_taken_by_the_running_send(stage: Stage, python: Any) -> None:
    @tool(effect="pure")
    async def call_them() -> str:
        """Call them."""
        other = await python(FOLLOWER, stage.dsn, sid)
        return str((await other.stdout.readline()).decode().strip())

    class Model:
        async def complete(self, request: Any) -> Any:
            return asked(("c", "call_them", "{}")) if len(request.messages) == 1 else said("fine")

    loop = stage.loop(llm=Model(), tools=[call_them])
    sid = await loop.new_session()
    result = await loop.send("go", session_id=sid)
    assert texts(await loop.get_messages(sid))[2] == "tool: FollowUpQueued"
    assert "user: from far away" in texts(await loop.get_messages(sid))
    assert result.status == "completed"


async def test_reading_does_not_disturb_a_run(stage: Stage) -> None:
    with pytest.raises(SessionNotFoundError):
        await stage.loop().get_messages("nowhere")
    loop = stage.loop("a", "b", "c")
    sid = await loop.new_session()

    async def read() -> None:
        for _ in range(20):
            await loop.get_messages(sid)
            await loop.get_pending(sid)
            await loop.get_session_stats(sid)

    sends = [loop.send(text, session_id=sid) for text in "xyz"]
    await asyncio.gather(read(), *sends)
    stats = await loop.get_session_stats(sid)
    assert (stats.sends, stats.status, stats.usage.calls) == (3, "idle", 3)
