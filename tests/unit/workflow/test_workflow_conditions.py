"""Conditions compare values and never raise: what cannot be compared does not hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.workflow_conditions import case_key, holds, references_of_condition
from loopwright.core.workflow_templates import NoOutput, lookup_in
from loopwright.model.workflow_spec import Condition
from loopwright.workflow.builder import all_of, any_of, compare, none_of

LOOKUP = lookup_in(
    {
        "score": 8,
        "text": " 8 ",
        "word": "approved by Ann",
        "yes": True,
        "no": "No",
        "list": ["a", 2],
        "object": {"key": None},
        "broken": NoOutput("broken", "failed"),
    }
)


@pytest.mark.parametrize(
    "condition, expected",
    [
        ("yes", True),
        ("no", False),
        ("nobody", False),
        ("broken", False),
        ("object.key", False),
        (compare("score", "ge", 8), True),
        (compare("score", "gt", 8), False),
        (compare("text", "lt", 9), True),
        (compare("text", "le", 7.5), False),
        (compare("word", "gt", 1), False),
        (compare("text", "equals", 8), True),
        (compare("yes", "equals", 1), False),
        (compare("yes", "equals", "true"), True),
        (compare("object.key", "equals", None), True),
        (compare("nobody", "equals", None), False),
        (compare("nobody", "not_equals", 1), True),
        (compare("score", "not_equals", 8), False),
        (compare("object.key", "exists"), True),
        (compare("object.nokey", "exists"), False),
        (compare("broken", "exists"), False),
        (compare("word", "contains", "Ann"), True),
        (compare("list", "contains", 2), True),
        (compare("object", "contains", "key"), True),
        (compare("score", "contains", 8), False),
        (compare("score", "in", [1, 8]), True),
        (compare("word", "in", ["approved"]), False),
        (compare("word", "matches", "approved*"), True),
        (compare("word", "matches", "*ed*Ann"), True),
        (compare("word", "matches", "approved"), False),
        (compare("word", "matches", "approved by Ann*by Ann"), False),
        (Condition(ref="yes"), True),
        (all_of("yes", compare("score", "gt", 1)), True),
        (all_of("yes", "no"), False),
        (any_of("no", "yes"), True),
        (none_of("no", "broken"), True),
        (none_of("yes"), False),
    ],
)
def test_a_condition_holds_or_not(condition: Condition | str, expected: bool) -> None:
    assert holds(condition, LOOKUP) is expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
operators = st.sampled_from(["equals", "not_equals", "contains", "in", "gt", "ge", "lt", "le", "matches", "exists"])


@given(json_values | st.just(10**400), operators, json_values)
def test_any_values_can_be_compared(left: object, op: str, right: object) -> None:
    assert holds(Condition(ref="x", op=op, value=right), lookup_in({"x": left})) in (True, False)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(["a", "b", "*"]), max_size=8).map("".join), st.text(alphabet="ab", max_size=8))
def test_a_star_stands_for_any_text(pattern: str, text: str) -> None:
    def fits(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(fits(pattern[1:], text[n:]) for n in range(len(text) + 1))
        return text[:1] == pattern[0] and fits(pattern[1:], text[1:])

    assert holds(compare("x", "matches", pattern), lookup_in({"x": text})) == fits(pattern, text)


def test_all_references_of_a_condition_are_named() -> None:
    inner = all_of("a", any_of(compare("b.c", "exists"), none_of("d")))
    assert references_of_condition(inner) == ["a", "b.c", "d"]
    assert references_of_condition("a") == ["a"]
    assert references_of_condition(None) == []


def test_a_branch_compares_the_text_of_a_value() -> None:
    assert [case_key(one) for one in (" yes\n", True, 3, None)] == ["yes", "true", "3", "null"]
