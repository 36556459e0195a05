"""Resources and prompts of servers, behind one tool each: a tool for every resource would be too many.

Owns: `read_mcp_resource`, `get_mcp_prompt`, what they show. Must not know: how servers are reached.
Read next: `mcp_servers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, cast

from ..core.fencing import from_outside, inside
from ..model.call_errors import ToolFailure
from ..model.connection_errors import McpAnswerError, McpLostError, McpUnavailableError
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult
from ..prompts import prompt
from .mcp_results import contents_of, parts_of

MAX_SHOWN: Final = 200
"""Entries of one list; a model asks for one server or names a part of what it looks for."""
MAX_WORDS: Final = 200

_FAILURES: Final = (McpUnavailableError, McpAnswerError, McpLostError)


class Library(Protocol):
    """The part of a connection that is read here."""

    async def list_resources(self) -> Sequence[Mapping[str, Any]]:
        """See `McpConnection`."""
        ...

    async def list_resource_templates(self) -> Sequence[Mapping[str, Any]]:
        """See `McpConnection`."""
        ...

    async def read_resource(self, uri: str) -> Mapping[str, Any]:
        """See `McpConnection`."""
        ...

    async def list_prompts(self) -> Sequence[Mapping[str, Any]]:
        """See `McpConnection`."""
        ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """See `McpConnection`."""
        ...


def library_tools(resources: Mapping[str, Library], prompts: Mapping[str, Library]) -> tuple[ToolDefinition, ...]:
    """The tools for servers that have any, by name; none for none. Effect idempotent: a reading may be done again."""
    tools: list[ToolDefinition] = []
    if resources:
        tools.append(_tool("read_mcp_resource", resources, {"uri": "Address, for read."}, _Resources(resources).call))
    if prompts:
        fields = {"name": "Name of the prompt, for read.", "arguments": "Its arguments, for read."}
        tools.append(_tool("get_mcp_prompt", prompts, fields, _Prompts(prompts).call))
    return tuple(tools)


def _tool(name: str, servers: Mapping[str, Library], fields: Mapping[str, str], handler: Any) -> ToolDefinition:
    properties: dict[str, Any] = {
        "action": {"type": "string", "enum": ["list", "read"]},
        "server": {"type": "string", "enum": sorted(servers), "description": "Which server; for list, all without it."},
    }
    for field, description in fields.items():
        kind: dict[str, Any] = {"type": "string"}
        if field == "arguments":
            kind = {"type": "object", "additionalProperties": {"type": "string"}}
        properties[field] = {**kind, "description": description}
    schema = {"type": "object", "properties": properties, "required": ["action"], "additionalProperties": False}
    return ToolDefinition(
        name=name,
        description=prompt(f"tools/{name}"),
        parameters=schema,
        handler=handler,
        effect="idempotent",
        subjects={"uri": "url"} if "uri" in fields else {},
        source="MCP servers",
    )


class _Resources:
    def __init__(self, servers: Mapping[str, Library]) -> None:
        self._servers = servers

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolHandlerResult:
        del context
        if arguments["action"] == "list":
            return await _listed(self._servers, arguments.get("server"), self._lines)
        name, server = _named(self._servers, arguments.get("server"))
        uri = arguments.get("uri")
        if not uri:
            raise ToolFailure("read needs uri; the action list shows the addresses")
        try:
            found = await server.read_resource(uri)
        except _FAILURES as error:
            raise ToolFailure(inside(str(error))) from error
        contents: list[Any] = found.get("contents") or []
        parts = contents_of(contents, f"MCP server {name}, {uri[:MAX_WORDS]}")
        return ToolHandlerResult(tuple(parts) if parts else "(no content)")

    async def _lines(self, server: Library) -> list[str]:
        resources = await server.list_resources()
        templates = await server.list_resource_templates()
        lines = [_line(one.get("uri"), one.get("name"), one.get("description")) for one in resources]
        return lines + [_line(one.get("uriTemplate"), one.get("name"), one.get("description")) for one in templates]


class _Prompts:
    def __init__(self, servers: Mapping[str, Library]) -> None:
        self._servers = servers

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolHandlerResult:
        del context
        if arguments["action"] == "list":
            return await _listed(self._servers, arguments.get("server"), self._lines)
        name, server = _named(self._servers, arguments.get("server"))
        wanted = arguments.get("name")
        if not wanted:
            raise ToolFailure("read needs name; the action list shows the names")
        try:
            found = await server.get_prompt(wanted, arguments.get("arguments"))
        except _FAILURES as error:
            raise ToolFailure(inside(str(error))) from error
        blocks: list[Any] = []
        messages: list[dict[str, Any]] = found.get("messages") or []
        for message in messages:
            blocks += [{"type": "text", "text": f"{message.get('role')}:"}, message.get("content")]
        parts = parts_of(blocks, f"MCP server {name}, prompt {wanted[:MAX_WORDS]}")
        return ToolHandlerResult(tuple(parts) if parts else "(no content)")

    async def _lines(self, server: Library) -> list[str]:
        lines: list[str] = []
        for one in await server.list_prompts():
            given = ", ".join(
                f"{each.get('name')}{'' if each.get('required') else '?'}" for each in _entries(one.get("arguments"))
            )
            lines.append(_line(f"{one.get('name')}({given})", one.get("title"), one.get("description")))
        return lines


async def _listed(servers: Mapping[str, Library], only: str | None, lines_of: Any) -> ToolHandlerResult:
    """The lines of one server or of all; what cannot be reached says so in its place."""
    shown: list[str] = []
    chosen = servers if only is None else dict([_named(servers, only)])
    for name, server in chosen.items():
        try:
            lines: list[str] = await lines_of(server)
        except _FAILURES as error:
            shown.append(inside(str(error)))
            continue
        more = [f"… and {len(lines) - MAX_SHOWN} more"] if len(lines) > MAX_SHOWN else []
        text = "\n".join([*lines[:MAX_SHOWN], *more]) or "(nothing)"
        shown.append(f"{name}:\n{from_outside(f'MCP server {name}', text)}")
    return ToolHandlerResult("\n".join(shown))


def _named(servers: Mapping[str, Library], name: str | None) -> tuple[str, Library]:
    if name is None and len(servers) == 1:
        return next(iter(servers.items()))
    if name is None or name not in servers:
        raise ToolFailure(f"name one of the servers: {', '.join(sorted(servers))}")
    return name, servers[name]


def _entries(value: Any) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", value) if isinstance(value, list) else []


def _line(first: object, name: object, description: object) -> str:
    words = [str(one).replace("\n", " ")[:MAX_WORDS] for one in (name, description) if one]
    return f"{str(first)[:2_000]}{' : ' if words else ''}{' · '.join(words)}"
