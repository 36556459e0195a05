"""What an agent is, as strict data that a person or a model can write: `AgentSpec`.

Owns: its fields, their bounds and meaning, and reading one from JSON. Must not know: who spawns agents, workflows.
Rule: journals hold specs, and reading one checks it again. So a bound here may be widened later, never narrowed, and a
default never changes.
Read next: `spec_shape.py` (how types become messages), `workflow_spec.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from .family_errors import AgentSpecError
from .raw_values import raw_problems
from .spec_shape import Problem, bounded, field_problems, shape_problems
from .specs import StructuredOutputSpec

MAX_PROMPT_CHARS = 1_000_000
MAX_TIMEOUT_S = 7 * 86_400.0
"""Seconds; what waits longer is a `wait` or a timer."""

MAX_TOOLS = 500

Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z",
        extra={"rule": "1 to 64 letters, digits, _ - . and no - or . in front"},
    ),
]
"""A name that is shown, logged and put into paths."""

ToolName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z", extra={"rule": "a tool's name: 1 to 64 letters, digits, _ and -"})
]

OutputSchema = Annotated[
    dict[str, Any] | None,
    Meta(description='shape of the answer: JSON Schema of "type": "object", or {"name", "schema"}'),
]
"""None: free text."""

TimeoutSeconds = Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_S)]


class SubagentLifecycle(StrEnum):
    """How long a spawned agent's session lives."""

    EPHEMERAL = "ephemeral"
    """Dropped as soon as its result is in its parent's journal, whatever the result."""
    LINKED = "linked"
    """Stays, and is deleted with its parent."""
    DETACHED = "detached"
    """Stays on its own; not stopped with its parent either."""


class AgentSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An agent; a value that cannot be is an `AgentSpecError` that lists all problems, an unknown field a `TypeError`."""

    name: Annotated[Name, Meta(description="shown in events")]
    system_prompt: Annotated[str | None, Meta(description="its instructions; null: its parent's")] = None
    tools: Annotated[
        Annotated[tuple[ToolName, ...], Meta(max_length=MAX_TOOLS)] | None,
        Meta(description="tools it may use of those its parent may; null: all, []: none"),
    ] = None
    model: Annotated[str | None, Meta(description="null: its parent's")] = None
    max_rounds: Annotated[int, Meta(ge=1, le=50, description="model calls")] = 8
    max_output_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(description="of one reply"),
    ] = None
    """Null: its parent's limit."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """Null: its parent's."""
    output_schema: OutputSchema = None
    lifecycle: Annotated[
        SubagentLifecycle | None,
        Meta(
            description="its conversation is dropped, kept with its parent, or kept on its own;"
            " null: ephemeral when spawned, linked in a workflow"
        ),
    ] = None
    run_token_budget: Annotated[
        Annotated[int, Meta(ge=1, le=2**53)] | None,
        Meta(description="tokens in all; null: what its parent has left"),
    ] = None
    run_cost_budget_usd: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        Meta(description="the same in US dollars"),
    ] = None
    timeout_s: Annotated[TimeoutSeconds | None, Meta(description="seconds in all")] = None
    metadata: Annotated[dict[str, Any], Meta(description="kept with it")] = {}

    def __post_init__(self) -> None:
        # Values of JSON in another Python shape are made the same ones, so that a spec equals what is read from its JSON.
        if isinstance(cast("object", self.tools), list):
            msgspec.structs.force_setattr(self, "tools", tuple(self.tools or ()))
        given = msgspec.structs.asdict(self)
        problems = [] if _is_of_its_types(given) else field_problems(self)
        if self.metadata or self.output_schema is not None:
            problems += (
                raw_problems(self.metadata, "metadata")[0] + raw_problems(self.output_schema, "output_schema")[0]
            )
        problems += agent_rules(given, "")
        if problems:
            raise AgentSpecError(bounded(problems))
        if type(cast("object", self.lifecycle)) is str:
            msgspec.structs.force_setattr(self, "lifecycle", SubagentLifecycle(str(self.lifecycle)))

    def lives(self, unsaid: SubagentLifecycle) -> SubagentLifecycle:
        """Its lifecycle, or the one that counts where the spec says none."""
        return self.lifecycle if self.lifecycle is not None else unsaid

    def output(self) -> StructuredOutputSpec | None:
        """The answer that it must give, None for free text."""
        return None if self.output_schema is None else structured_output(self.output_schema, self.name)


def parse_agent_spec(value: object) -> AgentSpec:
    """An agent spec from JSON values (as `json.loads` gives them); all problems at once as `AgentSpecError`."""
    problems, whole = raw_problems(value, "")
    if whole:
        problems += shape_problems(value, AgentSpec)
        problems += agent_rules(cast("Mapping[str, object]", value), "") if isinstance(value, Mapping) else []
    if problems:
        raise AgentSpecError(bounded(problems))
    return msgspec.convert(value, AgentSpec)


def agent_rules(given: Mapping[str, object], path: str) -> list[Problem]:
    """What types cannot say about the fields of an agent spec; fields of a wrong type are passed over."""
    before = f"{path}." if path else ""
    problems = schema_rules(given.get("output_schema"), f"{before}output_schema")
    prompt = given.get("system_prompt")
    if isinstance(prompt, str) and len(prompt) > MAX_PROMPT_CHARS:
        problems.append(
            Problem(f"{before}system_prompt", f"has {len(prompt):,} characters, {MAX_PROMPT_CHARS:,} are allowed")
        )
    tools = given.get("tools")
    if isinstance(tools, list | tuple):
        names = [one for one in cast("list[object]", tools) if isinstance(one, str)]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(names) <= MAX_TOOLS else []
        problems += [Problem(f"{before}tools", f'"{name}" is named more than once') for name in twice]
    return problems


def schema_rules(schema: object, path: str) -> list[Problem]:
    """What is wrong with the shape asked of an answer; None is no shape and fine."""
    if not isinstance(schema, Mapping):
        return []
    given = cast("Mapping[str, object]", schema)
    problems: list[Problem] = []
    if _is_named(given):
        name = given.get("name")
        if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum() or len(name) > 64:
            problems.append(Problem(f"{path}.name", "must be 1 to 64 letters, digits, _ and -"))
        problems += [
            Problem(path, f'unknown key "{key[:60]}"; allowed: description, name, schema, strict')
            for key in given
            if key not in ("name", "schema", "strict", "description")
        ]
        if not isinstance(given.get("strict", True), bool):
            problems.append(Problem(f"{path}.strict", "must be true or false"))
        if not isinstance(given.get("description", ""), str):
            problems.append(Problem(f"{path}.description", "must be text"))
        path, inner = f"{path}.schema", given["schema"]
        if not isinstance(inner, Mapping):
            return [*problems, Problem(path, "must be an object: a JSON Schema")]
        given = cast("Mapping[str, object]", inner)
    if given.get("type") != "object":
        problems.append(Problem(path, 'must be a JSON Schema with "type": "object"'))
    return problems


def structured_output(schema: Mapping[str, Any], name: str) -> StructuredOutputSpec:
    """The shape of an answer in the words of the model call; `name` is used where the schema has none."""
    if not _is_named(schema):
        plain = "".join(one if one.isascii() and (one.isalnum() or one in "_-") else "_" for one in name)
        return StructuredOutputSpec(name=plain[:64], schema=dict(schema))
    return StructuredOutputSpec(
        name=schema["name"],
        schema=schema["schema"],
        strict=schema.get("strict", True),
        description=schema.get("description", ""),
    )


def _is_named(given: Mapping[str, object]) -> bool:
    """True for {"name", "schema"}; `schema` is no word of JSON Schema."""
    return "schema" in given


@cache
def _unchecked_twin() -> type[Struct]:
    fields = [(one.name, one.type, None) for one in msgspec.structs.fields(AgentSpec)]
    return msgspec.defstruct("UncheckedAgentSpec", fields, forbid_unknown_fields=True)


def _is_of_its_types(given: dict[str, Any]) -> bool:
    """True when the compiled reader takes the values; it is ten times as fast as the walk that finds the words for faults."""
    # It takes what is not a number for one.
    if any(isinstance(value, float) and value != value for value in given.values()):
        return False
    try:
        msgspec.convert(given, _unchecked_twin())
    except (msgspec.ValidationError, RecursionError):
        return False
    return True
