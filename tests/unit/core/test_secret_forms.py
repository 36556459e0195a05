"""Redaction: no promised form of a secret is left, nothing else is touched, and no text makes it slow."""

from __future__ import annotations

import base64
import json
import re
import tracemalloc
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.core.secret_forms import SecretFinder, rewritten
from loopwright.core.secret_spans import is_secret_name, named_spans, shaped_spans
from loopwright.model.errors import ConfigError

UNSEEN = " \t\n\r\u00a0\u200b\u200d\u2060\ufeff\u00ad\U000e0041\ufe0f"

SECRETS = st.text(min_size=7, max_size=40).filter(
    lambda text: (
        sum(not c.isspace() and c not in UNSEEN and c.isprintable() for c in text) >= 7
        and "redacted" not in text.casefold()
    )
)
FORMS = st.sampled_from(
    [
        "plain",
        "json",
        "json_raw",
        "slashes",
        "percent",
        "percent_low",
        "plus",
        "hex",
        "HEX",
        "base64",
        "urlsafe",
        "inside_base64",
        "spread",
    ]
)


def written(secret: str, form: str, before: bytes, gap: str) -> str:
    data = secret.encode()
    match form:
        case "json":
            return json.dumps(secret)[1:-1]
        case "json_raw":
            return json.dumps(secret, ensure_ascii=False)[1:-1]
        case "slashes":
            return json.dumps(secret)[1:-1].replace("/", "\\/")
        case "percent":
            return quote(secret, safe="")
        case "percent_low":
            return re.sub("%..", lambda found: found[0].lower(), quote(secret))
        case "plus":
            return quote_plus(secret)
        case "hex":
            return data.hex()
        case "HEX":
            return data.hex().upper()
        case "base64":
            return base64.b64encode(data).decode()
        case "urlsafe":
            return base64.urlsafe_b64encode(data).decode()
        case "inside_base64":
            return base64.encodebytes(before + data + b"...").decode()
        case "spread":
            return gap.join(secret)
        case _:
            return secret


def decoded(text: str) -> Iterator[bytes]:
    """What every run of base64 in a text says, wherever it is begun to be read."""
    for run in re.findall("[A-Za-z0-9+/]{8,}", text):
        for begin in range(4):
            yield base64.b64decode(run[begin : begin + (len(run) - begin) // 4 * 4])


@pytest.mark.fuzz
@settings(max_examples=examples(50))
@given(
    st.lists(SECRETS, min_size=1, max_size=3, unique=True),
    st.lists(st.tuples(st.integers(0, 2), FORMS, st.text(max_size=20)), max_size=6),
    st.binary(max_size=60),
    st.text(UNSEEN, max_size=3),
)
@example(
    ['p@ss/w\u00f6rd"x\\y', 'p@ss/w\u00f6rd"x\\yz'], [(1, form, "\u00e4") for form in ("json", "plus", "hex")], b"", ""
)
@example(["[secret]", "secret]["], [(0, "plain", ""), (1, "plain", "[")], b"", "\n")
@example(["aaaaaaa"], [(0, "plain", "a" * 20)], b"", "")
def test_no_form_of_a_known_secret_is_left(
    secrets: list[str], pieces: list[tuple[int, str, str]], before: bytes, gap: str
) -> None:
    try:
        finder = SecretFinder({f"NAME_{i}": secret for i, secret in enumerate(secrets)})
    except ConfigError:
        return  # it says so itself that it cannot mark these
    text = "".join([written(secrets[i % len(secrets)], form, before, gap) + after for i, form, after in pieces])
    new, names = finder.redacted(text)
    shown = "".join([c for c in new if not c.isspace() and c not in UNSEEN])
    for i, form, _ in pieces:
        secret = secrets[i % len(secrets)]
        assert secret not in new
        form = "plain" if form == "spread" else form
        if form != "inside_base64":
            left = "".join([c for c in written(secret, form, before, "") if not c.isspace() and c not in UNSEEN])
            assert left not in shown
        else:
            assert not any(secret.encode() in data for data in decoded(shown))
    assert bool(names) == (new != text)
    assert finder.redacted(new) == (new, ()), "what was redacted is not redacted again"
    assert finder.has_mark(new) == bool(names) or finder.has_mark(text)


WORDS = st.lists(
    st.sampled_from(
        [
            "token",
            "tokens: 512",
            "password",
            "the password is wrong",
            "key = value",
            "max_tokens=4096",
            "secret santa",
            "sk-",
            "eyJ",
            "ghp_x",
        ]
    )
    | st.text(st.characters(exclude_characters=":=", codec="utf-8"), max_size=12),
    max_size=12,
).map(" ".join)


@pytest.mark.fuzz
@settings(max_examples=examples(50))
@given(WORDS)
def test_a_text_without_secrets_is_the_very_same_afterwards(text: str) -> None:
    finder = SecretFinder({"A": "correct-horse-battery", "B": "Tr0ub4dor&3-staple"})
    new, names = finder.redacted(text)
    assert new is text
    assert names == ()


@pytest.mark.parametrize(
    "text, left",
    [
        ("OPENAI_API_KEY=abcdef123456", "OPENAI_API_KEY=[redacted]"),
        ('export DB_PASSWORD="p w d 1 2"; ls', 'export DB_PASSWORD="[redacted]"; ls'),
        (
            '{"clientSecret": "x", "client_secret": "abc\\"def", "n": 1}',
            '{"clientSecret": "x", "client_secret": "[redacted]", "n": 1}',
        ),
        ("curl -H 'Authorization: Bearer abc.def-ghi' host", "curl -H 'Authorization: Bearer [redacted]' host"),
        ("Set-Cookie: sid=38afes7a8; HttpOnly", "Set-Cookie: [redacted]"),
        ("psql postgres://app:s3cr3t!@db/app", "psql postgres://app:[redacted]@db/app"),
        ("mysql --password hunter22 -h db", "mysql --password [redacted] -h db"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("x-api-key: 0123456789abcdef", "x-api-key: [redacted]"),
        ('password="cut off in the mid', 'password="[redacted]'),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest", "[redacted]\nrest"),
        ("a -----BEGIN PRIVATE KEY-----\nMIIE and it is cut", "a [redacted]"),
        ("password: ${DB_PASSWORD}, token: none, secret=os.environ['X']", None),
        ("tokens: 532, monkey=banana, the token is invalid", None),
    ],
)
def test_what_is_given_under_the_name_of_a_secret_or_looks_like_one_goes(text: str, left: str | None) -> None:
    assert SecretFinder({}).redacted(text)[0] == (text if left is None else left)


@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "X-API-Key", "db_password", "accessToken", "AWS_SECRET_ACCESS_KEY", "Cookie"]
)
def test_a_name_is_known_however_it_is_written(name: str) -> None:
    assert is_secret_name(name)
    assert not is_secret_name(f"{name}_hint_text")


def test_values_that_nobody_could_tell_apart_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="'PIN' has fewer than 6 characters"):
        SecretFinder({"PIN": "12 34"})
    with pytest.raises(ConfigError, match="no mark can be told"):
        SecretFinder({"A": "redacted"})
    assert SecretFinder({"X": "abc[de]f"}).mark("X") == "\u27e6redacted:X\u27e7"
    assert SecretFinder({"hunter2hunter2": "hunter2hunter2"}).mark("hunter2hunter2") == "[redacted]"


def test_a_name_of_data_gives_its_value_away_whatever_the_value_looks_like() -> None:
    value = {"a": [{"b": "x"}], "c": 1}
    assert rewritten(value, lambda text, key: f"{key}/{text}") == {"/a": [{"/b": "b/x"}], "/c": 1}
    deep: object = "x"
    for _ in range(200):
        deep = [deep]
    with pytest.raises(RecursionError):
        rewritten(deep, lambda text, key: text)


HOSTILE = [
    "sk-", "eyJ", "eyJaaaaaaaaa.", "eyJa-", "://", "://a:", "a:", "@", "token=", 'token="', 'token="\\', "password: ", "--password ",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "Cookie: ", "Cookie: a=", "api_", "api-key", "Authorization: Bearer ", "'", '"', "\\", "=",
    "\u200b", " ", "a", "hooks.slack.com/services/", "xoxb-", "AKIA", "[redacted", "correct-horse", "Y29ycmVj",
]  # fmt: skip


@pytest.mark.fuzz
@settings(max_examples=examples(2))
@given(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4))
@example(["eyJa-"])
@example(["token=", '"\\'])
@example(["-----BEGIN PRIVATE KEY-----"])
@example(["://a:"])
@example(["correct-horse", "\u200b"])
def test_no_text_makes_the_work_more_than_linear(pieces: list[str]) -> None:
    """150,000 characters: work that grows with the square takes minutes, and the time limit of a test ends it."""
    text = ("".join(pieces) * 150_000)[:150_000]
    SecretFinder({"A": "correct-horse-battery"}).redacted(text)


def test_the_memory_for_a_large_text_is_a_few_copies_of_it() -> None:
    finder = SecretFinder({"A": "correct-horse-battery"})
    text = "lorem ipsum dolor \n" * 12_000 + "correct-horse-battery"
    tracemalloc.start()
    try:
        new, _ = finder.redacted(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert new.endswith("[redacted:A]")
    assert peak < 6 * len(text)


@pytest.mark.fuzz
@settings(max_examples=examples(40))
@given(st.text(max_size=60), st.integers(1, 19), st.text(max_size=30))
def test_where_a_secret_may_go_on_is_never_behind_its_beginning(before: str, length: int, gap: str) -> None:
    secret = "correct-horse-batter"
    finder = SecretFinder({"A": secret})
    begun = f"{before}{secret[:length]}"
    assert finder.may_go_on(begun) <= len(before)
    assert finder.may_go_on(f"{begun}\n\u200b") <= len(before)


def test_patterns_say_where_something_stands() -> None:
    assert list(shaped_spans("a ghp_aaaaaaaaaaaaaaaaaaaaaaaa b")) == [(2, 30)]
    assert list(named_spans("token='abcdefg'")) == [(7, 14)]
