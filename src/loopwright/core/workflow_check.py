"""Whether a workflow spec can be run: every fault at once, each with its path, found at bounded cost.

Owns: the rules that types do not say (ids, references, either-or fields, bounds of the whole) and reading a spec from JSON.
Must not know: how runs are carried out. It works on raw JSON, so that one answer names typos and wrong references alike;
where a key or type is probably a typo, what is inside is read as what was probably meant.
Three passes: plain JSON of bounded size (`raw_values.py`), the shape of types (`spec_shape.py`), then the walk in here.
Read next: `workflow_scope.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct

from ..model import workflow_spec as specs
from ..model.agent_spec import AgentSpec, agent_rules, schema_rules
from ..model.family_errors import WorkflowSpecError
from ..model.raw_values import raw_problems
from ..model.spec_shape import Problem, bounded, key_path, kind_of, nearest, read_keys, shape_problems, shown
from ..model.workflow_spec import MAX_LEAVES, MAX_NESTING, MAX_NODES, RESERVED, WorkflowSpec
from .workflow_scope import LEAVES, Known, Patience, Place, Scope
from .workflow_templates import Path, path_of, references_in, references_of

_NODES: Mapping[str, type[Struct]] = {
    "agent": specs.AgentNode,
    "tool": specs.ToolNode,
    "sequence": specs.SequenceNode,
    "parallel": specs.ParallelNode,
    "foreach": specs.ForeachNode,
    "branch": specs.BranchNode,
    "loop": specs.LoopNode,
    "approve": specs.ApproveNode,
    "wait": specs.WaitNode,
    "workflow": specs.WorkflowNode,
}
_KEPT = 1_000
_MANY = 1_000_000
"""Times of a loop that are counted as such; any more are a fault of their own."""
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_REFERENCE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}(\.[A-Za-z0-9_-]{1,64}){0,15}")


def problems_of(value: object, *, tools: Collection[str] | None = None) -> list[Problem]:
    """Every fault of a workflow spec as JSON values (or as a `WorkflowSpec`): at most 100, none when it can be run.

    `tools`: names of the tools there are; None leaves names of tools unchecked. Never raises for any value.
    """
    if isinstance(value, Struct):
        try:
            value = msgspec.to_builtins(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return [Problem("", f"cannot be written as JSON: {error}")]
    if isinstance(value, str | bytes):
        return [Problem("", "must be an object, not text; decode the JSON first")]
    problems, whole = raw_problems(value, "")
    if not whole:
        return bounded(problems)
    problems += shape_problems(value, WorkflowSpec)
    if isinstance(value, Mapping):
        check = _Check(problems, tools)
        check.workflow(cast("Mapping[str, object]", value), "", 0, frozenset())
    return bounded(problems)


def parse_workflow_spec(value: object, *, tools: Collection[str] | None = None) -> WorkflowSpec:
    """A workflow spec from JSON values; raises `WorkflowSpecError` with all problems at once."""
    problems = problems_of(value, tools=tools)
    if problems:
        raise WorkflowSpecError(problems)
    if isinstance(value, Struct):
        # By way of JSON, so that it equals what is read from its JSON, with lists where there were tuples.
        value = msgspec.json.decode(msgspec.json.encode(value))
    return msgspec.convert(value, WorkflowSpec)


class _Node:
    """One node as raw JSON, read with the keys that were probably meant."""

    __slots__ = ("_given", "kind", "number", "path", "place")

    def __init__(self, given: Mapping[str, object], path: str, place: Place) -> None:
        tag = given.get("type")
        self.kind = (tag if tag in _NODES else nearest(tag, list(_NODES)) or "") if isinstance(tag, str) else ""
        self.path = path
        self.place = place
        self.number = -1
        self._given = _read(given, _NODES[self.kind]) if self.kind else {}

    def at(self, name: str) -> object:
        """The value under a key; None where there is none."""
        return self._given[name][1] if name in self._given else None

    def has(self, name: str) -> bool:
        return self.at(name) is not None

    def where(self, name: str) -> str:
        """The path of the value under a key."""
        return key_path(self.path, self._given[name][0] if name in self._given else name)

    def inside(self, slot: int) -> Place:
        return (*self.place, (self.number, slot))


_Given: TypeAlias = dict[str, tuple[str, object]]


@cache
def _keys(cls: type[Struct]) -> list[str]:
    names = [one.encode_name for one in msgspec.structs.fields(cls)]
    return [*names, "type"] if cls.__struct_config__.tag_field else names


def _read(given: Mapping[str, object], cls: type[Struct]) -> _Given:
    return {name: (key, given[key]) for key, name in read_keys(given, _keys(cls)).items() if name}


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()


class _Said(NamedTuple):
    """A name that is used somewhere."""

    reference: Path
    path: str
    place: Place
    how: Literal["template", "reference", "variable"]


class _Check:
    """One check; problems are added to the list that it was given."""

    def __init__(self, problems: list[Problem], tools: Collection[str] | None) -> None:
        self._problems = problems
        self._tools = None if tools is None else sorted(tools)
        self._nodes = 0
        self._patience = Patience()
        self._scope = Scope()
        self._leaf_limit = MAX_LEAVES
        # References are judged when all names of the workflow are known.
        self._later: list[_Said] = []

    def _found(self, path: str, message: str) -> None:
        if len(self._problems) < _KEPT:
            self._problems.append(Problem(path, message))

    def workflow(self, given: Mapping[str, object], path: str, depth: int, outer: frozenset[str]) -> int:
        """Checks one workflow, sub-workflows too; the leaves that it may start at most."""
        around = self._scope, self._later, self._leaf_limit
        self._scope, self._later = Scope(outer=outer, patience=self._patience), []
        parts = _read(given, WorkflowSpec)
        limit = parts.get("max_leaves", ("", None))[1]
        if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1:
            self._leaf_limit = min(limit, MAX_LEAVES)
        leaves = 0
        if "root" in parts:
            key, root = parts["root"]
            leaves = self._node(root, key_path(path, key), (), depth)
        self._judge(self._later)
        self._scope, self._later, self._leaf_limit = around
        return leaves

    def _node(self, value: object, path: str, place: Place, depth: int) -> int:
        """Checks a node and all inside of it; the leaves that it may start at most."""
        if not isinstance(value, Mapping):
            return 0
        self._nodes += 1
        if self._nodes == MAX_NODES + 1:
            self._found(path, f"is node {self._nodes:,}; a workflow may have {MAX_NODES:,}, sub-workflows included")
        if self._nodes > MAX_NODES:
            return 0
        if depth >= MAX_NESTING:
            self._found(path, f"is nested deeper than {MAX_NESTING} nodes; use a flatter sequence")
            return 0
        node = _Node(cast("Mapping[str, object]", value), path, place)
        if not node.kind:
            return 0
        self._named(node)
        parts = self._leaf(node, depth) if node.kind in LEAVES else self._container(node, depth)
        leaves = sum(parts) if node.kind != "branch" else max(parts, default=0)
        if leaves > self._leaf_limit and all(part <= self._leaf_limit for part in self._single(node, parts)):
            limit = self._leaf_limit
            self._found(path, f"may start {leaves:,} leaves (what repeats multiplies); {limit:,} are allowed")
        return leaves

    def _single(self, node: _Node, parts: Sequence[int]) -> Sequence[int]:
        """What the parts may start once: a repeating node is at fault itself when its body alone is not."""
        times = self._times(node)
        return [part // max(times, 1) for part in parts]

    def _times(self, node: _Node) -> int:
        if node.kind == "foreach":
            return len(_list(node.at("items"))) if node.has("items") else 1
        times = node.at("max_iterations")
        return min(times, _MANY) if node.kind == "loop" and isinstance(times, int) and times > 0 else 1

    def _named(self, node: _Node) -> None:
        scope = self._scope
        node.number = len(scope.kinds)
        scope.kinds.append(node.kind)
        name = node.at("id")
        usable = isinstance(name, str) and _ID.fullmatch(name) is not None
        scope.names.append(cast("str", name) if usable else None)
        if not usable:
            return
        name = cast("str", name)
        if name in RESERVED:
            self._found(node.where("id"), f'"{name}" is a name that templates know already; choose another')
        elif name in scope.nodes:
            self._found(node.where("id"), f'id "{name}" is used already at {scope.nodes[name].path}')
        else:
            schema = node.has("output_schema") or "output_schema" in _object(node.at("spec"))
            text = node.kind == "agent" and not schema and not node.has("fallback")
            scope.nodes[name] = Known(node.number, node.path, node.place, text)

    # What leaves have in common, and each kind of them.

    def _leaf(self, node: _Node, depth: int) -> list[int]:
        self._condition(node.at("when"), node.where("when"), node.place)
        if node.has("retry_delay_s") and not node.at("retries"):
            self._found(node.where("retry_delay_s"), 'needs "retries" of 1 or more')
        leaves = [1]
        match node.kind:
            case "agent":
                self._agent(node)
            case "tool":
                self._tool(node.at("tool"), node.where("tool"))
                self._templates(node.at("arguments"), node.where("arguments"), node.place)
            case "approve":
                self._templates(node.at("prompt"), node.where("prompt"), node.place)
                self._once_each(node.at("options"), node.where("options"))
            case "wait":
                self._wait(node)
            case _:
                self._templates(node.at("input"), node.where("input"), node.place)
                inner = node.at("workflow")
                if isinstance(inner, Mapping):
                    outer = self._scope.outer | self._scope.nodes.keys()
                    given = cast("Mapping[str, object]", inner)
                    leaves.append(self.workflow(given, node.where("workflow"), depth + 1, outer))
        if node.has("fallback"):
            leaves.append(self._node(node.at("fallback"), node.where("fallback"), node.inside(0), depth + 1))
        return leaves

    def _agent(self, node: _Node) -> None:
        self._agent_spec(node.at("spec"), node.where("spec"), node.place)
        self._templates(node.at("input"), node.where("input"), node.place)
        self._problems.extend(schema_rules(node.at("output_schema"), node.where("output_schema")))
        where = node.where("inputs_from")
        self._once_each(node.at("inputs_from"), where)
        for index, reference in enumerate(_list(node.at("inputs_from"))):
            self._reference(reference, f"{where}[{index}]", node.place)

    def _agent_spec(self, value: object, path: str, place: Place) -> None:
        given = {name: inner for name, (_, inner) in _read(_object(value), AgentSpec).items()}
        self._problems.extend(agent_rules(given, path))
        self._templates(given.get("system_prompt"), f"{path}.system_prompt", place)
        for index, tool in enumerate(_list(given.get("tools"))):
            self._tool(tool, f"{path}.tools[{index}]")

    def _tool(self, name: object, path: str) -> None:
        if self._tools is not None and isinstance(name, str) and name not in self._tools:
            near = None
            if self._patience.left > 0:
                self._patience.left -= len(self._tools)
                near = nearest(name, self._tools)
            hint = f'did you mean "{near}"?' if near else f"known: {', '.join(self._tools[:40]) or 'none'}"
            self._found(path, f"unknown tool {shown(name)}; {hint}")

    def _wait(self, node: _Node) -> None:
        self._one_of(node, ("seconds", "until", "signal"))
        until = node.at("until")
        if isinstance(until, str):
            self._templates(until, node.where("until"), node.place)
            if not references_of(until) and not _is_time(until):
                self._found(node.where("until"), "must be a time with its offset, such as 2027-01-31T09:00:00+01:00")

    def _one_of(self, node: _Node, names: tuple[str, ...]) -> None:
        given = [name for name in names if node.has(name)]
        if len(given) != 1:
            wanted = f"{', '.join(names[:-1])} and {names[-1]}"
            self._found(node.path, f"needs exactly one of {wanted}, has {' and '.join(given) or 'none'}")

    def _once_each(self, value: object, path: str) -> None:
        seen: set[str] = set()
        for one in _list(value):
            if isinstance(one, str) and one in seen:
                self._found(path, f"{shown(one)} is named more than once")
            elif isinstance(one, str):
                seen.add(one)

    # Containers: each gives what its parts may start.

    def _container(self, node: _Node, depth: int) -> list[int]:
        match node.kind:
            case "sequence":
                return self._children(node, "steps", depth)
            case "parallel":
                return self._children(node, "branches", depth)
            case "foreach":
                return self._foreach(node, depth)
            case "branch":
                return self._branch(node, depth)
            case _:
                return self._loop(node, depth)

    def _children(self, node: _Node, name: str, depth: int) -> list[int]:
        path = node.where(name)
        return [
            self._node(inner, f"{path}[{slot}]", node.inside(slot), depth + 1)
            for slot, inner in enumerate(_list(node.at(name)))
        ]

    def _foreach(self, node: _Node, depth: int) -> list[int]:
        self._one_of(node, ("items", "items_from"))
        self._reference(node.at("items_from"), node.where("items_from"), node.place)
        variable = node.at("as")
        if isinstance(variable, str) and _ID.fullmatch(variable):
            self._variable(variable, node)
            self._scope.variables[node.number] = variable
        return [self._times(node) * self._node(node.at("body"), node.where("body"), node.inside(0), depth + 1)]

    def _variable(self, variable: str, node: _Node) -> None:
        scope, where = self._scope, node.where("as")
        if variable in RESERVED:
            self._found(where, f'"{variable}" is a name that templates know already; choose another')
        if variable in (scope.variables.get(number) for number, _ in node.place):
            self._found(where, f'"{variable}" is the item of a foreach around this one; choose another')
        self._later.append(_Said((variable,), where, node.place, "variable"))

    def _branch(self, node: _Node, depth: int) -> list[int]:
        on = node.at("on")
        if isinstance(on, str) and references_of(on):
            self._templates(on, node.where("on"), node.place)
        elif isinstance(on, str) and on:
            if not _REFERENCE.fullmatch(on):
                self._found(node.where("on"), f"must be a reference such as node.key, or a template, not {shown(on)}")
            self._reference(on, node.where("on"), node.place)
        cases = _object(node.at("cases"))
        where = node.where("cases")
        parts = [
            self._node(inner, key_path(where, key), node.inside(slot), depth + 1)
            for slot, (key, inner) in enumerate(cases.items())
        ]
        return [*parts, self._node(node.at("default"), node.where("default"), node.inside(len(cases)), depth + 1)]

    def _loop(self, node: _Node, depth: int) -> list[int]:
        self._one_of(node, ("until", "judge"))
        body = self._node(node.at("body"), node.where("body"), node.inside(0), depth + 1)
        self._condition(node.at("until"), node.where("until"), node.inside(1))
        judges = 0
        if node.has("judge"):
            judges = 1
            self._scope.judged.add(node.number)
            given = _read(_object(node.at("judge")), specs.Judge)
            path = node.where("judge")
            spec = given.get("spec", ("spec", None))[1]
            self._agent_spec(spec, f"{path}.spec", node.inside(1))
            if _object(spec).get("output_schema") is not None:
                self._found(
                    f"{path}.spec.output_schema", 'is set by the loop: {"done": bool, "reason": text}; leave it out'
                )
            self._templates(given.get("input", ("", None))[1], f"{path}.input", node.inside(1))
        return [self._times(node) * (body + judges)]

    # References.

    def _templates(self, value: object, path: str, place: Place) -> None:
        self._later.extend(_Said(one, path, place, "template") for one in dict.fromkeys(references_in(value)))

    def _reference(self, value: object, path: str, place: Place) -> None:
        if isinstance(value, str) and _REFERENCE.fullmatch(value):
            self._later.append(_Said(path_of(value), path, place, "reference"))

    def _judge(self, said: Sequence[_Said]) -> None:
        scope = self._scope
        for reference, path, place, how in said:
            if len(self._problems) >= _KEPT:
                return
            if how != "variable":
                literal = how == "template"
                why = scope.fault(reference, place, literal=literal)
                if why is not None:
                    self._found(path, f"{{{{{'.'.join(reference)[:200]}}}}}: {why}" if literal else why)
            elif reference[0] in scope.nodes:
                self._found(path, f'"{reference[0]}" is the id of a node, too, at {scope.nodes[reference[0]].path}')

    def _condition(self, value: object, path: str, place: Place) -> None:
        if isinstance(value, str):
            self._reference(value, path, place)
        elif kind_of(value) == "an object":
            given = {name: inner for name, (_, inner) in _read(_object(value), specs.Condition).items()}
            self._compared(given, path, place)

    def _compared(self, given: Mapping[str, object], path: str, place: Place) -> None:
        forms = [name for name in ("ref", "all", "any", "not") if given.get(name) is not None]
        if len(forms) != 1:
            self._found(path, f"needs exactly one of ref, all, any and not, has {' and '.join(forms) or 'none'}")
        op, value = given.get("op"), given.get("value", UNSET)
        if op is None and value is not UNSET:
            self._found(path, '"value" needs an "op"')
        if forms != ["ref"] and op is not None:
            self._found(path, '"op" needs a "ref"')
        if isinstance(op, str):
            self._operand(op, value, path)
        self._reference(given.get("ref"), f"{path}.ref", place)
        for name in ("all", "any"):
            for index, inner in enumerate(_list(given.get(name))):
                self._condition(inner, f"{path}.{name}[{index}]", place)
        self._condition(given.get("not"), f"{path}.not", place)

    def _operand(self, op: str, value: Any, path: str) -> None:
        wanted = {
            "gt": "a number",
            "ge": "a number",
            "lt": "a number",
            "le": "a number",
            "in": "a list",
            "matches": "text",
        }
        if op == "exists":
            if value is not UNSET:
                self._found(path, '"exists" takes no "value"')
        elif value is UNSET:
            self._found(path, f'"{op}" needs a "value"')
        elif op in wanted and kind_of(value) != wanted[op]:
            self._found(f"{path}.value", f'must be {wanted[op]} for "{op}", not {shown(value)}')


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
