"""The seam to other agents: what a tool handler may do with children of the session.

Owns: the Protocol `Agents`, what it answers, behind `ToolContext.agents`. Must not know: how children run (`engine/children.py`).
Read next: `tools/agents.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ..model.messages import MessageLike
from ..model.records import Outcome
from ..model.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from ..model.agent_spec import AgentSpec
    from .workflow_runs import WorkflowRuns


class ChildResult(Struct, frozen=True, kw_only=True):
    """How a child's send ended."""

    session_id: str
    name: str
    status: Outcome
    text: str
    output: Any = None
    """The validated structured answer; None when its spec asks for none."""
    rounds: int = 0
    usage: Usage = NO_USAGE
    """Of that send and of the child's own children."""
    error_code: str | None = None
    error_message: str | None = None

    @property
    def ok(self) -> bool:
        """True when it completed."""
        return self.status == "completed"


class ChildInfo(Struct, frozen=True):
    """A child that has not ended, or that still can be talked to."""

    session_id: str
    name: str
    status: str
    """"running" | "waiting" | "idle"."""
    awaited: bool


class Agents(Protocol):
    """Children of the session that made the call.

    A child's id follows from the call and from the order of `spawn` in its handler, so a handler that is run again after
    a crash or a wait gets the same children: what ended is answered at once, what was interrupted goes on.
    """

    async def spawn(self, spec: AgentSpec, task: MessageLike | str) -> ChildResult:
        """Runs a child to the end of its send and answers how it ended.

        When the child waits for a person, or another process runs it, the call waits with it: the handler is left here
        and run again from its start later, so the tool must be declared `pure` or `idempotent`.
        Raises: `SpawnRefusedError` beyond the limits of depth and number, and for a tool declared `once`.
        """
        ...

    async def start(self, spec: AgentSpec, task: MessageLike | str) -> str:
        """Starts a child in the background and answers its id; its end is said to this session like a follow-up.

        Raises: `SpawnRefusedError`.
        """
        ...

    async def wait(self, child_id: str) -> ChildResult:
        """Waits for a child of this session that was started in the background, like `spawn`.

        Raises: `SpawnRefusedError` when it is no child of this session.
        """
        ...

    async def nudge(self, child_id: str, message: MessageLike | str) -> None:
        """Says something to a child; it takes it at its next round, or begins another send. Raises: `SpawnRefusedError`."""
        ...

    async def stop(self, child_id: str, reason: str = "stopped by its parent") -> bool:
        """Stops a child with all its children; True when there was something to stop. Raises: `SpawnRefusedError`."""
        ...

    async def list(self) -> Sequence[ChildInfo]:
        """Children of this session that are still there, newest first."""
        ...

    async def hand_off(self, spec: AgentSpec, reason: str = "") -> None:
        """From the next round on this session answers as another agent, with no more tools than its send has.

        Takes effect with the call's result, in its commit.
        """
        ...

    @property
    def workflows(self) -> WorkflowRuns:
        """Workflow runs of this session: to check, to run, to look at."""
        ...
