"""A workflow spec as the machine walks it: nodes with their children, bounds and names, made once for a run.

Owns: `PlanNode`, the names of steps in paths, how many leaves a node may come to. Must not know: what happened in a run.
A path is made of ids: a step's own, behind those of the iterations that it is in, `research[2]/r`. Sequences, parallels
and branches do not show in it, since ids are unique in a spec. A branch without an id is named by its place.
Read next: `workflow_machine.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from ..model.workflow_spec import (
    AgentNode,
    ApproveNode,
    BranchNode,
    ForeachNode,
    LoopNode,
    ParallelNode,
    SequenceNode,
    ToolNode,
    WaitNode,
    WorkflowNode,
)

if TYPE_CHECKING:
    from ..model.workflow_spec import Node, WorkflowSpec

NodeKind = Literal["leaf", "sequence", "parallel", "foreach", "branch", "loop"]

JUDGE: Final = "judge~"
"""The step of a loop's judge; no id can be this."""


class PlanNode(Struct, frozen=True, kw_only=True):
    """One node of the spec."""

    kind: NodeKind
    spec: Any
    """The node itself, of `workflow_spec.py`."""
    name: str
    """Its id, or a name by its place."""
    id: str | None = None
    """What others refer to it by; None when nobody can."""
    children: tuple[PlanNode, ...] = ()
    limit: int = 1
    """Children that run at the same time."""
    halts: bool = True
    """A leaf: its failure is one of the node around it. Others: the first failure inside stops what runs beside it."""
    retries: int = 0
    retry_delay_s: float = 0.0
    fallback: PlanNode | None = None
    judge: PlanNode | None = None
    cases: dict[str, int] = {}
    """Of a branch: which child each case is."""
    default: int | None = None
    """Of a branch: the child where no case fits."""
    iterations: int = 0
    """Of a loop, at most."""
    count: int | None = None
    """Of a foreach: its items, when the spec lists them."""
    leaves: int = 1
    """Leaves in one go through it, each item of a foreach that is decided later counted as one."""


class _Planner:
    def __init__(self) -> None:
        self.places = 0

    def node(self, spec: Node) -> PlanNode:
        self.places += 1
        name = getattr(spec, "id", None) or f"{spec.__struct_config__.tag}~{self.places}"
        match spec:
            case SequenceNode():
                children = tuple([self.node(step) for step in spec.steps])
                return _container("sequence", spec, name, children)
            case ParallelNode():
                children = tuple([self.node(branch) for branch in spec.branches])
                return _container(
                    "parallel", spec, name, children, limit=spec.max_concurrency, halts=spec.on_error == "halt"
                )
            case ForeachNode():
                return self._foreach(spec, name)
            case BranchNode():
                return self._branch(spec, name)
            case LoopNode():
                body, judge = self.node(spec.body), None
                if spec.judge is not None:
                    judge = PlanNode(kind="leaf", spec=spec.judge, name=JUDGE)
                each = body.leaves + (judge is not None)
                return PlanNode(
                    kind="loop",
                    spec=spec,
                    name=name,
                    id=spec.id,
                    children=(body,),
                    judge=judge,
                    iterations=spec.max_iterations,
                    leaves=each * spec.max_iterations,
                )
            case AgentNode() | ToolNode() | ApproveNode() | WaitNode() | WorkflowNode():
                return self._leaf(spec, name)

    def _leaf(self, spec: Any, name: str) -> PlanNode:
        fallback = self.node(spec.fallback) if spec.fallback is not None else None
        return PlanNode(
            kind="leaf",
            spec=spec,
            name=name,
            id=spec.id,
            halts=spec.on_error == "halt",
            retries=spec.retries,
            retry_delay_s=spec.retry_delay_s or 0.0,
            fallback=fallback,
            leaves=1 + (0 if fallback is None else fallback.leaves),
        )

    def _foreach(self, spec: ForeachNode, name: str) -> PlanNode:
        body = self.node(spec.body)
        count = None if spec.items is None else len(spec.items)
        return PlanNode(
            kind="foreach",
            spec=spec,
            name=name,
            id=spec.id,
            children=(body,),
            limit=spec.max_concurrency if spec.parallel else 1,
            halts=spec.on_error == "halt",
            count=count,
            leaves=body.leaves * (1 if count is None else count),
        )

    def _branch(self, spec: BranchNode, name: str) -> PlanNode:
        children, cases = list[PlanNode](), dict[str, int]()
        for case, node in spec.cases.items():
            cases[case] = len(children)
            children.append(self.node(node))
        default = None
        if spec.default is not None:
            default = len(children)
            children.append(self.node(spec.default))
        return PlanNode(
            kind="branch",
            spec=spec,
            name=name,
            id=spec.id,
            children=tuple(children),
            cases=cases,
            default=default,
            leaves=max([child.leaves for child in children], default=0),
        )


def _container(
    kind: NodeKind, spec: Any, name: str, children: tuple[PlanNode, ...], *, limit: int = 1, halts: bool = True
) -> PlanNode:
    leaves = sum([child.leaves for child in children])
    return PlanNode(
        kind=kind, spec=spec, name=name, id=spec.id, children=children, limit=limit, halts=halts, leaves=leaves
    )


def planned(spec: WorkflowSpec) -> PlanNode:
    """The plan of a spec that was checked; its root."""
    return _Planner().node(spec.root)


def ids_of(plan: PlanNode) -> frozenset[str]:
    """Ids of a node and of all nodes in it."""
    found, waiting = set[str](), [plan]
    while waiting:
        node = waiting.pop()
        waiting += [*node.children, *([] if node.fallback is None else [node.fallback])]
        if node.id is not None:
            found.add(node.id)
    return frozenset(found)
