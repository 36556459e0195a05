"""The tools through which a model writes and runs workflows.

Owns: `create_workflow`, `validate_workflow`, `workflow_status`. Must not know: how runs go on
(`ports/workflow_runs.py` says what can be asked). Their description is the manual made from the types.
Read next: `../ports/workflow_runs.py`, `../workflow/manual.py`.
"""

from __future__ import annotations

from typing import Any, Literal

from ..model.codec import encode
from ..model.family_errors import WorkflowSpecError
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult
from ..workflow.manual import workflow_manual
from .decorator import tool
from .descriptions import description_of


def create_workflow_tool(*, with_manual: bool = True) -> ToolDefinition:
    """`create_workflow`: runs a workflow that the model writes. Effect idempotent: the same call is the same run.

    `with_manual`: its description holds the manual; without, only what the tool does.
    """
    described = description_of("create_workflow")
    if with_manual:
        described = f"{described}\n\n{workflow_manual()}"

    @tool(description=described, effect="idempotent", timeout_s=7 * 86_400.0, touches="session")
    async def create_workflow(
        spec: dict[str, Any],
        ctx: ToolContext,
        input: Any = None,  # noqa: A002 - the word of the spec
        background: bool = False,
    ) -> ToolHandlerResult:
        """Run a workflow.

        Args:
            spec: The workflow, as the manual says.
            input: What it works on: any JSON value, {{input}} in its templates.
            background: Go on at once; how it ended comes later as a message.
        """
        try:
            if background:
                run_id = await ctx.agents.workflows.start(spec, input)
                return ToolHandlerResult(f"run {run_id} has started in the background", data={"run_id": run_id})
            result = await ctx.agents.workflows.run(spec, input)
        except WorkflowSpecError as error:
            return _refused([str(one) for one in error.listed])
        data = {"run_id": result.session_id, "status": result.status}
        said = encode(result.output).decode() if result.output is not None else result.text
        if result.ok:
            return ToolHandlerResult(said, data=data)
        why = result.error_message or said
        return ToolHandlerResult(f"run {result.session_id} ended as {result.status}: {why}", ok=False, data=data)

    return create_workflow


def validate_workflow_tool() -> ToolDefinition:
    """`validate_workflow`: says everything that is wrong with a spec, and runs nothing. Effect pure."""

    @tool(description=description_of("validate_workflow"), effect="pure")
    async def validate_workflow(spec: dict[str, Any], ctx: ToolContext) -> ToolHandlerResult:
        """Check a workflow without running it.

        Args:
            spec: The workflow.
        """
        problems = ctx.agents.workflows.problems(spec)
        return _refused(problems) if problems else ToolHandlerResult("the workflow can be run")

    return validate_workflow


def workflow_status_tool() -> ToolDefinition:
    """`workflow_status`: how far a run of this session is, or stops it. Effect idempotent."""

    @tool(description=description_of("workflow_status"), effect="idempotent", touches="session")
    async def workflow_status(
        run_id: str, ctx: ToolContext, action: Literal["show", "cancel"] = "show"
    ) -> ToolHandlerResult:
        """Look at a workflow run.

        Args:
            run_id: Which run.
            action: Show how far it is, or stop it.
        """
        if action == "cancel":
            stopped = await ctx.agents.workflows.cancel(run_id)
            return ToolHandlerResult(f"run {run_id} was stopped" if stopped else f"run {run_id} was over")
        shown = await ctx.agents.workflows.status(run_id)
        return ToolHandlerResult(encode(shown).decode(), data=dict(shown))

    return workflow_status


def _refused(problems: list[str]) -> ToolHandlerResult:
    lines = [f"{len(problems)} problems; nothing was started:", *[f"- {one}" for one in problems]]
    return ToolHandlerResult("\n".join(lines), ok=False, data={"problems": problems})
