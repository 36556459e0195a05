"""Whatever happens to a session in whatever order: each accepted input is said once, and the session can be sent."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenario.conftest import asked, said

from loopwright import AgentLoopConfig, StatefulAgentLoop, ToolContext, UserMessage, tool
from loopwright.core.pairing import problem
from loopwright.core.state import State, apply, refusal
from loopwright.engine.actor import ACTORS
from loopwright.model.codec import decode_record, encode
from loopwright.model.errors import LoopwrightError
from loopwright.model.records import AssistantMessageAdded, ToolFinished, ToolStarted, UserMessageAdded
from loopwright.testing.crash_points import CrashPoints, ProcessStopped

numbers = itertools.count()

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["send", "send", "same send", "follow", "follow twice", "at once", "resume", "abort", "recover"]
        ),
        st.integers(0, 40).map(lambda n: n if n < 25 else None),  # how many points the process lives on, None: for ever
        st.integers(0, 60).map(lambda n: n if n < 20 else None),  # turns of the event loop until its task is cancelled
    ),
    min_size=1,
    max_size=8,
)


class Whimsical:
    """A model that asks for tools or answers, depending on how much was said."""

    async def complete(self, request: Any) -> Any:
        assert problem(request.messages) is None
        size = len(request.messages)
        if size % 4 == 1:
            return asked((f"a{size}", "look", "{}"), (f"b{size}", "pay", "{}"), (f"b{size}", "nonsense", "{"))
        if size % 7 == 3:
            return said("cut ", finish="length")
        return said(f"after {size}")


class Mortal(CrashPoints):
    """A process that dies after so many named points."""

    def __init__(self, lives: int | None) -> None:
        super().__init__()
        self.lives = lives

    def reach(self, point: str) -> None:
        super().reach(point)
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0:
                self._stop(self.reached[-1])


class Life:
    """One session through many processes."""

    def __init__(self) -> None:
        self.dsn = f"memory:any-sequence-{next(numbers)}"
        self.accepted: list[str] = []
        self.sure: set[str] = set()
        self.paid: Counter[str] = Counter()
        self.sid = "s"

        @tool(effect="pure")
        async def look() -> str:
            """Look."""
            return "saw"

        @tool(effect="once")
        async def pay(ctx: ToolContext) -> str:
            """Pay."""
            self.paid[ctx.idempotency_key] += 1
            return "paid"

        self.tools = [look, pay]

    async def play(self, operations: list[tuple[str, int | None, int | None]]) -> None:
        async with StatefulAgentLoop(llm=Whimsical(), dsn=self.dsn) as loop:
            await loop.new_session(session_id=self.sid)
        for name, lives, turns in operations:
            await self.one_process(name, lives, turns)
        await self.one_process("recover", None, None)
        await self.one_process("send", None, None)

    async def one_process(self, name: str, lives: int | None, turns: int | None) -> None:
        world, before = Mortal(lives), len(self.accepted)
        loop = StatefulAgentLoop(
            llm=Whimsical(), dsn=self.dsn, tools=self.tools, ambient=world, config=AgentLoopConfig(max_rounds=3)
        )
        world.on_stop = loop.store.abandon
        work = asyncio.create_task(self.operate(loop, name))
        if turns is not None:
            cancel_after(work, turns)
        await asyncio.wait([work])
        error = None if work.cancelled() else work.exception()
        if world.stopped is None and error is not None:
            raise error
        if world.stopped is None:
            self.sure.update(self.accepted[before:] if not work.cancelled() else ())
            await loop.aclose()
        else:
            await loop.aclose(drain_timeout_s=0.0)
        ACTORS.drop(loop.store.identity)

    async def operate(self, loop: StatefulAgentLoop, name: str) -> None:
        text = f"input {len(self.accepted)}"
        if name == "same send" and self.accepted:
            text = self.accepted[-1]
        else:
            self.accepted.append(text)
        if name in ("send", "same send"):
            result = await loop.send(text, session_id=self.sid, send_id=text)
            ends = ("completed", "hit_round_limit", *(["cancelled"] if name == "same send" else []))
            assert result.status in ends, result
        elif name == "follow":
            await loop.follow_up(text, session_id=self.sid, item_id=text)
        elif name == "follow twice":
            follow = [loop.follow_up(text, session_id=self.sid, item_id=text) for _ in range(2)]
            await asyncio.gather(*follow)
        elif name == "at once":
            self.accepted.append(other := f"{text}+")
            first = loop.send(text, session_id=self.sid, send_id=text)
            await asyncio.gather(first, loop.follow_up(other, session_id=self.sid, item_id=other))
        else:
            self.accepted.pop()
            await self.tend(loop, name)

    async def tend(self, loop: StatefulAgentLoop, name: str) -> None:
        try:
            if name == "resume":
                await loop.resume(self.sid)
            elif name == "abort":
                await loop.abort_pending(self.sid)
            else:
                for recovered in await loop.recover():
                    assert recovered.error is None
        except LoopwrightError as error:
            if "is empty" not in str(error):  # nothing was said yet
                raise

    async def judge(self) -> None:
        async with StatefulAgentLoop(llm=Whimsical(), dsn=self.dsn) as loop:
            rows = await loop.store.read(self.sid)
            found = await loop.store.lookup(self.sid)
        assert found.head.status == "idle"
        assert found.waiting == ()
        state, heard, answered, begun = State(), Counter[str](), Counter[str](), Counter[str]()
        for row in rows:
            record = decode_record(row.kind, row.version, row.body)
            assert refusal(state, record) is None
            before = encode(state.messages)[:-1]
            apply(state, record, row.at)
            assert encode(state.messages).startswith(before), "history changed"
            if isinstance(record, UserMessageAdded) and record.source in ("send", "inbox"):
                assert isinstance(record.message, UserMessage)
                heard[record.message.text] += 1
            elif isinstance(record, ToolFinished):
                answered[record.key] += 1
            elif isinstance(record, ToolStarted):
                begun[record.key] += 1
        assert problem(state.messages) is None
        assert max(heard.values()) == 1, "an input was said twice"
        assert self.sure <= set(heard) <= set(self.accepted), "an input was lost"
        assert max(self.paid.values(), default=1) == 1, "a once tool ran twice"
        assert max(answered.values(), default=1) == 1, "a call was answered twice"
        assert max(begun.values(), default=1) == 1, "a call was begun twice"
        replies = [r for r in rows if r.kind == AssistantMessageAdded.__struct_config__.tag]
        assert replies
        assert msgspec.to_builtins(found.head.usage)["calls"] >= len(replies)


def cancel_after(task: asyncio.Task[None], turns: int) -> None:
    if turns == 0:
        task.cancel()
    else:
        asyncio.get_running_loop().call_soon(cancel_after, task, turns - 1)


def quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What unwinds in a dead process is nobody's business."""
    if not isinstance(context.get("exception"), ProcessStopped):
        loop.default_exception_handler(context)


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_any_sequence_of_sends_deaths_and_cancellations_keeps_every_promise(
    operations: list[tuple[str, int | None, int | None]],
) -> None:
    async def whole() -> None:
        asyncio.get_running_loop().set_exception_handler(quiet)
        life = Life()
        await life.play(operations)
        await life.judge()

    asyncio.run(whole())
