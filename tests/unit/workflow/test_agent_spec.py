"""An agent spec is strict data: all that is wrong with it is said at once, and what is right comes back from JSON equal."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.model.agent_spec import AgentSpec, SubagentLifecycle, parse_agent_spec
from loopwright.model.call_errors import SpecValidationError
from loopwright.model.family_errors import AgentSpecError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*AgentSpec.__struct_fields__, "nam", "Max_rounds", ""])


def problems(value: object) -> tuple[str, ...]:
    with pytest.raises(AgentSpecError) as caught:
        parse_agent_spec(value)
    assert [str(one) for one in caught.value.listed] == list(caught.value.problems)
    return caught.value.problems


def test_every_problem_of_a_spec_from_json_is_listed_with_its_path() -> None:
    found = problems(
        {
            "nam": "a b",
            "tools": ["ok", "not ok", "ok"],
            "max_rounds": 51,
            "temperature": "hot",
            "lifecycle": "linkd",
            "timeout_s": 0,
            "output_schema": {"name": "x", "schema": {"type": "string"}},
            "run_cost_budget_usd": math.nan,
            "colour": 1,
        }
    )
    assert sorted(one.split(":")[0] for one in found) == sorted(
        [
            "spec",
            "spec",
            "nam",
            "tools[1]",
            "tools",
            "max_rounds",
            "temperature",
            "lifecycle",
            "timeout_s",
            "output_schema.schema",
            "run_cost_budget_usd",
        ]
    )
    assert 'spec: unknown key "nam"; did you mean "name"?' in found
    assert 'lifecycle: must be one of ephemeral, linked, detached, not "linkd"; did you mean "linked"?' in found


def test_building_one_in_python_lists_every_problem_too() -> None:
    with pytest.raises(AgentSpecError) as caught:
        AgentSpec(name="", max_rounds=0, tools=("a", "a"), temperature=math.nan, metadata={"x": object()})
    assert len(caught.value.problems) == 5
    assert isinstance(caught.value, SpecValidationError)
    with pytest.raises(TypeError, match="colour"):
        AgentSpec(name="a", colour=1)  # type: ignore[call-arg]


def test_what_was_built_equals_what_is_read_from_its_json() -> None:
    spec = AgentSpec(
        name="reviewer",
        system_prompt="Judge.",
        tools=["read_file"],  # type: ignore[arg-type]
        lifecycle="linked",  # type: ignore[arg-type]
        output_schema={"type": "object"},
        timeout_s=5,
        metadata={"team": 7},
    )
    text = msgspec.json.encode(spec)
    assert parse_agent_spec(json.loads(text)) == spec == msgspec.json.decode(text, type=AgentSpec)
    assert spec.lifecycle is SubagentLifecycle.LINKED
    assert spec.tools == ("read_file",)


def test_no_tools_and_all_tools_stay_apart() -> None:
    assert parse_agent_spec({"name": "a", "tools": []}).tools == ()
    assert parse_agent_spec({"name": "a", "tools": None}).tools is None


def test_a_lifecycle_that_is_not_said_is_that_of_where_the_agent_runs() -> None:
    assert AgentSpec(name="a").lives(SubagentLifecycle.LINKED) is SubagentLifecycle.LINKED
    said = AgentSpec(name="a", lifecycle=SubagentLifecycle.DETACHED)
    assert said.lives(SubagentLifecycle.LINKED) is SubagentLifecycle.DETACHED


def test_the_shape_of_an_answer_may_have_a_name_or_takes_the_agents() -> None:
    shape = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    plain = AgentSpec(name="a.b", output_schema=shape).output()
    named = AgentSpec(name="a", output_schema={"name": "verdict", "schema": shape, "strict": False}).output()
    assert plain is not None
    assert named is not None
    assert (plain.name, plain.schema) == ("a_b", shape)
    assert (named.name, named.schema, named.strict) == ("verdict", shape, False)
    assert AgentSpec(name="a").output() is None


@given(st.dictionaries(fields, json_values, max_size=5) | json_values)
def test_any_json_is_either_a_spec_or_refused_with_its_problems(value: object) -> None:
    try:
        spec = parse_agent_spec(value)
    except AgentSpecError as error:
        count = len(error.problems)
        assert 1 <= count <= 100
    else:
        assert msgspec.json.decode(msgspec.json.encode(spec), type=AgentSpec) == spec


@given(
    st.fixed_dictionaries({"name": st.just("a")}, optional=dict.fromkeys(("tools", "model", "timeout_s"), json_values))
)
def test_python_and_json_refuse_the_same_values(value: dict[str, object]) -> None:
    def refused(build: object) -> bool:
        try:
            build()  # type: ignore[operator]
        except AgentSpecError:
            return True
        return False

    assert refused(lambda: AgentSpec(**value)) == refused(lambda: parse_agent_spec(value))  # type: ignore[arg-type]
