"""Streamed text without secrets: what could be the beginning of one is held back until it is known what it is.

Owns: the text that waits, for each piece of each reply. Must not know: who listens.
Read next: `../core/secret_forms.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Protocol, TypeAlias

from msgspec.structs import replace

from ..core.secret_forms import SecretFinder
from ..model.event_types import AgentEventType
from ..model.events import (
    AgentEvent,
    LLMCallCompleted,
    StreamDelta,
    StreamThinkDelta,
    ToolArgumentsDelta,
)

Screen: TypeAlias = Callable[[AgentEvent], Sequence[AgentEvent]]

_LAST_WORD = re.compile(r"\S+\Z")
_MOST_HELD = 65_536
"""Characters held back of one text; of a longer word the beginning goes out, checked as it is."""
_MOST_TEXTS = 1000
"""Texts held back at once; the oldest is dropped then, since events are lossy."""


class ScreenedBus(Protocol):
    """What the screen needs of `AgentEventBus`."""

    def screen_with(self, screen: Screen, needs: Iterable[AgentEventType]) -> None:
        """Sends every event through `screen`; see `AgentEventBus.screen_with`."""
        ...


class HeldText:
    """The text of one reply on its way, and its part that waits."""

    def __init__(self, finders: Sequence[SecretFinder]) -> None:
        self._finders = finders
        self._held = ""

    def put(self, text: str) -> str:
        """Adds text; answers what can go out."""
        self._held += text
        cut = self._cut(self._held)
        if len(self._held) - cut > _MOST_HELD:
            cut = len(self._held) - _MOST_HELD // 2
        out, self._held = self._held[:cut], self._held[cut:]
        return self._redacted(out)

    def rest(self) -> str:
        """What is left, when nothing follows."""
        out, self._held = self._held, ""
        return self._redacted(out)

    def _redacted(self, text: str) -> str:
        for finder in self._finders if text else ():
            text, _ = finder.redacted(text)
        return text

    def _cut(self, text: str) -> int:
        """Up to where nothing can become a secret by what follows."""
        word = _LAST_WORD.search(text)
        cut = len(text) if word is None else word.start()
        for finder in self._finders:
            cut = min(cut, finder.may_go_on(text))
        # Not through the middle of one that is there already.
        for start, end in sorted([(s, e) for f in self._finders for s, e, _ in f.spans(text)], reverse=True):
            if start < cut <= end:
                cut = start
        return cut


class DeltaScreen:
    """Replaces the pieces of streamed replies by pieces without secrets; other events pass as they are.

    Concurrency: one event loop, as the bus.
    """

    NEEDS: ClassVar = (AgentEventType.LLM_CALL_COMPLETED,)
    """What tells that a reply has ended."""

    def __init__(self, finders: Sequence[SecretFinder]) -> None:
        self._finders = tuple(finders)
        self._texts: dict[tuple[str, str, str, int], tuple[HeldText, AgentEvent]] = {}

    def screened(self, event: AgentEvent) -> Sequence[AgentEvent]:
        """The events to deliver in place of this one; the rest of a reply comes right before the event of its end."""
        data = event.data
        match data:
            case StreamDelta() | StreamThinkDelta():
                key, text = (event.session_id, data.call_id, event.type.value, 0), data.text
            case ToolArgumentsDelta():
                key, text = (event.session_id, data.call_id, event.type.value, data.index), data.arguments
            case LLMCallCompleted():
                return [*self._ended(event, data), event]
            case _:
                return [event]
        known = self._texts.get(key)
        held = HeldText(self._finders) if known is None else known[0]
        if known is None and len(self._texts) >= _MOST_TEXTS:
            del self._texts[next(iter(self._texts))]
        self._texts[key] = (held, event)
        out = held.put(text)
        first = isinstance(data, ToolArgumentsDelta) and bool(data.tool_call_id or data.name)
        return [_with_delta(event, out)] if out or first else []

    def _ended(self, event: AgentEvent, ended: LLMCallCompleted) -> list[AgentEvent]:
        out: list[AgentEvent] = []
        for key in [key for key in self._texts if key[:2] == (event.session_id, ended.call_id)]:
            held, last = self._texts.pop(key)
            # An attempt that failed is void anyway.
            if ended.success and (rest := held.rest()):
                out.append(_with_delta(last, rest, later=True))
        return out


def _with_delta(event: AgentEvent, text: str, *, later: bool = False) -> AgentEvent:
    data = event.data
    if isinstance(data, ToolArgumentsDelta):
        named = replace(data, tool_call_id="", name="") if later else data
        return replace(event, data=replace(named, arguments=text))
    assert isinstance(data, StreamDelta | StreamThinkDelta)
    return replace(event, data=replace(data, text=text))
