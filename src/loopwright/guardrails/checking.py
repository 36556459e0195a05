"""Asking guardrails one after the other about one thing.

Owns: the chain, failing closed, long texts in threads, texts inside of parts. Must not know: hooks, what a block means.
Read next: `verdicts.py`.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from ..model.errors import CancellationRequested
from ..model.messages import Content, FilePart, ImagePart, TextPart
from .verdicts import Checked, Guardrail, GuardrailVerdict, Stage

_IN_THREAD = 100_000
"""Characters from which on a plain check runs in a thread: the event loop has other sessions to serve."""

_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "image/svg")
"""Beginnings of media types whose bytes are text."""


class Passed(Struct, frozen=True):
    """What is left of a text or value after every guardrail."""

    text: str
    value: Any
    notes: tuple[str, ...]
    last: str = ""
    """The last guardrail that rewrote it."""


class Asked(Struct, frozen=True):
    """What is left of content."""

    content: Content
    notes: tuple[str, ...] = ()


class Blocked(Struct, frozen=True):
    """A guardrail said no, or could not say anything."""

    guardrail: str
    reason: str


class GuardrailChain:
    """Guardrails in their order."""

    def __init__(self, guardrails: tuple[Guardrail, ...]) -> None:
        self._guardrails = guardrails
        self._stages = frozenset(stage for guardrail in guardrails for stage in guardrail.stages)

    def has(self, stage: Stage) -> bool:
        """True when a guardrail is asked there."""
        return stage in self._stages

    async def ask(self, checked: Checked, decisions: list[tuple[Any, ...]]) -> Passed | Blocked:
        """Every guardrail of the stage, each about what is left; what they decide besides allowing is added to `decisions`."""
        notes: list[str] = []
        last = ""
        for guardrail in self._guardrails:
            if checked.stage not in guardrail.stages:
                continue
            try:
                verdict = await _verdict(guardrail, checked)
                if verdict is not None and verdict.action == "rewrite":
                    checked, last = _rewritten(checked, verdict), guardrail.name
            except CancellationRequested:
                raise
            except Exception as error:  # noqa: BLE001 - the hook boundary: what could not be checked does not pass
                verdict = GuardrailVerdict("block", f"the check failed ({type(error).__name__})")
            if verdict is None or verdict.action == "allow":
                continue
            decisions.append(
                (guardrail.name, str(checked.stage), verdict.action, verdict.said, checked.tool_name, checked.call_id)
            )
            if verdict.action == "block":
                return Blocked(guardrail.name, verdict.said)
            if verdict.action == "annotate":
                notes.append(f"{guardrail.name}: {verdict.said}")
        return Passed(checked.text, checked.value, tuple(notes), last)

    async def ask_parts(self, about: Checked, content: Content, decisions: list[tuple[Any, ...]]) -> Asked | Blocked:
        """The same for each text of content: its text parts, the bytes of files that are text, names and addresses."""
        if isinstance(content, str):
            passed = await self.ask(replace(about, text=content), decisions)
            return passed if isinstance(passed, Blocked) else Asked(passed.text, passed.notes)
        notes: list[str] = []
        parts: list[TextPart | ImagePart | FilePart] = []
        for part in content:
            for place, text in _texts_of(part):
                passed = await self.ask(replace(about, text=text, place=place), decisions)
                if isinstance(passed, Blocked):
                    return passed
                notes += passed.notes
                if passed.text != text:
                    part = _with_text(part, place, passed.text)
            parts.append(part)
        same = all(new is old for new, old in zip(parts, content, strict=True))
        return Asked(content if same else tuple(parts), tuple(notes))


async def _verdict(guardrail: Guardrail, checked: Checked) -> GuardrailVerdict | None:
    if len(checked.text) > _IN_THREAD and not inspect.iscoroutinefunction(guardrail.check):
        said = await asyncio.to_thread(guardrail.check, checked)
    else:
        said = guardrail.check(checked)
    verdict = await said if inspect.isawaitable(said) else said
    if verdict is not None and not isinstance(verdict, GuardrailVerdict):
        raise TypeError(f"check() must return a GuardrailVerdict or None, not {type(verdict).__name__}")
    return verdict


def _rewritten(checked: Checked, verdict: GuardrailVerdict) -> Checked:
    if not checked.structured:
        if verdict.text is None:
            raise ValueError("a text was rewritten to a value")
        return replace(checked, text=verdict.text)
    value = json.decode(verdict.text) if verdict.text is not None else verdict.value
    return replace(checked, value=value, text=json.encode(value).decode())


def _texts_of(part: TextPart | ImagePart | FilePart) -> list[tuple[str, str]]:
    """(place, text) of everything in a part that can be read as text."""
    if isinstance(part, TextPart):
        return [("text", part.text)]
    found: list[tuple[str, str]] = []
    if isinstance(part, FilePart) and part.name:
        found.append(("name", part.name))
    if part.url is not None:
        found.append(("url", part.url))
    if part.data is not None and part.media_type.lower().startswith(_TEXTS):
        found.append(("file", part.data.decode("utf-8", "surrogateescape")))
    return found


def _with_text(part: TextPart | ImagePart | FilePart, place: str, text: str) -> TextPart | ImagePart | FilePart:
    if isinstance(part, TextPart):
        return TextPart(text)
    if place == "url":
        return replace(part, url=text)
    if place == "file":
        return replace(part, data=text.encode("utf-8", "surrogateescape"))
    return replace(part, name=text) if isinstance(part, FilePart) else part
