"""`loopwright mcp`: the servers of a project, its tools in a run, and the project as a server."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import pytest
from tests.scenario.cli.command_line import COMMAND, CommandLine
from tests.scenario.mcp.servers import LYING

from loopwright.connectors import HttpMCPClient, StdioMCPClient

WORKFLOW = {
    "name": "say",
    "description": "Says it.",
    "root": {"type": "agent", "id": "a", "spec": {"name": "x"}, "input": "Say {{input}}"},
}


@pytest.fixture
def project(loopwright: CommandLine) -> CommandLine:
    server = {"command": sys.executable, "args": ["-S", "-E", str(LYING), "lies"]}
    gone = {"command": "no-such-program-x"}
    text = json.dumps({"mcpServers": {"lies": server, "gone": gone, "off": {**gone, "disabled": True}}})
    (loopwright.folder / "mcp.json").write_text(text)
    workflows = loopwright.folder / ".loopwright" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "say.json").write_text(json.dumps(WORKFLOW))
    return loopwright


def test_list_shows_each_server_its_tools_and_why_some_are_not_there(project: CommandLine) -> None:
    ended = project("mcp", "list")
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0].endswith("mcp.json")
    assert re.match(r"lies  ready  .*lies 1, protocol 2025-06-18, tools", lines[1])
    assert re.match(r"  lies_good +once +fine", lines[2])
    assert "  bad schema left out: its schema is no valid JSON Schema" in ended.out
    assert "gone  failed  no-such-program-x  no-such-program-x could not be started" in ended.out
    assert "off  disabled" in ended.out


def test_a_run_has_the_tools_only_when_it_is_asked_for_them(project: CommandLine) -> None:
    with_servers = project("run", "hello", "--mcp")
    assert with_servers.code == 0
    assert "loopwright: 2 tools of 1 MCP server" in with_servers.err
    assert "MCP server 'gone' is not available" in with_servers.err
    assert "MCP" not in project("run", "hello").err


def test_a_file_with_a_typo_names_file_and_line_and_nothing_is_started(project: CommandLine) -> None:
    (project.folder / "mcp.json").write_text('{\n "mcpServers": {\n  "a": {"comand": "x"}}}')
    ended = project("run", "hello", "--mcp")
    assert ended.code == 2
    assert "mcp.json:3: server 'a': unknown field 'comand'; did you mean 'command'?" in ended.err
    (project.folder / "mcp.json").unlink()
    assert "has none of .loopwright/mcp.json, mcp.json, .mcp.json" in project("mcp", "list").err


def test_whoever_could_reach_the_agent_without_a_password_is_kept_out(project: CommandLine) -> None:
    ended = project("mcp", "serve", "--http", "0.0.0.0:8000")
    assert ended.code == 2
    assert "it asks for no password" in ended.err


async def test_the_project_is_a_server_over_standard_input(project: CommandLine) -> None:
    words = [*COMMAND[1:], "mcp", "serve"]
    heard: list[str] = []
    client = StdioMCPClient(COMMAND[0], words, project.environment(), cwd=str(project.folder), name="self")
    async with client:
        assert [tool["name"] for tool in await client.list_tools()] == ["run_agent", "workflow_say"]
        said = await client.call_tool(
            "run_agent", {"task": "files"}, progress=lambda done, total, message: heard.append(message)
        )
        assert said["content"][0]["text"].startswith("you said files; results: a.md")
        session_id = said["structuredContent"]["session_id"]
        again = await client.call_tool("run_agent", {"task": "more", "session_id": session_id})
        assert again["structuredContent"] == {"session_id": session_id, "status": "completed"}
        strange = await client.call_tool("run_agent", {"task": "more", "session_id": "sess_nobody"})
        assert strange["isError"]
        flow = await client.call_tool("workflow_say", {"input": "hello"})
        assert flow["content"][0]["text"] == "you said Say hello"
        stopped = asyncio.ensure_future(client.call_tool("run_agent", {"task": "slow"}))
        await asyncio.wait({stopped}, timeout=0.5)
        stopped.cancel()
    assert "round 1: glob" in heard
    listed = await asyncio.to_thread(project, "sessions", "list", "--json")
    assert {one["title"] for one in listed.json} >= {"files", "slow"}


async def test_the_project_is_a_server_over_http_until_a_signal(project: CommandLine) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "mcp",
        "serve",
        "--http",
        "127.0.0.1:0",
        cwd=project.folder,
        env=project.environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        line = (await asyncio.wait_for(process.stderr.readline(), 30)).decode()
        address = re.search(r"http://\S+", line)
        assert address is not None
        async with HttpMCPClient(address[0]) as client:
            said = await client.call_tool("run_agent", {"task": "hello"})
            assert said["content"][0]["text"] == "you said hello"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_workflows_of_one_name_are_refused_with_both_files(project: CommandLine, tmp_path: Path) -> None:
    other = project.folder / "other.json"
    other.write_text(json.dumps(WORKFLOW))
    ended = project("mcp", "serve", "--workflow", str(other), "--workflow", ".loopwright/workflows/say.json")
    assert ended.code == 2
    assert "would both be the tool workflow_say" in ended.err
