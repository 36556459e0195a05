"""The parts that a run works with, put together once by the public handle.

Owns: `Kernel` and the making of events. Must not know: sessions.
Read next: `run.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..config import AgentLoopConfig
from ..core.decide import Limits
from ..core.output import Validate
from ..model.events import AgentEvent, AgentEventType, EventData
from ..ports.ambient import Ambient
from ..ports.llm import LLMService
from ..ports.store_admin import SessionStore
from ..ports.tool import ToolSource
from .bus import AgentEventBus
from .hooks import AgentHooks
from .keeper import LeaseKeeper


class Kernel:
    """Store, model, tools, hooks, bus, clock and settings of one loop object."""

    __slots__ = ("_seq", "ambient", "bus", "config", "hooks", "keeper", "limits", "llm", "store", "tools")

    def __init__(
        self,
        *,
        store: SessionStore,
        llm: LLMService,
        tools: ToolSource,
        config: AgentLoopConfig,
        hooks: AgentHooks,
        bus: AgentEventBus,
        ambient: Ambient,
        validate: Validate,
    ) -> None:
        self.store = store
        self.llm = llm
        self.tools = tools
        self.config = config
        self.hooks = hooks
        self.bus = bus
        self.ambient = ambient
        self.keeper = LeaseKeeper(store, ttl_s=config.lease_ttl_s, loop_stall_s=config.loop_stall_s)
        self.limits = Limits(
            max_continuations=config.max_continuations, max_corrections=config.max_corrections, validate=validate
        )
        self._seq = 0

    def emit(
        self, session_id: str, kind: AgentEventType, make: Callable[..., EventData], *args: Any, round_index: int = 0
    ) -> None:
        """Publishes `make(*args)`; without a subscriber of this kind nothing is made."""
        if kind not in self.bus.wanted:
            return
        self._seq += 1
        self.bus.publish(
            AgentEvent(
                type=kind,
                session_id=session_id,
                data=make(*args),
                seq=self._seq,
                at=self.ambient.now(),
                mono=self.ambient.monotonic(),
                round_index=round_index,
                agent=(self.config.agent_name,),
            )
        )
