"""Wrong input of every kind: a clear error, and nothing lost."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from tests.scenario.conftest import Stage, texts

from loopwright import (
    AgentLoopConfig,
    FilePart,
    ImagePart,
    LoopwrightError,
    SchemaPolicy,
    StatefulAgentLoop,
    TextPart,
    UserMessage,
    open_store,
)
from loopwright.context import PromptFiles, StoreMemory
from loopwright.context.projected import ProjectedRepresentation
from loopwright.context.summary_fold import LLMSummaryFold
from loopwright.engine.actor import ACTORS
from loopwright.model.errors import (
    ConfigError,
    InvalidMessageError,
    SessionExistsError,
    SessionTooNewError,
    StoreCorruptError,
    StoreReadOnlyError,
    StoreSchemaError,
)
from loopwright.ports.store import Acquire, EncodedRecord, HeadChange, SessionQuery, Transition
from loopwright.testing import ScriptedLLM
from loopwright.transports.price_table import PriceTable


@pytest.mark.parametrize(
    "message, what",
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ({"role": "user", "content": []}, "empty"),
        ({"role": "user", "content": [{"type": "text", "text": " "}]}, "empty"),
        ({"role": "assistant", "content": "hi"}, "only user messages"),
        ({"role": "wizard", "content": "hi"}, "unknown message role 'wizard'"),
        ({"role": "user", "content": [{"type": "hologram"}]}, "unknown content part 'hologram'"),
        ({"role": "user", "content": 7}, "content must be"),
        ([ImagePart()], "ImagePart needs exactly one of data, url and artifact_id; it has none of them"),
        ([TextPart("see"), FilePart(data=b"x", url="http://x/")], "it has data and url"),
        (UserMessage((ImagePart(url=""),)), "it has none of them"),
        ([ImagePart(data=cast("Any", "/tmp/x.png"))], r"must be the bytes themselves, not str; .*read_bytes\(\)"),
        ([UserMessage("a"), UserMessage("b")], "not a list of messages"),
        ([{"role": "user", "content": "a"}], "not a list of messages"),
        ([], "empty"),
    ],
)
async def test_a_message_that_says_nothing_or_is_no_message_is_refused_and_nothing_stored(
    stage: Stage, message: Any, what: str
) -> None:
    loop = stage.loop()
    sid = await loop.new_session()
    with pytest.raises(InvalidMessageError, match=what):
        await loop.send(message, session_id=sid)
    with pytest.raises(InvalidMessageError, match=what):
        await loop.follow_up(message, session_id=sid)
    assert len(await loop.store.read(sid)) == 1
    assert (await loop.store.lookup(sid)).waiting == ()


async def test_a_message_without_text_but_with_a_picture_is_one(stage: Stage) -> None:
    loop = stage.loop("seen")
    assert (await loop.send(UserMessage((ImagePart(data=b"x"),)))).status == "completed"
    dicts = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}]}
    other = stage.loop("seen")
    result = await other.send(dicts)
    assert (await other.get_messages(result.session_id))[0].content == (ImagePart("image/png", b"x"),)  # type: ignore[union-attr]


async def test_a_refused_message_does_not_leave_an_empty_session_behind(stage: Stage) -> None:
    loop = stage.loop()
    with pytest.raises(InvalidMessageError):
        await loop.send("")
    assert list(await loop.store.list(SessionQuery())) == []


@pytest.mark.parametrize("limit", ["max_rounds", "run_token_budget", "max_output_tokens"])
async def test_limits_that_allow_nothing_are_refused(stage: Stage, limit: str) -> None:
    with pytest.raises(ConfigError, match=limit):
        await stage.loop().send("hi", **{limit: 0})


async def test_a_tool_list_that_is_one_text_is_refused(stage: Stage) -> None:
    with pytest.raises(ConfigError, match="list of names"):
        await stage.loop().send("hi", tools="look")  # type: ignore[arg-type]


def test_a_config_field_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match="max_round"):
        AgentLoopConfig(max_round=3)  # type: ignore[call-arg]


def test_all_impossible_settings_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        AgentLoopConfig(max_rounds=0, lease_wait_s=-1, max_output_tokens=0, agent_name="", on_interrupted="maybe")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 5


def test_store_and_dsn_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not both"):
        StatefulAgentLoop(llm=ScriptedLLM(), dsn=tmp_path / "a.db", store=open_store("memory:"))


@pytest.mark.parametrize("llm", ["nonsense", object(), "unknown:model:"])
def test_a_model_that_is_none_is_refused_at_once(llm: Any) -> None:
    with pytest.raises(LoopwrightError):
        StatefulAgentLoop(llm=llm, dsn="memory:")


@pytest.mark.parametrize(
    "given, said",
    [
        ({"representation": ProjectedRepresentation}, "representation must be an object, not the class: Proj"),
        ({"memory": StoreMemory}, r"memory must be an object, not the class: StoreMemory\(...\)"),
        ({"memory": [StoreMemory]}, "memory must be an object, not the class"),
        ({"fold": LLMSummaryFold}, "fold must be an object, not the class"),
        ({"memory": "nonsense"}, "memory must be a MemoryProvider such as StoreMemory.*, not 'nonsense'"),
        ({"memory": 5}, "memory must be a MemoryProvider"),
        ({"prompt_source": "docs"}, "prompt_source must be a PromptSource such as PromptFiles.*, not 'docs'"),
        ({"prompt_source": PromptFiles}, "prompt_source must be an object, not the class"),
        ({"token_counter": len}, "token_counter must be a TokenCounter .* has no count"),
        ({"prices": {"gpt-5": {}}}, 'prices must be "auto" or a price list .*; dict has no cost'),
        ({"prices": PriceTable}, "prices must be an object, not the class"),
        ({"prices": "gpt-5"}, "prices must be \"auto\" or a price list .*, not 'gpt-5'"),
        ({"fallbacks": "openai:gpt-5"}, "fallbacks must be a list of models, not the text 'openai:gpt-5'"),
        ({"fallbacks": ScriptedLLM(["x"])}, "fallbacks must be a list of models, not an object of type ScriptedLLM"),
        ({"fallbacks": [ScriptedLLM]}, "fallbacks must be .*, not the class ScriptedLLM"),
        ({"fallbacks": [5]}, "fallbacks must be .*, not an object of type int"),
        ({"llm": ScriptedLLM}, "llm must be an object, not the class: ScriptedLLM"),
    ],
)
def test_a_part_of_a_wrong_kind_is_one_problem_that_says_what_is_wanted(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        StatefulAgentLoop(**{"llm": ScriptedLLM(), "dsn": "memory:", **given})
    assert len(raised.value.problems) == 1


async def test_a_session_id_is_given_once(stage: Stage) -> None:
    loop = stage.loop()
    await loop.new_session(session_id="mine")
    with pytest.raises(SessionExistsError):
        await loop.new_session(session_id="mine")
    await loop.close_session("mine")
    with pytest.raises(SessionExistsError):
        await loop.new_session(session_id="mine")


async def test_a_record_that_cannot_be_read_is_named_and_other_sessions_go_on(stage: Stage) -> None:
    loop = stage.loop("fine")
    sid = await loop.new_session()
    await _write(loop, sid, EncodedRecord("user_message_added", 1, 0.0, b"{not json"))
    ACTORS.drop(loop.store.identity)
    with pytest.raises(StoreCorruptError, match=f"{sid}.*position 1"):
        await loop.send("hi", session_id=sid)
    with pytest.raises(StoreCorruptError, match="position 1"):
        await loop.get_messages(sid)
    assert len(await loop.store.read(sid)) == 2
    assert (await loop.send("hi")).status == "completed"


async def test_a_journal_of_a_newer_version_is_refused_before_anything_is_spent(stage: Stage) -> None:
    loop = stage.loop()
    sid = await loop.new_session()
    await _write(loop, sid, EncodedRecord("from_the_future", 7, 0.0, b"{}"), HeadChange(min_format=99))
    ACTORS.drop(loop.store.identity)
    with pytest.raises(SessionTooNewError, match="99"):
        await loop.send("hi", session_id=sid)
    assert await loop.recover() == []


async def _write(loop: StatefulAgentLoop, sid: str, record: EncodedRecord, head: HeadChange | None = None) -> None:
    position = (await loop.store.lookup(sid)).head.position
    await loop.store.commit(
        Transition(
            session_id=sid,
            expect=position,
            lease=Acquire(b"0" * 16, 15.0),
            records=(record,),
            release=True,
            head=head or HeadChange(),
        )
    )


def opened(path: Path, **options: Any) -> StatefulAgentLoop:
    return StatefulAgentLoop(llm=ScriptedLLM(), dsn=path, **options)


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    path.write_bytes(b"this is a love letter, not a database" * 200)
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError, match="not a database"):
        opened(path)
    assert path.read_bytes() == before


async def test_a_damaged_page_is_named_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    async with StatefulAgentLoop(llm=ScriptedLLM(["x" * 60_000]), dsn=path) as loop:
        sid = (await loop.send("hi")).session_id
    body = bytearray(path.read_bytes())
    body[4096:] = b"\xa5" * (len(body) - 4096)
    path.write_bytes(bytes(body))
    with pytest.raises(StoreCorruptError):
        async with opened(path) as loop:
            await loop.get_messages(sid)


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    await opened(path).aclose()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE lw_schema SET version = 9999")
    connection.close()
    with pytest.raises(StoreSchemaError, match="9999"):
        opened(path)


def test_missing_tables_are_named_with_the_ddl_when_nothing_may_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    sqlite3.connect(path).close()
    with pytest.raises(StoreSchemaError) as caught:
        opened(path, schema=SchemaPolicy.VERIFY)
    assert "CREATE TABLE" in caught.value.ddl


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that this process cannot write: the superuser, who may write everywhere, becomes somebody else."""
    with tempfile.TemporaryDirectory(suffix="closed") as name:
        os.chmod(name, 0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        yield Path(name)
        os.seteuid(user)
        os.chmod(name, 0o700)


def test_a_folder_that_cannot_be_written_is_named(closed_folder: Path) -> None:
    with pytest.raises(StoreReadOnlyError, match="closed"):
        opened(closed_folder / "app.db")


def test_a_folder_where_the_default_store_cannot_be_made_is_named(closed_folder: Path) -> None:
    with contextlib.chdir(closed_folder), pytest.raises(StoreReadOnlyError, match=r"closed.*dsn="):
        StatefulAgentLoop(llm="echo:")


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(LoopwrightError, match="nowhere"):
        opened(tmp_path / "nowhere" / "app.db")


async def test_a_model_object_that_breaks_its_promise_fails_the_send_only(stage: Stage) -> None:
    class Broken:
        async def complete(self, request: Any) -> Any:
            return {"text": "not an LLMResponse"}

    loop = stage.loop(llm=Broken())
    result = await loop.send("hi")
    assert result.status == "failed"
    healthy = stage.loop("fine")
    assert (await healthy.send("hi", session_id=result.session_id)).status == "completed"
    assert texts(await healthy.get_messages(result.session_id)) == ["user: hi", "user: hi", "assistant: fine"]


async def test_parts_of_many_kinds_come_back_as_they_were(stage: Stage) -> None:
    message = UserMessage((TextPart("a"), ImagePart(url="https://example.org/x.png", detail="low"), TextPart("")))
    loop = stage.loop("ok")
    result = await loop.send(message)
    assert (await loop.get_messages(result.session_id))[0] == message
