"""The public handle: `StatefulAgentLoop`.

Owns: putting the parts together and the words of the public face. Must not know: any rule; each method hands over.
Read next: `engine/run.py`, the loop itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .config import AgentLoopConfig, WorkerSettings, has_cost_budget
from .core.decide import FoldPolicy, Limits
from .engine.actor import ACTORS
from .engine.admission import Admission
from .engine.arguments import check_limits, check_model, usable_id, user_message
from .engine.bus import AgentEventBus
from .engine.draining import InFlight
from .engine.hooks import AgentHooks
from .engine.journal import first_records, format_needed
from .engine.keeper import LeaseKeeper
from .engine.kernel import Kernel
from .engine.turn import AS_SET, SendOptions
from .late import Late
from .model.errors import ConfigError, LoopClosedError
from .model.messages import MessageLike
from .model.records import SessionCreated
from .model.specs import StructuredOutputSpec
from .ports.ambient import Ambient, RealAmbient
from .ports.cancellation import CancellationToken, Stop
from .ports.llm import LLMService
from .ports.schema_policy import SchemaPolicy
from .ports.store import Durability, NewSession
from .ports.tool import NoTools, ToolDefinition, ToolSource
from .session_access import SessionAccess
from .stores.dsn import BUSY_WAIT_S, default_path, open_store

if TYPE_CHECKING:
    from . import forms
    from .context import summary_fold
    from .core.result import FollowUpQueued, StatefulResult
    from .engine import answers, beside, epochs, folding, forking, recovery, watching, worker
    from .engine.answers import Answers
    from .engine.recovery import Recovered
    from .engine.worker import SessionNews, WorkDone
    from .forms import OutputSchema, Permissions
    from .model.events import AgentEvent
    from .ports.executor import Executor
    from .ports.fold import FoldStrategy
    from .ports.memory import MemoryProvider
    from .ports.prices import Prices
    from .ports.prompt_source import PromptSource
    from .ports.representation import Representation
    from .ports.store_admin import SessionStore
    from .ports.token_counter import TokenCounter
    from .tools import validation
    from .transports import service_factory, tiktoken_counter
else:
    # Parts that only some loops need: the schema validator alone takes longer to load than everything else together.
    forms = Late("loopwright.forms")
    summary_fold = Late("loopwright.context.summary_fold")
    answers = Late("loopwright.engine.answers")
    beside = Late("loopwright.engine.beside")
    epochs = Late("loopwright.engine.epochs")
    folding = Late("loopwright.engine.folding")
    forking = Late("loopwright.engine.forking")
    recovery = Late("loopwright.engine.recovery")
    watching = Late("loopwright.engine.watching")
    worker = Late("loopwright.engine.worker")
    validation = Late("loopwright.tools.validation")
    service_factory = Late("loopwright.transports.service_factory")
    tiktoken_counter = Late("loopwright.transports.tiktoken_counter")

T = TypeVar("T")

_NOTHING_GIVEN = (None,) * 8


class StatefulAgentLoop(SessionAccess):
    """Durable conversations with tools, over one store.

    Any number of loop objects, processes and threads may share a store; a session is run by one of them at a time. Use it as
    an async context manager, or call `aclose()`. Every method that names a session raises `SessionNotFoundError` for an
    unknown id and `AgentUnavailableError` for a session of another agent name.
    """

    def __init__(
        self,
        *,
        llm: str | LLMService,
        fallbacks: Sequence[str | LLMService] = (),
        dsn: str | os.PathLike[str] | None = None,
        store: SessionStore | None = None,
        tools: ToolSource | Iterable[ToolDefinition | Callable[..., Any]] = (),
        config: AgentLoopConfig | None = None,
        hooks: AgentHooks | None = None,
        event_bus: AgentEventBus | None = None,
        representation: Representation | None = None,
        fold: FoldStrategy | None = None,
        prompt_source: PromptSource | None = None,
        memory: MemoryProvider | Sequence[MemoryProvider] | None = None,
        token_counter: TokenCounter | None = None,
        schema: SchemaPolicy = SchemaPolicy.AUTO_CREATE,
        durability: Durability = "barrier",
        ambient: Ambient | None = None,
        prices: Prices | Literal["auto"] | None = None,
        executor: Executor | None = None,
        permissions: Permissions | None = None,
    ) -> None:
        """Opens the store at once; the model is reached with the first send.

        `llm`: "provider:model" (keys from the environment) or anything with `complete` or `stream`. `fallbacks`: models
        of the same kinds that are asked in this order when the one before gives up, each opened when it is first needed.
        `dsn`: a path or DSN, default `.loopwright/sessions.db`; or `store`, which stays open after this loop.
        `tools`: functions, definitions or a registry; `recall_send` and `recall_folded` come behind them where a context
        budget or `representation` (how finished sends are shown, by default verbatim) leaves things out.
        `fold`: what puts the oldest sends into a note, by default `LLMSummaryFold()`. `prompt_source`: what of the
        instructions stands in files (`PromptFiles`). `memory`: what is recalled for a send and told of its end (`StoreMemory`);
        one provider or several. `token_counter`: a tokenizer, by default tiktoken where it is installed (extra `tokens`).
        `prices`: what calls cost, such as a `PriceTable`; "auto" takes the list prices of providers (extra `prices`).
        `executor`: where agents of workflows run, by default here; it stays the host's. `ambient`: clock and ids, for tests.
        `permissions`: what calls may do, a `PermissionPolicy` or what `load_permissions` read; None: all that hooks let pass.
        Raises: `ConfigError`, `StoreSchemaError` and the other store errors.
        """
        if config is not None and not isinstance(config, AgentLoopConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"config must be an AgentLoopConfig, not {type(config).__name__}")
        if dsn is not None and store is not None:
            raise ConfigError("pass dsn or store, not both")
        self._owned_store = store is None
        self._owned_llm = isinstance(llm, str)
        check_model(llm)
        service = service_factory.create_llm_service(llm) if isinstance(llm, str) else llm
        settings = config or AgentLoopConfig()
        given: dict[str, Any] = {"representation": representation, "fold": fold, "prompt_source": prompt_source}
        given |= {"memory": memory, "token_counter": token_counter}
        context = None if all(part is None for part in given.values()) else forms.context_parts(**given)
        costed = prices is not None or has_cost_budget(settings)
        list_of_prices = forms.source_of_prices(prices, settings) if costed else None
        source: ToolSource = NoTools() if tools == () else forms.source_of_tools(tools, settings.defer_tools_beyond)
        if settings.context_budget_tokens is not None or representation is not None:
            source = forms.recalling(source, settings, representation)
        # A run outlives whatever its lease outlives: its commits wait for a store that is away for as long.
        wait_s = max(BUSY_WAIT_S, settings.lease_ttl_s)
        self._store = store or open_store(
            default_path() if dsn is None else dsn, schema=schema, durability=durability, busy_wait_s=wait_s
        )
        if executor is not None:
            forms.attach(executor, self._store)
        self._kernel = Kernel(
            store=self._store,
            llm=service,
            chain=forms.chain_of_models(service, fallbacks) if fallbacks else None,
            tools=source,
            config=settings,
            hooks=hooks or AgentHooks(),
            bus=event_bus or AgentEventBus(),
            ambient=ambient or RealAmbient(),
            limits=Limits(
                max_continuations=settings.max_continuations,
                max_corrections=settings.max_corrections,
                validate=_validate,
                fold=FoldPolicy()
                if context is None and settings.notes is None
                else forms.fold_policy(fold, settings, remembers=context is not None and bool(context.memory)),
            ),
            context=context,
            own_fold=lambda: summary_fold.LLMSummaryFold(),  # noqa: PLW0108 - loaded when it is asked
            own_counter=lambda: tiktoken_counter.shared_counter(),  # noqa: PLW0108 - loaded when it is asked
            keeper=LeaseKeeper(self._store, ttl_s=settings.lease_ttl_s, loop_stall_s=settings.loop_stall_s),
            prices=list_of_prices,
            executor=executor,
            permissions=None if permissions is None else forms.source_of_permissions(permissions),
        )
        self._admission = Admission(self._kernel)
        self._in_flight = InFlight()
        self._serving: set[CancellationToken] = set()
        self._closed = False

    async def __aenter__(self) -> StatefulAgentLoop:
        self._counted()  # from now on it is open, and fires its timers
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def hooks(self) -> AgentHooks:
        """Hooks of this loop."""
        return self._kernel.hooks

    @property
    def event_bus(self) -> AgentEventBus:
        """Events of this loop."""
        return self._kernel.bus

    @property
    def store(self) -> SessionStore:
        """The store, for what operators need: `uncertain_calls()`, `check()`, `ddl()`."""
        return self._store

    @property
    def config(self) -> AgentLoopConfig:
        """The settings."""
        return self._kernel.config

    async def new_session(
        self,
        *,
        system_prompt: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        title: str = "",
        session_id: str | None = None,
    ) -> str:
        """Makes a session and returns its id ("sess_" and 24 hex digits, or the given one).

        Raises: `SessionExistsError` when the given id was ever used.
        """
        self._check_open()
        kernel = self._kernel
        sid = kernel.ambient.new_id("sess") if session_id is None else usable_id(session_id)
        at = kernel.ambient.now()
        created = SessionCreated(sid, kernel.config.agent_name, system_prompt, dict(metadata or {}))
        records, rows = first_records(kernel.config, created, at)
        needs = format_needed(rows)
        kernel.ambient.reach("create.before")
        await self._store.create(
            NewSession(
                session_id=sid, agent_name=created.agent_name, records=rows, at=at, title=title, min_format=needs
            )
        )
        kernel.ambient.reach("create.after")
        self._admission.created(sid, records, at, needs)
        return sid

    async def send(
        self,
        message: MessageLike | str,
        *,
        session_id: str | None = None,
        send_id: str | None = None,
        tools: Sequence[str] | ToolSource | None = None,
        system_prompt: str | None = None,
        max_rounds: int | None = None,
        run_token_budget: int | None = None,
        max_output_tokens: int | None = None,
        output_schema: OutputSchema | None = None,
        response_format: StructuredOutputSpec | None = None,
        heal_pending: bool = False,
        metadata: Mapping[str, Any] | None = None,
        stop: Stop = None,
    ) -> StatefulResult:
        """Says something to a session and runs it until the send ends or pauses.

        Without `session_id` a session is made (with `metadata`). The input is durable before the model is asked;
        from then on whatever goes wrong is the result's `status` and `error`, never an exception, except that this
        process lost the session (`SessionFencedError`) or the store (`StoreUnavailableError` …).
        `send_id`: a second send with it joins the first and returns its result. `tools`: names narrow the loop's tools,
        a registry replaces them. `output_schema`: a JSON Schema, a type or a spec; the answer is in `output`.
        `heal_pending`: open calls of an unfinished send are answered as aborted first. `stop`: a token, event or
        predicate that cancels the run.
        Raises before anything is stored: `InvalidMessageError`, `SessionBusyError` (another process runs it),
        `SessionPendingError` (it waits for a person or host), `SessionReentrantError`.
        Concurrency: sends on one session take turns. Cancel: the send ends as cancelled, then the cancellation goes on.
        """
        user = user_message(message, self.config.max_message_bytes)
        schema = response_format if response_format is not None else output_schema
        given = (send_id, tools, system_prompt, max_rounds, run_token_budget, max_output_tokens, schema, stop)
        if heal_pending or given != _NOTHING_GIVEN:
            check_limits(max_rounds, run_token_budget, max_output_tokens)
            options = SendOptions(
                send_id=send_id,
                tools=forms.names_of_tools(tools, self._kernel.tools),
                registry=forms.replacing_source(tools),
                system_prompt=system_prompt,
                max_rounds=max_rounds,
                run_token_budget=run_token_budget,
                max_output_tokens=max_output_tokens,
                output=forms.output_spec(schema),
                heal_pending=heal_pending,
                stop=_source_of_stop(stop),
            )
        else:
            options = AS_SET
        with self._counted():
            sid = session_id if session_id is not None else await self.new_session(metadata=metadata)
            return await self._admission.send(sid, user, options)

    def stream(self, message: MessageLike | str, **options: Any) -> AsyncIterator[AgentEvent]:
        """Like `send` with the same arguments, as an iterator over the run's events; the last one is `run_ended`.

        Raises what `send` raises, at the step where it happens. Closing the iterator early stops the run.
        """
        return watching.watch(self._kernel.bus, lambda: self.send(message, **options))

    async def follow_up(
        self, message: MessageLike | str, *, session_id: str, item_id: str | None = None, stop: Stop = None
    ) -> StatefulResult | FollowUpQueued:
        """Says something without waiting for the session's turn.

        A running session takes it at its next round boundary (`FollowUpQueued` is returned at once); an idle one runs
        it like `send`. Durable when accepted, delivered once; `item_id` is deduplicated for the life of the session.
        """
        user = user_message(message, self.config.max_message_bytes)
        with self._counted():
            item = item_id or self._kernel.ambient.new_id("item")
            return await self._admission.follow_up(session_id, user, item, SendOptions(stop=_source_of_stop(stop)))

    async def enqueue(
        self, message: MessageLike | str, *, session_id: str, item_id: str | None = None
    ) -> FollowUpQueued:
        """Hands an input to whoever runs this session, and never runs it here: a run takes it at its next round boundary.

        An idle session waits for a worker (`serve`, in any process), for its next send or for `resume`; one that waits
        for a person or a host goes on when that answered. Of any agent name. Durable and deduplicated like `follow_up`.
        """
        user = user_message(message, self.config.max_message_bytes)
        with self._counted():
            item = item_id or self._kernel.ambient.new_id("item")
            return await self._admission.enqueue(session_id, user, item)

    async def resume(self, session_id: str, *, tools: ToolSource | None = None, stop: Stop = None) -> StatefulResult:
        """Continues an interrupted send; without one, runs once more without new input.

        `tools`: the registry that the send was given, when it replaced the loop's own.
        Raises: `AgentUnavailableError` when an open call needs a tool that is not here; nothing is taken then.

        A session that waits for a person or host returns that result unchanged.
        """
        with self._counted():
            return await self._admission.resume(
                session_id, SendOptions(registry=forms.replacing_source(tools), stop=_source_of_stop(stop))
            )

    async def recover(self, *, limit: int = 1000) -> list[Recovered]:
        """Finds and continues every interrupted session of this agent whose process is gone; several run side by side."""
        with self._counted():
            return await recovery.recover(self._kernel, self._admission, limit)

    async def serve(
        self,
        *,
        stop: Stop = None,
        settings: WorkerSettings | None = None,
        once: bool = False,
        handle_signals: bool = False,
        on_session: Callable[[SessionNews], None] | None = None,
        accepts: Callable[[str], Awaitable[bool]] | None = None,
    ) -> WorkDone:
        """Runs sessions of this agent that nobody runs: interrupted ones, those with waiting messages, due timers.

        Any number of workers, on any machines, may serve one store. Returns when `stop` is set, with `once` as soon as
        there is nothing left to do, or when the loop is closed: runs get `drain_timeout_s` to end, the rest is left
        interrupted with its lease given back. `handle_signals`: SIGTERM and SIGINT stop it, a second one without
        draining. `on_session` hears of each session. `accepts`: False leaves a session to others for a while.
        A store that is away is waited for. Raises: `StoreError`, and what `WorkerSettings.away_limit_s` says.
        Cancel: what runs is left as if the drain time were over.
        """
        stopping = CancellationToken.from_any(stop).child()
        order = worker.WorkerOrder(
            settings=settings or WorkerSettings(),
            once=once,
            handle_signals=handle_signals,
            on_session=on_session,
            accepts=accepts,
        )
        with self._counted():
            self._serving.add(stopping)
            try:
                return await worker.serve(self._kernel, self._admission, order, stopping)
            finally:
                self._serving.discard(stopping)

    async def submit_input(self, session_id: str, interaction_id: str, value: Any, *, by: str = "") -> StatefulResult:
        """Answers a question that a run waits for, from any process, and goes on.

        Raises: `InteractionError` when it is not open (answered twice included), `InvalidMessageError` when the value
        does not fit the question; nothing is stored then.
        """
        with self._counted():
            return await self._answers.submit_input(session_id, interaction_id, value, by)

    async def submit_tool_results(self, session_id: str, results: Mapping[str, Any]) -> StatefulResult:
        """Hands in results of calls that the host executed, by call id, all or none, and goes on.

        A value is text, a dict, or a `ToolHandlerResult`. Raises: `ToolResultError` for a call that is unknown or
        answered already; nothing is stored then.
        """
        with self._counted():
            return await self._answers.submit_tool_results(session_id, results)

    async def abort_pending(self, session_id: str, *, reason: str = "aborted") -> int:
        """Ends an unfinished send: open calls are answered `<aborted: reason>`; returns how many. 0 when nothing is open."""
        with self._counted():
            return await self._answers.abort_pending(session_id, reason)

    async def stop(self, session_id: str, *, reason: str = "stopped") -> bool:
        """Stops a running send in this or another process, or a `fold` in this one; True when there was one to stop."""
        self._check_open()
        return await self._answers.stop(session_id, reason)

    async def fork(
        self, session_id: str, *, at: int | None = None, new_session_id: str | None = None, title: str | None = None
    ) -> str:
        """Makes a session that goes on from a round boundary of another one, and returns its id; nothing is copied.

        `at`: a position of the journal, by default the newest boundary; what came later is not in the fork, and calls open
        there are answered as aborted in it. The original is not touched and may be running, here or elsewhere. The fork
        counts its own sends and usage. `title`: by default the original's.
        Raises: `ForkPositionError` naming the nearest boundaries, `SessionExistsError` for a given id that was ever used,
        `ConfigError` on a store without forks, `WorkflowRunError` for a workflow run. Cost: the original is read whole, the fork is one commit.
        """
        self._check_open()
        return await forking.fork(self._kernel, session_id, at, new_session_id, title)

    async def close_session(self, session_id: str, *, cascade: bool = True, copy_to_forks: bool = False) -> int:
        """Deletes a session with its linked children, after its turn is over here; returns how many went.

        Raises: `SessionReferencedError` when forks of it stay, unless `copy_to_forks` gives them what they read of it.
        """
        self._check_open()
        async with ACTORS.turn(self._store.identity, session_id, self._kernel.config.session_cache_size) as actor:
            gone = await self._store.delete(session_id, cascade=cascade, copy_to_forks=copy_to_forks)
            actor.forget()
        ACTORS.drop(self._store.identity, session_id)
        return gone

    async def new_epoch(self, session_id: str, *, reason: str = "asked for") -> bool:
        """Takes instructions, tools and files as they are now for the session's next requests; the provider's cache breaks.

        False when there is nothing to freeze. `reason`: for people, at most 200 characters.
        Raises: `SessionPendingError` while a send is open, `ConfigError` for a longer reason.
        """
        with self._counted():
            return await self._admission.in_turn(session_id, lambda turn: epochs.asked_for(turn, reason))

    async def fold(self, session_id: str) -> bool:
        """Puts all but the newest sends into a note now, with the session's turn; False when there is nothing to fold.

        Raises: `SessionPendingError` while a send is open, `CompactionFailed` when no note was made; what it cost is stored.
        """
        with self._counted():
            return await self._admission.in_turn(session_id, folding.fold_asked)

    async def prewarm(self, session_id: str) -> bool:
        """Loads a session's state into memory ahead of its next send; False when it was warm."""
        self._check_open()
        return await self._admission.prewarm(session_id)

    async def aclose(self, *, drain_timeout_s: float = 30.0) -> None:
        """Waits for running sends, then closes what this loop opened; sends after this raise `LoopClosedError`.

        Sends still running after `drain_timeout_s` are left interrupted: the next process continues them.
        """
        if self._closed:
            return
        self._closed = True
        beside.closing(self._kernel)
        for serving in self._serving:
            serving.cancel("the loop is closed")
        await self._in_flight.drained(drain_timeout_s)
        await beside.closed(self._kernel, drain_timeout_s)
        await self._kernel.bus.drain()
        self._kernel.keeper.stop()
        if self._owned_store:
            ACTORS.drop(self._store.identity)
            await self._store.aclose()
        if self._owned_llm:
            await self._kernel.llm.aclose()
        if self._kernel.chain is not None:
            await self._kernel.chain.aclose()

    @property
    def _answers(self) -> Answers:
        return answers.Answers(self._kernel, self._admission)

    def _counted(self) -> InFlight:
        self._check_open()
        if not self._timed:
            self._watch_timers()
        return self._in_flight

    def _check_open(self) -> None:
        if self._closed:
            raise LoopClosedError("this loop is closed; open a new StatefulAgentLoop on the same dsn")


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Runs one coroutine to its end from code without an event loop: open a loop, send and close it inside of it."""
    return asyncio.run(work)


def _source_of_stop(stop: Stop) -> Stop:
    """Before anything is accepted: what cannot stop a run is an error and not silence."""
    return stop if stop is None else CancellationToken.from_any(stop)


def _validate(schema: dict[str, Any], value: Any) -> str | None:
    return validation.schema_problems(schema, value)
