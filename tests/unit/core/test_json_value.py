"""What is a JSON value as it is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.json_value import odd_in

PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ODD: st.SearchStrategy[Any] = st.sampled_from([{1}, b"x", object(), float("nan"), float("inf"), {1: 2}, 1j])


@given(PLAIN)
def test_what_comes_back_as_it_is_has_nothing_odd(value: Any) -> None:
    assert odd_in(value) is None
    assert json.loads(json.dumps(value)) == value


@given(PLAIN, ODD, PLAIN)
def test_something_odd_is_found_wherever_it_is(before: Any, odd: Any, after: Any) -> None:
    assert odd_in(odd) is not None
    assert odd_in([before, {"inside": (after, {"deeper": [odd]})}]) is not None
