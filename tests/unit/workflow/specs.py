"""Parts of workflow specs as JSON, and strategies for whole ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]


def agent(node_id: str, **more: Any) -> Json:
    return {"type": "agent", "id": node_id, "spec": {"name": "worker"}, **more}


def sequence(*steps: Json, **more: Any) -> Json:
    return {"type": "sequence", "steps": list(steps), **more}


def foreach(node_id: str, body: Json, **more: Any) -> Json:
    items: Json = {} if "items_from" in more else {"items": [1, 2]}
    return {"type": "foreach", "id": node_id, "as": f"{node_id}_item", "body": body, **items, **more}


def loop(node_id: str, body: Json, **more: Any) -> Json:
    return {"type": "loop", "id": node_id, "body": body, "max_iterations": 3, **more}


def spec(root: Json, **more: Any) -> Json:
    return {"name": "w", "root": root, **more}


def nested(draw: st.DrawFn, counter: list[int], depth: int) -> Json:
    """A node with names of its own, which refers to nothing but the input."""
    counter[0] += 1
    own = f"n{counter[0]}"
    kind = draw(
        st.sampled_from(("agent", "tool", "wait", "sequence", "parallel", "foreach", "branch", "loop", "workflow"))
    )
    if depth <= 0 or kind in ("agent", "tool", "wait"):
        leaf: Json = {
            "agent": agent(own, input="Do {{input}}", retries=draw(st.integers(0, 5))),
            "tool": {"type": "tool", "id": own, "tool": "search", "arguments": {"q": "{{input}}", "n": [1, None]}},
        }.get(kind, {"type": "wait", "id": own, "seconds": draw(st.sampled_from((0, 1.5, 60)))})
        if depth > 0 and draw(st.booleans()):
            leaf["fallback"] = nested(draw, counter, depth - 1)
        return leaf
    if kind in ("sequence", "parallel"):
        inner = [nested(draw, counter, depth - 1) for _ in range(draw(st.integers(1, 3)))]
        return {"type": kind, "steps" if kind == "sequence" else "branches": inner, "id": own}
    if kind == "branch":
        return {"type": "branch", "on": "input.kind", "cases": {"a b": nested(draw, counter, depth - 1)}}
    body = nested(draw, counter, depth - 1)
    if kind == "foreach":
        return foreach(own, body, items=draw(st.lists(st.integers() | st.text(max_size=3), max_size=3)))
    if kind == "loop":
        return loop(own, body, until={"not": {"ref": "index", "op": "lt", "value": 2}})
    return {"type": "workflow", "id": own, "workflow": spec(body), "input": {"deep": ["{{input}}"]}}


@st.composite
def valid_specs(draw: st.DrawFn) -> Json:
    return spec(nested(draw, [0], draw(st.integers(0, 3))), description=draw(st.text(max_size=5)))
