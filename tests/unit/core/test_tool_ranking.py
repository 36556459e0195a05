"""Which tools fit the words of a query."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.core.tool_ranking import LINE_CHARS, best_tools, line_of
from loopwright.model.specs import ToolSpec


def spec(name: str, description: str = "", **properties: Any) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties})


ISSUE = spec("create_issue", "Open a ticket in the tracker.")
PULL = spec("mergePullRequest", "Merge the branches of a request.")
MAIL = spec("send-mail", "Write to somebody.", recipientAddress={"type": "string"})
TOOLS = (MAIL, PULL, ISSUE)


@pytest.mark.parametrize(
    "query, best",
    [
        ("open issues", ISSUE),
        ("ticket", ISSUE),
        ("pull", PULL),
        ("which branch", PULL),
        ("recipient", MAIL),
        ("MAIL", MAIL),
        ("please use `send-mail`, create_issue is not it", MAIL),
    ],
)
def test_words_of_names_descriptions_and_parameters_find_a_tool(query: str, best: ToolSpec) -> None:
    assert best_tools(query, TOOLS, 1) == (best,)


def test_a_name_weighs_more_than_a_mention() -> None:
    other = spec("archive", "Archive what create issue made, an issue at a time.")
    assert best_tools("issue", (other, ISSUE), 2) == (ISSUE, other)


def test_words_that_no_tool_has_find_nothing() -> None:
    assert best_tools("weather", TOOLS, 5) == ()
    assert best_tools("", TOOLS, 5) == ()


def test_a_tool_is_shown_in_one_line() -> None:
    assert line_of(spec("x", "\n  First.\nSecond.")) == "x: First."
    assert line_of(spec("x")) == "x"
    assert len(line_of(spec("x", "w" * 1_000))) == LINE_CHARS + 3


@pytest.mark.fuzz
@settings(max_examples=examples(60), deadline=None)
@given(
    st.text(max_size=200), st.lists(st.tuples(st.text(max_size=30), st.text(max_size=60)), max_size=8), st.integers()
)
def test_any_query_finds_at_most_the_limit_each_tool_once_and_always_the_same(
    query: str, tools: list[tuple[str, str]], limit: int
) -> None:
    given_tools = [spec(f"{place}{name}", description) for place, (name, description) in enumerate(tools)]
    found = best_tools(query, given_tools, limit)
    assert len(found) <= max(limit, 0)
    assert len({one.name for one in found}) == len(found)
    assert found == best_tools(query, given_tools, limit)
