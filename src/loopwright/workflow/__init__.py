"""Writing workflows: in Python, as JSON, and by models; loaded when used.

Owns: the builder, the manual for models, pictures, and the public names of `loopwright.workflow`, resolved on first use, with those
of specs, their check and their conditions. It stands below the tools, the engine and the handle, so that all of them may
use it. Must not know: how a run is carried out.
Read next: `builder.py`, `manual.py`, `../core/workflow_check.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.workflow_check import parse_workflow_spec, problems_of
    from ..model.agent_spec import AgentSpec, SubagentLifecycle, parse_agent_spec
    from ..model.family_errors import AgentSpecError, WorkflowSpecError
    from ..model.spec_shape import Problem
    from ..model.workflow_spec import Condition, Judge, Node, WorkflowBudget, WorkflowSpec
    from .builder import (
        agent,
        all_of,
        any_of,
        approve,
        branch,
        compare,
        foreach,
        judge,
        loop,
        none_of,
        parallel,
        sequence,
        spec_as_json,
        subworkflow,
        tool,
        wait,
        workflow,
    )
    from .handle import Workflow, create_workflow, resume_run
    from .manual import workflow_manual, workflow_schema
    from .picture_marks import RunMarks
    from .picture_mermaid import mermaid
    from .picture_svg import svg

_HOME = {
    "AgentSpec": "..model.agent_spec",
    "AgentSpecError": "..model.family_errors",
    "Condition": "..model.workflow_spec",
    "Judge": "..model.workflow_spec",
    "Node": "..model.workflow_spec",
    "Problem": "..model.spec_shape",
    "RunMarks": ".picture_marks",
    "SubagentLifecycle": "..model.agent_spec",
    "Workflow": ".handle",
    "WorkflowBudget": "..model.workflow_spec",
    "WorkflowSpec": "..model.workflow_spec",
    "WorkflowSpecError": "..model.family_errors",
    "agent": ".builder",
    "all_of": ".builder",
    "any_of": ".builder",
    "approve": ".builder",
    "branch": ".builder",
    "compare": ".builder",
    "create_workflow": ".handle",
    "foreach": ".builder",
    "judge": ".builder",
    "loop": ".builder",
    "mermaid": ".picture_mermaid",
    "none_of": ".builder",
    "parallel": ".builder",
    "parse_agent_spec": "..model.agent_spec",
    "parse_workflow_spec": "..core.workflow_check",
    "problems_of": "..core.workflow_check",
    "resume_run": ".handle",
    "sequence": ".builder",
    "spec_as_json": ".builder",
    "subworkflow": ".builder",
    "svg": ".picture_svg",
    "tool": ".builder",
    "wait": ".builder",
    "workflow": ".builder",
    "workflow_manual": ".manual",
    "workflow_schema": ".manual",
}

__all__ = [
    "AgentSpec",
    "AgentSpecError",
    "Condition",
    "Judge",
    "Node",
    "Problem",
    "RunMarks",
    "SubagentLifecycle",
    "Workflow",
    "WorkflowBudget",
    "WorkflowSpec",
    "WorkflowSpecError",
    "agent",
    "all_of",
    "any_of",
    "approve",
    "branch",
    "compare",
    "create_workflow",
    "foreach",
    "judge",
    "loop",
    "mermaid",
    "none_of",
    "parallel",
    "parse_agent_spec",
    "parse_workflow_spec",
    "problems_of",
    "resume_run",
    "sequence",
    "spec_as_json",
    "subworkflow",
    "svg",
    "tool",
    "wait",
    "workflow",
    "workflow_manual",
    "workflow_schema",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
