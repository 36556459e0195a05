"""One connection to one MCP server: started at its first use, started again when it breaks, stopped as a whole.

Owns: the one task that opens and closes everything, when it tries again, time limits, what becomes of requests when the
server goes away. Must not know: tools of ours, sessions of ours, the SDK (`mcp_session.py`).

What is entered in a task has to be left in it, so all of a connection's life is one function of one task (`_supervise`);
requests of others use what it has opened, in tasks of their own that nobody has to wait for.
Read next: `mcp_session.py`, `mcp_tools.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..late import Late
from ..model.connection_errors import McpAnswerError, McpLostError, McpUnavailableError
from ..model.errors import UsageError
from ..ports.ambient import Ambient, RealAmbient
from .mcp_file import McpServerSpec
from .mcp_streams import McpRoute
from .mcp_talk import Elicit, Progress, Sample

if TYPE_CHECKING:
    from . import mcp_failures, mcp_http, mcp_session, mcp_stdio
    from .mcp_session import McpSession
else:
    mcp_failures = Late("loopwright.connectors.mcp_failures")
    mcp_http = Late("loopwright.connectors.mcp_http")
    mcp_session = Late("loopwright.connectors.mcp_session")
    mcp_stdio = Late("loopwright.connectors.mcp_stdio")

_T = TypeVar("_T")

MAX_FAILURES: Final = 5
"""Attempts in a row that fail before a connection waits for its next use to try again."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 60.0
"""A connection that lived this long has not failed to start, whatever ended it."""
PING_S: Final = 10.0
REASON_S: Final = 1.0
"""How long a request that was lost waits to say why."""

Renewed = Callable[[], Awaitable[None]]


class McpState(Struct, frozen=True):
    """How a connection is."""

    status: Literal["idle", "starting", "ready", "pausing", "failed", "closed"]
    server: str = ""
    """Name and version that the server gives itself."""
    protocol: str = ""
    offers: tuple[str, ...] = ()
    """Which of `tools`, `resources` and `prompts` it says that it has."""
    starts: int = 0
    """Times that it was connected."""
    problem: str | None = None
    """Why it is not connected, or was not the last time; with the end of what the server printed."""


class _Live:
    """What the supervising task has open."""

    def __init__(self, session: McpSession) -> None:
        self.session = session
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()
        """Done when nothing can be asked any more."""
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done when it is known why."""


class McpConnection:
    """A server by its entry. Belongs to one event loop; any number of requests at once.

    A request starts the server where it does not run, and waits for it. Closing or dropping the connection stops what was
    started. `sample` lets the server ask a model of ours, `roots` are addresses (`file:///…`) that it may take for the
    project. `route` replaces how it is reached, for tests.
    """

    def __init__(
        self,
        spec: McpServerSpec,
        *,
        sample: Sample | None = None,
        roots: tuple[str, ...] = (),
        asks: bool = True,
        ambient: Ambient | None = None,
        route: Callable[[], McpRoute] | None = None,
    ) -> None:
        self.spec = spec
        self._asks = asks
        self._sample = sample
        self._roots = roots
        self._ambient = RealAmbient() if ambient is None else ambient
        self._make_route = self._made_route if route is None else route
        self._route: McpRoute | None = None
        self._talk: Any = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._lost = asyncio.Event()
        self._next: asyncio.Future[_Live] | None = None
        self._live: _Live | None = None
        self._works: set[asyncio.Future[Any]] = set()
        self._renewals: list[Renewed] = []
        self._renewing: asyncio.Task[None] | None = None
        self._stale = False
        self._state = McpState("idle")
        self._was_useful = False
        self.left_out: dict[str, str] = {}
        """Tools of the last list that are none, and why."""

    @property
    def state(self) -> McpState:
        """How it is now; asking starts nothing."""
        return self._state

    async def connect(self) -> McpState:
        """Makes sure that the server runs and answered the handshake. Raises: `McpUnavailableError`; trying again is safe."""
        await self._ready()
        return self._state

    async def aclose(self) -> None:
        """Stops the server and every request to it; safe to call twice. Takes a few seconds with one that does not stop."""
        self._stop.set()
        if self._renewing is not None:
            self._renewing.cancel()
        task = self._task
        if task is not None:
            await asyncio.shield(task)
        self._state = McpState("closed")

    async def list_tools(self) -> list[dict[str, Any]]:
        """Its tools as the protocol has them; none where it has no tools. See `left_out` for those that are none."""
        return await self._listed("tools")

    async def list_resources(self) -> list[dict[str, Any]]:
        """Its resources; none where it has none."""
        return await self._listed("resources")

    async def list_resource_templates(self) -> list[dict[str, Any]]:
        """Its templates of addresses; none where it has none."""
        return await self._listed("resource_templates")

    async def list_prompts(self) -> list[dict[str, Any]]:
        """Its prompts; none where it has none."""
        return await self._listed("prompts")

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """A resource: `{"contents": [...]}`."""
        limit_s = self.spec.call_timeout_s
        return await self._ask(f"reading {uri[:200]}", lambda session: session.read(uri), limit_s, again=1)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A prompt of the server: `{"messages": [...]}`."""
        given = dict(arguments or {})
        limit_s = self.spec.call_timeout_s
        return await self._ask(f"prompt {name[:200]}", lambda session: session.prompt(name, given), limit_s, again=1)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        again: int = 0,
        elicit: Elicit | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """The result of a tool: `{"content": [...], "isError": ...}`.

        When the server goes away in the middle, it is started again and asked again at most `again` times.
        Raises: `McpUnavailableError` when it was not asked, `McpAnswerError`, `McpLostError` when what it did is not known.
        Cancel: at any await; the server is told, and nobody waits for it.
        """
        given = dict(arguments)
        limit_s = self.spec.call_timeout_s
        result = await self._ask(
            f"tool {name[:200]}", lambda session: session.call(name, given, elicit, progress), limit_s, again=again
        )
        self._was_useful = True
        return result

    async def ping(self) -> None:
        """Whether the server answers. Raises: `McpUnavailableError`, `McpAnswerError`, `McpLostError`."""
        await self._ask("ping", lambda session: session.ping(), PING_S, again=0)

    def watch(self, renew: Renewed) -> None:
        """Has `renew` called, one call at a time, whenever the server says that its tools changed, or was started again."""
        self._renewals.append(renew)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _listed(self, what: str) -> list[dict[str, Any]]:
        async def ask(session: McpSession) -> list[dict[str, Any]]:
            if not session.can("resources" if what == "resource_templates" else what):
                return []
            found = await session.listed(what)
            if what == "tools":
                self.left_out = dict(session.left_out)
            return found

        return await self._ask(f"list of {what}", ask, self.spec.list_timeout_s, again=1)

    async def _ask(self, what: str, ask: Callable[[McpSession], Awaitable[_T]], limit_s: float, *, again: int) -> _T:
        """One request, with its time limit; sent again where that is allowed or harmless."""
        unheard = 1  # a server that forgot our session has not done what it was asked
        while True:
            live = await self._ready()
            work = asyncio.ensure_future(ask(live.session))
            self._works.add(work)
            work.add_done_callback(self._done)
            try:
                ends: set[asyncio.Future[Any]] = {work, live.over}
                await asyncio.wait(ends, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
                if live.over.done() and not work.done():
                    await asyncio.wait({work}, timeout=0)  # it may have its answer all the same
            finally:
                if not work.done():
                    work.cancel()  # the SDK tells the server; that may take its time, and nobody waits for it
            failure: BaseException | None = None
            if work.done() and not work.cancelled():
                failure = work.exception()
                if failure is None:
                    return work.result()
            elif not live.over.done():
                raise McpAnswerError(self.spec.name, what, f"no answer within {limit_s:g} s; it was told to stop")
            verdict = "lost" if failure is None else mcp_failures.verdict(failure)
            if verdict == "answer" and unheard and self._route is not None and self._route.is_forgotten:
                verdict = "session"
            if verdict != "answer":
                self._retire(live)
            if verdict == "session" and unheard:
                unheard -= 1
                continue
            if verdict == "answer" and failure is not None:
                if not isinstance(failure, Exception):
                    raise failure
                seen = None if self._route is None else self._route.why_it_ended
                said = seen if seen is not None and seen != "ended" else mcp_failures.words(failure)
                raise McpAnswerError(self.spec.name, what, said) from failure
            if again <= 0:
                await asyncio.wait({live.closed}, timeout=REASON_S)
                raise McpLostError(self.spec.name, what, self._why()) from failure
            again -= 1

    def _done(self, work: asyncio.Future[Any]) -> None:
        self._works.discard(work)
        if not work.cancelled():
            work.exception()  # whoever waited has it; nobody else wants to hear of it

    def _why(self) -> str:
        return self._state.problem or "it was stopped"

    async def _ready(self) -> _Live:
        """The open session. Raises: `McpUnavailableError` when the attempt that is under way, or the next one, fails."""
        if self._stop.is_set():
            raise UsageError(f"the connection to MCP server {self.spec.name!r} is closed; make a new one")
        if self._live is not None:
            return self._live
        if self._task is None or self._task.done():
            self._next = asyncio.get_running_loop().create_future()
            self._task = asyncio.ensure_future(self._supervise())
        assert self._next is not None
        waiting = self._next
        ends: set[asyncio.Future[Any]] = {waiting, self._task}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        raise McpUnavailableError(self.spec.name, self._why())

    async def _supervise(self) -> None:
        """All of the connection's life: opens, waits, closes, pauses, and again."""
        failures = 0
        try:
            while not self._stop.is_set():
                began = self._ambient.monotonic()
                self._route = route = self._make_route()
                self._was_useful, starts = False, self._state.starts
                why = await self._lived(route)
                if self._stop.is_set():
                    return
                steady = self._was_useful or self._ambient.monotonic() - began >= STEADY_S
                failures = 1 if steady else failures + 1
                problem = _with_words(route, why)
                is_final = failures >= MAX_FAILURES or route.is_refused
                self._set("failed" if is_final else "pausing", problem)
                if is_final or self._state.starts == starts:
                    self._answer_waiting(McpUnavailableError(self.spec.name, problem))
                if is_final:
                    return
                await self._pause(failures)
        finally:
            self._answer_waiting(McpUnavailableError(self.spec.name, "the connection was closed"))

    async def _lived(self, route: McpRoute) -> str:
        """One life: from opening to closing. Answers why it ended."""
        self._set("starting", self._state.problem)
        self._lost = asyncio.Event()
        why: str | None = None
        live: _Live | None = None
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(self.spec.start_timeout_s):
                        session = await self._opened(stack, route)
                except TimeoutError:
                    return f"no answer to the handshake within {self.spec.start_timeout_s:g} s"
                live = self._publish(session)
                await self._until_it_ends(session)
                self._retire(live)
        except McpUnavailableError as error:
            why = error.why
        except mcp_failures.OF_A_CONNECTION as error:
            why = mcp_failures.words(error)
        finally:
            if live is not None:
                self._retire(live)
                self._set("pausing", _with_words(route, route.why_it_ended or why or "it ended"))
                live.closed.set_result(None)
        return route.why_it_ended or why or "it ended"

    async def _opened(self, stack: AsyncExitStack, route: McpRoute) -> McpSession:
        if self._talk is None:
            self._talk = mcp_session.Talk(self.spec.name, sample=self._sample, roots=self._roots)
        streams = await stack.enter_async_context(route.opened())
        return await stack.enter_async_context(
            mcp_session.opened_session(streams, self._talk, asks=self._asks, changed=self._changed)
        )

    def _publish(self, session: McpSession) -> _Live:
        name, version, protocol = session.about
        starts = self._state.starts + 1
        offers = tuple([what for what in ("tools", "resources", "prompts") if session.can(what)])
        self._state = McpState("ready", f"{name} {version}".strip(), protocol, offers, starts)
        self._live = _Live(session)
        if self._next is not None and not self._next.done():
            self._next.set_result(self._live)
        if starts > 1:
            self._changed()
        return self._live

    def _retire(self, live: _Live) -> None:
        """Nothing is asked of it any more; who comes now waits for the next one."""
        if self._live is live:
            self._live = None
            self._next = asyncio.get_running_loop().create_future()
            self._lost.set()
        if not live.over.done():
            live.over.set_result(None)

    async def _until_it_ends(self, session: McpSession) -> None:
        """Until its streams end, the server forgot us, or we are told to stop."""
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(event.wait()) for event in (session.over, self._lost, self._stop)
        ]
        listening: asyncio.Future[None] = asyncio.ensure_future(session.watch(self._changed))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (*waits, listening):
                one.cancel()
            await asyncio.gather(*waits, listening, return_exceptions=True)

    async def _pause(self, failures: int) -> None:
        """Waits longer after each failure, ended by closing; those who come meanwhile wait for the next attempt."""
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
        pause_s = min(FIRST_PAUSE_S * 2 ** (failures - 1), LONGEST_PAUSE_S) * (0.5 + self._ambient.random() / 2)
        sleeping = asyncio.ensure_future(self._ambient.sleep(pause_s))
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopping.cancel()

    def _answer_waiting(self, error: McpUnavailableError) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_exception(error)
            self._next.exception()  # it is no fault when nobody waits

    def _set(self, status: Literal["starting", "pausing", "failed"], problem: str | None) -> None:
        self._state = replace(self._state, status=status, problem=problem)

    def _changed(self) -> None:
        """The tools may be others now: those who want to know look again, one after the other."""
        self._stale = True
        if self._renewals and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.ensure_future(self._renew())

    async def _renew(self) -> None:
        while self._stale:
            self._stale = False
            for renew in self._renewals:
                try:
                    await renew()
                except (McpUnavailableError, McpAnswerError, McpLostError, UsageError):
                    pass  # the tools stay as they were; the next start looks again

    def _made_route(self) -> McpRoute:
        if self.spec.url is not None:
            return mcp_http.HttpRoute(self.spec)
        return mcp_stdio.StdioRoute(self.spec, ambient=self._ambient)


def _with_words(route: McpRoute, why: str) -> str:
    return f"{why}; it printed: {route.last_words}" if route.last_words else why
