"""Pictures and files: stored once beside the journal, shown to the model with their bytes, and said to be unseen where they are not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.contract.stores.sealing import sealed
from tests.scenario.conftest import Counting, Stage, texts
from tests.scenario.upkeep.any_session import exported, imported

from loopwright import (
    FilePart,
    HookPoint,
    ImagePart,
    StatefulAgentLoop,
    TextPart,
    ToolDefinition,
    ToolHandlerResult,
    UserMessage,
    open_store,
    tool,
)
from loopwright.engine.actor import ACTORS
from loopwright.engine.hooks import AgentHooks
from loopwright.model.call_errors import MessageTooLargeError
from loopwright.model.codec import encode
from loopwright.model.errors import InvalidMessageError
from loopwright.ports.hook import LLMBeforeContext, MessageContext
from loopwright.ports.store import SessionQuery
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.memory import MemoryStore
from loopwright.testing import ScriptedLLM, calls
from loopwright.testing.model_server import ModelServer, reply
from loopwright.tools.read_output import read_output_tool
from loopwright.transports.model_capabilities import ModelCapabilities
from loopwright.transports.provider_config import LLMProviderConfig
from loopwright.transports.service_factory import create_llm_service_from_config

BYTES = bytes(range(256)) * 400
PICTURE = ImagePart("image/png", BYTES, detail="low")
LOOK = UserMessage((TextPart("look"), PICTURE))


def shown(loop: StatefulAgentLoop, number: int = -1) -> tuple[Any, ...]:
    """Every part that is no text, or stands for one, in a request of the scripted model."""
    request = loop._kernel.llm.requests[number]  # type: ignore[attr-defined]
    contents = [m.content for m in request.messages if not isinstance(getattr(m, "content", ""), str)]
    return tuple([part for content in contents for part in content])


def pictures(parts: tuple[Any, ...]) -> list[bytes | None]:
    return [part.data for part in parts if not isinstance(part, TextPart)]


async def records_of(loop: StatefulAgentLoop, session_id: str) -> int:
    return sum(len(row.body) for row in await loop.store.read(session_id))


async def test_a_picture_said_twice_is_stored_once_and_shown_each_time(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    sid = (await loop.send(LOOK, session_id=None)).session_id
    await loop.send(LOOK, session_id=sid)
    assert await records_of(loop, sid) < 2000
    [kept] = (await loop.store.inventory(sid)).artifacts
    assert (kept.media_type, kept.size) == ("image/png", len(BYTES))
    assert pictures(shown(loop)) == [BYTES, BYTES]
    assert shown(loop)[1].detail == "low"


async def test_messages_are_read_with_references_whose_bytes_are_in_the_store(stage: Stage) -> None:
    loop = stage.loop("one")
    sid = (await loop.send(LOOK)).session_id
    said = (await loop.get_messages(sid))[0]
    assert isinstance(said, UserMessage)
    part = said.content[1]
    assert isinstance(part, ImagePart)
    assert (part.media_type, part.data, part.detail) == ("image/png", None, "low")
    assert await loop.store.read_artifact(str(part.artifact_id)) == BYTES


async def test_what_was_read_can_be_said_again(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    sid = (await loop.send(LOOK)).session_id
    await loop.send((await loop.get_messages(sid))[0], session_id=sid)
    assert pictures(shown(loop)) == [BYTES, BYTES]


async def test_warm_and_cold_processes_show_the_same_bytes(stage: Stage) -> None:
    async def requests(*, cold: bool) -> list[bytes]:
        model = stage.model("one", calls(("camera", {})), "two", "three")
        sid = await stage.loop().new_session()
        for message in (LOOK, "and you", UserMessage((FilePart("text/plain", "a.txt", b"small"), PICTURE))):
            loop = stage.loop(llm=model, tools=[camera])
            await loop.send(message, session_id=sid)
            if cold:
                await loop.aclose()
                ACTORS.drop(stage.dsn)
        return [encode(r.messages) for r in model.requests]

    warm, cold = await requests(cold=False), await requests(cold=True)
    name = re.compile(rb"art_[0-9a-f]{32}")  # holds the session's id
    assert [name.sub(b"", r) for r in warm] == [name.sub(b"", r) for r in cold]
    assert all(later.startswith(earlier[:-1]) for earlier, later in pairwise(warm))


@tool(effect="pure")
async def camera() -> ToolHandlerResult:
    """Takes a picture."""
    return ToolHandlerResult((TextPart("click"), PICTURE, ImagePart("image/png", b"tiny")))


async def test_pictures_of_tools_and_hosts_are_kept_the_same_way(stage: Stage) -> None:
    host = ToolDefinition(name="scan", description="Scans.", parameters={"type": "object", "properties": {}})
    loop = stage.loop(calls(("camera", {}), ("scan", {})), "seen", tools=[camera, host])
    waiting = await loop.send("go")
    result = ToolHandlerResult((FilePart("application/pdf", "a.pdf", BYTES),))
    done = await loop.submit_tool_results(waiting.session_id, {waiting.pending_tool_calls[0].id: result})
    assert done.status == "completed"
    assert pictures(shown(loop)) == [BYTES, b"tiny", BYTES]
    assert await records_of(loop, done.session_id) < 4000
    assert len((await loop.store.inventory(done.session_id)).artifacts) == 1


@pytest.mark.parametrize("part", [ImagePart(), FilePart(data=b"x", artifact_id="art_1")])
async def test_a_host_cannot_submit_a_part_that_names_nothing_and_the_call_stays_open(stage: Stage, part: Any) -> None:
    host = ToolDefinition(name="scan", description="Scans.", parameters={"type": "object", "properties": {}})
    loop = stage.loop(calls(("scan", {})), "seen", tools=[host])
    waiting = await loop.send("go")
    call_id = waiting.pending_tool_calls[0].id
    with pytest.raises(InvalidMessageError, match="needs exactly one of data, url and artifact_id"):
        await loop.submit_tool_results(waiting.session_id, {call_id: [part]})
    done = await loop.submit_tool_results(waiting.session_id, {call_id: PICTURE})
    assert (done.status, pictures(shown(loop))) == ("completed", [BYTES])


async def test_a_list_of_parts_is_one_message_of_the_user(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    sid = (await loop.send([TextPart("look"), PICTURE])).session_id
    await loop.follow_up((TextPart("again"),), session_id=sid)
    said = shown(loop)
    assert [part.text for part in said if isinstance(part, TextPart)] == ["look", "again"]
    assert [data == BYTES for data in pictures(said)] == [True]


async def test_a_picture_that_waits_in_the_inbox_is_not_swept_and_is_shown(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    sid = (await loop.send("hello")).session_id
    await loop.enqueue(LOOK, session_id=sid)
    [item] = (await loop.store.lookup(sid)).waiting
    assert len(item.body) < 1000
    assert await loop.store.sweep_artifacts(4e9) == 0
    await loop.resume(sid)
    assert pictures(shown(loop)) == [BYTES]
    assert await loop.store.sweep_artifacts(4e9) == 0


async def test_a_picture_for_a_running_or_interrupted_send_is_shown_at_its_next_round(stage: Stage) -> None:
    world = Counting()

    @tool(effect="pure")
    async def wait() -> str:
        """Waits."""
        world.started.set()
        await world.gate.wait()
        return "waited"

    mortal = stage.mortal("tool.before:wait", calls(("wait", {})), tools=[wait])
    sid = await mortal.new_session()
    await stage.dies(mortal, mortal.send("go", session_id=sid))
    loop = stage.loop("one", tools=[wait])
    sending = asyncio.create_task(loop.send(LOOK, session_id=sid))
    await world.started.wait()
    await loop.follow_up(LOOK, session_id=sid)
    world.gate.set()
    assert (await sending).status == "completed"
    assert pictures(shown(loop)) == [BYTES, BYTES]
    assert await records_of(loop, sid) < 4000


@pytest.mark.parametrize("base_goes", [False, True])
async def test_a_fork_sees_the_pictures_of_its_prefix(stage: Stage, base_goes: bool) -> None:
    loop = stage.loop("one", "two", "three")
    sid = (await loop.send(LOOK)).session_id
    fork = await loop.fork(sid)
    if base_goes:
        await loop.close_session(sid, copy_to_forks=True)
    await loop.send(UserMessage((TextPart("again"), (await loop.get_messages(fork))[0].content[1])), session_id=fork)  # type: ignore[union-attr,arg-type]
    assert pictures(shown(loop)) == [BYTES, BYTES]
    assert await loop.store.sweep_artifacts(4e9) == 0
    await loop.send("and?", session_id=fork)
    assert pictures(shown(loop)) == [BYTES, BYTES]


async def test_a_picture_of_another_session_is_not_shown(stage: Stage) -> None:
    loop = stage.loop("one", "two")
    sid = (await loop.send(LOOK)).session_id
    other = (await loop.send((await loop.get_messages(sid))[0])).session_id
    assert "this session has no such artifact; you have NOT seen it" in texts(await loop.get_messages(other))[0]
    assert pictures(shown(loop)) == []


async def damage(store: MemoryStore, session_id: str, how: str) -> None:
    [one] = (await store.inventory(session_id)).artifacts
    if how == "gone":
        del store._data.artifacts[one.artifact_id]
    else:
        store._data.artifacts[one.artifact_id] = (one, one.size * b"x" if how == "changed" else b"x")


@pytest.mark.parametrize("how", ["gone", "changed", "short"])
async def test_a_picture_whose_bytes_were_lost_becomes_a_text_and_the_session_goes_on(how: str) -> None:
    store = MemoryStore()
    async with StatefulAgentLoop(llm=ScriptedLLM(["one", "two"]), store=store) as loop:
        sid = (await loop.send(LOOK)).session_id
        await damage(store, sid, how)
        assert (await loop.send("and?", session_id=sid)).status == "completed"
        parts = shown(loop)
        assert pictures(parts) == []
        assert parts[1].text.startswith(
            "[image not shown: its stored bytes are missing or damaged; you have NOT seen it (image/png, artifact art_"
        )


class Reading(MemoryStore):
    """Counts what is read of artifacts."""

    reads = 0

    async def read_artifact(self, artifact_id: str, **part: Any) -> bytes:
        self.reads += 1
        return await super().read_artifact(artifact_id, **part)


async def test_a_run_of_many_rounds_reads_a_picture_once() -> None:
    @tool(effect="pure")
    async def look() -> str:
        """Looks."""
        return "nothing"

    steps = [calls(("look", {})), calls(("look", {})), "done", "again"]
    store = Reading()
    async with StatefulAgentLoop(llm=ScriptedLLM(steps), store=store, tools=[look]) as loop:
        sid = (await loop.send(LOOK)).session_id
        assert store.reads == 1
        await loop.send("and?", session_id=sid)
        assert store.reads == 2
    await store.aclose()


async def test_a_message_that_is_too_large_is_refused_before_anything_is_stored(stage: Stage) -> None:
    loop = stage.loop("fine", max_message_bytes=len(BYTES) + 4)
    for message in (
        UserMessage((TextPart("a look"), PICTURE)),
        "x" * (len(BYTES) + 5),
        UserMessage((PICTURE, PICTURE)),
    ):
        with pytest.raises(MessageTooLargeError) as refused:
            await loop.send(message)
        assert refused.value.limit == len(BYTES) + 4
    assert list(await loop.store.list(SessionQuery())) == []
    sid = (await loop.send(LOOK)).session_id
    with pytest.raises(MessageTooLargeError):
        await loop.enqueue(UserMessage((PICTURE, PICTURE)), session_id=sid)


async def test_a_picture_of_a_tool_that_is_too_large_or_no_bytes_becomes_a_text(stage: Stage) -> None:
    odd: Any = "not bytes"

    @tool(effect="pure")
    async def look() -> ToolHandlerResult:
        """Looks."""
        return ToolHandlerResult((PICTURE, FilePart("application/pdf", "b.pdf", BYTES + b"!"), ImagePart(data=odd)))

    loop = stage.loop(calls(("look", {})), "done", tools=[look], max_message_bytes=2 * len(BYTES))
    sid = (await loop.send("go")).session_id
    assert pictures(shown(loop)) == [BYTES]
    said = texts(await loop.get_messages(sid))[2]
    assert "it is over the limit of 204800 bytes a message; you have NOT seen it (application/pdf, b.pdf" in said
    assert "ImagePart.data must be the bytes themselves, not str" in said


async def test_a_stored_picture_is_no_output_that_can_be_read_as_text(stage: Stage) -> None:
    loop = stage.loop("one")
    sid = (await loop.send(LOOK)).session_id
    [kept] = (await loop.store.inventory(sid)).artifacts
    reader = stage.loop(calls(("read_output", {"artifact_id": kept.artifact_id})), "done", tools=[read_output_tool()])
    await reader.send("read it", session_id=sid)
    assert f"is image/png of {len(BYTES)} bytes and no text" in texts(await reader.get_messages(sid))[-2]


async def test_hooks_see_bytes_that_come_and_references_in_windows_and_may_put_in_either(stage: Stage) -> None:
    seen: list[Any] = []
    hooks = AgentHooks()

    def coming(context: MessageContext) -> None:
        seen.append(context.message.content)
        context.message = UserMessage((*context.message.content, PICTURE))  # type: ignore[arg-type]

    def asking(context: LLMBeforeContext) -> None:
        seen.append(context.messages[0].content)  # type: ignore[union-attr]
        context.messages = [*context.messages, context.messages[0]]

    hooks.register(HookPoint.MESSAGE_APPEND, coming)
    hooks.register(HookPoint.LLM_BEFORE, asking)
    loop = stage.loop("one", hooks=hooks)
    await loop.send(LOOK)
    assert pictures(seen[0]) == [BYTES]
    assert pictures(seen[1]) == [None, None]
    assert pictures(shown(loop)) == [BYTES] * 4


@pytest.mark.parametrize(
    "point", ["artifact.before", "artifact.after", "inbox.before", "commit.before:send_started+user_message_added"]
)
async def test_a_process_that_dies_while_it_accepts_a_picture_leaves_nothing_that_stays(
    stage: Stage, point: str
) -> None:
    mortal = stage.mortal(point)
    sid = await mortal.new_session()
    if point == "inbox.before":
        await stage.dies(mortal, mortal.enqueue(LOOK, session_id=sid, item_id="s"))
    else:
        await stage.dies(mortal, mortal.send(LOOK, session_id=sid, send_id="s"))
    loop = stage.loop("one")
    await loop.store.sweep_artifacts(4e9)
    assert (await loop.store.inventory(sid)).artifacts == ()
    assert (await loop.send(LOOK, session_id=sid, send_id="s")).status == "completed"
    assert pictures(shown(loop)) == [BYTES]


@pytest.fixture(params=["sqlite", "memory"])
async def closed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    """An encrypted store."""
    store = sealed(
        open_store(str(tmp_path / "sealed.db") if request.param == "sqlite" else f"memory:sealed-{tmp_path}")
    )
    yield store
    await store.aclose()


async def test_pictures_are_sealed_kept_and_shown_over_an_encrypted_store(closed: SessionStore) -> None:
    async with StatefulAgentLoop(llm=ScriptedLLM(["one", "two"]), store=closed) as loop:
        sid = (await loop.send(LOOK)).session_id
        await loop.enqueue(LOOK, session_id=sid)
        assert await closed.sweep_artifacts(4e9) == 0
        await loop.resume(sid)
        assert pictures(shown(loop)) == [BYTES, BYTES]
        assert len((await closed.inventory(sid)).artifacts) == 1


async def test_pictures_leave_with_an_export_and_come_in_with_an_import(stage: Stage) -> None:
    loop = stage.loop("one")
    sid = (await loop.send(LOOK)).session_id
    lines = await exported(loop.store)
    async with StatefulAgentLoop(llm=ScriptedLLM(["two"]), dsn="memory:") as other:
        await imported(other.store, lines)
        await other.send("and?", session_id=sid)
        assert pictures(shown(other)) == [BYTES]


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
@pytest.mark.parametrize("sees", [True, False])
async def test_a_model_that_cannot_see_is_told_so_after_a_reload(stage: Stage, provider: str, sees: bool) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(request: Any) -> Any:
        bodies.append(request.body)
        return reply("well")

    with ModelServer(answer) as server:
        can = ModelCapabilities(images=sees)
        config = LLMProviderConfig(
            provider=provider, base_url=server.base_url, model="m", api_key="k", capabilities=can
        )
        service = create_llm_service_from_config(config)
        loop = stage.loop(llm=service)
        sid = (await loop.send(LOOK)).session_id
        await loop.aclose()
        ACTORS.drop(stage.dsn)
        cold = stage.loop(llm=service)
        assert (await cold.send("what was it?", session_id=sid)).status == "completed"
        await service.aclose()
    for body in bodies:
        assert ("you have NOT seen it (image/png, artifact art_" in str(body)) is not sees
        assert ("AAECAwQFBgcICQ" in str(body)) is sees
