"""What every `Executor` must keep, as checks that an implementer runs.

Owns: the promises of `ports/executor.py`, each as one check, and the leaves that they are checked with. Must not know:
processes, a test runner.
Read next: `ports/executor.py`, where the promises are written.

With pytest and pytest-asyncio it is enough to subclass::

    class TestMyExecutor(ExecutorSuite):
        @asynccontextmanager
        async def executing(self, dsn):
            executor = MyExecutor(...)  # its workers make their loops with open_suite_loop(LoopOrder(dsn=dsn, ...))
            yield executor
            await executor.aclose()

Without them, `await run_executor_suite(TestMyExecutor())` runs all checks one after the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Container, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import ClassVar

from ..config import AgentLoopConfig
from ..core.result import StatefulResult
from ..executors.worker_job import LoopOrder, WorkerBootstrap
from ..loop import StatefulAgentLoop
from ..model.messages import AssistantMessage, MessageLike, ToolCall, ToolResultMessage, UserMessage
from ..ports.ambient import breathe
from ..ports.executor import LARGEST_REF, Executor, LeafEnd, LeafRef, encode_ref
from ..ports.llm import LLMRequest, LLMResponse, LLMStreamChunk
from ..ports.tool import InputNeeded, ToolContext
from ..tools.decorator import tool
from ..transports.reply_chunks import chunks_of
from .canonical import canonical

SUITE_FACTORY = "loopwright.testing.executor_suite:open_suite_loop"
"""For a `WorkerBootstrap`."""


@tool(effect="idempotent")
async def mark(path: str) -> str:
    """Adds a line to a file and says how many it has."""
    with Path(path).open("a", encoding="utf-8") as file:  # noqa: ASYNC230 - a line in a test's own folder
        file.write("x\n")
    return str(len(Path(path).read_text(encoding="utf-8").splitlines()))  # noqa: ASYNC240


@tool(effect="idempotent")
def break_down(path: str) -> str:
    """Ends the whole process, but only where it did not do so before."""
    if os.path.exists(path):
        return "it holds"
    with open(path, "w", encoding="utf-8"):
        pass
    os._exit(41)


@tool(effect="pure")
async def wait_for_ever(path: str, ctx: ToolContext) -> str:
    """Makes a file and waits until it is stopped."""
    Path(path).touch()  # noqa: ASYNC240
    await ctx.cancellation.wait()
    return "stopped"


@tool(effect="once")
async def ask_person(question: str) -> str | InputNeeded:
    """Asks a person."""
    return InputNeeded(question)


TOOLS = {made.name: made for made in (mark, break_down, wait_for_ever, ask_person)}


class LeafModel:
    """Does what it is told: "mark /a/path" is a call of that tool, and its result is the answer. Needs no state, so that
    any process may go on with the conversation."""

    tool_names: frozenset[str] = frozenset(TOOLS)
    """First words that are calls."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """The reply to the newest message."""
        return _reply(request.messages, self.tool_names)

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamChunk]:
        """The same, in pieces."""
        for chunk in chunks_of(_reply(request.messages, self.tool_names)):
            yield chunk
            await breathe()

    async def aclose(self) -> None:
        """Nothing to release."""


def _reply(messages: Sequence[MessageLike], names: Container[str]) -> LLMResponse:
    last = messages[-1]
    if isinstance(last, ToolResultMessage):
        return LLMResponse(text=f"done: {last.content}", finish_reason="stop")
    assert isinstance(last, UserMessage)
    name, _, given = last.text.partition(" ")
    if name not in names:
        return LLMResponse(text=f"heard: {last.text}", finish_reason="stop")
    count = sum(isinstance(message, AssistantMessage) for message in messages)
    argument = "question" if name == "ask_person" else "path"
    call = ToolCall(f"call_{count}", name, json.dumps({argument: given}))
    return LLMResponse(tool_calls=(call,), finish_reason="tool_calls")


def open_suite_loop(order: LoopOrder) -> StatefulAgentLoop:
    """The loop of the suite's leaves, for any process."""
    config = AgentLoopConfig(agent_name=order.agent_name, lease_wait_s=20.0, lease_ttl_s=3.0)
    return StatefulAgentLoop(llm=LeafModel(), dsn=order.dsn, tools=list(TOOLS.values()), config=config)


class ExecutorStage:
    """One check: a folder, a store, the executor, and a loop on that store that starts sessions and looks at them."""

    def __init__(self, folder: Path, dsn: str, executor: Executor, loop: StatefulAgentLoop, wait_s: float) -> None:
        self.folder = folder
        self.dsn = dsn
        self.executor = executor
        self.loop = loop
        self._wait_s = wait_s

    async def leaf(self, text: str, *, session_id: str | None = None) -> LeafRef:
        """A session that has heard `text` and is run by nobody."""
        made = await self.loop.new_session(session_id=session_id)
        await self.loop.enqueue(text, session_id=made)
        return LeafRef(session_id=made, agent_name="leaf", run_id="run", path="steps[0]/leaf")

    async def end(self, ref: LeafRef) -> LeafEnd:
        """Its end, which has to come in time."""
        return await asyncio.wait_for(self.executor.observe(ref), self._wait_s)

    async def run(self, ref: LeafRef) -> LeafEnd:
        """Begins it and waits for its end."""
        await self.executor.submit(ref)
        return await self.end(ref)

    async def journal(self, session_id: str) -> list[str]:
        """What stands in the store, as `canonical` shows it."""
        return canonical(await self.loop.store.read(session_id))

    async def texts(self, session_id: str) -> list[str]:
        """What was said, oldest first."""
        said = await self.loop.get_messages(session_id)
        return [m.text for m in said if isinstance(m, UserMessage | AssistantMessage)]

    async def here(self, text: str) -> tuple[StatefulResult, list[str]]:
        """The same leaf, run in this process by the loop itself."""
        ref = await self.leaf(text)
        result = await self.loop.resume(ref.session_id)
        return result, await self.journal(ref.session_id)

    @asynccontextmanager
    async def placed(self) -> AsyncGenerator[StatefulAgentLoop]:
        """A loop on the same store whose workflows have their agents run by the executor."""
        config = self.loop.config
        tools = list(TOOLS.values())
        async with StatefulAgentLoop(
            llm=LeafModel(), store=self.loop.store, tools=tools, config=config, executor=self.executor
        ) as loop:
            yield loop

    async def until_there(self, path: Path) -> None:
        """Waits until a leaf made a file."""
        async with asyncio.timeout(self._wait_s):
            while not _is_there(path):
                await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.01)


def _is_there(path: Path) -> bool:
    return path.exists()  # a function of its own: in a test's folder this blocks nobody


class StageMaker:
    """What the suite needs to be told about an executor: how to open one. Subclass `ExecutorSuite`, not this."""

    wait_s: float = 30.0
    """Longest time that a check waits for something that must happen."""
    own_process: ClassVar[bool] = True
    """False for an executor whose leaves are tasks of this process: it cannot survive what ends the process, and what it
    has to leave ends as cancelled."""

    def executing(self, dsn: str) -> AbstractAsyncContextManager[Executor]:
        """An executor for the sessions of agent `leaf` in this store."""
        raise NotImplementedError("a subclass of ExecutorSuite has to say how its executor is opened")

    @asynccontextmanager
    async def stage(self) -> AsyncGenerator[ExecutorStage]:
        """A store of its own, the executor on it, and a loop beside it."""
        with tempfile.TemporaryDirectory(prefix="executor-suite-") as name:
            folder = Path(name)
            dsn = str(folder / "home.db")
            order = LoopOrder(dsn=dsn, agent_name="leaf", workspace=name, bootstrap=WorkerBootstrap())
            async with open_suite_loop(order) as loop, self.executing(dsn) as executor:
                yield ExecutorStage(folder, dsn, executor, loop, self.wait_s)


class EndPromises(StageMaker):
    """How leaves end, and how often they run."""

    async def test_the_same_leaf_gives_the_same_result_as_here(self) -> None:
        """Status, text and journal; with a tool, and with words alone."""
        async with self.stage() as stage:
            for text in (f"mark {stage.folder}/a", "what a day"):
                expected, journal = await stage.here(text)
                (stage.folder / "a").unlink(missing_ok=True)
                ref = await stage.leaf(text)
                end = await stage.run(ref)
                assert (end.status, end.in_journal, end.fault) == (expected.status, True, None)
                assert end.usage == expected.usage
                assert await stage.journal(ref.session_id) == journal
                assert (await stage.texts(ref.session_id))[-1] == expected.final_text

    async def test_a_leaf_submitted_twice_runs_once(self) -> None:
        """While it runs and after its end; and every observer hears the same."""
        async with self.stage() as stage:
            ref = await stage.leaf(f"mark {stage.folder}/a")
            await asyncio.gather(*[stage.executor.submit(ref) for _ in range(3)])
            ends = await asyncio.gather(*[stage.end(ref) for _ in range(3)])
            await stage.executor.submit(ref)
            assert [await stage.end(ref), *ends] == [ends[0]] * 4
            assert (stage.folder / "a").read_text() == "x\n"

    async def test_a_later_attempt_of_a_finished_leaf_runs_nothing(self) -> None:
        """Its end is in the journal, and is told again."""
        async with self.stage() as stage:
            ref = await stage.leaf(f"mark {stage.folder}/a")
            first = await stage.run(ref)
            again = LeafRef(session_id=ref.session_id, agent_name="leaf", run_id="run", path=ref.path, attempt=2)
            assert await stage.run(again) == first
            assert (stage.folder / "a").read_text() == "x\n"

    async def test_a_leaf_that_is_not_known_is_told_as_unknown(self) -> None:
        """At once; and asking it to stop is no error."""
        async with self.stage() as stage:
            ref = await stage.leaf("hello")
            await stage.executor.cancel(ref, "nobody wants it")
            end = await stage.end(ref)
            assert (end.in_journal, end.fault) == (False, "leaf.unknown")

    async def test_a_cancelled_leaf_ends_as_cancelled_in_its_journal(self) -> None:
        """With the reason, and with its call answered."""
        async with self.stage() as stage:
            ref = await stage.leaf(f"wait_for_ever {stage.folder}/a")
            await stage.executor.submit(ref)
            await stage.until_there(stage.folder / "a")
            await stage.executor.cancel(ref, "the tree is stopped")
            end = await stage.end(ref)
            assert (end.status, end.in_journal, end.fault) == ("cancelled", True, None)
            found = await stage.loop.store.lookup(ref.session_id)
            assert (found.head.status, found.head.sends) == ("idle", 1)
            assert "the tree is stopped" in "".join(await stage.journal(ref.session_id))

    async def test_a_leaf_whose_time_is_over_is_stopped(self) -> None:
        """And its end says so."""
        async with self.stage() as stage:
            made = await stage.leaf(f"wait_for_ever {stage.folder}/a")
            ref = LeafRef(session_id=made.session_id, agent_name="leaf", run_id="run", path="slow", timeout_s=1.0)
            end = await stage.run(ref)
            assert end.fault == "leaf.timed_out", end
            assert end.status == ("cancelled" if end.in_journal else "failed")


class NextPromises(StageMaker):
    """What comes after: nudges, other attempts, other executors."""

    async def test_a_nudge_makes_an_ended_leaf_look_again(self) -> None:
        """What waits for it in the store is taken; the nudge holds none of it."""
        async with self.stage() as stage:
            ref = await stage.leaf("first")
            assert (await stage.run(ref)).ok
            await stage.loop.enqueue("second", session_id=ref.session_id)
            await stage.executor.nudge(ref)
            assert (await stage.end(ref)).ok
            texts = await stage.texts(ref.session_id)
            assert texts == ["first", "heard: first", "second", "heard: second"]

    async def test_a_nudge_begins_a_leaf_that_was_never_submitted(self) -> None:
        """As when the executor's own process was started anew."""
        async with self.stage() as stage:
            ref = await stage.leaf("hello")
            await stage.executor.nudge(ref)
            assert (await stage.end(ref)).ok

    async def test_a_nudge_while_it_runs_is_not_lost(self) -> None:
        """However late it comes."""
        async with self.stage() as stage:
            ref = await stage.leaf(f"mark {stage.folder}/a")
            await stage.executor.submit(ref)
            await stage.until_there(stage.folder / "a")
            await stage.loop.enqueue("and now", session_id=ref.session_id)
            await stage.executor.nudge(ref)
            assert (await stage.end(ref)).ok
            texts = await stage.texts(ref.session_id)
            assert texts[-1] == "heard: and now"

    async def test_a_question_pauses_the_leaf_and_its_answer_ends_it(self) -> None:
        """Given to the store by anybody; the nudged executor finds the end in the journal."""
        async with self.stage() as stage:
            ref = await stage.leaf("ask_person may I?")
            end = await stage.run(ref)
            assert (end.status, end.in_journal) == ("waiting_for_input", True)
            _, questions = await stage.loop.get_pending(ref.session_id)
            assert [question.prompt for question in questions] == ["may I?"]
            await stage.loop.submit_input(ref.session_id, questions[0].id, "yes")
            await stage.executor.nudge(ref)
            assert (await stage.end(ref)).ok

    async def test_a_crash_is_an_end_and_another_attempt_goes_on(self) -> None:
        """The call that was open is run again, and the journal is that of an undisturbed run."""
        if not self.own_process:
            return
        async with self.stage() as stage:
            ref = await stage.leaf(f"break_down {stage.folder}/a")
            end = await stage.run(ref)
            assert (end.status, end.in_journal, end.fault) == ("failed", False, "leaf.crashed"), end
            again = LeafRef(session_id=ref.session_id, agent_name="leaf", run_id="run", path=ref.path, attempt=2)
            assert (await stage.run(again)).ok
            _, journal = await stage.here(f"break_down {stage.folder}/a")
            assert await stage.journal(ref.session_id) == journal

    async def test_what_crashed_there_is_continued_here(self) -> None:
        """By another executor, here the loop itself: the journal has all that is needed."""
        if not self.own_process:
            return
        async with self.stage() as stage:
            ref = await stage.leaf(f"break_down {stage.folder}/a")
            assert not (await stage.run(ref)).in_journal
            result = await stage.loop.resume(ref.session_id)
            assert (result.status, result.final_text) == ("completed", "done: it holds")
            assert (await stage.loop.store.lookup(ref.session_id)).head.sends == 1

    async def test_a_closed_executor_leaves_its_leaves_to_others(self) -> None:
        """Nothing of it runs any more, the session is free, and closing twice is safe."""
        async with self.stage() as stage:
            ref = await stage.leaf(f"wait_for_ever {stage.folder}/a")
            await stage.executor.submit(ref)
            await stage.until_there(stage.folder / "a")
            await asyncio.wait_for(stage.executor.aclose(), self.wait_s)
            await stage.executor.aclose()
            head = (await stage.loop.store.lookup(ref.session_id)).head
            assert head.expires_in_s == 0
            if self.own_process:
                assert head.status == "running"
                assert (await stage.end(ref)).fault == "leaf.left"
            await stage.executor.submit(await stage.leaf("too late", session_id="late"))
            assert (await stage.loop.store.lookup("late")).head.status == "idle"

    async def test_leaves_run_side_by_side(self) -> None:
        """Four that wait for each other's files would never end one after the other."""
        async with self.stage() as stage:
            paths = [stage.folder / str(number) for number in range(4)]
            refs = [await stage.leaf(f"wait_for_ever {path}") for path in paths]
            for ref in refs:
                await stage.executor.submit(ref)
            await asyncio.gather(*[stage.until_there(path) for path in paths])
            for ref in refs:
                await stage.executor.cancel(ref, "enough")
            assert {(await stage.end(ref)).status for ref in refs} == {"cancelled"}

    async def test_a_reference_is_small(self) -> None:
        """Also with the longest ids of the library."""
        async with self.stage() as stage:
            ref = await stage.leaf("hello")
            assert len(encode_ref(ref)) <= LARGEST_REF


class WorkflowPromises(StageMaker):
    """Workflows whose agents the executor runs."""

    async def test_the_same_workflow_gives_the_same_result_as_here(self) -> None:
        """Outcome, texts and the run's journal; agents in a foreach, beside each other, with a tool and failing ones."""
        async with self.stage() as stage:
            spec = _workflow(stage.folder)
            here = await stage.loop.workflows.run(spec, "north")
            (stage.folder / "a").unlink()
            async with stage.placed() as placed:
                there = await placed.workflows.run(spec, "north")
            assert (there.status, there.final_text) == (here.status, here.final_text)
            assert there.usage == here.usage
            assert await stage.journal(there.run_id) == await stage.journal(here.run_id)

    async def test_an_agent_that_breaks_its_process_down_fails_its_step_alone(self) -> None:
        """The step says how; the rest of the run goes on."""
        if not self.own_process:
            return
        async with self.stage() as stage, stage.placed() as placed:
            broken = {
                "type": "parallel",
                "on_error": "continue",
                "branches": [_agent("bad", f"break_down {stage.folder}/b"), _agent("good", "good")],
            }
            result = await placed.workflows.run({"name": "broken", "root": broken}, "")
            assert [one.path for one in result.errors] == ["bad"]
            found = await placed.workflows.get(result.run_id)
            assert {step.path: step.status for step in found.steps} == {"bad": "failed", "good": "completed"}


def _agent(name: str, task: str) -> dict[str, object]:
    return {"type": "agent", "id": name, "spec": {"name": name}, "input": task}


def _workflow(folder: Path) -> dict[str, object]:
    every = {"type": "foreach", "id": "every", "as": "one", "items": ["x", "y"], "body": _agent("say", "say {{one}}")}
    beside = {"type": "parallel", "branches": [every, _agent("marks", f"mark {folder}/a")]}
    last = _agent("last", "after {{marks}} in the {{input}}")
    return {"name": "suite", "root": {"type": "sequence", "steps": [beside, last]}}


class ExecutorSuite(EndPromises, NextPromises, WorkflowPromises):
    """The checks; a subclass says how its executor is opened."""


async def run_executor_suite(suite: ExecutorSuite) -> list[str]:
    """Runs every check of `suite`; returns their names. Raises what the first failing check raises."""
    names = [name for name in dir(suite) if name.startswith("test_")]
    for name in names:
        await getattr(suite, name)()
    return names
