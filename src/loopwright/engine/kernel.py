"""The parts that a run works with, put together once by the public handle.

Owns: `Kernel` and the making of events. Must not know: sessions.
Read next: `run.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ..config import AgentLoopConfig
from ..core.decide import Limits
from ..late import Late
from ..model.event_types import AgentEventType
from ..ports.ambient import Ambient
from ..ports.llm import LLMService
from ..ports.tool import ToolSource
from .bus import AgentEventBus
from .deadlines import Deadlines
from .hooks import AgentHooks
from .keeper import LeaseKeeper

if TYPE_CHECKING:
    from ..core.calibration import Learned
    from ..model import events
    from ..ports.executor import Executor
    from ..ports.fold import FoldStrategy
    from ..ports.hook import HookContext
    from ..ports.hook_points import HookPoint
    from ..ports.permission_source import PermissionSource
    from ..ports.prices import Prices
    from ..ports.store_admin import SessionStore
    from ..ports.token_counter import TokenCounter
    from .admission import Admission
    from .context_parts import ContextParts
    from .model_chain import ModelChain
    from .timer_service import TimerService
    from .tool_slots import ToolSlots
    from .turn import Turn
else:
    events = Late("loopwright.model.events")
    Admission = Executor = Turn = ContextParts = FoldStrategy = Learned = Any
    ModelChain = PermissionSource = Prices = TimerService = TokenCounter = ToolSlots = Any


class Kernel(Struct, kw_only=True):
    """Store, model, tools, hooks, bus, clock and settings of one loop object."""

    store: SessionStore
    llm: LLMService
    chain: ModelChain | None = None
    """`llm` and the models behind it; None when there is no other."""
    tools: ToolSource
    config: AgentLoopConfig
    hooks: AgentHooks
    bus: AgentEventBus
    ambient: Ambient
    limits: Limits
    keeper: LeaseKeeper
    prices: Prices | None = None
    """What calls cost; None counts tokens alone."""
    permissions: PermissionSource | None = None
    """What calls may do; None: everything that hooks let pass."""
    deadlines: Deadlines = msgspec.field(default_factory=Deadlines)
    context: ContextParts | None = None
    """What the host gave for the model's context; None: every part as it is without being asked for."""
    own_fold: Callable[[], FoldStrategy] | None = None
    """The strategy where the host gave none; None: nothing is ever folded."""
    own_counter: Callable[[], TokenCounter | None] | None = None
    """The tokenizer where the host gave none; it answers None when there is none."""
    counting: bool = True
    """False once there turned out to be no tokenizer, or one that does not work."""
    learned: dict[str, Learned] = msgspec.field(default_factory=lambda: {})
    """What replies taught about token counts in all sessions of this loop, by model."""
    answered: dict[int, str] = msgspec.field(default_factory=lambda: {})
    """The model that answered last, by the identity of a service that does not say beforehand whom it asks."""
    admission: Admission | None = None
    """The entrances of this loop; a run needs them for its children."""
    executor: Executor | None = None
    """Where agents of workflows run; None: in this process."""
    left_on_close: dict[str, Turn] = msgspec.field(default_factory=lambda: {})
    """Runs beside those that somebody waits for, by session."""
    background: set[asyncio.Task[None]] = msgspec.field(default_factory=set[asyncio.Task[None]])
    """Work beside the runs: folds, and what memory is told."""
    timer_service: TimerService | None = None
    """Who fires the timers of this loop, once it was begun."""
    slots: ToolSlots | None = None
    """Slots of tools with a limit of their own, once one of them was called."""
    closing: bool = False
    """True once the loop is being closed: nothing beside the runs is begun any more."""
    events: int = 0
    """Events made so far: the `seq` of the newest one."""

    async def hooked(self, point: HookPoint, context: HookContext) -> None:
        """Calls the hooks of a point and tells observers what guardrails among them decided. Raises `HookFailedError`."""
        try:
            await self.hooks.run(point, context)
        finally:
            for decision in context.decisions:
                kind = AgentEventType.GUARDRAIL_DECIDED
                self.emit(context.session_id, kind, *decision, round_index=context.round_index)

    def emit(
        self,
        session_id: str,
        kind: AgentEventType,
        *args: Any,
        round_index: int = 0,
        agents: tuple[str, ...] | None = None,
    ) -> None:
        """Publishes an event with the payload of its kind, made of `args`; without a subscriber nothing is made.

        `agents`: names from the root's agent to the session's, where it is a child.
        """
        if kind not in self.bus.wanted:
            return
        self.events += 1
        self.bus.publish(
            events.AgentEvent(
                type=kind,
                session_id=session_id,
                data=events.PAYLOADS[kind](*args),
                seq=self.events,
                at=self.ambient.now(),
                mono=self.ambient.monotonic(),
                round_index=round_index,
                agent=agents or (self.config.agent_name,),
            )
        )
