"""Tools of MCP servers as tools of ours.

Owns: their names, which of them are usable, what their effects are taken for, their handlers. Must not know: how a server
is reached (`mcp_connection.py`), the SDK. Any object with the two methods of `MCPToolSource` will do.
Read next: `mcp_connection.py`, `mcp_results.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from msgspec import Struct, json

from ..core.fencing import inside
from ..late import Late
from ..model.call_errors import ToolFailure
from ..model.connection_errors import McpAnswerError, McpLostError, McpUnavailableError
from ..model.errors import ConfigError
from ..model.records import Effect
from ..ports.tool import ToolContext, ToolDefinition, ToolHandler, ToolHandlerResult
from .mcp_names import tool_name
from .mcp_talk import Elicit, Progress

if TYPE_CHECKING:
    from . import mcp_asking, mcp_results, mcp_schemas
else:
    mcp_asking = Late("loopwright.connectors.mcp_asking")
    mcp_results = Late("loopwright.connectors.mcp_results")
    mcp_schemas = Late("loopwright.connectors.mcp_schemas")

MAX_DESCRIPTION: Final = 4_000
"""Characters of a description; what is beyond is cut. The model reads all of it with each request."""
MAX_TOOLS: Final = 1_000
CALLS_AGAIN: Final = 2
"""Times that a call is made again whose server went away in the middle, where its effect allows it."""
LIMIT_MARGIN_S: Final = 30.0


class MCPToolSource(Protocol):
    """Any client of a server: no SDK is needed for it.

    Tools are dicts as in the protocol (`name`, `description`, `inputSchema`, …) or objects with such attributes, in either
    spelling; a result is a text, or a dict or object with `content`, `structuredContent`, `isError`.
    """

    async def list_tools(self) -> Sequence[Any]:
        """The tools of the server; or an object whose `tools` they are."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """The result of one call. What it raises is a failed result for the model."""
        ...


@runtime_checkable
class CarefulCalls(Protocol):
    """A client that can say more about a call than `MCPToolSource`; `McpConnection` is one."""

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        again: int = 0,
        elicit: Elicit | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """See `McpConnection.call_tool`."""
        ...

    def watch(self, renew: Callable[[], Awaitable[None]]) -> None:
        """See `McpConnection.watch`."""
        ...


class ToolShelf(Protocol):
    """Where tools are registered: a `ToolRegistry`, or something of the host's."""

    def get(self, name: str) -> ToolDefinition | None:
        """The tool of that name, or None."""
        ...

    def register(self, definition: ToolDefinition, *, overwrite: bool = False) -> None:
        """Adds a tool."""
        ...

    def unregister(self, name: str) -> ToolDefinition:
        """Takes a tool away."""
        ...


class McpToolOptions(Struct, frozen=True, kw_only=True):
    """How the tools of one server are taken."""

    prefix: str = ""
    source: str = "an MCP server"
    """What results are said to come from."""
    only: tuple[str, ...] | None = None
    """Which tools, by the server's names; None: all."""
    trust_annotations: bool = False
    """Take `readOnlyHint` for `pure` and `idempotentHint` for `idempotent`. They are a stranger's words: a tool that is
    declared so and is not may be run twice after a crash."""
    timeout_s: float | None = None
    """Of a call, the start of the server included; None: the loop's `tool_timeout_s`."""
    deferred: bool = False
    """The model gets their definitions when `tool_search` found them."""


class OfferedTools(Struct, frozen=True):
    """What a list of tools comes to."""

    definitions: tuple[ToolDefinition, ...]
    left_out: Mapping[str, str]
    """The server's names of tools that cannot be used, and why."""


async def register_mcp_tools(
    registry: ToolShelf, client: MCPToolSource, prefix: str = "", *, options: McpToolOptions | None = None
) -> tuple[str, ...]:
    """Registers the tools of a client as `<prefix>_<name>`; the names, in the server's order.

    Tools that cannot be used are left out; `offered_tools` says why. When the client can say that its tools changed
    (`McpConnection`), they are registered anew; a conversation sees that at its next send, as a new prompt epoch.
    Raises: `ConfigError` for names that are taken, naming both tools; then nothing was registered. And what listing raises.
    """
    wanted = McpToolOptions(prefix=prefix, source=prefix or "an MCP server") if options is None else options
    return (await McpShelf.filled(registry, client, wanted)).names


class McpShelf:
    """The tools of one client in one registry."""

    @classmethod
    async def filled(cls, registry: ToolShelf, client: MCPToolSource, options: McpToolOptions) -> McpShelf:
        """One whose tools are registered, and renewed when the client says so. Raises: as `register_mcp_tools`."""
        shelf = cls(registry, client, options)
        await shelf.renew()
        if isinstance(client, CarefulCalls):
            client.watch(shelf.renew)
        return shelf

    def __init__(self, registry: ToolShelf, client: MCPToolSource, options: McpToolOptions) -> None:
        self._registry = registry
        self._client = client
        self._options = options
        self.names: tuple[str, ...] = ()
        """In the server's order."""
        self.left_out: Mapping[str, str] = {}
        """The server's names of tools that cannot be used, and why."""

    async def renew(self) -> None:
        """Brings the registry to what the client lists now. Raises: `ConfigError`; then it is as before."""
        offered = await offered_tools(self._client, self._options)
        held = [one.name for one in offered.definitions if one.name not in self.names and self._registry.get(one.name)]
        if held:
            source = self._options.source
            raise ConfigError(
                [
                    f"tool {name!r} of {source} has the name of a tool that is there; give another prefix"
                    for name in held
                ]
            )
        now = tuple([one.name for one in offered.definitions])
        for name in self.names:
            if name not in now and self._registry.get(name) is not None:
                self._registry.unregister(name)
        for definition in offered.definitions:
            known = self._registry.get(definition.name)
            if known is None or known.spec != definition.spec or known.effect != definition.effect:
                self._registry.register(definition, overwrite=known is not None)
        self.names, self.left_out = now, offered.left_out


async def offered_tools(client: MCPToolSource, options: McpToolOptions) -> OfferedTools:
    """The tools of a client as ours. Raises: `ConfigError` for two of one name, naming both; and what listing raises."""
    listed: Any = await client.list_tools()
    return tools_of(listed_tools(listed), client, options, left_out=getattr(client, "left_out", None) or {})


def listed_tools(listed: Any) -> list[dict[str, Any]]:
    """What a client listed, as dicts of the protocol."""
    if isinstance(listed, dict):
        inner: Any = cast("dict[str, Any]", listed).get("tools")
    else:
        inner = getattr(listed, "tools", cast("object", listed))
    return [plain(one) for one in cast("Iterable[Any]", inner or ())]


def tools_of(
    listed: Sequence[Mapping[str, Any]],
    client: MCPToolSource,
    options: McpToolOptions,
    *,
    left_out: Mapping[str, str] | None = None,
) -> OfferedTools:
    """Definitions for those of `listed` that are usable. Raises: `ConfigError` for two of one name."""
    reasons = dict(left_out or {})
    found: dict[str, tuple[str, ToolDefinition]] = {}
    clashes: list[str] = []
    for entry in listed[:MAX_TOOLS]:
        name = entry.get("name")
        if not isinstance(name, str) or not name.strip():
            reasons[f"#{len(reasons) + 1}"] = "it has no name"
            continue
        if options.only is not None and name not in options.only:
            continue
        if (why := mcp_schemas.unusable_parameters(_field(entry, "inputSchema", "input_schema"))) is not None:
            reasons[name[:200]] = why
            continue
        definition = _definition(name, entry, client, options)
        other = found.get(definition.name)
        if other is not None:
            clashes.append(
                f"the tools {other[0]!r} and {name!r} of {options.source} would both be {definition.name!r}; offer one of"
                " them with `tools`"
            )
            continue
        found[definition.name] = (name, definition)
    if clashes:
        raise ConfigError(clashes)
    if options.only is not None:
        known = {str(entry.get("name")) for entry in listed}
        reasons.update({name: "the server has no tool of that name" for name in options.only if name not in known})
    return OfferedTools(tuple([definition for _, definition in found.values()]), reasons)


def _definition(name: str, entry: Mapping[str, Any], client: MCPToolSource, options: McpToolOptions) -> ToolDefinition:
    effect = effect_of(entry) if options.trust_annotations else "once"
    said = entry.get("description")
    description = said if isinstance(said, str) else ""
    if len(description) > MAX_DESCRIPTION:
        description = f"{description[:MAX_DESCRIPTION]} …"
    schema = cast("dict[str, Any]", _field(entry, "inputSchema", "input_schema"))
    given: Any = _field(entry, "outputSchema", "output_schema")
    promised = cast("dict[str, Any]", given) if isinstance(given, dict) else None
    if promised is not None and mcp_schemas.unusable_schema(promised) is not None:
        promised = None
    call = _handler(name, client, options, promised, effect)
    return ToolDefinition(
        name=tool_name(options.prefix, name),
        description=inside(description) or f"{name} of {options.source}",
        parameters=schema,
        handler=call,
        effect=effect,
        timeout_s=options.timeout_s,
        source=options.source,
        deferred=options.deferred,
    )


def effect_of(entry: Mapping[str, Any]) -> Effect:
    """What a tool's annotations say of its effect; `once` where they say nothing."""
    annotations = plain(entry.get("annotations") or {})
    if _field(annotations, "readOnlyHint", "read_only_hint") is True:
        return "pure"
    return "idempotent" if _field(annotations, "idempotentHint", "idempotent_hint") is True else "once"


def _handler(
    name: str,
    client: MCPToolSource,
    options: McpToolOptions,
    output_schema: dict[str, Any] | None,
    effect: Effect,
) -> ToolHandler:
    again = 0 if effect == "once" else CALLS_AGAIN

    async def call(arguments: dict[str, Any], context: ToolContext) -> ToolHandlerResult:
        try:
            if isinstance(client, CarefulCalls):
                result = await mcp_asking.asking_call(
                    client, name, arguments, context, again=again, source=options.source
                )
            else:
                result = await client.call_tool(name, arguments)
        except (McpUnavailableError, McpAnswerError) as error:
            raise ToolFailure(inside(str(error))) from error
        except McpLostError as error:
            doubt = "it may or may not have had its effect; look before you call it again" if effect == "once" else ""
            raise ToolFailure(f"{inside(str(error))}{'; ' if doubt else ''}{doubt}") from error
        if isinstance(result, str):
            result = {"content": [{"type": "text", "text": result}]}
        return mcp_results.result_of(plain(result), source=options.source, output_schema=output_schema)

    return call


def plain(value: Any) -> dict[str, Any]:
    """A dict of the protocol from a dict, or from an object of a client's own, such as a model of the SDK."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("dict[str, Any]", dump(by_alias=True, mode="json", exclude_none=True))
    try:
        made: Any = json.decode(json.encode(value))
    except (TypeError, ValueError):
        made = dict(getattr(value, "__dict__", {}))
    return cast("dict[str, Any]", made) if isinstance(made, dict) else {}


def _field(entry: Mapping[str, Any], *names: str) -> Any:
    return next((entry[name] for name in names if name in entry), None)
