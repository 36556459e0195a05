"""The seam to workflow runs: what a tool handler may do with them.

Owns: the Protocol `WorkflowRuns` behind `ToolContext.agents.workflows`. Must not know: how runs go on (`engine/workflow_run.py`).
Read next: `tools/workflow_authoring.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .child_agents import ChildResult


class WorkflowRuns(Protocol):
    """Workflow runs of the session that made the call.

    A run's id follows from the call, so a handler that is run again after a crash or a wait gets the same run.
    """

    def problems(self, spec: object) -> list[str]:
        """Everything that is wrong with a spec, each with its path; empty when it can be run here."""
        ...

    async def run(self, spec: object, given: Any = None) -> ChildResult:
        """Runs a workflow to its end and answers how it ended; where it waits, the call waits with it (as `Agents.spawn`).

        Raises: `WorkflowSpecError`, `InvalidMessageError` for an input that does not fit, `SpawnRefusedError` beyond the
        limits of depth and number, and for a tool declared `once`.
        """
        ...

    async def start(self, spec: object, given: Any = None) -> str:
        """Starts a workflow beside everything else and answers its id; its end is said to this session, exactly once.

        It does not stop with this session. Raises: as `run`.
        """
        ...

    async def status(self, run_id: str) -> Mapping[str, Any]:
        """How far a run of this session is: status, how many steps have each status, steps, errors, as JSON values.

        Raises: `SpawnRefusedError` when it is no run of this session.
        """
        ...

    async def cancel(self, run_id: str) -> bool:
        """Stops a run of this session; True when there was something to stop. Raises: as `status`."""
        ...
