"""What a workflow is, as strict data that a person or a model can write: `WorkflowSpec` and its nodes.

Owns: the nodes, their fields, bounds and meaning. Must not know: how a spec is checked as a whole, how a run is carried out.
A leaf does work (agent, tool, approve, wait, workflow); a container orders nodes (sequence, parallel, foreach, branch, loop).
The descriptions stand in the manual that models read, and bounds are those of the check; so this is the only place to change.
Rule: journals hold specs. A bound may be widened later, never narrowed, and a default never changes.
Read next: `../core/workflow_check.py`, `../core/workflow_templates.py`, `../core/workflow_conditions.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, field

from .agent_spec import AgentSpec, Name, OutputSchema, ToolName

MAX_NODES = 1_000
"""Of one spec, those of its sub-workflows and fallbacks included."""

MAX_NESTING = 16
"""Nodes inside of each other, sub-workflows included."""

MAX_LEAVES = 10_000
"""Leaves one run may start, each iteration counted."""

MAX_CONCURRENCY = 64
MAX_ITERATIONS = 100
MAX_RETRIES = 5
MAX_TEMPLATE_CHARS = 100_000
MAX_WAIT_S = 366 * 86_400.0

RESERVED = ("input", "index", "feedback")
"""Names that templates know anyway: the run's input, the number of the iteration from 0, and what the judge of the loop
around said last."""

VERDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["done", "reason"],
    "additionalProperties": False,
}
"""What the judge of a loop answers."""

OnError: TypeAlias = Literal["halt", "continue"]
Operator: TypeAlias = Literal[
    "exists", "equals", "not_equals", "contains", "in", "gt", "ge", "lt", "le", "matches"
]  # fmt: skip

NodeId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}\Z",
        description="unique name",
        extra={"rule": "1 to 64 letters, digits, _ and -, with a letter in front"},
    ),
]
Variable = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}\Z",
        extra={"rule": "1 to 64 letters, digits and _, with a letter in front"},
    ),
]
Reference = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}(\.[A-Za-z0-9_-]{1,64}){0,15}\Z",
        extra={"rule": 'a reference such as "node" or "node.key" (no braces)'},
    ),
]
"""What a node gave ("node"), or a part of it ("node.key.0"); also "input.key" and foreach variables."""

Template = Annotated[str, Meta(max_length=MAX_TEMPLATE_CHARS)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_WAIT_S)]
Concurrency = Annotated[int, Meta(ge=1, le=MAX_CONCURRENCY, description="at once")]


class Condition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that holds or not: `ref` with `op` and `value`, or exactly one of `all`, `any`, `not`."""

    ref: Annotated[Reference | None, Meta(description="what is compared")] = None
    op: Annotated[
        Operator | None,
        Meta(description='null: it must be truthy; in "matches" * stands for any text'),
    ] = None
    value: Annotated[Any, Meta(description='a list for "in"')] = UNSET
    every: Annotated[tuple["Condition | Reference", ...], Meta(min_length=1, max_length=50)] | None = field(
        default=None, name="all"
    )
    some: Annotated[tuple["Condition | Reference", ...], Meta(min_length=1, max_length=50)] | None = field(
        default=None, name="any"
    )
    negated: "Condition | Reference | None" = field(default=None, name="not")


class LeafFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every leaf may say beside its own fields."""

    id: NodeId
    when: Annotated[Condition | Reference | None, Meta(description="it is skipped unless this holds")] = None
    on_error: Annotated[
        OnError,
        Meta(description="when all of that failed: halt its container, or continue with what follows"),
    ] = "halt"
    retries: Annotated[int, Meta(ge=0, le=MAX_RETRIES, description="further attempts after a failure")] = 0
    retry_delay_s: Annotated[Annotated[float, Meta(ge=0, le=3_600)] | None, Meta(description="pause before each")] = (
        None
    )
    timeout_s: Annotated[
        Annotated[float, Meta(gt=0, le=MAX_WAIT_S)] | None,
        Meta(description="of one attempt"),
    ] = None
    fallback: Annotated[
        "Node | None", Meta(description="runs when it failed for good, and gives the output instead")
    ] = None


class AgentNode(LeafFields, frozen=True, kw_only=True, tag="agent", tag_field="type"):
    """An agent works on an input; its answer is the output."""

    spec: AgentSpec
    input: Annotated[Template, Meta(description="what it is told")] = "{{input}}"
    inputs_from: Annotated[
        Annotated[tuple[Reference, ...], Meta(max_length=100)],
        Meta(description="outputs added below the input"),
    ] = ()
    output_schema: OutputSchema = None


class ToolNode(LeafFields, frozen=True, kw_only=True, tag="tool", tag_field="type"):
    """A registered tool is called, without a model."""

    tool: Annotated[ToolName, Meta(description="its name")]
    arguments: Annotated[
        dict[str, Any],
        Meta(description="a text that is a single placeholder keeps the JSON type"),
    ] = {}


class ApproveNode(LeafFields, frozen=True, kw_only=True, tag="approve", tag_field="type"):
    """A person is asked; the answer is the output."""

    prompt: Annotated[Template, Meta(min_length=1, description="the question")]
    options: Annotated[
        Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...], Meta(min_length=1, max_length=50)]
        | None,
        Meta(description="answers to choose from"),
    ] = None


class WaitNode(LeafFields, frozen=True, kw_only=True, tag="wait", tag_field="type"):
    """Waits for a span, a time or a signal: exactly one of these."""

    seconds: Annotated[Seconds | None, Meta(description="how long")] = None
    until: Annotated[Template | None, Meta(description="such as 2027-01-31T09:00:00+01:00")] = None
    signal: Annotated[Name | None, Meta(description="its name; the payload is the output")] = None


class WorkflowNode(LeafFields, frozen=True, kw_only=True, tag="workflow", tag_field="type"):
    """A workflow of its own; its names are apart from those around it."""

    workflow: "WorkflowSpec"
    input: Annotated[Any, Meta(description="any JSON")] = "{{input}}"


class SequenceNode(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="sequence",
    tag_field="type",
):
    """One step after the other; the output is that of the last."""

    steps: Annotated[tuple["Node", ...], Meta(min_length=1, max_length=MAX_NODES)]
    id: NodeId | None = None


class ParallelNode(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="parallel",
    tag_field="type",
):
    """All branches at once; the output is {"items": [output of each]}."""

    branches: Annotated[tuple["Node", ...], Meta(min_length=1, max_length=MAX_NODES)]
    id: NodeId | None = None
    max_concurrency: Concurrency = 5
    on_error: Annotated[
        OnError,
        Meta(description="a failure stops the others, or they go on"),
    ] = "halt"


class ForeachNode(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="foreach",
    tag_field="type",
):
    """The body once for each item; the output is {"items": [output of each iteration]}."""

    id: NodeId
    variable: Annotated[Variable, Meta(description="name of the item in templates of the body")] = field(name="as")
    body: "Node"
    items: Annotated[
        Annotated[tuple[Any, ...], Meta(max_length=MAX_LEAVES)] | None,
        Meta(description="either these or items_from"),
    ] = None
    items_from: Annotated[Reference | None, Meta(description="gives a list, or an object with a list in items")] = None
    parallel: Annotated[bool, Meta(description="false: one after the other")] = True
    max_concurrency: Concurrency = 5
    on_error: Annotated[OnError, Meta(description="a failure stops the others, or they go on")] = "halt"


class BranchNode(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="branch",
    tag_field="type",
):
    """The case whose key is the text of `on`, else the default, else nothing; the output is that of the case."""

    on: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_TEMPLATE_CHARS)],
        Meta(description="a reference, or a template"),
    ]
    cases: Annotated[dict[str, "Node"], Meta(min_length=1, max_length=MAX_NODES)]
    default: "Node | None" = None
    id: NodeId | None = None


class Judge(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An agent that says whether a loop is done: it answers {"done": bool, "reason": text}."""

    spec: Annotated[AgentSpec, Meta(description="without output_schema")]
    input: Annotated[Template | None, Meta(description="null: the output of the iteration")] = None


class LoopNode(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="loop",
    tag_field="type",
):
    """The body again until it is done; the output is that of the last iteration."""

    id: NodeId
    body: "Node"
    max_iterations: Annotated[int, Meta(ge=1, le=MAX_ITERATIONS, description="then it ends anyway")]
    until: Annotated[
        Condition | Reference | None, Meta(description="asked after each iteration; either this or judge")
    ] = None
    judge: Annotated[Judge | None, Meta(description="an agent that says whether it is done")] = None


Node = (
    AgentNode
    | ToolNode
    | SequenceNode
    | ParallelNode
    | ForeachNode
    | BranchNode
    | LoopNode
    | ApproveNode
    | WaitNode
    | WorkflowNode
)
"""Any node; `type` says which in JSON."""

Leaf: TypeAlias = AgentNode | ToolNode | ApproveNode | WaitNode | WorkflowNode


class WorkflowBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run may use in all; asked before each leaf."""

    max_tokens: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    max_cost_usd: Annotated[float, Meta(gt=0, le=1e9)] | None = None


class WorkflowSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A workflow. Building one in Python checks nothing: `parse_workflow_spec` does, and so does whoever starts it."""

    name: Annotated[Name, Meta(description="its name")]
    root: Annotated["Node", Meta(description="its node")]
    description: Annotated[str, Meta(max_length=10_000, description="what it is for")] = ""
    input_schema: Annotated[dict[str, Any] | None, Meta(description="JSON Schema of the input")] = None
    budget: WorkflowBudget | None = None
    max_leaves: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_LEAVES)] | None,
        Meta(description="leaves one run may start"),
    ] = None
    metadata: Annotated[dict[str, Any], Meta(description="kept with the run")] = {}
