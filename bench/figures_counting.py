"""How far our count of a request is from its provider's, before and after earlier replies of the conversation taught us.

Owns: this figure, over recorded exchanges with real providers that lie beside the project. Read next: `core/calibration.py`.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

from loopwright.core.calibration import Learned, after
from loopwright.core.estimate import OVERHEAD, SCHEMA_BYTES, message_tokens, text_tokens
from loopwright.model.codec import encode
from loopwright.model.errors import LoopwrightError
from loopwright.model.messages import as_message

from .measuring import Figure, Scale, compared

TRAFFIC = Path(__file__).resolve().parents[2] / "shared" / "traffic"
LEAST = 100
"""Tokens of a request that is judged: below, a provider's fixed overhead is most of it."""
_INPUT = {
    "openai_chat": r'"prompt_tokens"\s*:\s*(\d+)',
    "openai_responses": r'"input_tokens"\s*:\s*(\d+)',
    "anthropic_messages": r'"input_tokens"\s*:\s*(\d+)',
}
_CACHED = re.compile(r'"cache_(?:read|creation)_input_tokens"\s*:\s*(\d+)')
_MORE = re.compile(
    r'"type"\s*:\s*"(?:web_|code_|file|tool_search|advisor|mcp|image|input_im|input_f|document|video)'
    r'|"plugins"|web_search_options|compound|url_citation'
)
"""Exchanges in which the provider read more than the text it was sent: tools that it runs itself, pictures, documents."""


async def counting(scale: Scale) -> list[Figure]:
    if not TRAFFIC.is_dir():
        print(f"counting: skipped, there is no recorded traffic at {TRAFFIC}")
        return []
    known: dict[tuple[str, str], Learned] = {}
    before: list[float] = []
    later: list[float] = []
    for conversation, model, raw, real in recorded():
        learned = known.get((conversation, model))
        if real >= LEAST and learned is not None:
            before.append(abs(raw / real - 1))
            later.append(abs(raw * learned.ratio / real - 1))
        if taught := after(learned, real, raw, 0):
            known[conversation, model] = taught
    if not before:
        print(f"counting: skipped, nothing in {TRAFFIC} can be judged")
        return []
    figure = compared(
        "counting, error of a request's size with what was learned vs without",
        "%",
        {"without": [max(statistics.mean(before), 1e-6)]},
        [max(statistics.mean(later), 1e-6)],
        scale=100,
    )
    figure.others |= {
        "requests": float(len(before)),
        "median without": 100 * statistics.median(before),
        "median with": 100 * statistics.median(later),
    }
    return [figure]


def recorded() -> list[tuple[str, str, int, int]]:
    """(file, model, our count, the provider's) of each recorded request that was answered, in their order."""
    found: list[tuple[str, str, int, int]] = []
    for path in sorted(TRAFFIC.glob("*/*.json")):
        for exchange in json.loads(path.read_text(encoding="utf-8"))["exchanges"]:
            body, answer = exchange["request"]["body"], exchange["response"]
            pattern = _INPUT.get(path.parent.name)
            if pattern is None or not isinstance(body, dict) or answer["status"] != 200 or _MORE.search(answer["body"]):
                continue
            said = [int(n) for n in re.findall(pattern, answer["body"])]
            if not said or _MORE.search(json.dumps(body)):
                continue
            cached = max([int(n) for n in _CACHED.findall(answer["body"])], default=0)
            found.append((path.name, str(body.get("model")), estimate_of(body), max(said) + cached))
    return found


def estimate_of(body: dict[str, Any]) -> int:
    """Our count of a request in any of the three protocols."""
    items = body.get("messages") or body.get("input") or []
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    total = sum(len(encode(spec)) // SCHEMA_BYTES + OVERHEAD for spec in body.get("tools") or [])
    for key in ("system", "instructions"):
        total += text_tokens("".join(texts(body.get(key))))
    for item in items:
        try:
            total += message_tokens(as_message(item))
        except LoopwrightError:  # an item of another protocol than chat: its texts are what counts
            total += text_tokens("".join(texts(item))) + OVERHEAD
    return total


def texts(value: Any) -> list[str]:
    """All texts in a value, names of kinds and ids left out."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [
            t for key, v in value.items() if key not in ("type", "role", "id", "call_id", "signature") for t in texts(v)
        ]
    return [t for one in value for t in texts(one)] if isinstance(value, list) else []
