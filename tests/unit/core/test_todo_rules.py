"""A todo list is short, says one thing at a time, and is refused whole with every reason."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.todo_rules import MAX_ITEMS, checked_todo, listed_todo, rendered_todo
from loopwright.model.call_errors import ToolFailure
from loopwright.model.notes import TodoItem, TodoStatus

items = st.builds(TodoItem, st.text(max_size=3), st.text(max_size=5), st.sampled_from(get_args(TodoStatus)))


@given(st.lists(items, max_size=MAX_ITEMS + 3).map(tuple))
def test_a_list_is_taken_exactly_when_it_keeps_every_rule(given_items: tuple[TodoItem, ...]) -> None:
    names = [item.id.strip() for item in given_items]
    fits = (
        len(given_items) <= MAX_ITEMS
        and len(set(names)) == len(names)
        and all(names)
        and not any(len(name.splitlines()) > 1 for name in names)
        and all(item.text.split() for item in given_items)
        and [item.status for item in given_items].count("in_progress") <= 1
    )
    try:
        taken = checked_todo(given_items)
    except ToolFailure:
        assert not fits
    else:
        assert fits
        assert [item.status for item in taken] == [item.status for item in given_items]
        assert checked_todo(taken) == taken


def test_every_problem_is_named_at_once() -> None:
    many = tuple(TodoItem("1", "", "in_progress") for _ in range(2))
    with pytest.raises(
        ToolFailure, match=r"item 1 needs a text.*item 2 needs a text.*once: 1; one item may be in_progress, not 2"
    ):
        checked_todo(many)
    with pytest.raises(ToolFailure, match="21 items, 20 are allowed"):
        checked_todo(tuple(TodoItem(str(n), "x") for n in range(21)))
    with pytest.raises(ToolFailure, match="1 to 500 characters"):
        checked_todo((TodoItem("1", "x" * 501),))


def test_the_message_about_a_list_of_any_length_is_short() -> None:
    with pytest.raises(ToolFailure) as caught:
        checked_todo(tuple(TodoItem("x" * 64, "", "in_progress") for _ in range(30)))
    assert len(str(caught.value)) < 5000


def test_the_model_sees_one_line_an_item() -> None:
    plan = (TodoItem("a", "read", "done"), TodoItem("b", "write", "in_progress"), TodoItem("c", "test"))
    assert listed_todo(plan) == "[x] a: read\n[>] b: write\n[ ] c: test\n(1 of 3 done)"
    assert rendered_todo(plan).endswith(listed_todo(plan))
    assert rendered_todo(()) == ""
