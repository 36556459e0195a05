"""Which tools fit the words of a query.

Owns: the ranking of names and descriptions, and the one line in which a tool is shown. Must not know: registries, sessions.
Read next: `words.py`, `../engine/found_tools.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ..model.specs import ToolSpec
from .words import WordRanking, query_terms

LINE_CHARS: Final = 200
"""Of a description in one line."""

_NAME_WEIGHT: Final = 4
"""How often a name counts as if it stood in the description."""
_MAX_CHARS: Final = 4_000
"""Of a description that are looked at."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def best_tools(query: str, tools: Sequence[ToolSpec], limit: int) -> tuple[ToolSpec, ...]:
    """Those with any word of the query in name, description or names of parameters: best first, equals in the given order.

    A tool whose whole name stands in the query comes first. A plural finds its singular, and the other way round.
    """
    terms = list(dict.fromkeys(form for term in query_terms(query) for form in _forms(term)))
    ranking: WordRanking[int] = WordRanking(terms)
    for place, one in enumerate(tools):
        ranking.add(place, _text_of(one))
    said = frozenset(query.replace(",", " ").replace("`", " ").split())
    scores = dict(ranking.scores())
    scores |= {place: float("inf") for place, one in enumerate(tools) if one.name in said}
    order = sorted(scores, key=lambda place: (-scores[place], place))
    return tuple([tools[place] for place in order[: max(limit, 0)]])


def line_of(one: ToolSpec) -> str:
    """Name and first line of the description."""
    first = next((line.strip() for line in one.description.splitlines() if line.strip()), "")
    shown = first if len(first) <= LINE_CHARS else f"{first[: LINE_CHARS - 1]}…"
    return f"{one.name}: {shown}" if shown else one.name


def _forms(term: str) -> Iterable[str]:
    yield term
    if not term.isascii() or len(term) < 3:
        return
    if not term.endswith("s"):
        yield f"{term}s"
        yield f"{term}es"
        return
    yield term[:-1]
    if term.endswith("es"):
        yield term[:-2]


def _text_of(one: ToolSpec) -> str:
    """What is searched: words of names are apart (`createIssue`, `create_issue`)."""
    name = _HUMP.sub(" ", one.name).replace("_", " ").replace("-", " ")
    properties: Any = one.parameters.get("properties")
    arguments = " ".join(map(str, properties)) if isinstance(properties, dict) else ""  # pyright: ignore[reportUnknownArgumentType]
    parts = [*[name] * _NAME_WEIGHT, one.description[:_MAX_CHARS], _HUMP.sub(" ", arguments).replace("_", " ")]
    return "\n".join(parts)
