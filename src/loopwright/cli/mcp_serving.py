"""A project's agent and workflows as an MCP server.

Owns: which tools it has, that each call is a durable session, what the client hears meanwhile. Must not know: options.
Read next: `mcp_command.py`, `agent_setup.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from .. import __version__
from ..core.result import StatefulResult
from ..engine.workflow_progress import WorkflowResult
from ..model.errors import ConfigError, LoopwrightError, SessionNotFoundError
from ..model.events import AgentEvent, RoundCompleted, ToolCallStarted, ToolProgress
from ..model.records import SessionCreated
from ..model.workflow_spec import WorkflowSpec
from ..ports.cancellation import CancellationToken
from .agent_setup import Agent, AgentSettings, opened_agent
from .exit_codes import ExitCode
from .journal_lines import record_of
from .spec_files import read_spec

try:
    import mcp_types as types
    import uvicorn
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError as error:
    raise ConfigError(
        f"MCP needs the package mcp 2 or newer ({error}); pip install 'loopwright[mcp]' (from a clone: pip install '.[mcp]')"
    ) from error

WORKFLOWS: Final = ".loopwright/workflows"
SERVED: Final = "mcp"
"""Value of `served` in the metadata of sessions that clients began: only those can be gone on with by a client."""

RUN_AGENT: Final = types.Tool(
    name="run_agent",
    description=(
        "Give a task to the agent of this project and get its answer. The conversation is kept: its session_id goes on "
        "with it. The agent sees the files of its workspace and nothing of your conversation."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "task": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200_000,
                "description": "Everything it has to know.",
            },
            "session_id": {
                "type": "string",
                "maxLength": 200,
                "description": "Of an earlier answer, to go on with it.",
            },
        },
        "required": ["task"],
        "additionalProperties": False,
    },
)

Context = ServerRequestContext[Any]
Tell = Callable[[float, str], None]


def workflow_files(workspace: str, named: tuple[str, ...]) -> tuple[str, ...]:
    """The files of the workflows to offer: those that were named, else those of the project, by name."""
    if named:
        return named
    return tuple(sorted(str(path) for path in (Path(workspace) / WORKFLOWS).glob("*.json")))


async def serve_mcp(settings: AgentSettings, files: tuple[str, ...], *, host: str | None, port: int) -> int:
    """Serves until the client is gone, or until a signal. Raises: `ConfigError`, also with every problem of a workflow."""
    specs = _specs(files)
    async with opened_agent(settings, None, os.environ) as agent:
        server = served_agent(agent, specs)
        if host is None:
            sys.stderr.write("loopwright: an MCP server on standard input and output\n")
            async with _until_signal(), stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        else:
            await _over_http(server, host, port)
    return ExitCode.COMPLETED


def _specs(files: tuple[str, ...]) -> dict[str, WorkflowSpec]:
    """Workflows by the name of their tool. Raises: `ConfigError` for two of one name."""
    specs: dict[str, WorkflowSpec] = {}
    places: dict[str, str] = {}
    for file in files:
        spec = read_spec(file)
        name = f"workflow_{spec.name}"[:64]
        if name in specs:
            raise ConfigError(f"the workflows in {places[name]} and {file} would both be the tool {name}; rename one")
        specs[name], places[name] = spec, file
    return specs


def served_agent(agent: Agent, specs: dict[str, WorkflowSpec]) -> Server[Any]:
    """The server for an agent whose loop is open."""
    offer = _Offer(agent, specs)
    return Server(
        "loopwright",
        version=__version__,
        instructions="Runs the agent and the workflows of a project; every call is a durable session.",
        on_list_tools=offer.listed,
        on_call_tool=offer.called,
    )


class _Offer:
    """The tools of the server."""

    def __init__(self, agent: Agent, specs: dict[str, WorkflowSpec]) -> None:
        self._agent = agent
        self._specs = specs
        self._running: set[asyncio.Future[Any]] = set()

    async def listed(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """The agent, then the workflows."""
        del context, params
        return types.ListToolsResult(tools=[RUN_AGENT, *[_tool_of(name, spec) for name, spec in self._specs.items()]])

    async def called(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """One durable session from its first record to its end; a client that cancels stops the run."""
        given = params.arguments or {}
        try:
            if params.name == RUN_AGENT.name:
                return await self._run_agent(context, given)
            if params.name in self._specs:
                return await self._run_workflow(context, self._specs[params.name], given)
        except LoopwrightError as error:
            return _said(f"{error.code}: {error}", {}, failed=True)
        return _said(f"there is no tool {params.name!r}", {}, failed=True)

    async def _run_agent(self, context: Context, given: dict[str, Any]) -> types.CallToolResult:
        loop, task, session_id = self._agent.loop, given.get("task"), given.get("session_id")
        if not isinstance(task, str) or not task.strip():
            return _said("task must be a text that says what to do", {}, failed=True)
        if session_id is None:
            metadata = {**self._agent.metadata, "served": SERVED}
            session_id = await loop.new_session(metadata=metadata, title=" ".join(task.split())[:80])
        elif not isinstance(session_id, str) or not await self._is_ours(session_id):
            return _said("session_id must be that of an earlier answer of this server", {}, failed=True)
        sid: str = session_id

        return _ended(await self._driven(context, sid, lambda token: loop.send(task, session_id=sid, stop=token)), sid)

    async def _run_workflow(self, context: Context, spec: WorkflowSpec, given: dict[str, Any]) -> types.CallToolResult:
        loop = self._agent.loop
        value = given if spec.input_schema is not None else given.get("input")
        held = {**spec.metadata, **self._agent.metadata, "served": SERVED}
        run_id = await loop.workflows.create(msgspec.structs.replace(spec, metadata=held), value)
        return _ended(
            await self._driven(context, run_id, lambda token: loop.workflows.resume(run_id, stop=token)), run_id
        )

    async def _driven(
        self, context: Context, session_id: str, work: Callable[[CancellationToken], Awaitable[Any]]
    ) -> Any:
        """Runs it, and tells the client how far it is."""
        token = CancellationToken()
        steps: asyncio.Queue[str] = asyncio.Queue(maxsize=100)
        leave = self._agent.loop.event_bus.subscribe(lambda event: _told(event, session_id, steps))
        telling = asyncio.ensure_future(_tell(context, steps))
        running = asyncio.ensure_future(work(token))
        self._running.add(running)
        running.add_done_callback(self._done)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            token.cancel("the client cancelled the call")  # the run ends by itself; closing the loop waits for it
            raise
        finally:
            leave()
            telling.cancel()

    def _done(self, running: asyncio.Future[Any]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # whoever waited has it

    async def _is_ours(self, session_id: str) -> bool:
        try:
            rows = await self._agent.loop.store.read(session_id, limit=1)
        except SessionNotFoundError:
            return False
        created = record_of(rows[0]) if rows else None
        return isinstance(created, SessionCreated) and created.metadata.get("served") == SERVED


def _told(event: AgentEvent, session_id: str, steps: asyncio.Queue[str]) -> None:
    """What of an event the client hears; with a client that does not listen, the newest are dropped."""
    if event.session_id != session_id or steps.full():
        return
    match event.data:
        case ToolCallStarted(name=name):
            steps.put_nowait(f"round {event.round_index}: {name}")
        case ToolProgress(name=name, message=message):
            steps.put_nowait(f"{name}: {message}")
        case RoundCompleted():
            steps.put_nowait(f"round {event.round_index} done")
        case _:
            pass


async def _tell(context: Context, steps: asyncio.Queue[str]) -> None:
    count = 0
    while True:
        step = await steps.get()
        count += 1
        await context.session.report_progress(float(count), None, step)


def _ended(result: StatefulResult | WorkflowResult, session_id: str) -> types.CallToolResult:
    """How a run ended, as the client sees it."""
    about: dict[str, Any] = {"session_id": session_id, "status": result.status}
    if result.output is not None:
        about["output"] = msgspec.to_builtins(result.output)
    text = result.final_text or ("" if result.output is None else json.dumps(about["output"], ensure_ascii=False))
    if result.status == "completed":
        return _said(text, about)
    if result.status == "waiting_for_input":
        about["questions"] = [question.prompt for question in result.pending_interactions]
        asked = "; ".join(about["questions"]) or "something outside"
        how = f"a person answers with: loopwright sessions resume {session_id}"
        return _said(f"{text}\nThe run waits for: {asked}\n({how})".strip(), about)
    why = f"{result.error_code}: {result.error_message}" if result.error_code else result.status
    return _said(f"{text}\n{why}".strip(), about, failed=result.status in ("failed", "cancelled", "degraded"))


def _said(text: str, about: dict[str, Any], *, failed: bool = False) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    if "session_id" in about:
        content.append(types.TextContent(type="text", text=f"session_id: {about['session_id']}"))
    return types.CallToolResult(content=content, structured_content=about or None, is_error=failed)


def _tool_of(name: str, spec: WorkflowSpec) -> types.Tool:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"input": {"description": "What the workflow works on."}},
        "additionalProperties": False,
    }
    if spec.input_schema is not None and spec.input_schema.get("type") == "object":
        schema = spec.input_schema
    return types.Tool(name=name, description=spec.description or f"Run the workflow {spec.name}.", input_schema=schema)


class _Uvicorn(uvicorn.Server):
    """One that leaves signals to us, so that everything is closed before the process ends."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none."""
        yield


async def _over_http(server: Server[Any], host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen()  # whoever reads the address below may come at once
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        shown = f"[{host}]" if ":" in host else host
        app = server.streamable_http_app(host=host)
        web = _Uvicorn(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5))
        sys.stderr.write(f"loopwright: an MCP server at http://{shown}:{listener.getsockname()[1]}/mcp\n")
        sys.stderr.flush()
        running = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            running.add_signal_handler(number, _ask_to_leave, web)
        try:
            await web.serve(sockets=[listener])
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                running.remove_signal_handler(number)


def _ask_to_leave(web: uvicorn.Server) -> None:
    web.should_exit = True


@asynccontextmanager
async def _until_signal() -> AsyncGenerator[None]:
    """SIGTERM ends the block as a cancellation that is no error."""
    task = asyncio.current_task()
    assert task is not None
    heard: list[int] = []

    def hear() -> None:
        heard.append(1)
        task.cancel()

    running = asyncio.get_running_loop()
    running.add_signal_handler(signal.SIGTERM, hear)
    try:
        yield
    except asyncio.CancelledError:
        if not heard:
            raise
        task.uncancel()
    finally:
        running.remove_signal_handler(signal.SIGTERM)
