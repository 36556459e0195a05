"""What a tool call may do with workflow runs.

Owns: `CallWorkflows`; see `ports.workflow_runs.WorkflowRuns` for the promises. Must not know: how runs go on.
Loaded by the first call that asks for it. Read next: `children.py`, `workflow_progress.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..core.workflow_check import parse_workflow_spec, problems_of
from ..model.errors import SessionGoneError, SessionNotFoundError
from ..model.family_errors import SpawnRefusedError
from ..model.workflow_spec import WorkflowSpec
from ..ports.child_agents import ChildResult
from .running import RunContext
from .tree_stops import stop_tree
from .workflow_progress import info_of
from .workflows import check_input

if TYPE_CHECKING:
    from ..ports.store import Head
    from .children import CallChildren

SHOWN_STEPS: Final = 50
"""Steps that a status shows one by one: those that did not complete first."""


class CallWorkflows:
    """Workflow runs of one call."""

    def __init__(self, run: RunContext, children: CallChildren) -> None:
        self._run = run
        self._children = children

    def problems(self, spec: object) -> list[str]:
        """Everything that is wrong with a spec."""
        return [str(one) for one in problems_of(spec, tools=self._tools())]

    async def run(self, spec: object, given: Any = None) -> ChildResult:
        """Runs a workflow to its end."""
        return await self._children.run_workflow(self._checked(spec, given), given)

    async def start(self, spec: object, given: Any = None) -> str:
        """Starts a workflow beside everything else."""
        return await self._children.start_workflow(self._checked(spec, given), given)

    async def status(self, run_id: str) -> Mapping[str, Any]:
        """How far a run is."""
        info = await info_of(self._run.kernel, await self._mine(run_id))
        steps = sorted(info.steps, key=lambda step: step.status == "completed")[:SHOWN_STEPS]
        shown: dict[str, Any] = {
            "run_id": info.run_id,
            "workflow": info.name,
            "status": info.status,
            "counts": info.counts,
            "steps": [
                {"path": step.path, "status": step.status}
                | ({} if step.error_message is None else {"error": step.error_message[:500]})
                for step in steps
            ],
        }
        if info.pending_interactions:
            shown["waits_for_a_person"] = [one.prompt for one in info.pending_interactions]
        return shown

    async def cancel(self, run_id: str) -> bool:
        """Stops a run."""
        await self._mine(run_id)
        return await stop_tree(self._run.kernel, run_id, "stopped by the session that started it")

    def _tools(self) -> tuple[str, ...]:
        """Names of the tools that steps may use: those of this send."""
        return self._run.send.start.tools or self._run.tools.names()

    def _checked(self, given: object, value: Any) -> WorkflowSpec:
        raw = msgspec.to_builtins(given) if isinstance(given, WorkflowSpec) else given
        spec = parse_workflow_spec(raw, tools=self._tools())
        check_input(self._run.kernel, spec, value)
        return spec

    async def _mine(self, run_id: str) -> Head:
        """The head. Raises `SpawnRefusedError` for a session that is no run of this one."""
        try:
            head = (await self._run.kernel.store.lookup(run_id)).head
        except (SessionNotFoundError, SessionGoneError):
            head = None
        if head is None or head.parent_id != self._run.session_id or head.kind != "workflow":
            raise SpawnRefusedError(self._run.session_id, f"{run_id!r} is no workflow run of this session")
        return head
