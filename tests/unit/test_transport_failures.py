"""What a provider says went wrong, as typed errors without secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.model.errors import LLMContextOverflowError, LLMError, LLMRequestError, LLMTransientError
from loopwright.transports.provider_failures import FailureReader, retry_after_s

READER = FailureReader("groq", "GROQ_API_KEY", ["sk-verysecret", "hunter2"])


def of(status: int, body: Any = None, headers: dict[str, str] | None = None) -> LLMError:
    raw = body if isinstance(body, bytes) else json.dumps(body or {"error": {"message": "no"}}).encode()
    return READER.of_status(status, headers or {}, raw, now=1_000.0)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_passing_faults_may_be_retried(status: int) -> None:
    error = of(status)
    assert isinstance(error, LLMTransientError)
    assert (error.status, error.provider) == (status, "groq")


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 405, 422, 451])
def test_refusals_are_final(status: int) -> None:
    assert type(of(status)) is LLMRequestError


@pytest.mark.parametrize(
    "status, body",
    [
        (400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens."}}),
        (
            400,
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 210000 tokens > 200000 maximum",
                },
            },
        ),
        (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 1 + 2 > 3"}}),
        (400, [{"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}]),
        (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    ],
)
def test_a_too_long_request_has_its_own_error(status: int, body: Any) -> None:
    assert isinstance(of(status, body), LLMContextOverflowError)


def test_a_rate_limit_that_mentions_tokens_stays_a_rate_limit() -> None:
    assert isinstance(of(429, {"error": {"message": "Rate limit: too many tokens per minute"}}), LLMTransientError)


def test_an_empty_account_is_final_although_its_status_is_429() -> None:
    assert type(of(429, {"error": {"message": "quota", "code": "insufficient_quota"}})) is LLMRequestError


@pytest.mark.parametrize(
    "headers, expected",
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:17:10 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_waiting_times_in_every_form(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, now=1_000.0) == expected
    assert of(429, headers=headers).retry_after_s == expected


@pytest.mark.parametrize(
    "body, expected",
    [
        ({"error": {"message": "why"}}, "why"),
        ({"error": "why"}, "why"),
        ({"detail": "why"}, "why"),
        ({"detail": [{"loc": ["body"], "msg": "why"}]}, "why"),
        ({"message": "why"}, "why"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "why"}}}, "why"),
        (b"<html><style>x{}</style><body><h1>why</h1></body></html>", "why"),
        (b"why", "why"),
        (b"", "no message"),
        (b"\xff\xfe", "groq 400"),
    ],
)
def test_the_provider_s_words_are_found_wherever_they_stand(body: Any, expected: str) -> None:
    assert expected in str(of(400, body))


def test_a_wrong_key_names_where_to_look() -> None:
    assert "check the key in GROQ_API_KEY" in str(of(401))
    assert "check model and base_url" in str(of(404))


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-verysecret.",
        "Incorrect API key provided: sk-proj-abcdefghijkl****wxyz.",
        "header Authorization: Bearer verysecretthing",
        "cannot reach http://user:verysecret@proxy:1/",
        "the password hunter2 is wrong",
    ],
)
def test_secrets_are_taken_out_of_every_text(text: str) -> None:
    for error in (of(400, {"error": {"message": text}}), READER.of_stream({"message": text}), READER.transient(text)):
        shown = f"{error} {error!r} {error.details}"
        assert not any(secret in shown for secret in ("verysecret", "hunter2", "abcdefghijkl"))


def test_long_texts_are_cut() -> None:
    assert len(str(of(500, b"x" * 100_000))) < 700


def test_a_code_is_cleaned_like_every_other_text() -> None:
    error = of(401, {"error": {"message": "bad", "code": "key sk-verysecret."}})
    assert "verysecret" not in f"{error} {error!r} {error.details}"


@pytest.mark.parametrize("body", [b'{"a":' * 5000, b"[" * 100_000, b'{"a":' * 900 + b"1" + b"}" * 900])
def test_an_error_body_nested_without_end_is_still_an_error(body: bytes) -> None:
    assert isinstance(READER.of_status(500, {}, body, 0.0), LLMTransientError)


def test_a_key_without_its_prefix_is_still_a_secret() -> None:
    reader = FailureReader("test", "KEY", ["sk-SuperSecretKey1234567890"])
    assert reader.clean("bad key SuperSecretKey1234567890") == "bad key ***"
