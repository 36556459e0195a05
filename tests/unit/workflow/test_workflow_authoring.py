"""Builder, JSON, manual and schema say the same: they are made from the same types."""

from __future__ import annotations

import json
import re
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from tests.unit.workflow.specs import Json, valid_specs

from loopwright import workflow as wf
from loopwright.model import workflow_spec as specs
from loopwright.model.agent_spec import AgentSpec
from loopwright.tools.validation import CompiledSchema
from loopwright.workflow.manual import MAX_MANUAL_CHARS, workflow_example

WRITER = wf.AgentSpec(name="writer", system_prompt="You write.", tools=("read_file",))
TYPES = [*get_args(specs.Node), specs.Condition, specs.Judge, specs.WorkflowBudget, specs.WorkflowSpec, AgentSpec]


def everything() -> wf.WorkflowSpec:
    """Each node once, with most of what it may say."""
    inner = wf.workflow("inner", wf.wait("pause", seconds=2))
    return wf.workflow(
        "all",
        wf.sequence(
            wf.agent(
                "plan", WRITER, input="{{input.topic}}", output_schema={"type": "object"}, retries=2, retry_delay_s=1
            ),
            wf.parallel(
                wf.tool("look", "search", {"q": "{{plan.query}}", "n": (1, 2)}, on_error="continue", timeout_s=5),
                wf.subworkflow("sub", inner, input={"deep": ["{{plan}}"]}),
                node_id="both",
                max_concurrency=2,
                on_error="continue",
            ),
            wf.foreach(
                "each", "it", "plan.items", wf.agent("one", WRITER, input="{{it}} {{index}}", inputs_from=["look"])
            ),
            wf.foreach("fixed", "word", ["a", {"b": 1}], wf.wait("until", until="{{word.b}}"), parallel=False),
            wf.loop(
                "draft",
                wf.agent("write", WRITER, input="{{draft}} {{feedback}}"),
                until=wf.judge(wf.AgentSpec(name="editor"), "Ready? {{write}}"),
                max_iterations=3,
            ),
            wf.loop(
                "poll",
                wf.tool("ask", "status", fallback=wf.wait("later", seconds=60)),
                until=wf.all_of("ask", wf.none_of(wf.compare("ask.state", "in", ["open", "new"]))),
                max_iterations=100,
            ),
            wf.approve("gate", "Print?\n{{draft}}", options=["yes", "no"], when=wf.compare("draft", "exists")),
            wf.branch("gate", {"yes": wf.wait("go", signal="printed", timeout_s=60)}, default=wf.tool("stop", "stop")),
            node_id="root",
        ),
        description="Everything once",
        input_schema={"type": "object"},
        budget=wf.WorkflowBudget(max_tokens=10, max_cost_usd=0.5),
        max_leaves=900,
        metadata={"team": ["x"]},
    )


def test_what_is_built_equals_what_is_read_from_its_json() -> None:
    built = everything()
    assert wf.parse_workflow_spec(json.loads(json.dumps(wf.spec_as_json(built)))) == built
    assert msgspec.json.decode(msgspec.json.encode(built), type=wf.WorkflowSpec) == built
    assert {type(node).__name__ for node in nodes(built.root)} == {cls.__name__ for cls in get_args(specs.Node)}


def nodes(value: object) -> list[object]:
    found = [value] if isinstance(value, get_args(specs.Node)) else []
    if isinstance(value, msgspec.Struct):
        return found + [one for name in value.__struct_fields__ for one in nodes(getattr(value, name))]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return found + [one for part in inner for one in nodes(part)]


def test_building_a_wrong_one_lists_every_problem() -> None:
    with pytest.raises(wf.WorkflowSpecError) as caught:
        wf.workflow(
            "a b",
            wf.sequence(
                wf.wait("w"), wf.tool("w", "t", {"x": object()}), wf.agent("a", WRITER, input="{{b}}", retries=6)
            ),
        )
    assert "cannot be written as JSON" in str(caught.value)
    with pytest.raises(wf.WorkflowSpecError) as caught:
        wf.workflow("a b", wf.sequence(wf.wait("w"), wf.tool("w", "t"), wf.agent("a", WRITER, retries=6)))
    assert len(caught.value.problems) == 4


def test_the_manual_names_every_node_and_field_with_its_bounds_and_fits_a_tool_description() -> None:
    manual = wf.workflow_manual()
    assert len(manual) <= MAX_MANUAL_CHARS
    assert "{nodes}" not in manual
    for cls in TYPES:
        tag = cls.__struct_config__.tag
        assert tag is None or f"\n{tag}: " in manual
        for field in msgspec.structs.fields(cls):
            assert re.search(rf"\b{field.encode_name}\b[*=;: (]", manual), f"{cls.__name__}.{field.encode_name}"
    for bound in (
        "1 to 50",
        "1 to 64",
        "0 to 5",
        "1 to 100",
        "1,000 nodes",
        "10,000 leaves",
        "halt",
        "linked",
        "matches",
    ):
        assert bound in manual
    for cls in get_args(specs.Node):
        line = manual.split(f"\n{cls.__struct_config__.tag}: ")[1].split("\n")[1]
        own = set(cls.__struct_fields__) - set(specs.LeafFields.__struct_fields__)
        assert [name for name in own if cls is not specs.ForeachNode and f"{name}" not in line] == []


def test_the_example_of_the_manual_is_a_valid_spec() -> None:
    assert wf.problems_of(workflow_example(), tools=["publish"]) == []
    assert json.dumps(workflow_example(), separators=(",", ":")) in wf.workflow_manual()


def test_the_schema_takes_what_the_check_takes_and_is_an_object_at_its_root() -> None:
    schema = wf.workflow_schema()
    assert schema["type"] == "object"
    assert sorted(schema["properties"]) == sorted(specs.WorkflowSpec.__struct_fields__)
    validator = CompiledSchema(schema)
    assert validator.problems(wf.spec_as_json(everything())) is None
    assert validator.problems(workflow_example()) is None
    assert validator.problems({"name": "w", "root": {"type": "agent", "id": "a", "spek": {}}}) is not None


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(valid_specs())
def test_whatever_is_read_says_the_same_when_it_is_written_and_read_again(value: Json) -> None:
    read = wf.parse_workflow_spec(value)
    assert wf.parse_workflow_spec(wf.spec_as_json(read)) == read
    assert wf.parse_workflow_spec(read) == read
