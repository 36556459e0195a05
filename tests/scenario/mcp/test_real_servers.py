"""The servers that everybody uses, from npm: tools, resources, prompts, questions, progress, being killed in a call."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tests.scenario.conftest import Stage
from tests.scenario.mcp.servers import connected
from tests.scenario.tools.toolbox import Toolbox
from tests.waiting import until

from loopwright import AgentEventBus, ToolRegistry
from loopwright.connectors import (
    McpConnection,
    McpServerSpec,
    McpToolOptions,
    SampledByModel,
    StdioMCPClient,
    connect_mcp,
    register_mcp_tools,
)
from loopwright.model.events import ToolProgress
from loopwright.model.messages import ImagePart, ToolResultMessage
from loopwright.testing import ScriptedLLM
from loopwright.testing.scripted import calls


def everything(program: str, **settings: Any) -> McpServerSpec:
    return McpServerSpec(name="all", command=program, call_timeout_s=30.0, **settings)


async def tools_of(connection: McpConnection) -> Toolbox:
    registry = ToolRegistry()
    await register_mcp_tools(registry, connection, options=McpToolOptions(prefix="all", source="all"))
    return Toolbox(registry)


def killed(connection: McpConnection) -> None:
    """SIGKILL to the program of the connection, which is a leader of a group of its own."""
    for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        if b"mcp-server-everything" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGKILL)


async def test_one_of_everything(everything_server: str) -> None:
    writer = SampledByModel(ScriptedLLM(["a poem"]), max_calls=1)
    async with connected(everything(everything_server), roots=("file:///project",), sample=writer) as connection:
        box = await tools_of(connection)
        assert await box.text("all_echo", message="hi") == '<untrusted source="all">\nEcho: hi\n</untrusted>'
        assert "file:///project" in await box.text("all_get-roots-list")
        picture = (await box.result("all_get-tiny-image")).content
        assert any(isinstance(part, ImagePart) and part.data[:4] == b"\x89PNG" for part in picture)
        weather = await box.result("all_get-structured-content", location="New York")
        assert set(weather.data["structuredContent"]) == {"temperature", "conditions", "humidity"}
        await box.text("all_trigger-long-running-operation", duration=0.1, steps=2)
        assert box.context.told[-1][:2] == (2.0, 2.0)
        assert "a poem" in await box.text("all_trigger-sampling-request", prompt="write")
        assert "no more sampling is allowed" in str(
            (await box.result("all_trigger-sampling-request", prompt="x")).content
        )
        prompt = await connection.get_prompt("args-prompt", {"city": "Ulm"})
        assert "Ulm" in str(prompt)
        uri = (await connection.list_resources())[0]["uri"]
        assert (await connection.read_resource(uri))["contents"][0]["uri"] == uri
        await connection.ping()


async def test_a_question_of_a_server_pauses_the_run_and_the_answer_goes_on(
    everything_server: str, stage: Stage
) -> None:
    asks = {"action": "accept", "content": {"name": "Ada", "untypedSingleSelectEnum": "Friends"}}
    async with connected(everything(everything_server)) as connection:
        box = await tools_of(connection)
        loop = stage.loop(calls(("all_trigger-elicitation-request", {})), tools=box.registry)
        asked = await loop.send("go")
        (question,) = asked.pending_interactions
        assert question.kind == "elicitation"
        assert question.schema is not None
        await stage.bury(loop)
    async with connected(everything(everything_server)) as connection:
        box = await tools_of(connection)
        later = stage.loop("thanks", tools=box.registry)
        done = await later.submit_input(asked.session_id, question.id, asks)
        assert (done.status, done.final_text) == ("completed", "thanks")
        results = [m for m in await later.get_messages(asked.session_id) if isinstance(m, ToolResultMessage)]
        assert "Ada" in str(results[0])


async def test_a_server_killed_in_a_call_is_started_again_and_the_run_goes_on(
    everything_server: str, stage: Stage
) -> None:
    events: list[ToolProgress] = []
    bus = AgentEventBus()
    bus.subscribe(lambda event: events.append(event.data), "tool_progress")  # type: ignore[arg-type]
    async with connected(everything(everything_server)) as connection:
        box = await tools_of(connection)
        long = ("all_trigger-long-running-operation", {"duration": 20, "steps": 200})
        loop = stage.loop(
            calls(long), calls(("all_echo", {"message": "on"})), "done", tools=box.registry, event_bus=bus
        )
        sending = asyncio.ensure_future(loop.send("go"))
        await until(lambda: bool(events), within_s=20)
        killed(connection)
        result = await sending
        assert result.status == "completed"
        messages = await loop.get_messages(result.session_id)
        first, second = [str(one) for one in messages if isinstance(one, ToolResultMessage)]
        assert "was ended by signal 9" in first
        assert "may or may not have had its effect" in first
        assert "Echo: on" in second
        assert connection.state.starts == 2


async def test_a_pure_call_is_made_again_when_its_server_is_killed(everything_server: str) -> None:
    async with connected(everything(everything_server)) as connection:
        started = asyncio.Event()
        calling = asyncio.ensure_future(
            connection.call_tool(
                "trigger-long-running-operation",
                {"duration": 0.4, "steps": 4},
                again=1,
                progress=lambda done, total, message: started.set(),
            )
        )
        await asyncio.wait_for(started.wait(), 20)
        killed(connection)
        assert "completed" in str(await calling)
        assert connection.state.starts == 2


async def test_files_of_a_folder_through_a_project_file(filesystem_server: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("inside")
    entry = f'{{"mcpServers": {{"fs.": {{"command": "{filesystem_server}", "args": ["."]}}, "no": {{"command": "no-such-x"}}}}}}'
    (tmp_path / "mcp.json").write_text(entry)
    async with connect_mcp(tmp_path / "mcp.json", roots=(tmp_path,)) as servers:
        registry = ToolRegistry()
        names = await servers.register(registry)
        assert "fs_read_text_file" in names
        assert "could not be started" in servers.problems["no"]
        box = Toolbox(registry)
        assert "inside" in await box.text("fs_read_text_file", path=str(tmp_path / "a.txt"))
        refused = await box.result("fs_read_text_file", path="/etc/hostname")
        assert not refused.ok
        assert "denied" in str(refused.content)


async def test_the_short_form_registers_under_its_prefix(filesystem_server: str, tmp_path: Path) -> None:
    async with StdioMCPClient(filesystem_server, [str(tmp_path)]) as client:
        registry = ToolRegistry()
        names = await register_mcp_tools(registry, client, prefix="fs")
        assert "fs_list_directory" in names
        assert names == registry.names()


async def test_resources_and_prompts_are_behind_one_tool_each(everything_server: str) -> None:
    async with connect_mcp([everything(everything_server)]) as servers:
        registry = ToolRegistry()
        names = await servers.register(registry)
        assert names[-2:] == ("read_mcp_resource", "get_mcp_prompt")
        box = Toolbox(registry)
        listed = await box.text("read_mcp_resource", action="list")
        assert "demo://resource/dynamic/text/{resourceId}" in listed
        read = await box.result("read_mcp_resource", action="read", uri="demo://resource/dynamic/text/3")
        assert "This is a plaintext resource" in str(read.content)
        assert "name one of" not in await box.failure("read_mcp_resource", action="read")
        assert "args-prompt(city, state?)" in await box.text("get_mcp_prompt", action="list", server="all")
        shown = await box.result("get_mcp_prompt", action="read", name="args-prompt", arguments={"city": "Ulm"})
        assert "Ulm" in str(shown.content)


async def test_a_session_that_a_server_forgot_is_made_anew(everything_server: str) -> None:
    port = "38471"

    def start() -> Any:
        return asyncio.create_subprocess_exec(
            everything_server,
            "streamableHttp",
            env={"PORT": port, "PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )

    async def listening(process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async with asyncio.timeout(20):
            while b"listening" not in await process.stderr.readline():
                pass

    first = await start()
    await listening(first)
    async with connected(
        McpServerSpec(name="web", url=f"http://127.0.0.1:{port}/mcp", call_timeout_s=20.0)
    ) as connection:
        assert "one" in str(await connection.call_tool("echo", {"message": "one"}))
        first.kill()
        await first.wait()
        second = await start()
        try:
            await listening(second)
            assert "two" in str(await connection.call_tool("echo", {"message": "two"}))
            assert connection.state.starts == 2
        finally:
            second.kill()
            await second.wait()
