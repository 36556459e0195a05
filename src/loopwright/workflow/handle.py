"""A workflow in the hand: checked once, run by any loop.

Owns: `Workflow`, `create_workflow`, `resume_run`. Must not know: how runs go on; a loop is whatever has `workflows`.
Read next: `builder.py`; `../engine/workflows.py` is what a loop has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ..core.workflow_check import parse_workflow_spec
from ..model.workflow_spec import WorkflowSpec

ResultT_co = TypeVar("ResultT_co", covariant=True)


class Runs(Protocol[ResultT_co]):
    """What `StatefulAgentLoop.workflows` can do."""

    async def run(
        self,
        spec: WorkflowSpec,
        input: Any = None,  # noqa: A002 - the word of the spec
        *,
        run_id: str | None = None,
    ) -> ResultT_co:
        """Runs a workflow until it ended, or until only a person can move it on."""
        ...

    async def start(
        self,
        spec: WorkflowSpec,
        input: Any = None,  # noqa: A002 - the word of the spec
        *,
        parent: str | None = None,
        run_id: str | None = None,
    ) -> str:
        """Starts a workflow beside everything else and answers its id."""
        ...

    async def resume(self, run_id: str) -> ResultT_co:
        """Goes on with a run."""
        ...


class HasWorkflows(Protocol[ResultT_co]):
    """A loop."""

    @property
    def workflows(self) -> Runs[ResultT_co]:
        """Its workflow runs."""
        ...


class Workflow(Generic[ResultT_co]):
    """A spec that was checked; it keeps nothing of its runs."""

    def __init__(self, spec: WorkflowSpec) -> None:
        self.spec = spec

    async def run(
        self,
        loop: HasWorkflows[ResultT_co],
        input: Any = None,  # noqa: A002 - the word of the spec
        *,
        run_id: str | None = None,
    ) -> ResultT_co:
        """Runs it on a loop until it ended, or until only a person can move it on; see `Workflows.run`."""
        return await loop.workflows.run(self.spec, input, run_id=run_id)

    async def start(
        self,
        loop: HasWorkflows[ResultT_co],
        input: Any = None,  # noqa: A002 - the word of the spec
        *,
        parent: str | None = None,
        run_id: str | None = None,
    ) -> str:
        """Starts it beside everything else and answers the run's id; see `Workflows.start`."""
        return await loop.workflows.start(self.spec, input, parent=parent, run_id=run_id)


def create_workflow(spec: WorkflowSpec | Mapping[str, Any]) -> Workflow[Any]:
    """A workflow from a spec or its JSON. Raises `WorkflowSpecError` with every problem, each with its path."""
    return Workflow(parse_workflow_spec(msgspec.to_builtins(spec) if isinstance(spec, WorkflowSpec) else dict(spec)))


async def resume_run(loop: HasWorkflows[ResultT_co], run_id: str) -> ResultT_co:
    """Goes on with a run that was interrupted; of one that ended its result. See `Workflows.resume`."""
    return await loop.workflows.resume(run_id)
