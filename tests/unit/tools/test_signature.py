from __future__ import annotations

import datetime as dt
import enum
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.model.call_errors import ToolValidationError
from loopwright.model.errors import ConfigError
from loopwright.ports.tool import ToolContext, ToolDefinition
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import ToolRegistry, tool
from loopwright.tools.docstring import read_docstring
from loopwright.tools.signature import schema_of_type
from loopwright.tools.validation import CompiledSchema

if TYPE_CHECKING:
    from loopwright.ports.tool import ToolContext as OnlyForCheckers


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Options(TypedDict, total=False):
    depth: int
    label: str


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


class Point(msgspec.Struct):
    x: int
    y: float = 0.0


class FakeModel:
    """Looks like a pydantic model: the methods that the schema and the conversion ask for."""

    def __init__(self, value: int) -> None:
        self.value = value

    @classmethod
    def model_json_schema(cls, *, ref_template: str = "") -> dict[str, Any]:
        return {
            "$defs": {"Inner": {"type": "integer", "minimum": 1}},
            "type": "object",
            "properties": {"value": {"$ref": ref_template.format(model="Inner")}},
            "required": ["value"],
        }

    @classmethod
    def model_validate(cls, value: dict[str, Any]) -> FakeModel:
        return cls(value["value"])


def run(definition: ToolDefinition, /, **arguments: Any) -> Any:
    assert definition.handler is not None
    return definition.handler(arguments, FakeToolContext())


def test_the_schema_comes_from_the_signature_and_the_words_from_the_docstring() -> None:
    @tool
    def charge(order_id: str, cents: Annotated[int, msgspec.Meta(ge=1)], note: str | None = None) -> str:
        """Charge an order,
        once.

        More that the model need not read.

        Args:
            order_id: The order
                to charge.
            cents (int): How much.

        Returns:
            note: not a parameter line.
        """
        return f"{order_id} {cents} {note}"

    assert charge.description == "Charge an order, once."
    assert charge.effect == "once"
    assert charge.parameters == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "The order to charge."},
            "cents": {"type": "integer", "minimum": 1, "description": "How much."},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["order_id", "cents"],
        "additionalProperties": False,
    }
    assert run(charge, order_id="o1", cents=5) == "o1 5 None"


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nArgs:\n    count: how many\n        times\n    other: x",
        "Do it.\n\nArguments:\n  - count (int, optional): how many times\n  - other: x",
        "Do it.\n\n:param count: how many\n    times\n:param int other: x\n:returns: nothing",
        "Do it.\n\nParameters\n----------\ncount : int\n    how many\n    times\nother\n    x\n\nReturns\n-------\nstr\n    no",
    ],
)
def test_parameter_lines_are_read_in_every_usual_style(text: str) -> None:
    docs = read_docstring(text)
    assert docs.summary == "Do it."
    assert docs.parameters == {"count": "how many times", "other": "x"}


@given(st.text())
def test_no_docstring_is_too_odd_to_be_read(text: str) -> None:
    read_docstring(text)


def test_a_tool_without_words_is_described_by_its_name() -> None:
    @tool
    def send_mail(to: str) -> None: ...

    assert send_mail.description == "send mail"


def test_the_context_is_handed_over_and_is_not_in_the_schema() -> None:
    def plain(ctx: ToolContext, a: int) -> str:
        return ctx.session_id

    def optional(a: int, ctx: Optional[ToolContext] = None) -> str:  # noqa: UP045 - the old spelling is what is tested
        return ctx.session_id if ctx else "none"

    def quoted(a: int, ctx: ToolContext | None = None) -> str:
        return ctx.session_id if ctx else "none"

    for function in (plain, optional, quoted):
        definition = tool(function)
        assert list(definition.parameters["properties"]) == ["a"]
        assert run(definition, a=1) == "sess_test"


def test_a_context_imported_for_type_checkers_only_is_known_by_its_name() -> None:
    def handler(a: int, ctx: OnlyForCheckers) -> str:
        return ctx.session_id

    handler.__annotations__["ctx"] = "tool.ToolContext"
    assert run(tool(handler), a=1) == "sess_test"


def test_every_unusable_parameter_is_named_at_once() -> None:
    def broken(a, /, b, *rest: int, c: complex, d: Missing, **more: str) -> None: ...  # type: ignore[no-untyped-def,name-defined] # noqa: F821

    with pytest.raises(ConfigError) as error:
        tool(broken)
    assert len(error.value.problems) == 5
    for name in ("'a'", "'b'", "'rest'", "'d'", "'more'"):
        assert any(name in problem and "broken" in problem for problem in error.value.problems), name


def test_a_type_that_json_cannot_say_is_named() -> None:
    def broken(c: complex) -> None: ...

    with pytest.raises(ConfigError, match=r"'c'.*complex"):
        tool(broken)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "naïve", "a.b", "a\n"])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="64 characters"):
        tool(name=name)(lambda: None)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"effect 'twice'.*timeout_s.*output_limit"):
        tool(name="t", effect="twice", timeout_s=0, output_limit=0)(lambda: None)  # type: ignore[call-overload]


async def test_async_functions_stay_async_and_sync_ones_are_marked() -> None:
    @tool
    async def waits(a: int) -> int:
        return a + 1

    class Callable:
        async def __call__(self, a: int) -> int:
            return a + 2

        def method(self, a: int) -> int:
            return a + 3

    later = tool(name="later")(Callable())
    bound = tool(Callable().method)
    assert (waits.is_async, later.is_async, bound.is_async) == (True, True, False)
    assert (await run(waits, a=1), await run(later, a=1), run(bound, a=1)) == (2, 3, 4)


def test_the_function_stays_reachable() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    definition = tool(add)
    assert definition.handler.function is add  # type: ignore[union-attr]


def test_arguments_arrive_as_the_annotated_types() -> None:
    got: dict[str, Any] = {}

    @tool
    def take(colour: Colour, node: Node, point: Point, when: dt.date, where: Path, model: FakeModel) -> None:
        got.update(locals())

    arguments = {
        "colour": "red",
        "node": {"name": "a", "children": [{"name": "b"}]},
        "point": {"x": 1.0},
        "when": "2026-11-21",
        "where": "a/b",
        "model": {"value": 3},
    }
    assert ToolRegistry.of(take).problems("take", arguments) is None
    run(take, **arguments)
    model = got.pop("model")
    assert (type(model), model.value) == (FakeModel, 3)
    got.pop("got", None)
    assert got == {
        "colour": Colour.RED,
        "node": Node("a", [Node("b")]),
        "point": Point(1),
        "when": dt.date(2026, 11, 21),
        "where": Path("a/b"),
    }


def test_references_in_the_schema_resolve_and_recursion_is_checked_to_the_bottom() -> None:
    @tool
    def take(node: Node, models: list[FakeModel], options: Options) -> None: ...

    registry = ToolRegistry.of(take)
    registry.check()
    bad = {"node": {"name": "a", "children": [{"name": 1}]}, "models": [{"value": 0}], "options": {"depth": "x"}}
    problems = registry.problems("take", bad)
    assert problems is not None
    for path in ("$.node.children[0].name", "$.models[0].value", "$.options.depth"):
        assert path in problems


def test_the_schema_of_a_type_has_an_object_as_its_root_also_when_it_refers_to_itself() -> None:
    assert schema_of_type(Point) == {
        "title": "Point",
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.0}},
        "required": ["x"],
    }
    for kind, good, bad in (
        (Node, {"name": "a", "children": [{"name": "b"}]}, {"name": "a", "children": [{}]}),
        (FakeModel, {"value": 1}, {"value": 0}),
    ):
        schema = schema_of_type(kind)
        assert schema["type"] == "object"
        assert CompiledSchema(schema).problems(good) is None
        assert CompiledSchema(schema).problems(bad) is not None
    with pytest.raises(ConfigError, match="complex"):
        schema_of_type(complex)


def test_what_a_schema_cannot_say_is_refused_with_its_path_before_the_function_runs() -> None:
    @tool
    def plan(days: list[dt.date]) -> None:
        raise AssertionError("must not run")

    with pytest.raises(ToolValidationError, match=r"\$\.days\[1\]: .*date"):
        run(plan, days=["2026-01-01", "soon"])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "depth", "name"]), inner),
    max_leaves=6,
)
TYPES: list[Any] = [
    int,
    float,
    str,
    bool,
    int | None,
    list[int],
    dict[str, float],
    tuple[int, str],
    Literal["a", 1],
    Colour,
    Options,
    Node,
    Point,
    list[Point | None],
    Annotated[str, msgspec.Meta(min_length=2, max_length=4)],
    str | int | list[bool],
]


def typed_tool(kind: Any) -> ToolRegistry:
    def take(value: object) -> object:
        return value

    take.__annotations__["value"] = kind
    return ToolRegistry.of(tool(take))


REGISTRIES = [(kind, typed_tool(kind)) for kind in TYPES]


@given(st.sampled_from(REGISTRIES), json_values)
def test_the_schema_accepts_exactly_what_the_function_accepts(case: tuple[Any, ToolRegistry], value: Any) -> None:
    kind, registry = case
    definition = registry.get("take")
    assert definition is not None
    by_schema = registry.problems("take", {"value": value}) is None
    try:
        run(definition, value=value)
        by_function = True
    except ToolValidationError:
        by_function = False
    assert by_schema == by_function, (kind, value)


@given(
    st.data(), st.sampled_from([int, str, float, bool, list[int], dict[str, int], Colour, Node, Point, tuple[int, str]])
)
def test_a_typed_value_survives_the_way_through_json(data: st.DataObject, kind: Any) -> None:
    value = data.draw(st.floats(allow_nan=False, allow_infinity=False) if kind is float else st.from_type(kind))
    plain = msgspec.to_builtins(value)
    registry = typed_tool(kind)
    definition = registry.get("take")
    assert definition is not None
    if all(abs(number) < 2**53 for number in numbers(plain)):
        assert registry.problems("take", {"value": plain}) is None
        assert run(definition, value=plain) == value


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers(item)]
    if isinstance(value, list | tuple):
        return [n for item in value for n in numbers(item)]
    return [value] if type(value) in (int, float) and value == value else [0.0] if value == value else [float("inf")]


def test_a_generator_is_no_tool() -> None:
    def some(a: int) -> Any:
        yield a

    async def several(a: int) -> Any:
        yield a

    class Called:
        def __call__(self, a: int) -> Any:
            yield a

    @functools.wraps(some)
    def wrapping(a: int) -> Any:
        return some(a)

    targets: list[Any] = [some, several, functools.partial(some), wrapping, Called()]
    for target in targets:
        with pytest.raises(ConfigError, match="is a generator"):
            tool(name="t")(target)
