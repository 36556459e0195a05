"""What a guardrail is asked and what it answers.

Owns: the stages, what is checked, the four verdicts, the Protocol. Must not know: hooks, sessions.
Read next: `redaction.py` for one, `guarding.py` for who asks.
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct


class Stage(StrEnum):
    """Where a text is checked."""

    INPUT = "input"
    """A user message before it is stored; also from the inbox."""
    OUTPUT = "output"
    """A text of the model's reply, readable reasoning and the arguments of calls included, before it is stored."""
    ARGUMENTS = "arguments"
    """The arguments of a call right before its handler, on every path that runs one."""
    RESULT = "result"
    """What a tool, a person or the host answered to a call, before it is stored."""
    RECALLED = "recalled"
    """A text that memory found, before the model is shown it."""


ALL_STAGES = frozenset(Stage)


class Checked(Struct, frozen=True, kw_only=True):
    """One thing to be checked."""

    stage: Stage
    text: str
    """The text; of arguments and data their JSON."""
    value: Any = None
    """The JSON value itself where `structured`."""
    structured: bool = False
    """True for the arguments of a call and for the data of a result."""
    place: str = "text"
    """"text" | "reasoning" | "arguments" | "data" | "file" | "name" | "url"."""
    session_id: str = ""
    tool_name: str | None = None
    call_id: str | None = None
    source: str | None = None
    """Who wrote it, where the tool declares that it brings text of strangers."""


Action: TypeAlias = Literal["allow", "block", "rewrite", "annotate"]


class GuardrailVerdict(Struct, frozen=True):
    """What is to happen with what was checked; make one with `allow`, `block`, `rewrite` or `annotate`."""

    action: Action
    said: str = ""
    """Why; of a note the note. It must not repeat what is to be hidden: it is stored and shown."""
    text: str | None = None
    """The new text of `rewrite`; of a structured value its JSON."""
    value: Any = None
    """The new value of `rewrite` for a structured one, where `text` is None."""


_ALLOW = GuardrailVerdict("allow")


def allow() -> GuardrailVerdict:
    """Let it through as it is; None means the same."""
    return _ALLOW


def block(reason: str) -> GuardrailVerdict:
    """Do not let it through; what that means is said at each stage in docs/guardrails.md."""
    return GuardrailVerdict("block", reason)


def rewrite(text: str, reason: str = "") -> GuardrailVerdict:
    """Go on with this text. Of arguments and data: with the JSON value that it is; anything else blocks."""
    return GuardrailVerdict("rewrite", reason, text=text)


def rewrite_value(value: Any, reason: str = "") -> GuardrailVerdict:
    """Go on with this value in place of arguments or data."""
    return GuardrailVerdict("rewrite", reason, value=value)


def annotate(note: str) -> GuardrailVerdict:
    """Let it through with a note that the model sees."""
    return GuardrailVerdict("annotate", note)


class Guardrail(Protocol):
    """One check.

    `name` goes into errors, notes and events. `stages` says where it is asked. `check` is a plain or an async method; it may be
    called for several sessions at once, and for a long text in a thread, so it changes nothing of its own. One that raises
    counts as a block with its name: what could not be checked does not pass.
    """

    @property
    def name(self) -> str:
        """A short name."""
        ...

    @property
    def stages(self) -> frozenset[Stage]:
        """Where it is asked."""
        ...

    def check(self, checked: Checked) -> GuardrailVerdict | Awaitable[GuardrailVerdict | None] | None:
        """What is to happen; None allows."""
        ...
