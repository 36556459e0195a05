"""What all steps of one run share.

Owns: `RunContext`: the journal, the token, the tools this send may use. Must not know: the order of steps.
Read next: `run.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from ..config import AgentLoopConfig
from ..core.state import SendFacts, State
from ..late import Late
from ..model.codec import decode
from ..model.errors import SessionFencedError, ToolNotFound
from ..model.event_types import AgentEventType
from ..model.messages import Message, UserMessage
from ..model.records import Record, SendStarted, ToolAbandoned, UserMessageAdded
from ..model.specs import ToolSpec
from ..ports.cancellation import CancellationToken
from ..ports.store import InboxItem
from ..ports.tool import TOOL_SEARCH, ToolDefinition, ToolSource
from .journal import Journal
from .kernel import Kernel

if TYPE_CHECKING:
    from ..core import window as windows
    from ..ports import hook
    from . import attachments, wakes
    from .attachments import Attachments
    from .session_lists import Draft, Written
    from .timer_draft import TimerDraft
else:
    windows = Late("loopwright.core.window")
    hook = Late("loopwright.ports.hook")
    attachments = Late("loopwright.engine.attachments")
    wakes = Late("loopwright.engine.wakes")

_log = logging.getLogger("loopwright.run")


class RunContext:
    """One run of one send."""

    __slots__ = (
        "_attachments",
        "_path",
        "_specs",
        "abandoned",
        "allowed",
        "drafted",
        "journal",
        "kernel",
        "model_place",
        "promised",
        "recalled",
        "reported",
        "round",
        "session_id",
        "spawning",
        "timer_drafts",
        "timers_settled",
        "token",
        "tools",
    )

    def __init__(self, kernel: Kernel, journal: Journal, token: CancellationToken, tools: ToolSource) -> None:
        self.kernel = kernel
        self.journal = journal
        self.session_id = journal.session_id
        """The session that runs."""
        self.token = token
        self.tools = tools
        self.round = 0
        self.model_place = 0
        """Which model of the chain this send asks: once it moved on it stays there."""
        self.recalled: tuple[str, ...] | None = None
        """What memory says to this send; None before it was asked."""
        self.drafted: list[tuple[Draft, Written]] = []
        """What calls wrote to notes and the todo list and is not stored yet, in the order of writing."""
        self.promised: set[str] = set()
        """Item ids of kept signals that calls and steps take with records which are not stored yet."""
        self.reported: frozenset[str] = frozenset()
        """Inbox items that calls answer with their results: reports of children that they waited for."""
        self.spawning: tuple[str, ...] = ()
        """Children that calls are making right now."""
        self.timer_drafts: tuple[TimerDraft, ...] = ()
        """What calls armed and cancelled and is not stored yet."""
        self.timers_settled = 0
        """How many of them were stored or dropped so far."""
        self.abandoned: tuple[ToolAbandoned, ...] = ()
        """Handlers that go on though the run is ending; stored with its end."""
        self.narrow()
        self._attachments: Attachments | None = None
        family = self.state.facts.family
        self._path: tuple[str, ...] | None = None if family is None or family.spawned is None else family.spawned.agents

    def narrow(self) -> None:
        """Takes the tools that the send may use from its facts: a hand-off changes them."""
        names = self.send.start.tools
        self.allowed: frozenset[str] | None = None if names is None else frozenset(names)
        self._specs: tuple[ToolSpec, ...] | None = None

    @property
    def state(self) -> State:
        """The session as of the last commit."""
        state = self.journal.actor.state
        assert state is not None
        return state

    @property
    def send(self) -> SendFacts:
        """The send that runs."""
        state = self.journal.actor.state
        assert state is not None
        assert state.facts.send is not None
        return state.facts.send

    def window(self) -> tuple[Message, ...]:
        """The conversation as the model sees it now."""
        state = self.state
        if state.note is None and not state.projections:
            return tuple(state.messages)
        return windows.window(state)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools that the model sees: those of the prompt epoch, else the registry's, in its order."""
        if (context := self.state.facts.context) is not None and context.epoch is not None:
            return context.epoch.tools
        if self._specs is None:
            self._specs = specs_of(self.tools, self.allowed, found_by(self.state))
        return self._specs

    def tool(self, name: str) -> ToolDefinition:
        """A tool that this send may use. Raises `ToolNotFound`, also for one that exists but is not allowed."""
        found = self.tools.get(name) if self.allowed is None or name in self.allowed else None
        if found is None:
            raise ToolNotFound(name, [spec.name for spec in specs_of(self.tools, self.allowed, found_by(self.state))])
        return found

    @property
    def attachments(self) -> Attachments:
        """Bytes of pictures and files that the requests of this run need."""
        if self._attachments is None:
            self._attachments = attachments.Attachments(self.kernel.store)
        return self._attachments

    async def assure_lease(self) -> None:
        """Right before anything touches the world: raises `SessionFencedError` when the lease may be gone.

        A fence stops writes, not effects, so the clock is asked as well (DESIGN invariant 7).
        """
        if self.kernel.keeper.alive(self.session_id):
            return
        lease = self.journal.lease
        assert lease is not None
        seen = await self.kernel.keeper.renew_now(self.session_id)
        if seen != lease.epoch:
            self.journal.drop_lease()
            self.journal.actor.forget()
            raise SessionFencedError(self.session_id, epoch=lease.epoch, current_epoch=seen)

    @property
    def agents(self) -> tuple[str, ...]:
        """Names from the root's agent to this session's."""
        return self._path or (self.kernel.config.agent_name,)

    @property
    def temperature(self) -> float | None:
        """What the session's persona asks for, else the loop's."""
        family = self.state.facts.family
        own = None if family is None or family.persona is None else family.persona.temperature
        return self.kernel.config.temperature if own is None else own

    def emit(self, kind: AgentEventType, *args: object) -> None:
        """Publishes an event of this run."""
        if kind in self.kernel.bus.wanted:
            self.kernel.emit(self.session_id, kind, *args, round_index=self.round, agents=self._path)

    def note(self, text: str) -> None:
        """Something for the log that changes nothing."""
        _log.warning("session %s: %.2000s", self.session_id, text)


def specs_of(tools: ToolSource, allowed: Collection[str] | None, found: Sequence[str] = ()) -> tuple[ToolSpec, ...]:
    """The definitions that a send shows: in the registry's order, and behind them deferred ones that were found.

    A send that cannot search is shown deferred ones like any other: nothing that it may use is out of its reach.
    """
    names = [name for name in tools.names() if allowed is None or name in allowed]
    if not names:
        return ()
    usable = [tool for name in names if (tool := tools.get(name)) is not None]
    can_search = TOOL_SEARCH in names
    listed = [tool.spec for tool in usable if not (tool.deferred and can_search)]
    if found and can_search:
        deferred = {tool.name: tool for tool in usable if tool.deferred}
        listed += [deferred[name].spec for name in found if name in deferred]
    return tuple(listed)


def found_by(state: State) -> tuple[str, ...]:
    """Deferred tools that searches of the session found."""
    return () if state.facts.control is None else state.facts.control.revealed


def base_prompt(config: AgentLoopConfig, state: State, of_send: str | None) -> str | None:
    """The instructions that the host gave: a send's own before those of a child's spec, the session's, the loop's."""
    if of_send is not None:
        return of_send
    if (family := state.facts.family) is not None and family.persona is not None and family.persona.system_prompt:
        return family.persona.system_prompt
    return state.facts.system_prompt if state.facts.system_prompt is not None else config.system_prompt


def epochs_asked(kernel: Kernel, state: State, start: SendStarted) -> bool:
    """False for a session with nothing to freeze and nothing to project: it has no tools, no instructions, no context parts."""
    if state.workflow is not None:
        return False  # it asks no model itself
    if state.facts.context is not None or kernel.context is not None or start.tools:
        return True
    return base_prompt(kernel.config, state, start.system_prompt) is not None


async def said(kernel: Kernel, state: State, items: Sequence[InboxItem]) -> list[Record]:
    """What inbox items say to the session, as records: messages after the hooks saw them."""
    session_id = state.facts.session_id
    records: list[Record] = []
    for item in items:
        if item.kind == "stop":
            continue  # meant for a run that is over
        if item.kind in ("wake", "signal"):
            records += wakes.heard(state, item)
            continue
        message = await before_append(kernel, session_id, decode(item.body, UserMessage), "inbox")
        records.append(UserMessageAdded(message, "inbox", (item.item_id,)))
    return records


async def before_append(
    kernel: Kernel, session_id: str, message: UserMessage, source: Literal["send", "inbox"] = "send"
) -> UserMessage:
    """The message as it is stored: after the hooks that see user messages before that, `without_bytes`."""
    if kernel.hooks.in_use and kernel.hooks.has(hook.HookPoint.MESSAGE_APPEND):
        context = hook.MessageContext(session_id=session_id, message=message, source=source)
        await kernel.hooked(hook.HookPoint.MESSAGE_APPEND, context)
        message = context.message if isinstance(context.message, UserMessage) else message
    return await without_bytes(kernel, session_id, message)


async def without_bytes(kernel: Kernel, session_id: str, message: UserMessage) -> UserMessage:
    """The message without the bytes of its large pictures and files, which are stored first."""
    return message if isinstance(message.content, str) else await attachments.put_away(kernel, session_id, message)
