"""What tokens cost, and what money budgets leave: properties of the pure rules."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.budgets import MoneyLimit, expected_usage, refusing
from loopwright.core.pricing import PriceTier, TokenPrices, cost_of, nanodollars, price_problems
from loopwright.model.usage import NO_USAGE, Usage

SONNET = TokenPrices(
    input=3,
    output=15,
    cached=0.3,
    cache_write=3.75,
    tiers=(PriceTier(above_input_tokens=200_000, input=6, output=22.5, cached=0.6, cache_write=7.5),),
)

tokens = st.integers(0, 10_000_000)
dollars = st.floats(0, 1000, allow_nan=False).map(lambda price: round(price, 6))


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    plain, cached, written = draw(tokens), draw(tokens), draw(tokens)
    return Usage(plain + cached + written, draw(tokens), cached, written, calls=1)


prices = st.builds(
    TokenPrices,
    input=dollars,
    output=dollars,
    cached=st.none() | dollars,
    cache_write=st.none() | dollars,
)


def test_each_class_of_tokens_has_its_own_price() -> None:
    used = Usage(1_000 + 2_000 + 4_000, 500, cached_tokens=2_000, cache_write_tokens=4_000, reasoning_tokens=100)
    cost = 1_000 * 3_000 + 2_000 * 300 + 4_000 * 3_750 + 500 * 15_000
    assert cost_of(SONNET, used) == cost


def test_cached_tokens_without_a_price_of_their_own_cost_what_input_costs() -> None:
    plain = TokenPrices(input=2, output=8)
    assert cost_of(plain, Usage(1_000, 0, 600, 300)) == cost_of(plain, Usage(1_000, 0)) == 2_000_000


def test_crossing_a_tier_changes_the_price_of_all_tokens() -> None:
    assert cost_of(SONNET, Usage(200_000, 10)) == 200_000 * 3_000 + 10 * 15_000
    assert cost_of(SONNET, Usage(200_001, 10)) == 200_001 * 6_000 + 10 * 22_500


def test_the_highest_tier_that_was_crossed_counts_whatever_their_order() -> None:
    tiers = [PriceTier(above_input_tokens=n, input=n, output=0) for n in (1, 10, 5)]
    assert cost_of(TokenPrices(input=0, output=0, tiers=tuple(tiers)), Usage(7, 0)) == 7 * 5 * 1_000


def test_a_price_is_the_number_that_was_written() -> None:
    assert cost_of(TokenPrices(input=0.1, output=0), Usage(10_000_000_000, 0)) == 10**12
    assert cost_of(TokenPrices(input=0.0001, output=0), Usage(1, 0)) == 1  # a tenth of a nanodollar, rounded up
    assert nanodollars(0.1) == 100_000_000


@given(prices, usages())
def test_a_cost_is_the_sum_of_its_parts_rounded_up_to_a_whole_nanodollar(of: TokenPrices, used: Usage) -> None:
    plain = used.input_tokens - used.cached_tokens - used.cache_write_tokens
    cached = of.input if of.cached is None else of.cached
    written = of.input if of.cache_write is None else of.cache_write
    exact = sum(
        Fraction(str(price)) * count * 1_000
        for price, count in (
            (of.input, plain),
            (cached, used.cached_tokens),
            (written, used.cache_write_tokens),
            (of.output, used.output_tokens),
        )
    )
    assert cost_of(of, used) == math.ceil(exact)


@given(prices, usages(), usages())
def test_more_tokens_never_cost_less_and_two_calls_never_less_than_one_of_both(
    of: TokenPrices, one: Usage, other: Usage
) -> None:
    assert cost_of(of, one + other) >= max(cost_of(of, one), cost_of(of, other))
    assert cost_of(of, one) + cost_of(of, other) >= cost_of(of, one + other)
    assert cost_of(of, NO_USAGE) == 0


@given(usages(), tokens)
def test_tokens_that_a_provider_counts_twice_never_make_a_cost_negative(used: Usage, more: int) -> None:
    odd = Usage(used.input_tokens, 0, used.cached_tokens + more, used.cache_write_tokens + more)
    assert cost_of(SONNET, odd) >= 0


def test_an_impossible_price_is_named() -> None:
    wrong = TokenPrices(
        input=-1, output=math.inf, cached=math.nan, tiers=(PriceTier(above_input_tokens=-5, input=1, output=1),)
    )
    said = " ".join(price_problems(wrong))
    assert all(word in said for word in ("input", "output", "cached", "above_input_tokens"))
    assert price_problems(SONNET) == []


@given(st.lists(st.tuples(usages(), st.integers(0, 10**12), st.integers(0, 3))))
def test_costs_and_unpriced_calls_add_up_exactly(parts: list[tuple[Usage, int, int]]) -> None:
    total = sum(
        (Usage(u.input_tokens, u.output_tokens, nanodollars=cost, unpriced_calls=n) for u, cost, n in parts), NO_USAGE
    )
    assert total.nanodollars == sum(cost for _, cost, _ in parts)
    assert total.unpriced_calls == sum(n for _, _, n in parts)
    assert total.cost_usd == total.nanodollars / 1e9


# --- budgets ----------------------------------------------------------------------------------------------------------

limits = st.lists(
    st.builds(MoneyLimit, st.sampled_from("abc"), st.integers(0, 1000), st.integers(0, 1500), st.integers(0, 500)),
    max_size=4,
)


@given(st.integers(0, 10**6), st.floats(0.1, 10), st.none() | st.integers(1, 10**5))
def test_an_estimate_covers_the_window_and_the_longest_reply(window: int, ratio: float, limit: int | None) -> None:
    used = expected_usage(window, ratio=ratio, max_output_tokens=limit)
    assert used.input_tokens >= window * ratio
    assert used.output_tokens == (4096 if limit is None else limit)
    assert used.cached_tokens == 0
    assert used.estimated


def test_a_ratio_that_is_no_number_is_not_used() -> None:
    assert expected_usage(100, ratio=math.nan).input_tokens == 100
    assert expected_usage(100, ratio=-3.0).input_tokens == 0


@given(limits, st.integers(0, 1000))
def test_a_call_begins_exactly_when_every_limit_has_room_for_it(given_: list[MoneyLimit], asked: int) -> None:
    refused = refusing(given_, asked)
    roomy = all(one.spent + one.held + asked <= one.limit for one in given_)
    assert (refused is None) == roomy
    if refused is not None:
        assert refused.spent + refused.held + asked > refused.limit


@given(limits)
def test_a_call_of_unknown_price_is_refused_only_by_a_limit_that_is_used_up(given_: list[MoneyLimit]) -> None:
    assert (refusing(given_, None) is None) == all(one.left > 0 for one in given_)
