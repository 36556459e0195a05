"""One session with one server, from the handshake to the end of its streams.

Owns: requests as plain JSON values, bounds on lists, what the server may ask meanwhile. Must not know: how the streams are
made, what happens when they end.
Read next: `mcp_connection.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Final, Literal, cast

from ..model.call_errors import ToolFailure
from .mcp_failures import words
from .mcp_schemas import too_deep
from .mcp_sdk import (
    CallOptions,
    ClientRequestContext,
    ClientSession,
    JSONRPCDispatcher,
    ListenNotSupportedError,
    MCPError,
    SubscriptionLost,
    TransportContext,
    TypeAdapter,
    ValidationError,
    listen,
    methods,
    types,
)
from .mcp_streams import Streams
from .mcp_talk import (
    MAX_QUESTION_CHARS,
    Elicit,
    Elicitation,
    ElicitationAnswer,
    Progress,
    Sample,
    SampleRequest,
)

MAX_PAGES: Final = 50
MAX_LISTED: Final = 1_000
"""Of tools, resources or prompts of one server; what is beyond is left out."""
MAX_ROUNDS: Final = 10
"""Times that one call may ask for more before it answers."""
MAX_SAMPLE_CHARS: Final = 100_000

_RESULT: Final[TypeAdapter[types.CallToolResult | types.InputRequiredResult]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_WORDS: Final = 500


class CallInFlight:
    """One call that a server works on, and how it can reach the person behind it."""

    def __init__(self, elicit: Elicit | None) -> None:
        self.elicit = elicit
        self.unheard = 0
        """Questions that could not be put to anybody."""


_CALL: Final[ContextVar[CallInFlight | None]] = ContextVar("loopwright_mcp_call", default=None)


class Talk:
    """Our side of what a server may ask; shared by all sessions of a connection."""

    def __init__(self, server: str, *, sample: Sample | None, roots: tuple[str, ...]) -> None:
        self.server = server
        self.sample = sample
        self.roots = roots
        self.in_flight: list[CallInFlight] = []

    async def elicited(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Puts a question to the person behind the call that it belongs to."""
        del context
        call = _CALL.get()
        if call not in self.in_flight:
            # Over standard input nothing says which call asks; with one call there is no doubt.
            call = self.in_flight[0] if len(self.in_flight) == 1 else None
        if call is None or call.elicit is None:
            for one in self.in_flight:
                one.unheard += 1
            return types.ElicitResult(action="cancel")
        message = params.message[:MAX_QUESTION_CHARS]
        if isinstance(params, types.ElicitRequestFormParams):
            asked = Elicitation(message=message, schema=params.requested_schema)
        else:
            asked = Elicitation(message=message, url=params.url[:MAX_QUESTION_CHARS])
        answer: ElicitationAnswer = await call.elicit(asked)
        content = answer.content if asked.schema is not None and answer.action == "accept" else None
        return types.ElicitResult(action=answer.action, content=content)

    async def sampled(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Asks our model, when the host allowed it."""
        del context
        if self.sample is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="sampling is not allowed here")
        said: tuple[tuple[Literal["user", "assistant"], str], ...] = tuple(
            [(one.role, _text_of(one)) for one in params.messages]
        )
        if sum(len(text) for _, text in said) > MAX_SAMPLE_CHARS:
            return types.ErrorData(
                code=types.INVALID_PARAMS, message=f"more than {MAX_SAMPLE_CHARS} characters to sample from"
            )
        request = SampleRequest(
            server=self.server, system_prompt=params.system_prompt, messages=said, max_tokens=params.max_tokens
        )
        try:
            reply = await self.sample(request)
        except ToolFailure as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error)[:_WORDS])
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=reply.text),
            model=reply.model,
            stop_reason="maxTokens" if reply.is_cut else "endTurn",
        )

    async def rooted(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        """The folders that the server may think of as the project."""
        del context
        return types.ListRootsResult(
            roots=[
                types.Root.model_validate({"uri": uri, "name": uri.rstrip("/").rpartition("/")[2]})
                for uri in self.roots
            ]
        )


class CarefulDispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's, which also says when it is over, and takes from a list of tools those that are none.

    One tool that is not as the protocol wants it would otherwise make the whole list invalid.
    """

    def __init__(self, streams: Streams) -> None:
        super().__init__(streams.read, streams.write)
        self.over = asyncio.Event()
        self.left_out: dict[str, str] = {}
        self.protocol = ""
        """The version that is spoken, when it is known."""

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: types.RequestId | None = None,
    ) -> dict[str, Any]:
        """The answer as it came, but for tools that are none."""
        raw = await super().send_raw_request(method, params, opts, _related_request_id=_related_request_id)
        if method == "tools/list" and isinstance(raw.get("tools"), list):
            listed = cast("list[object]", raw["tools"])
            raw = {**raw, "tools": [one for place, one in enumerate(listed) if self._is_tool(place, one, raw)]}
        return raw

    def _is_tool(self, place: int, tool: object, raw: dict[str, Any]) -> bool:
        entry = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            self.left_out[f"#{place + 1}"] = "it has no name"
            return False
        if (why := too_deep(entry)) is not None:
            self.left_out[name[:_WORDS]] = why
            return False
        try:
            methods.validate_server_result("tools/list", self.protocol, {**raw, "tools": [tool]})
            types.Tool.model_validate(tool, by_name=False)
        except KeyError:
            return True
        except ValidationError as error:
            schema = entry.get("inputSchema")
            kind = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
            why = words(error)
            if not isinstance(schema, dict):
                why = "its schema is no object"
            elif kind != "object":
                why = 'its schema has not the type "object"'
            self.left_out[name[:_WORDS]] = why
            return False
        return True

    async def run(self, *args: Any, **kwargs: Any) -> None:
        """Reads until the streams end, then says so."""
        try:
            await super().run(*args, **kwargs)
        finally:
            self.over.set()


class McpSession:
    """Requests to a server that answered the handshake. Values are JSON as the protocol has it.

    Raises: `MCPError` for an error that the server answered, `ValidationError` for what is no answer. Concurrency: any
    number of requests at once. Cancel: at any await; the server is told.
    """

    def __init__(self, session: ClientSession, dispatcher: CarefulDispatcher, talk: Talk) -> None:
        self._session = session
        self._dispatcher = dispatcher
        self._talk = talk

    @property
    def over(self) -> asyncio.Event:
        """Set when the streams ended."""
        return self._dispatcher.over

    @property
    def about(self) -> tuple[str, str, str]:
        """Name and version that the server gives itself ("" when it gives none), and the protocol that is spoken."""
        info = self._session.server_info
        protocol = self._session.protocol_version or ""
        return ("", "", protocol) if info is None else (info.name[:200], info.version[:200], protocol)

    @property
    def left_out(self) -> dict[str, str]:
        """Tools of the last list that are none, and why."""
        return self._dispatcher.left_out

    def can(self, what: str) -> bool:
        """Whether the server says that it has `tools`, `resources` or `prompts`."""
        capabilities = self._session.server_capabilities
        return capabilities is not None and getattr(capabilities, what) is not None

    async def listed(self, what: str) -> list[dict[str, Any]]:
        """All of `tools`, `resources`, `resource_templates` or `prompts`, in the server's order; at most `MAX_LISTED`."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        if what == "tools":
            self._dispatcher.left_out = {}
        ask = cast("Callable[..., Any]", getattr(self._session, f"list_{what}"))
        for _ in range(MAX_PAGES):
            page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
            found += [_plain(one) for one in getattr(page, what)]
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_LISTED:
                break
        return found[:MAX_LISTED]

    async def call(
        self, name: str, arguments: dict[str, Any], elicit: Elicit | None, progress: Progress | None
    ) -> dict[str, Any]:
        """The result of a tool."""
        call = CallInFlight(elicit)
        self._talk.in_flight.append(call)
        token = _CALL.set(call)
        responses: types.InputResponses | None = None
        state: str | None = None
        try:
            for _ in range(MAX_ROUNDS):
                params = types.CallToolRequestParams(
                    name=name, arguments=arguments, input_responses=responses, request_state=state
                )
                result = await self._session.send_request(
                    types.CallToolRequest(params=params), _RESULT, progress_callback=_told(progress)
                )
                if isinstance(result, types.CallToolResult):
                    return {**_plain(result), **({"unheard": call.unheard} if call.unheard else {})}
                responses, state = await self._answered(result), result.request_state
            raise MCPError(code=types.INVALID_REQUEST, message=f"asked for more than {MAX_ROUNDS} times")
        finally:
            _CALL.reset(token)
            self._talk.in_flight.remove(call)

    async def _answered(self, result: types.InputRequiredResult) -> types.InputResponses:
        """Our answers to what a server wants to know before it can go on."""
        answers: dict[str, Any] = {}
        for key, request in (result.input_requests or {}).items():
            meta = request.params.meta if request.params else None
            context = ClientRequestContext(session=self._session, request_id=key, meta=meta)
            answer = await self._session.dispatch_input_request(context, request)
            if isinstance(answer, types.ErrorData):
                raise MCPError(code=answer.code, message=answer.message)
            answers[key] = answer
        return answers

    async def read(self, uri: str) -> dict[str, Any]:
        """A resource."""
        return _plain(await self._session.read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        """A prompt of the server."""
        return _plain(await self._session.get_prompt(name, arguments))

    async def ping(self) -> None:
        """Whether it answers at all."""
        await self._session.send_ping()

    async def watch(self, changed: Callable[[], None]) -> None:
        """Where the protocol has no notifications without a request: listens until the server ends it."""
        try:
            async with listen(self._session, tools_list_changed=True) as changes:
                async for _ in changes:
                    changed()
        except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            pass  # then changes are seen when it is connected anew


@asynccontextmanager
async def opened_session(
    streams: Streams, talk: Talk, *, asks: bool, changed: Callable[[], None]
) -> AsyncGenerator[McpSession]:
    """A session after its handshake. `asks`: questions for a person can be answered.

    The older handshake comes first: with it a server can ask us something in the middle of a call.
    """
    dispatcher = CarefulDispatcher(streams)

    async def heard(message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    session = ClientSession(
        dispatcher=dispatcher,
        client_info=types.Implementation(name="loopwright", version=version("loopwright")),
        elicitation_callback=talk.elicited if asks else None,
        sampling_callback=None if talk.sample is None else talk.sampled,
        list_roots_callback=talk.rooted if talk.roots else None,
        message_handler=heard,
    )
    async with session:
        try:
            await session.initialize()
        except MCPError as error:
            if error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
                raise
            await session.discover()
        dispatcher.protocol = session.protocol_version or ""
        yield McpSession(session, dispatcher, talk)


def _told(progress: Progress | None) -> Any:
    if progress is None:
        return None
    tell = progress

    async def told(done: float, total: float | None, message: str | None) -> None:
        tell(done, total, (message or "")[:_WORDS])

    return told


def _plain(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value.model_dump(by_alias=True, mode="json", exclude_none=True))


def _text_of(message: types.SamplingMessage) -> str:
    return "\n".join(
        block.text if isinstance(block, types.TextContent) else f"[{block.type}]" for block in message.content_as_list
    )
