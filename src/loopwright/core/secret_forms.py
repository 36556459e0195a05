"""Known secrets in running text, in every form that they take by accident, and what is written in their place.

Owns: the forms of a value, finding them, the mark. Must not know: where values come from.
A form is looked for without regard to white space and characters that do not show, so that a value which is wrapped over lines
or has something invisible inside is found. Work: linear in the text for each form; memory: a copy of the text or two.
Read next: `secret_spans.py`, `../guardrails/redaction.py`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from ..model.errors import ConfigError
from .secret_spans import named_spans, shaped_spans

SHORTEST: Final = 6
"""Characters of the shortest value that can be looked for: shorter ones are parts of ordinary words."""

_SHORTEST_CORE: Final = 8
"""Characters of the shortest piece of base64 that says enough about a value."""

_UNSEEN = re.compile(
    "[\\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\U000e0000-\U000e0fff]+"
)
"""What is passed over when a form is looked for."""

_BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")

_PIECE: Final = 16_384

_MARKS: Final = (("[", "]"), ("\u27e6", "\u27e7"), ("\u2039", "\u203a"))
_MOST_PASSES: Final = 8
"""What stands behind a mark may look like a secret now; each pass leaves less."""


class SecretFinder:
    """Finds known values and, where asked, what looks like a secret; writes a mark in its place.

    `values`: name → value. `shapes`: tokens of known shapes and private keys as well. `names`: values given under the name of a
    secret as well (`NAME=value`, headers, options, addresses).
    Raises: `ConfigError` for a value of fewer than 6 characters that show, and for values of which no mark could be told apart.
    """

    def __init__(self, values: Mapping[str, str], *, shapes: bool = True, names: bool = True) -> None:
        self._shapes, self._names = shapes, names
        self._forms: dict[str, tuple[str, int, int]] = {}
        """Form → (label, characters of base64 before and behind it that also belong to the value)."""
        short = [name for name, value in values.items() if len(_folded(value)) < SHORTEST]
        if short:
            raise ConfigError([f"the secret {name!r} has fewer than {SHORTEST} characters that show" for name in short])
        for name, value in values.items():
            for form, before, behind in _forms_of(value):
                self._forms.setdefault(form, (name, before, behind))
        self._longest = max(map(len, self._forms), default=0)
        self._heads = {form[:n] for form in self._forms for n in range(1, min(len(form), 4))}
        self._by_head: dict[str, list[str]] = {}
        for form in self._forms:
            self._by_head.setdefault(form[:3], []).append(form)
        self._open, self._close = self._mark()
        self._labels = {name: self._label(name) for name in values}

    def redacted(self, text: str) -> tuple[str, tuple[str, ...]]:
        """(`text` with a mark for each secret, the names of what was found, once each); the same text when there is none."""
        found: dict[str, None] = {}
        for _ in range(_MOST_PASSES):
            spans = self.spans(text)
            if not spans:
                break
            out: list[str] = []
            at = 0
            for start, end, name in spans:
                out += (text[at:start], self.mark(name))
                found[name or "secret"] = None
                at = end
            text = "".join([*out, text[at:]])
        return text, tuple(found)

    def mark(self, name: str = "") -> str:
        """What stands in place of a secret; "" for one without a name."""
        label = self._labels.get(name, "")
        return f"{self._open}redacted{':' if label else ''}{label}{self._close}"

    def has_mark(self, text: str) -> bool:
        """True when `text` holds something that stands in place of a secret."""
        return f"{self._open}redacted" in text

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, name or "") of each secret in order, those that touch as one."""
        found = list(self._values_in(text))
        if self._shapes:
            found += [(start, end, "") for start, end in shaped_spans(text)]
        if self._names:
            found += [(start, end, "") for start, end in named_spans(text)]
        found.sort(key=lambda span: (span[0], -span[1]))
        merged: list[tuple[int, int, str]] = []
        for start, end, name in found:
            if merged and start < merged[-1][1]:
                first, last, known = merged[-1]
                merged[-1] = (first, max(last, end), known or name)
            else:
                merged.append((start, end, name))
        return merged

    def may_go_on(self, text: str) -> int:
        """Where in `text` a known value may begin whose end did not come yet; its length when there is none."""
        tail = text[-4 * self._longest - 64 :]
        places = [i for i, c in enumerate(tail) if not _UNSEEN.match(c)]
        folded = "".join([tail[i] for i in places])
        for at in range(max(len(folded) - self._longest + 1, 0), len(folded)):
            rest = folded[at:]
            if len(rest) < 3:
                begins = rest in self._heads
            else:
                begins = any(form.startswith(rest) for form in self._by_head.get(rest[:3], ()) if len(form) > len(rest))
            if begins:
                return len(text) - len(tail) + places[at]
        return len(text)

    def _values_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        if not self._forms:
            return
        folded = _folded(text)
        found: list[tuple[int, int, str]] = []
        for form, (name, before, behind) in self._forms.items():
            at = folded.find(form)
            while at >= 0:
                end = at + len(form)
                start = at - _run(folded, range(at - 1, max(at - 1 - before, -1), -1))
                stop = end + _run(folded, range(end, min(end + behind, len(folded))))
                found.append((start, stop, name))
                at = folded.find(form, end)
        if found:
            found.sort()
            yield from _unfolded(text, found)

    def _mark(self) -> tuple[str, str]:
        # No value may hold a bracket of the mark: then nothing that crosses the edge of a mark can be a value.
        for opening, closing in _MARKS:
            if not any(opening in form or closing in form or form in "redacted:" for form in self._forms):
                return opening, closing
        raise ConfigError(
            "no mark can be told from these secrets: together they hold all of its brackets, or one is a part of its word"
        )

    def _label(self, name: str) -> str:
        label = "".join([c for c in name if c.isascii() and (c.isalnum() or c in "_-.")])[:60]
        return "" if any(form in f"redacted:{label}" for form in self._forms) else label


def rewritten(value: object, text_of: Callable[[str, str], str], key: str = "", depth: int = 100) -> object:
    """A JSON value with each text (keys included) replaced by `text_of(text, key above it)`; equal parts stay as they are.

    Keys that became the same keep the first value. Raises: `RecursionError` below `depth` levels.
    """
    if isinstance(value, str):
        return text_of(value, key)
    if depth <= 0:
        raise RecursionError("the value is nested too deeply")
    if isinstance(value, Mapping):
        out: dict[object, object] = {}
        for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            known = name if isinstance(name, str) else ""
            out.setdefault(text_of(known, "") if known else name, rewritten(inner, text_of, known, depth - 1))  # pyright: ignore[reportUnknownArgumentType]
        return out
    if isinstance(value, list | tuple):
        return [rewritten(inner, text_of, key, depth - 1) for inner in value]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return value


def _folded(text: str) -> str:
    # Piece by piece: the pattern makes an object of each word, and those of a large text are many times its size.
    if len(text) <= _PIECE:
        return _UNSEEN.sub("", text)
    return "".join([_UNSEEN.sub("", text[at : at + _PIECE]) for at in range(0, len(text), _PIECE)])


def _run(text: str, places: Iterable[int]) -> int:
    """How many of the characters at `places`, one after the other, can be base64."""
    count = 0
    for at in places:
        if text[at] not in _BASE64:
            break
        count += 1
    return count


def _unfolded(text: str, spans: list[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Places in the folded text as places in `text`; `spans` in order of their start."""
    edges = sorted({edge for start, end, _ in spans for edge in (start, end - 1)})
    places: dict[int, int] = {}
    kept = at = index = 0
    for gap in _gaps(text):
        while index < len(edges) and edges[index] < kept + gap[0] - at:
            places[edges[index]] = at + edges[index] - kept
            index += 1
        kept, at = kept + gap[0] - at, gap[1]
    for start, end, name in spans:
        yield places[start], places[end - 1] + 1, name


def _gaps(text: str) -> Iterator[tuple[int, int]]:
    """Where text stands that does not show, and the end of the text."""
    for found in _UNSEEN.finditer(text):
        yield found.span()
    yield len(text), len(text)


def _forms_of(value: str) -> Iterator[tuple[str, int, int]]:
    """(form without what does not show, characters of base64 before, behind it) of a value."""
    data = value.encode("utf-8", "surrogatepass")
    escaped = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    plain = {value, *escaped, *[e.replace("/", "\\/") for e in escaped], repr(value)[1:-1]}
    for safe in ("", "/", "/:@", "-_.!~*'()"):
        web = quote(data, safe=safe)
        plain |= {web, _lower_escapes(web), quote_plus(data, safe=safe)}
    plain |= {data.hex(), data.hex().upper()}
    for form in plain:
        if len(folded := _folded(form)) >= SHORTEST:
            yield folded, 0, 0
    for shift in range(3):
        lead = (0, 2, 3)[shift]
        bits = (shift + len(data)) * 8
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = encode(b"\0" * shift + data).decode()[lead : bits // 6]
            if len(core) >= _SHORTEST_CORE:
                # The characters at both ends hold bits of the value and of its neighbours.
                yield core, min(lead, 1), min(bits % 6, 1)


def _lower_escapes(text: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text)
