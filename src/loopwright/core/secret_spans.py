"""Where secrets stand in running text, by their shape and by the name that they are given under.

Owns: these patterns. Must not know: known values (`secret_forms.py`), what is done with what was found.
Every pattern is linear on any text: what repeats is bounded, or can begin only where it did not run through before.
Read next: `secret_forms.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase
from typing import Final

# Narrower than the names of variables (`secret_patterns.py`): text is full of "tokens: 512" and "primary key".
_WORDS = (
    r"(?:api[_-]?key|secret|secret[_-]?key|client[_-]?secret|access[_-]?key(?:[_-]?id)?|private[_-]?key"
    r"|signing[_-]?key|encryption[_-]?key|(?:access|refresh|auth|bearer|session|id|api|bot|webhook)[_-]?token|token"
    r"|passwd|password|passphrase|pwd|credentials?|connection[_-]?string|dsn|authorization)"
)
_NAMED = re.compile(rf"(?:[\w-]{{0,60}}[_-])?{_WORDS}|(?:set-)?cookies?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# Each begins where no letter, digit, _ or - stands before it, so that a run of these is tried from its start only.
_SHAPES = re.compile(
    r"(?<![\w-])(?:"
    r"sk-[\w-]{16,}|[srp]k_(?:live|test)_\w{8,}|whsec_\w{8,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}(?![0-9A-Z])|AIza[\w-]{30,}|npm_\w{30,}|pypi-[\w-]{40,}|hf_\w{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?"
    r"|hooks\.slack\.com/services/[\w/]{10,}"
    r")",
    re.ASCII,
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s:@]{0,200}:(?P<value>[^/\s@]{1,500})(?=@)")
# Those below are for text in small letters. A name may be the end of a longer one: db_password, x-api-key.
# NAME=value, NAME: value, "name": "value". A quoted value may lack its end: outputs are cut anywhere.
_ASSIGNED = re.compile(
    rf"(?<![a-z0-9]){_WORDS}(?![\w-])[\"']?[ \t]{{0,4}}(?:=>|:=|[=:])[ \t]{{0,4}}"
    r"(?:(?:bearer|basic|token|digest|apikey|negotiate)[ \t]{1,4})?"
    r"(?P<value>\"(?:[^\"\\\n]|\\.){1,4000}\"?|'[^'\n]{1,4000}'?|[^\s\"',;&<>(){}]{1,4000})"
)
_OPTION = re.compile(rf"(?<![\w-])--(?:[\w-]{{0,40}}[_-])?{_WORDS}[ \t]{{1,4}}(?P<value>[^\s-]\S{{0,4000}})")
_COOKIE = re.compile(r"cookie[ \t]{0,4}:[ \t]{0,4}(?P<value>[^\s=;,\"']{1,200}=[^\r\n\"']{1,8000})")
_GIVEN = (_ASSIGNED, _OPTION, _COOKIE)
_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
# Values that say where a secret is, or that there is none; and what stands in place of one (`secret_forms.py`).
_NO_VALUE = re.compile(
    r"(?:[\d.,]*|true|false|null|none|nil|undefined|string|required|optional|changeme|redacted|hidden"
    r"|\*+|x+|\.+|…+|[$%<{\[\u27e6(].*|(?:os|process|env|self|config|settings|secrets?)[.\[].*)",
    re.IGNORECASE | re.DOTALL,
)
_SHORTEST_VALUE: Final = 6

_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")


def is_secret_name(name: str) -> bool:
    """True when a key of data, a header or an option names a secret, in any of the usual ways of writing names."""
    return len(name) <= 100 and _NAMED.fullmatch(_CAMEL.sub("_", name).translate(_SMALL)) is not None


def is_secret_value(value: str) -> bool:
    """True for a value under the name of a secret that may be one: not short, a number, a word like "none", a reference."""
    shown = value.strip().strip("\"'")
    return len(shown) >= _SHORTEST_VALUE and _NO_VALUE.fullmatch(shown[:200]) is None


def shaped_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where tokens of known shapes and private keys stand; a private key without its end goes to the end of the text."""
    for found in _SHAPES.finditer(text):
        yield found.span()
    at = 0
    while (begin := _PEM_BEGIN.search(text, at)) is not None:
        end = _PEM_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
        yield begin.start(), at


def named_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where values stand that are given under the name of a secret, without their quotes."""
    small = text.translate(_SMALL)
    for pattern, where in ((_IN_ADDRESS, text), *[(pattern, small) for pattern in _GIVEN]):
        for found in pattern.finditer(where):
            start, end = found.span("value")
            quote = text[start]
            if quote in "\"'":
                start, end = start + 1, end - (end - start > 1 and text[end - 1] == quote)
            if is_secret_value(text[start:end]):
                yield start, end
