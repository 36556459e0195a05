"""Finding the asked object in what a model wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.output import Parsed, Unfit, parse_structured
from loopwright.model.specs import StructuredOutputSpec

SPEC = StructuredOutputSpec("answer", {"type": "object", "required": ["n"]})


def parse(text: str, why: str | None = None) -> Parsed | Unfit:
    return parse_structured(text, SPEC, lambda schema, value: why)


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 1}',
        '  {"n": 1}\n',
        'Sure:\n```json\n{"n": 1}\n```\nAnything else?',
        'The answer is {"n": 1} I think.',
        '{"n": 1,}',
        'I used {x} before; no.\n```\n{"n": 1}\n```',
    ],
)
def test_the_object_is_found_however_it_is_wrapped(text: str) -> None:
    assert parse(text) == Parsed({"n": 1})


@pytest.mark.parametrize(
    "text, reason",
    [
        ("no idea", "no_json"),
        ("", "no_json"),
        ('{"n": ', "invalid_json"),
        ("[1, 2]", "not_object"),
        ('{"n": one}', "invalid_json"),
        ('{"n": NaN}', "invalid_json"),
        ('{"m": 1}', "missing_required"),
    ],
)
def test_what_is_wrong_has_a_frozen_reason(text: str, reason: str) -> None:
    got = parse(text)
    assert isinstance(got, Unfit)
    assert got.reason == reason


def test_what_the_schema_says_is_passed_on() -> None:
    assert parse('{"n": 1}', "$.n: not a string") == Unfit("schema", "$.n: not a string")


def test_braces_in_strings_do_not_end_the_object() -> None:
    assert parse('x {"n": "}{\\""} y') == Parsed({"n": '}{"'})


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_named_unfit(text: str) -> None:
    assert isinstance(parse(text), Parsed | Unfit)


@pytest.mark.parametrize("text", ['{"n":' * 3000, "[" * 100_000, '{"n":' * 900 + "1" + "}" * 900, '{"n": 1e999}'])
def test_what_is_nested_too_deeply_or_too_large_is_invalid(text: str) -> None:
    got = parse(text)
    assert isinstance(got, Unfit)
    assert got.reason == "invalid_json"


def test_a_trailing_comma_is_forgiven_outside_of_strings_only() -> None:
    assert parse('{"n": "x,] ,} \\",}", "m": [1, ], }') == Parsed({"n": 'x,] ,} ",}', "m": [1]})
