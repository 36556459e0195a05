"""Templates replace what is known, once: a value is data, whatever it contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.workflow_templates import (
    MISSING,
    NoOutput,
    lookup_in,
    references_in,
    references_of,
    render,
    render_value,
    text_of,
    with_outputs,
)
from loopwright.model.family_errors import RenderedTooLargeError

VALUES = {
    "input": {"topic": "rain", "n": 3, "tags": ["a", {"deep": True}]},
    "plan": "three steps",
    "index": 0,
    "broken": NoOutput("broken", "failed", "timeout after 5 s"),
    "left": NoOutput("left", "skipped"),
}
LOOKUP = lookup_in(VALUES)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("On {{input.topic}}: {{ plan }}", "On rain: three steps"),
        ("{{input.tags.1.deep}} {{input.n}} {{index}}", "true 3 0"),
        ("{{input.tags}}", '["a",{"deep":true}]'),
        ("{{nobody}} {{ no.body }} {{}} {{ a b }} {{{plan}}}", "{{nobody}} {{ no.body }} {{}} {{ a b }} {three steps}"),
        ("{{broken}}", "[broken failed and gave no output: timeout after 5 s]"),
        ("{{broken.key}}", "[broken failed and gave no output: timeout after 5 s]"),
        ("{{left}}", "[left was skipped and gave no output]"),
        ("{{plan.key}} {{input.tags.9}}", "[the output of plan has no key] [the output of input has no tags.9]"),
        ("{{\u0131nput}} {{input.tags.\u0661}}", "{{\u0131nput}} {{input.tags.\u0661}}"),
    ],
)
def test_placeholders_are_replaced_by_values_and_unknown_ones_stay(text: str, expected: str) -> None:
    assert render(text, LOOKUP) == expected


def test_a_text_that_is_one_placeholder_keeps_the_type_of_its_value() -> None:
    arguments = {
        "{{plan}}": "{{input}}",
        "n": "{{input.n}}",
        "s": "n={{input.n}}",
        "list": ["{{index}}", 7, None, "{{x}}"],
    }
    assert render_value(arguments, LOOKUP) == {
        "{{plan}}": VALUES["input"],
        "n": 3,
        "s": "n=3",
        "list": [0, 7, None, "{{x}}"],
    }
    assert render_value("{{broken}}", LOOKUP) == str(VALUES["broken"])
    assert render_value({"all": "{{all}}"}, lookup_in({"all": {"items": [VALUES["left"], 1]}})) == {
        "all": {"items": [str(VALUES["left"]), 1]}
    }


@given(st.text(alphabet="{} abinputpl.", max_size=30), st.text(alphabet="{} abinputpl.", max_size=30))
def test_what_a_value_contains_is_never_expanded(text: str, value: str) -> None:
    """The parts around placeholders and the values stand in the result as they are, in order; nothing else is in it."""
    rendered = render(text, lambda path: value if path == ("input",) else MISSING)
    expected, rest = "", text
    while (at := rest.find("{{input}}")) >= 0:
        expected, rest = expected + rest[:at] + value, rest[at + len("{{input}}") :]
    if "{{ " not in text and " }}" not in text:
        assert rendered == expected + rest
    assert render("{{input}}", lambda _: value) == value


@given(st.text(alphabet="{} abc._-", max_size=60))
def test_a_text_is_the_same_when_nothing_is_known(text: str) -> None:
    assert render(text, lambda _: MISSING) == text
    assert render_value(text, lambda _: MISSING) == text


def test_each_value_is_asked_for_once_for_a_text() -> None:
    asked: list[tuple[str, ...]] = []

    def lookup(path: tuple[str, ...]) -> object:
        asked.append(path)
        return "x"

    assert render("{{a}}{{a}}{{a.b}}" * 100, lookup) == "xxx" * 100
    assert asked == [("a",), ("a", "b")]


def test_a_template_bomb_is_refused_before_it_is_put_together() -> None:
    big = "x" * 100_000
    with pytest.raises(RenderedTooLargeError, match="1,000,000 characters") as caught:
        render("{{a}}" * 20_000, lambda _: big)
    assert caught.value.limit == 1_000_000
    with pytest.raises(RenderedTooLargeError):
        render_value(["{{a}}"] * 11, lambda _: big)
    with pytest.raises(RenderedTooLargeError):
        with_outputs("", [(f"n{n}", big) for n in range(11)])
    assert render("{{a}}{{a}}", lambda _: "xx", limit=4) == "xxxx"
    with pytest.raises(RenderedTooLargeError):
        render("{{a}}{{a}}", lambda _: "xx", limit=3)


def test_references_are_found_in_order_and_in_all_texts_of_a_value() -> None:
    assert references_of("{{a}} {{b.c}} {{a}} {{1}}") == [("a",), ("b", "c"), ("a",)]
    assert list(references_in({"{{key}}": ["{{a}}", {"x": "{{b}}"}], "y": ("{{c}}", 1)})) == [("a",), ("b",), ("c",)]


def test_outputs_below_an_input_stand_under_their_references() -> None:
    joined = with_outputs("Sum up.", [("plan", "three"), ("broken", VALUES["broken"]), ("n.x", [1])])
    assert joined == (
        "Sum up.\n\n--- context: plan ---\nthree"
        "\n\n--- context: broken ---\n[broken failed and gave no output: timeout after 5 s]"
        "\n\n--- context: n.x ---\n[1]"
    )
    assert text_of({"a": [None, 1.5]}) == '{"a":[null,1.5]}'


def test_what_a_placeholder_gives_is_made_once_however_often_it_is_said() -> None:
    looked: list[tuple[str, ...]] = []

    def lookup(path: tuple[str, ...]) -> object:
        looked.append(path)
        return ["x"] * 10

    given = render_value({str(number): "{{a}}" for number in range(1_000)} | {"text": "{{a}}{{a}}"}, lookup)
    assert isinstance(given, dict)
    assert given["0"] == given["999"] == ["x"] * 10
    assert len(looked) <= 2
    looked.clear()
    with pytest.raises(RenderedTooLargeError):
        render_value(["{{a}}"] * 1_000, lookup, limit=100)
    assert len(looked) <= 2
