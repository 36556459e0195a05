"""What a model is told about writing workflows: the manual, and the JSON Schema of a spec, both made from the types.

Owns: how types become lines. The words are in `prompts/workflow_manual.md` and in the descriptions of the types, the bounds
are those that the check reads, and the example is a spec of its own; so nothing here can say what is not so.
Must not know: the check, tools. Read next: `../model/workflow_spec.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast, get_args

import msgspec
import msgspec.inspect as kinds
from msgspec import NODEFAULT, UNSET, Struct

from ..model import workflow_spec as specs
from ..model.agent_spec import AgentSpec
from ..model.raw_values import MAX_CHARS
from ..model.spec_shape import choices_of, said_range
from ..model.workflow_spec import LeafFields, Node, WorkflowSpec
from ..prompts import prompt

MAX_MANUAL_CHARS = 6_000
"""What a description of a tool may take of each request."""

_TEMPLATES = frozenset({"input", "arguments", "prompt", "system_prompt", "until"})
_NOTHING: Mapping[str, Any] = {}


@cache
def workflow_manual() -> str:
    """All that a model has to know to write a workflow: at most `MAX_MANUAL_CHARS` characters, the same in every process."""
    nodes = [_block(cls, skipped=LeafFields) for cls in get_args(Node)]
    common = [
        _titled("leaf (agent, tool, approve, wait, workflow) also", LeafFields, ("id",)),
        _titled("AgentSpec", AgentSpec),
        _titled("Judge", specs.Judge),
        _titled("Spec (the whole)", WorkflowSpec),
        _titled("Budget", specs.WorkflowBudget),
    ]
    return (
        prompt("workflow_manual")
        .replace("{nodes}", "\n".join([*nodes, *common]))
        .replace("{conditions}", "{" + "; ".join(_fields(specs.Condition)) + "}")
        .replace("{limits}", _limits())
        .replace("{example}", json.dumps(workflow_example(), separators=(",", ":")))
    )


@cache
def workflow_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a spec, whose root is an object; it says shapes and bounds, words are in the manual."""
    _, definitions = msgspec.json.schema_components((WorkflowSpec,), ref_template="#/$defs/{name}")
    defs = {name: _shortened(schema) for name, schema in definitions.items()}
    nodes = [{"$ref": f"#/$defs/{cls.__name__}"} for cls in get_args(Node)]
    return {**defs["WorkflowSpec"], "$defs": {**defs, "Node": {"anyOf": nodes}}}


def _shortened(schema: object) -> Any:
    """A schema without the words that the manual says, and with the list of all nodes by reference."""
    if isinstance(schema, list):
        return [_shortened(one) for one in cast("list[object]", schema)]
    if isinstance(schema, str):
        # The end of the text in Python, where $ stands before a final newline, too; in JSON Schema $ is the end.
        return schema.replace(r"\Z", "$")
    if not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    if "discriminator" in given:
        return {"$ref": "#/$defs/Node"}
    return {
        key: {name: _shortened(one) for name, one in value.items()} if key == "properties" else _shortened(value)
        for key, value in given.items()
        if key not in ("title", "description") and not (key == "default" and value is None)
    }


@cache
def workflow_example() -> dict[str, Any]:
    """A whole spec that uses most of the nodes, as JSON values."""
    return cast("dict[str, Any]", json.loads(prompt("workflow_example")))


def _limits() -> str:
    return (
        f"BOUNDS: {specs.MAX_NODES:,} nodes, {specs.MAX_NESTING} inside of each other, {specs.MAX_LEAVES:,} leaves in one run"
        f" (foreach and loop multiply), {MAX_CHARS:,} characters of JSON,"
        f" {specs.MAX_TEMPLATE_CHARS:,} in one template."
    )


def _titled(title: str, cls: type[Struct], without: tuple[str, ...] = ()) -> str:
    return f"{title}: {'; '.join(_fields(cls, without))}"


def _block(cls: type[Struct], skipped: type[Struct]) -> str:
    tag = cls.__struct_config__.tag
    without = tuple(one.name for one in kinds_of(skipped)) if issubclass(cls, skipped) else ()
    fields = "; ".join(_fields(cls, without))
    return f"{tag}: {(cls.__doc__ or '').strip()}\n  {fields}"


def kinds_of(cls: type[Struct]) -> tuple[kinds.Field, ...]:
    """The fields of a struct with their types and bounds."""
    return cast("kinds.StructType", kinds.type_info(cls)).fields


def _fields(cls: type[Struct], without: tuple[str, ...] = ()) -> Iterator[str]:
    for part in kinds_of(cls):
        if part.name in without:
            continue
        kind, about = part.type, ""
        while isinstance(kind, kinds.Metadata):
            about = about or str((cast("Mapping[str, Any]", kind.extra_json_schema or _NOTHING)).get("description", ""))
            kind = kind.type
        name = f"{part.encode_name}{'*' if part.required else ''}{_default(part)}"
        said = _said(kind)
        bounds = ", ".join(one for one in (said, "T" if part.encode_name in _TEMPLATES and said != "C" else "") if one)
        yield f"{name}{f' ({bounds})' if bounds else ''}{f': {about}' if about else ''}"


def _default(part: kinds.Field) -> str:
    default = part.default
    if default in (NODEFAULT, UNSET, None, "", ()):
        return ""
    return f"={json.dumps(default)}"


def _said(kind: kinds.Type) -> str:
    """What a value may be, as short as it can be said."""
    while isinstance(kind, kinds.Metadata):
        kind = kind.type
    match kind:
        case kinds.UnionType():
            inner = [one for one in kind.types if not isinstance(one, kinds.NoneType)]
            if any(isinstance(one, kinds.StructType) and one.cls is specs.Condition for one in inner):
                return "C"
            return "node" if len(inner) > 2 else ", ".join(filter(None, map(_said, inner)))
        case kinds.LiteralType() | kinds.EnumType():
            return "|".join(choices_of(kind))
        case kinds.IntType() | kinds.FloatType():
            return "number" if kind.gt is None and kind.ge is None else said_bounds(kind)
        case kinds.StructType():
            return kind.cls.__name__.removeprefix("Workflow")
        case kinds.VarTupleType():
            return f"[{_said(kind.item_type)}]" if _said(kind.item_type) else "list"
        case kinds.DictType():
            return "{key: node}" if _said(kind.value_type) == "node" else "object"
        case kinds.StrType() if kind.pattern is not None and "." in kind.pattern and "){0,15}" in kind.pattern:
            return "R"
        case _:
            return ""


def said_bounds(kind: kinds.IntType | kinds.FloatType) -> str:
    """The range of a number in words."""
    if kind.gt is not None:
        return f"over {kind.gt:g}" + (f" to {kind.le:,.0f}" if kind.le is not None and kind.le < 10**8 else "")
    return said_range(kind.ge, None if kind.le is None or kind.le > 10**8 else kind.le).replace(".0", "")
