"""The seam to tools: what one is, what its handler gets and may return.

Owns: definition, context Protocol, handler results. Must not know: the registry (`tools/registry.py`), the run.
Read next: `tools/decorator.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypedDict

from msgspec import Struct, field

from ..model.messages import FilePart, ImagePart, TextPart
from ..model.records import Effect
from ..model.specs import ToolSpec
from .cancellation import CancellationToken

if TYPE_CHECKING:
    from .child_agents import Agents
    from .history import SessionHistory
    from .tool_retry import ToolRetry
    from .transaction_work import OnCommit


class ToolHandlerResult(Struct, frozen=True):
    """What a handler may return instead of a plain string, dict or list."""

    content: str | TextPart | ImagePart | FilePart | Sequence[TextPart | ImagePart | FilePart]
    """What the model sees: text, a picture or a file, or several of them in a list or tuple."""
    ok: bool = True
    """False: the call failed; the model sees `content` as an error."""
    data: Any = None
    """A JSON value for the host, kept on the record, not shown to the model."""


class InputNeeded(Struct, frozen=True):
    """Returned by a handler that cannot go on without a person: the run pauses durably, the answer becomes the result."""

    prompt: str
    kind: str = "text"
    """"text" | "choice" | "confirm" | "form" | "elicitation"."""
    options: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    """JSON Schema of the answer; None accepts any JSON value."""
    metadata: dict[str, Any] = field(default_factory=lambda: {})


class WaitNeeded(Struct, frozen=True, kw_only=True):
    """Returned by a handler that cannot go on before something outside happened: the run pauses durably, without a process.

    Then the handler is run again from its start, with `ToolContext.woken` saying what happened; so its tool must be
    declared `pure` or `idempotent`. At least one of the two is given; with both, whichever comes first.
    """

    until: float | None = None
    """UTC epoch seconds."""
    signal: str | None = None
    """Name of the signal (`StatefulAgentLoop.signal`); one that came before and was not taken counts."""


class Woken(Struct, frozen=True):
    """What a call that waited was told."""

    why: Literal["child", "time", "signal"]
    payload: Any = None
    """Of the signal."""


class OutputSlice(Struct, frozen=True):
    """A part of a stored output, in whole characters."""

    text: str
    """"" past the end."""
    start: int
    """Byte of its first character, from 0."""
    end: int
    """Where the next part begins; equal to `size` when nothing is left."""
    size: int
    """Bytes of the whole output in UTF-8."""


class ToolContext(Protocol):
    """What a handler may know and do; a handler gets it by declaring a parameter annotated with it."""

    @property
    def session_id(self) -> str:
        """The session whose model made the call."""
        ...

    @property
    def call_id(self) -> str:
        """The provider's id of the call."""
        ...

    @property
    def tool_name(self) -> str:
        """The name under which the tool was called."""
        ...

    @property
    def idempotency_key(self) -> str:
        """64 hex digits: the same for every retry, resume and machine, different for every other call."""
        ...

    @property
    def round_index(self) -> int:
        """The round of the send, from 1."""
        ...

    @property
    def cancellation(self) -> CancellationToken:
        """Cancelled when the run stops or the call's time is over; sync handlers should look at it now and then."""
        ...

    @property
    def scratch(self) -> dict[str, Any]:
        """Values of this session in this process, shared by its tools; lost with the process, bounded by the tool."""
        ...

    @property
    def history(self) -> SessionHistory:
        """What was said earlier in the session, folded or not."""
        ...

    @property
    def agents(self) -> Agents:
        """Children of this session: to spawn, to talk to, to stop."""
        ...

    @property
    def woken(self) -> Woken | None:
        """What happened, when this call waited for something and is run again; None at its first run."""
        ...

    async def ask(
        self,
        prompt: str,
        *,
        kind: str = "text",
        options: Sequence[str] = (),
        schema: dict[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> Any:
        """What a person answers: at once when it was answered, else the handler is left here and run again from its start.

        The first run stores the question and ends in this call, as if it were cancelled; the run pauses, for days if need be,
        in no process. With the answer (`submit_input`) the handler runs again, and the same call of `ask` returns it. So what
        a handler does before it asks happens again, whatever the effect of its tool: ask first, then act. What it wrote to
        notes, timers or `on_commit` before is written by the run that ends with a result.
        A handler may ask several times, one after the other: each question has an id of its own, and the n-th of the same
        words gets the n-th answer to them. Words that change from run to run are new questions, at most 32 in one call.
        `kind`: text (the answer is a string), choice (one of `options`), confirm (true or false), form (an object that fits
        `schema`), or elicitation: then it is `{"action": "accept" | "decline" | "cancel", "content": …}`, and `schema` is that
        of the content. `schema` in place of what the kind says. `source`: who asks, where it is not the tool, for example
        the name of a server; people are shown it.
        Raises: `UsageError` for a question over the bounds (20,000 characters, 200 options, 64 KiB of schema or metadata),
        for a schema that is none, and for the 33rd question.
        """
        ...

    async def read_output(self, artifact_id: str, *, offset: int = 0, limit: int = 20_000) -> OutputSlice:
        """The characters in `limit` bytes from byte `offset` of a stored tool output of this session.

        Only those bytes are read, whatever the size of the output. An offset inside a character counts as its first byte,
        and there is at least one character until the end: parts that each begin at the `end` of the last are the whole.
        Raises: `ToolFailure` for an unknown id, for one of another session, and for what is no text.
        """
        ...

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tells observers how far the call is: an event, of which nothing is stored. After the handler has ended it does
        nothing. `message` is cut at 500 characters. Concurrency: from the handler's event loop."""
        ...

    def on_commit(self, fn: OnCommit) -> None:
        """Runs `fn(cursor)` inside the transaction that records this call's result: both are stored, or neither.

        Takes effect when the handler returns, whatever it returns; when it raises, is stopped or runs out of time, `fn`
        is never called. Several are called in the order of these calls. An error of `fn` is the call's result instead,
        and nothing that `fn` or the others wrote stays. `fn` may be called more than once and commits once; see
        `OnCommit` for what it may do. Raises: `ConfigError` when the store has no transactions to take part in, the
        tool is declared `pure`, or `fn` is a coroutine or generator function; `UsageError` after the handler has returned.
        Concurrency: from the handler's task or thread.
        """
        ...


class UnknownOutcome(Struct, frozen=True):
    """A `once` call that was started and has no result, handed to `reconcile`."""

    session_id: str
    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    idempotency_key: str
    started_at: float
    """UTC epoch seconds."""


HandlerReturn: TypeAlias = (
    str
    | TextPart
    | ImagePart
    | FilePart
    | Mapping[str, Any]
    | list[Any]
    | tuple[Any, ...]
    | ToolHandlerResult
    | InputNeeded
    | WaitNeeded
    | None
)
"""What a handler may return; other values are encoded as JSON where possible."""

ToolHandler: TypeAlias = Callable[[dict[str, Any], ToolContext], Awaitable[Any] | Any]
"""Called with validated arguments; sync handlers run in a thread."""

Reconcile: TypeAlias = Callable[
    [UnknownOutcome], Awaitable[ToolHandlerResult | str | None] | ToolHandlerResult | str | None
]
"""Asks the outside world what became of a call: its result, or None when that cannot be known."""

Project: TypeAlias = Callable[[dict[str, Any], str | None], str | dict[str, Any]]
"""From a call's arguments and the text of its result (None: there is none) to a short account of it. Pure and quick."""


Subject: TypeAlias = Literal["path", "command", "url"]
"""What the text of an argument names."""

if TYPE_CHECKING:

    class ToolTraits(TypedDict, total=False):
        """The fields of a `ToolDefinition` that few tools have, as `@tool` takes them."""

        touches: Literal["world", "session"]
        subjects: Mapping[str, Subject]
        source: str | None
        max_parallel: int | None
        retry: ToolRetry | None
        deferred: bool
        background: bool


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """One tool: what the model sees and how it is run."""

    name: str
    """`[A-Za-z0-9_-]{1,64}`."""
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments object."""
    handler: ToolHandler | None = None
    """None: the host executes it; the send ends as pending_tools."""
    is_async: bool = True
    """False: the handler blocks and runs in a thread."""
    effect: Effect = "once"
    timeout_s: float | None = None
    """None: the loop's `tool_timeout_s`."""
    output_limit: int | None = None
    """Characters the model sees of one result; None: the loop's `tool_output_limit`."""
    reconcile: Reconcile | None = None
    project: Project | None = None
    """A terse account of one call for projected windows; None leaves it to the representation."""
    touches: Literal["world", "session"] = "world"
    """`session`: it changes nothing but its own session, so that it may run where nothing else may change."""
    subjects: Mapping[str, Subject] = {}
    """What arguments are, by name, for rules about paths, commands and hosts; those of the top level alone."""
    source: str | None = None
    """Where its results come from, when strangers wrote them; None: nowhere that can be named."""
    max_parallel: int | None = None
    """Calls of it that run at once in one loop; None: no more than the loop's own limits."""
    retry: ToolRetry | None = None
    """None: a handler that fails has failed."""
    deferred: bool = False
    """True: the model gets its definition when `tool_search` found it."""
    background: bool = False
    """True: the call is answered at once, and what comes of it is told later."""

    @property
    def spec(self) -> ToolSpec:
        """What the model sees."""
        return ToolSpec(self.name, self.description, self.parameters)


class ToolSource(Protocol):
    """Anything that holds tools by name: the registry, or a host's own."""

    def get(self, name: str) -> ToolDefinition | None:
        """The tool, or None."""
        ...

    def names(self) -> tuple[str, ...]:
        """All names in the order in which the model sees them."""
        ...

    def problems(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Why `arguments` do not fit the tool's schema, naming the path; None when they do."""
        ...


TOOL_SEARCH: Final = "tool_search"
"""The tool that finds deferred ones; where a send does not have it, they are listed like any other."""


class NoTools:
    """A source without tools."""

    def get(self, name: str) -> ToolDefinition | None:
        """None, whatever the name."""
        return None

    def names(self) -> tuple[str, ...]:
        """No names."""
        return ()

    def problems(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """None: there is nothing to call."""
        return None
