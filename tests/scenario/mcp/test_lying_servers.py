"""Servers that die, flood, lie and never answer: each is one clear error, and the connection goes on."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.mcp.servers import connected, lying
from tests.scenario.tools.toolbox import Toolbox
from tests.waiting import until

from loopwright import ToolRegistry
from loopwright.connectors import McpToolOptions, McpUnavailableError, register_mcp_tools
from loopwright.connectors.mcp_connection import McpConnection
from loopwright.model.records import ToolFinished
from loopwright.testing.scripted import calls


async def toolbox(connection: McpConnection, *, trust: bool = False) -> Toolbox:
    registry = ToolRegistry()
    options = McpToolOptions(source=connection.spec.name, trust_annotations=trust)
    await register_mcp_tools(registry, connection, options=options)
    return Toolbox(registry)


@pytest.mark.parametrize(
    "mode, said",
    [
        (
            "dies",
            r"went away during tool work: ended with exit code 3; it printed: fatal: out of cheese; it may or may not",
        ),
        ("huge", r"sent a message of more than 8388608 bytes"),
        ("endless", r"sent a message of more than 8388608 bytes"),
        ("prints", r"printed 101 lines to standard output that are no messages"),
        ("notifies", r"flooded us with \d{4,5} messages that nobody asked for"),
        ("no_result", r"its answer is not as the protocol has it \(content"),
        ("odd", r"tool work: its answer is not as the protocol has it"),
        ("error", r"tool work: no way \(error -32000\)"),
    ],
)
async def test_a_server_that_misbehaves_in_a_call_is_one_clear_failure(mode: str, said: str) -> None:
    async with connected(lying(mode)) as connection:
        tools = await toolbox(connection)
        assert re.search(said, await tools.failure("work"))
        await connection.connect()
        assert connection.state.status == "ready"


@pytest.mark.parametrize(
    "mode, text",
    [
        ("twice", "one"),
        ("wrong_id", "for you"),
        ("junk", "after the junk"),
        ("stderr", "after the noise"),
    ],
)
async def test_noise_around_an_answer_does_not_hide_it(mode: str, text: str) -> None:
    async with connected(lying(mode)) as connection:
        tools = await toolbox(connection)
        for _ in range(2):
            assert await tools.text("work") == f'<untrusted source="{mode}">\n{text}\n</untrusted>'


async def test_a_server_that_never_answers_is_told_to_stop_and_nobody_waits(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with connected(lying("cancelled", mark, call_timeout_s=0.2)) as connection:
        tools = await toolbox(connection)
        assert "no answer within 0.2 s; it was told to stop" in await tools.failure("work")
        await until(lambda: mark.exists() and mark.read_text() == "notifications/cancelled True")


async def test_a_stopped_run_tells_the_server_and_does_not_wait(stage: Stage, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with connected(lying("cancelled", mark)) as connection:
        tools = await toolbox(connection)
        loop = stage.loop(calls(("work", {})), tools=tools.registry)
        session_id = await loop.new_session()
        sending = asyncio.ensure_future(loop.send("go", session_id=session_id))
        await until(lambda: bool(connection._works))
        await loop.stop(session_id)
        assert (await sending).status == "cancelled"
        await until(lambda: mark.exists() and mark.read_text() == "notifications/cancelled True")


async def test_a_server_that_does_not_answer_the_handshake_is_not_available() -> None:
    async with connected(lying("mute", start_timeout_s=0.3)) as connection:
        with pytest.raises(McpUnavailableError, match=r"no answer to the handshake within 0\.3 s"):
            await connection.connect()


async def test_a_server_that_ends_at_its_start_says_why() -> None:
    async with connected(lying("exits")) as connection:
        with pytest.raises(McpUnavailableError, match=r"ended with exit code 4; it printed: cannot open the door"):
            await connection.connect()


async def test_tools_with_schemas_that_lie_are_left_out_with_a_reason_each() -> None:
    async with connected(lying("lies")) as connection:
        tools = await toolbox(connection)
        assert tools.registry.names() == ("good", "pro_mise")
        assert set(connection.left_out) == {"no schema", "list schema", "text schema", "deep schema", "#9", "#10"}
        assert "does not fit the schema that the server promised" in str((await tools.result("pro_mise")).content)


async def test_a_once_call_is_not_made_again_and_a_pure_one_is(tmp_path: Path) -> None:
    async with connected(lying("dies_once", tmp_path / "once")) as connection:
        tools = await toolbox(connection)
        assert "may or may not have had its effect" in await tools.failure("work")
        assert "start 2" in await tools.text("work")
    async with connected(lying("dies_once", tmp_path / "pure")) as connection:
        tools = await toolbox(connection, trust=True)
        assert "start 2" in await tools.text("work")
        assert connection.state.starts == 2


async def test_a_call_that_kills_each_server_is_made_a_bounded_number_of_times(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with connected(lying("dies", mark)) as connection:
        tools = await toolbox(connection, trust=True)
        failure = await tools.failure("work")
        assert "went away" in failure
        assert "may or may not" not in failure
        assert len(mark.read_text()) == 3


async def test_changed_tools_are_seen_at_the_next_send_as_a_new_prompt_epoch(stage: Stage) -> None:
    async with connected(lying("changes")) as connection:
        tools = await toolbox(connection)
        loop = stage.loop(calls(("work", {})), "done", "again", tools=tools.registry)
        session_id = await loop.new_session()
        await loop.send("go", session_id=session_id)
        await until(lambda: "more" in tools.registry)
        await loop.send("on", session_id=session_id)
        reasons = [getattr(record, "reason", "") for record in await stage.records(loop, session_id)]
        assert "tools: more added" in reasons


async def test_a_server_sees_nothing_of_our_environment_but_what_its_entry_gives() -> None:
    os.environ["LOOPWRIGHT_TEST_SECRET"] = "s3cret"
    try:
        async with connected(lying("environment", env={"GIVEN": "yes"})) as connection:
            result = await connection.call_tool("work", {})
    finally:
        del os.environ["LOOPWRIGHT_TEST_SECRET"]
    seen = json.loads(result["content"][0]["text"])
    assert seen["GIVEN"] == "yes"
    assert "LOOPWRIGHT_TEST_SECRET" not in seen
    assert set(seen) <= {
        "GIVEN",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
    }


def children_of_ours() -> list[bytes]:
    """The command lines of our child processes; empty where the system does not say."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    found = children.read_text().split() if children.exists() else []
    return [Path(f"/proc/{child}/cmdline").read_bytes() for child in found]


async def test_closing_leaves_no_process_behind() -> None:
    connection = McpConnection(lying("mute", start_timeout_s=0.3))
    with pytest.raises(McpUnavailableError):
        await connection.connect()
    await connection.aclose()
    await connection.aclose()
    assert not [command for command in children_of_ours() if b"lying_server.py\0mute" in command]


@pytest.mark.parametrize("trust, said", [(False, "uncertain"), (True, "finished")])
async def test_a_call_that_our_own_process_did_not_survive_follows_its_effect(
    stage: Stage, *, trust: bool, said: str
) -> None:
    async with connected(lying("plain")) as connection:
        tools = await toolbox(connection, trust=trust)
        dying = stage.mortal("tool.after:work", calls(("work", {})), tools=tools.registry)
        session_id = await dying.new_session()
        await stage.dies(dying, dying.send("go", session_id=session_id))
        loop = stage.loop("done", tools=tools.registry)
        assert (await loop.resume(session_id)).status == "completed"
        finished = [one for one in await stage.records(loop, session_id) if isinstance(one, ToolFinished)]
        assert [one.status for one in finished] == [said]
