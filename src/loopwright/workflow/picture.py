"""A workflow as something that can be drawn: boxes in boxes, with a few words on each.

Owns: `PictureNode`, what a picture says about each node of a spec, `clean` for text that anybody may have written.
Must not know: what happened in a run (`picture_marks.py`), any output format.
Read next: `picture_marks.py`, `picture_mermaid.py`, `picture_svg.py`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct

from ..core.workflow_plan import JUDGE, PlanNode, planned
from ..model.workflow_spec import (
    AgentNode,
    ApproveNode,
    Condition,
    Judge,
    ToolNode,
    WaitNode,
    WorkflowNode,
    WorkflowSpec,
)

NodeShape: TypeAlias = Literal[
    "agent", "tool", "approve", "wait", "workflow", "judge", "sequence", "parallel", "foreach", "branch", "loop"
]

MOST_WORDS: Final = 200
"""Characters of one text in a picture, before a format cuts it to the room there is."""

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that drive terminals, turn the direction of text or are no text at all."""


class PictureNode(Struct, frozen=True, kw_only=True):
    """One node of the spec as it is drawn."""

    key: str
    """Unique in the picture: the step's name in paths; within a sub-workflow behind the name of its step and a slash."""
    shape: NodeShape
    title: str
    """Its id, or what it is."""
    detail: str = ""
    """What it does, in a few words; one line, at most `MOST_WORDS` characters."""
    children: tuple[PictureNode, ...] = ()
    labels: tuple[str, ...] = ()
    """Of a branch: for which case each child is."""
    fallback: PictureNode | None = None
    judge: PictureNode | None = None
    inside: str = ""
    """The sub-workflow that it is in: the names of the steps that run it; "" for the workflow itself."""
    plan: PlanNode

    @property
    def is_leaf(self) -> bool:
        """True for a step that does work."""
        return self.plan.kind == "leaf"

    def walk(self) -> Iterator[PictureNode]:
        """The node and everything in it, from the top down."""
        waiting: list[PictureNode] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            more: list[PictureNode] = [*node.children, *(one for one in (node.judge, node.fallback) if one is not None)]
            waiting += reversed(more)


def clean(text: str, most: int = MOST_WORDS) -> str:
    """`text` on one line of at most `most` characters, a blank for each character that nobody sees."""
    short = text[: most * 2 + 1]
    line = " ".join("".join([" " if unicodedata.category(c) in _UNSEEN else c for c in short]).split())
    return line if len(line) <= most and len(short) == len(text) else line[: most - 1] + "…"


def span_text(seconds: float) -> str:
    """A duration: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    if seconds < 89.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def picture_of(spec: WorkflowSpec) -> PictureNode:
    """The root of a spec that was checked."""
    return _drawn(planned(spec), "")


def _drawn(plan: PlanNode, inside: str) -> PictureNode:
    spec = plan.spec
    shape: NodeShape = "judge" if isinstance(spec, Judge) else spec.__struct_config__.tag
    children = tuple([_drawn(child, inside) for child in plan.children])
    if isinstance(spec, WorkflowNode):
        children = (_drawn(planned(spec.workflow), f"{inside}{plan.name}/"),)
    return PictureNode(
        key=inside + plan.name,
        inside=inside[:-1],
        shape=shape,
        title=plan.id or shape,
        detail=clean(_detail(plan)),
        children=children,
        labels=_labels(plan),
        fallback=None if plan.fallback is None else _drawn(plan.fallback, inside),
        judge=None if plan.judge is None else _judge(plan, plan.judge, inside),
        plan=plan,
    )


def _judge(loop: PlanNode, plan: PlanNode, inside: str) -> PictureNode:
    key, detail = judge_key(inside + loop.name), clean(f"agent {plan.spec.spec.name}")
    return PictureNode(key=key, inside=inside[:-1], shape="judge", title="judge", detail=detail, plan=plan)


def judge_key(loop: str) -> str:
    """The key of the judge of a loop."""
    return f"{loop}/{JUDGE}"


def _labels(plan: PlanNode) -> tuple[str, ...]:
    if plan.kind != "branch":
        return ()
    names = {place: case for case, place in plan.cases.items()}
    return tuple([clean(names.get(place, "else"), 60) for place in range(len(plan.children))])


def _detail(plan: PlanNode) -> str:
    spec = plan.spec
    match plan.kind:
        case "leaf":
            when = getattr(spec, "when", None)
            return _work(spec) + ("" if when is None else f", when {condition_text(when)}")
        case "parallel":
            return f"{plan.limit} at once" if plan.limit < len(plan.children) else ""
        case "foreach":
            where = spec.items_from if plan.count is None else f"{plan.count:,} items"
            return f"{spec.variable} in {where}, " + ("one by one" if plan.limit == 1 else f"{plan.limit} at once")
        case "branch":
            return f"on {spec.on}"
        case "loop":
            until = "" if spec.until is None else f", until {condition_text(spec.until)}"
            return f"at most {plan.iterations} times{until}"
        case _:
            return ""


def _work(spec: Any) -> str:
    match spec:
        case AgentNode():
            return f"agent {spec.spec.name}"
        case ToolNode():
            return f"tool {spec.tool}"
        case ApproveNode():
            return f"asks: {spec.prompt}"
        case WaitNode(seconds=float() | int() as seconds):
            return f"waits {seconds:g} s" if seconds < 90 else f"waits {span_text(seconds)}"
        case WaitNode():
            return f"waits for signal {spec.signal}" if spec.signal is not None else f"waits until {spec.until}"
        case WorkflowNode():
            return f"workflow {spec.workflow.name}"
        case _:
            return ""


_WORDS: Final = {
    "equals": "=", "not_equals": "≠", "gt": ">", "ge": "≥", "lt": "<", "le": "≤",
    "in": "in", "contains": "contains", "matches": "matches",
}  # fmt: skip


def condition_text(condition: Condition | str) -> str:
    """A condition as a person reads it; long ones are cut."""
    return clean(_condition(condition), 100)


def _condition(given: Condition | str) -> str:
    if isinstance(given, str):
        return given
    if given.every is not None or given.some is not None:
        word = " and " if given.every is not None else " or "
        parts = [_condition(one) for one in (given.every or given.some or ())[:5]]
        return "(" + word.join(parts) + ")"
    if given.negated is not None:
        return f"not {_condition(given.negated)}"
    if given.op is None or given.op == "exists" or given.value is UNSET:
        return f"{given.ref}{' exists' if given.op == 'exists' else ''}"
    return f"{given.ref} {_WORDS.get(given.op, given.op)} {given.value}"
