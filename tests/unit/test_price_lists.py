"""Price lists: which entry a model has, and what the published one says in our words."""

from __future__ import annotations

from typing import Any, cast

import pytest

from loopwright.core.pricing import TokenPrices
from loopwright.model.errors import ConfigError
from loopwright.model.usage import Usage
from loopwright.transports.price_table import PriceTable
from loopwright.transports.published_prices import PublishedPrices

ONE = Usage(1_000_000, 0, calls=1)
IN_2026 = 1_795_000_000.0


def dollars(prices: Any, model: str, provider: str | None = None, used: Usage = ONE) -> float | None:
    cost = prices.cost(used, model=model, provider=provider, at=IN_2026)
    return None if cost is None else cost / 1e9


def table(**prices: float) -> PriceTable:
    return PriceTable({name: TokenPrices(input=price, output=0) for name, price in prices.items()})


def test_a_name_fits_itself_its_dated_versions_and_any_capitals() -> None:
    prices = PriceTable({"gpt-5": {"input": 1.25, "output": 10}})
    assert {dollars(prices, name) for name in ("gpt-5", "GPT-5", "gpt-5-2025-08-07", "gpt-5-20250807")} == {1.25}
    assert dollars(prices, "gpt-5-mini") is None
    assert dollars(prices, "my-gpt-5") is None


def test_the_most_exact_key_counts() -> None:
    prices = PriceTable(
        {
            "*": {"input": 1, "output": 0},
            "gpt-5*": {"input": 2, "output": 0},
            "gpt-5-mini*": {"input": 3, "output": 0},
            "gpt-5-mini": {"input": 4, "output": 0},
            "azure:gpt-5-mini": {"input": 5, "output": 0},
        }
    )
    found = [dollars(prices, name) for name in ("other", "gpt-5-x", "gpt-5-mini-x", "gpt-5-mini")]
    assert found == [1, 2, 3, 4]
    assert dollars(prices, "gpt-5-mini", "azure") == 5


def test_a_key_may_name_the_provider_and_models_may_have_colons() -> None:
    prices = PriceTable({"ollama:*": {"input": 0, "output": 0}, "llama3:8b": {"input": 7, "output": 0}})
    assert dollars(prices, "qwen3:4b", "Ollama") == 0
    assert dollars(prices, "llama3:8b") == 7
    assert dollars(prices, "qwen3:4b", "together") is None
    assert dollars(prices, "qwen3:4b") is None


def test_letters_that_mean_something_in_patterns_mean_themselves() -> None:
    prices = PriceTable({"a.b+c[1]?": {"input": 1, "output": 0}})
    assert dollars(prices, "a.b+c[1]?") == 1
    assert dollars(prices, "axb+c[1]?") is None


def test_what_the_table_lacks_is_asked_of_the_list_behind_it() -> None:
    prices = PriceTable({"mine": {"input": 1, "output": 1}}, otherwise=table(other=2))
    assert (dollars(prices, "mine"), dollars(prices, "other"), dollars(prices, "third")) == (1, 2, None)
    published = PriceTable({"gpt-4o": {"input": 1, "output": 1}}, otherwise="auto")
    assert (dollars(published, "gpt-4o"), dollars(published, "gpt-4o-mini", "openai")) == (1, 0.15)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"input": 1}, "output"),
        ({"input": 1, "output": 2, "prompt": 3}, "prompt"),
        ({"input": "1", "output": 2}, "input"),
        ({"input": -1, "output": 2}, "0 or more"),
        ({"input": float("nan"), "output": 2}, "0 or more"),
        (3, "mapping"),
    ],
)
def test_every_wrong_price_is_named_with_its_model(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)'my-model'.*'second'") as raised:
        PriceTable({"my-model": given, "second": {"output": 1}})
    assert said in str(raised.value)


def test_every_problem_of_every_model_is_listed_wrong_types_too() -> None:
    wrong: Any = {
        "a": {"input": -1, "output": "ten", "cached": True, "tires": []},
        "b": {"output": float("nan"), "tiers": [{"above_input_tokens": 1.5, "input": 1}, 5]},
        "c": 5,
        "d": TokenPrices(input=cast("Any", "x"), output=1),
        7: {"input": 1, "output": 1},
    }
    with pytest.raises(ConfigError) as raised:
        PriceTable(wrong, otherwise=cast("Any", 5))
    said = raised.value.problems
    assert len(said) == len(set(said)) == 13
    for model, beginning in [
        ("a", "input must be 0 or more, in US dollars for a million tokens, not -1"),
        ("a", "output must be 0 or more, in US dollars for a million tokens, not 'ten'"),
        ("a", "cached must be 0 or more"),
        ("a", "there is no 'tires'; known: input, output, cached, cache_write, tiers"),
        ("b", "input is missing"),
        ("b", "output must be 0 or more"),
        ("b", "tiers[0].above_input_tokens must be a whole number of tokens"),
        ("b", "tiers[0].output is missing"),
        ("b", "tiers[1] must be a PriceTier or a mapping of its fields, not 5"),
        ("c", "an entry must be a TokenPrices or a mapping of its fields, not 5"),
        ("d", "input must be 0 or more"),
    ]:
        assert [one for one in said if one.startswith(f"prices of {model!r}: {beginning}")]
    assert "the name of a model must be text, not 7" in said
    with pytest.raises(ConfigError, match="a mapping from models to their prices, not list"):
        PriceTable(cast("Any", [1]))


def test_the_published_list_knows_the_models_of_large_providers() -> None:
    prices = PublishedPrices()
    assert dollars(prices, "gpt-4o-2024-08-06", "openai") == 2.5
    assert dollars(prices, "gpt-4o-2024-08-06", "openai-responses") == 2.5
    assert dollars(prices, "claude-sonnet-4-5-20250929", "anthropic", Usage(100_000, 0)) == pytest.approx(0.3)
    assert dollars(prices, "claude-sonnet-4-5", "claude", Usage(0, 100_000)) == pytest.approx(1.5)
    for model, provider in (("gemini-2.5-pro", "gemini"), ("grok-4", "xai"), ("deepseek-chat", "deepseek")):
        assert (dollars(prices, model, provider) or 0) > 0
    assert (dollars(prices, "openai/gpt-4o", "openrouter") or 0) > 0
    assert (dollars(prices, "gpt-4o") or 0) > 0


def test_the_published_list_prices_cached_tokens_once() -> None:
    prices = PublishedPrices()
    read = dollars(prices, "gpt-4o", "openai", Usage(1_000_000, 0, cached_tokens=400_000))
    assert read == pytest.approx(0.6 * 2.5 + 0.4 * 1.25)
    odd = dollars(prices, "gpt-4o", "openai", Usage(0, 0, cached_tokens=400_000))
    assert odd == pytest.approx(0.5)  # a provider that counts cached input beside the other is no reason to fail


@pytest.mark.parametrize(
    "model, provider", [("no-such-model", "openai"), ("gpt-4o", "ollama"), ("gpt-4o", "my-server"), ("", None)]
)
def test_the_published_list_says_when_it_does_not_know(model: str, provider: str | None) -> None:
    assert dollars(PublishedPrices(), model, provider) is None
