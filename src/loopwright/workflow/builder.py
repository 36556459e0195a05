"""Workflows in Python: one function a node, which yields what the JSON says.

Owns: these functions. Nodes are not checked one by one: `workflow` checks the whole, as a spec from JSON is, and gives the
same value as reading its JSON does. Must not know: rules of the check.

    from loopwright import workflow as wf

    writer = wf.AgentSpec(name="writer", system_prompt="You write.")
    spec = wf.workflow("post", wf.sequence(wf.agent("draft", writer), wf.approve("ok", "Print this?\\n{{draft}}")))

Read next: `../model/workflow_spec.py` (fields and bounds), `../core/workflow_check.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec
from msgspec import UNSET

from ..core.workflow_check import parse_workflow_spec
from ..model.agent_spec import AgentSpec
from ..model.workflow_spec import (
    AgentNode,
    ApproveNode,
    BranchNode,
    Condition,
    ForeachNode,
    Judge,
    LoopNode,
    Node,
    OnError,
    Operator,
    ParallelNode,
    SequenceNode,
    ToolNode,
    WaitNode,
    WorkflowBudget,
    WorkflowNode,
    WorkflowSpec,
)


class LeafOptions(TypedDict, total=False):
    """What every leaf may say, as in JSON."""

    when: Condition | str
    """It is skipped unless this holds."""
    on_error: OnError
    retries: int
    retry_delay_s: float
    timeout_s: float
    fallback: Node
    """Runs when the leaf failed for good, and gives the output in its place."""


class WorkflowOptions(TypedDict, total=False):
    """What a workflow may say beside its name and root, as in JSON."""

    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the input."""
    budget: WorkflowBudget
    max_leaves: int
    metadata: dict[str, Any]


def workflow(name: str, root: Node, **options: Unpack[WorkflowOptions]) -> WorkflowSpec:
    """A workflow, checked; raises `WorkflowSpecError` with all its problems at once."""
    return parse_workflow_spec(WorkflowSpec(name=name, root=root, **options))


def spec_as_json(spec: WorkflowSpec | AgentSpec) -> dict[str, Any]:
    """The JSON values of a spec, without what is its default; read again they give an equal spec."""
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))
    return values


def agent(
    node_id: str,
    spec: AgentSpec,
    *,
    input: str = "{{input}}",  # noqa: A002 - the word of the spec
    inputs_from: Sequence[str] = (),
    output_schema: dict[str, Any] | None = None,
    **options: Unpack[LeafOptions],
) -> AgentNode:
    """An agent works on an input; its answer is the output."""
    return AgentNode(
        id=node_id, spec=spec, input=input, inputs_from=tuple(inputs_from), output_schema=output_schema, **options
    )


def tool(
    node_id: str, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[LeafOptions]
) -> ToolNode:
    """A registered tool is called, without a model."""
    return ToolNode(id=node_id, tool=name, arguments=dict(arguments or {}), **options)


def approve(
    node_id: str, prompt: str, *, options: Sequence[str] | None = None, **leaf: Unpack[LeafOptions]
) -> ApproveNode:
    """A person is asked; the answer is the output."""
    return ApproveNode(id=node_id, prompt=prompt, options=None if options is None else tuple(options), **leaf)


def wait(
    node_id: str,
    *,
    seconds: float | None = None,
    until: str | None = None,
    signal: str | None = None,
    **options: Unpack[LeafOptions],
) -> WaitNode:
    """Waits for a span, a time or a signal: exactly one of them."""
    return WaitNode(id=node_id, seconds=seconds, until=until, signal=signal, **options)


def subworkflow(
    node_id: str,
    spec: WorkflowSpec,
    *,
    input: Any = "{{input}}",  # noqa: A002 - the word of the spec
    **options: Unpack[LeafOptions],
) -> WorkflowNode:
    """A workflow as one step of another."""
    return WorkflowNode(id=node_id, workflow=spec, input=input, **options)


def sequence(*steps: Node, node_id: str | None = None) -> SequenceNode:
    """One step after the other."""
    return SequenceNode(steps=steps, id=node_id)


def parallel(
    *branches: Node, node_id: str | None = None, max_concurrency: int = 5, on_error: OnError = "halt"
) -> ParallelNode:
    """All branches at once."""
    return ParallelNode(branches=branches, id=node_id, max_concurrency=max_concurrency, on_error=on_error)


def foreach(
    node_id: str,
    variable: str,
    items: Sequence[Any] | str,
    body: Node,
    *,
    parallel: bool = True,
    max_concurrency: int = 5,
    on_error: OnError = "halt",
) -> ForeachNode:
    """The body once for each item, which templates call `{{variable}}`; `items` as text is a reference to a list."""
    reference = items if isinstance(items, str) else None
    return ForeachNode(
        id=node_id,
        variable=variable,
        items=None if isinstance(items, str) else tuple(items),
        items_from=reference,
        body=body,
        parallel=parallel,
        max_concurrency=max_concurrency,
        on_error=on_error,
    )


def branch(
    on: str, cases: Mapping[str, Node], *, default: Node | None = None, node_id: str | None = None
) -> BranchNode:
    """The case whose key is the text of `on`, else the default, else nothing."""
    return BranchNode(on=on, cases=dict(cases), default=default, id=node_id)


def loop(node_id: str, body: Node, *, until: Condition | Judge | str, max_iterations: int) -> LoopNode:
    """The body again and again until a condition holds or a judge says that it is done."""
    if isinstance(until, Judge):
        return LoopNode(id=node_id, body=body, judge=until, max_iterations=max_iterations)
    return LoopNode(id=node_id, body=body, until=until, max_iterations=max_iterations)


def judge(spec: AgentSpec, input: str | None = None) -> Judge:  # noqa: A002 - the word of the spec
    """An agent that says whether a loop is done; told the output of the iteration where `input` is None."""
    return Judge(spec=spec, input=input)


def compare(reference: str, op: Operator, value: Any = UNSET) -> Condition:
    """A condition on one output, such as `compare("review.score", "ge", 8)`."""
    return Condition(ref=reference, op=op, value=value)


def all_of(*conditions: Condition | str) -> Condition:
    """Holds when all of them do."""
    return Condition(every=conditions)


def any_of(*conditions: Condition | str) -> Condition:
    """Holds when one of them does."""
    return Condition(some=conditions)


def none_of(*conditions: Condition | str) -> Condition:
    """Holds when none of them does."""
    return Condition(negated=conditions[0] if len(conditions) == 1 else Condition(some=conditions))
