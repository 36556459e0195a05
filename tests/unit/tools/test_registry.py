from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from loopwright.model.errors import ConfigError, ToolNotFound
from loopwright.ports.tool import ToolDefinition, ToolSource
from loopwright.tools import ToolRegistry, tool
from loopwright.tools.validation import MAX_PROBLEMS, CompiledSchema, schema_problems


@tool
def alpha(a: int) -> None: ...


@tool
def beta(b: str) -> None: ...


def gamma(c: bool) -> None: ...


def definition(name: str, parameters: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(name=name, description="", parameters=parameters)


def test_definitions_functions_and_registries_make_one_registry_in_order() -> None:
    registry = ToolRegistry.of(ToolRegistry.of(beta), gamma, alpha)
    assert registry.names() == ("beta", "gamma", "alpha")
    assert [item.name for item in registry] == ["beta", "gamma", "alpha"]
    assert (len(registry), "alpha" in registry, registry.has("delta")) == (3, True, False)


def test_a_foreign_source_of_tools_is_taken_over() -> None:
    class Source:
        def get(self, name: str) -> ToolDefinition | None:
            return alpha if name == "alpha" else None

        def names(self) -> tuple[str, ...]:
            return ("alpha",)

        def problems(self, name: str, arguments: Any) -> str | None:
            return None

    source: ToolSource = Source()
    assert ToolRegistry.of(source, beta).names() == ("alpha", "beta")


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(ConfigError, match="is no tool"):
        ToolRegistry.of("bash")  # type: ignore[arg-type]


def test_a_name_is_taken_once_unless_overwriting_is_asked_for() -> None:
    registry = ToolRegistry.of(alpha, beta)
    other = definition("alpha", {"type": "object"})
    with pytest.raises(ConfigError, match="overwrite=True"):
        registry.register(other)
    registry.register(other, overwrite=True)
    assert registry.get("alpha") is other
    assert registry.names() == ("alpha", "beta")
    assert registry.problems("alpha", {"a": "anything"}) is None


def test_a_removed_tool_is_gone_and_an_unknown_one_is_an_error() -> None:
    registry = ToolRegistry.of(alpha, beta)
    assert registry.unregister("alpha") is alpha
    assert registry.get("alpha") is None
    with pytest.raises(ToolNotFound, match="beta"):
        registry.unregister("alpha")
    with pytest.raises(ToolNotFound):
        registry.problems("alpha", {})


def test_a_subset_keeps_the_order_and_ignores_unknown_names() -> None:
    registry = ToolRegistry.of(alpha, beta, gamma)
    subset = registry.subset(["gamma", "nothing", "alpha"])
    assert subset.names() == ("alpha", "gamma")
    subset.unregister("alpha")
    assert registry.has("alpha")


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "fs.read"])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="64 characters"):
        ToolRegistry().register(definition(name, {}))


def test_problems_name_the_path_and_what_was_expected_all_at_once() -> None:
    schema = {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}},
            },
            "odd key": {"enum": ["x", "y"]},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    problems = CompiledSchema(schema).problems({"items": [{"n": 1}, {"n": 0}, {"n": "2"}], "odd key": "z", "more": 1})
    assert problems is not None
    assert len(problems.split("; ")) == 5
    assert "$.items[1].n: 0 is less than the minimum of 1" in problems
    assert "$: Additional properties are not allowed ('more' was unexpected)" in problems
    assert '$["odd key"]: "z" is not one of "x" or "y"' in problems
    assert '$.items[2].n: "2" is not of type "integer"' in problems
    assert '"name" is a required property' in problems


def test_of_several_alternatives_the_one_that_was_probably_meant_is_explained() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    compiled = CompiledSchema({"properties": {"at": {"anyOf": [point, {"type": "null"}]}}})
    assert compiled.problems({"at": {"x": "1"}}) == '$.at.x: "1" is not of type "integer"'
    assert compiled.problems({"at": 1}) == '$.at: 1 is not of type "object" and 1 is not of type "null"'


def test_problems_are_bounded_in_number_and_length() -> None:
    schema = {"items": {"type": "integer"}}
    problems = CompiledSchema(schema).problems(["x" * 5000] * 1000)
    assert problems is not None
    assert problems.endswith(f"and {1000 - MAX_PROBLEMS} more")
    assert len(problems) < 3000
    assert 'is not of type "integer"' in problems


@pytest.mark.parametrize(
    "schema",
    [{"type": "nope"}, {"$ref": "#/$defs/none"}, {"pattern": "("}, {"$ref": "http://127.0.0.1:9/schema"}],
)
def test_a_broken_schema_is_an_error_at_checking_and_a_problem_at_calling(schema: dict[str, Any]) -> None:
    """An address is never fetched: a schema may come from a tool server."""
    with pytest.raises(ConfigError, match="JSON Schema"):
        ToolRegistry().register(definition("t", schema), check=True)
    registry = ToolRegistry.of(definition("t", schema), alpha)
    with pytest.raises(ConfigError, match="tool 't'"):
        registry.check()
    assert "cannot be used" in (registry.problems("t", {}) or "")
    assert registry.problems("alpha", {"a": 1}) is None


def test_every_kind_of_json_text_can_be_checked() -> None:
    compiled = CompiledSchema({"properties": {"s": {"type": "string", "maxLength": 3}}})
    assert compiled.problems({"s": "a\ud800b"}) is None
    assert compiled.problems({"s": "a\ud800bcd"}) is not None
    assert compiled.problems({"s": "\0"}) is None
    assert compiled.problems({"s": "日本語"}) is None


def test_the_function_form_keeps_compiled_schemas() -> None:
    schema = {"type": "object", "required": ["a"]}
    assert schema_problems(schema, {"a": 1}) is None
    assert schema_problems(dict(schema), {}) == '$: "a" is a required property'


def test_the_validator_is_loaded_by_the_first_check_and_not_before() -> None:
    program = """
import sys
from loopwright.tools import ToolRegistry, tool
def f(a: int) -> None: ...
registry = ToolRegistry.of(f)
assert "jsonschema_rs" not in sys.modules
assert "loopwright.tools.process" not in sys.modules, "the built-in tools are loaded by a preset only"
assert registry.problems("f", {"a": "x"})
assert "jsonschema_rs" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env={"PYTHONPATH": ":".join(sys.path)})
