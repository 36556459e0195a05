"""What a hook gets: the typed context of each point.

Owns: the contexts. Must not know: the registry or the run. Loaded with the first hook that is called.
A hook is a plain or async function of one context; it changes the context in place and may return a directive
(or set `context.directive`). A hook that raises ends the send as failed, with the hook's name in the error.
Read next: `hook_points.py`, `engine/hooks.py` (registry), `docs/hooks.md` (what each directive means at each point).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from ..model.messages import Content, Message, ToolCall
from ..model.records import Outcome
from ..model.specs import ToolSpec
from .hook_points import HookDirective as HookDirective
from .hook_points import HookHandler as HookHandler
from .hook_points import HookPoint as HookPoint
from .llm import LLMResponse


class HookContext(Struct, kw_only=True):
    """What every point has."""

    session_id: str
    round_index: int = 0
    directive: HookDirective = HookDirective.CONTINUE
    decisions: list[tuple[Any, ...]] = field(default_factory=lambda: [])
    """What guardrails decided here, as the values of `GuardrailDecided`; told to observers after the hooks."""


class SessionStartContext(HookContext, kw_only=True):
    """A send begins (or goes on after an interruption)."""

    send_index: int
    resumed: bool
    messages: tuple[Message, ...]


class SessionEndContext(HookContext, kw_only=True):
    """A send ended or paused."""

    outcome: Outcome
    final_text: str


class RoundContext(HookContext, kw_only=True):
    """A round begins or ended."""

    messages: tuple[Message, ...]
    had_tools: bool = False
    text: str = ""


class LLMBeforeContext(HookContext, kw_only=True):
    """A request about to be sent."""

    messages: list[Message]
    system_prompt: str | None
    tools: list[ToolSpec]
    model: str | None
    max_output_tokens: int | None
    temperature: float | None
    extra: dict[str, Any] = field(default_factory=lambda: {})
    response: LLMResponse | None = None


class LLMAfterContext(HookContext, kw_only=True):
    """A reply about to be stored."""

    response: LLMResponse


class DecideContext(HookContext, kw_only=True):
    """The model asked for tools."""

    tool_calls: tuple[ToolCall, ...]
    text: str
    output: str = ""


class BatchContext(HookContext, kw_only=True):
    """A batch of calls, before and after it runs."""

    tool_calls: tuple[ToolCall, ...]
    output: str = ""


class ToolBeforeContext(HookContext, kw_only=True):
    """One call about to run."""

    tool_call: ToolCall
    tool_name: str
    """May be changed to another tool that this send may use."""
    arguments: dict[str, Any]
    """May be changed; validated again before the handler runs, and stored as the effective arguments."""
    idempotency_key: str
    output: str = ""
    answer: Any = None
    """What a person answered to `ask`; None while nobody was asked."""
    answered: bool = False
    question: str | None = None
    options: tuple[str, ...] = ()

    def ask(self, prompt: str, options: tuple[str, ...] = ("approve", "deny")) -> None:
        """Pauses the run durably until somebody calls `submit_input`; the hook then runs again with `answer`."""
        self.question = prompt
        self.options = options


class ToolAfterContext(HookContext, kw_only=True):
    """One call that has its result."""

    tool_call: ToolCall
    tool_name: str
    arguments: dict[str, Any]
    output: str
    """The text of the result."""
    failed: bool
    content: Content = ""
    """The result with its pictures and files. One that is replaced counts more than `output`."""
    data: Any = None
    """What the handler gave for programs; may be replaced."""
    source: str | None = None
    """Who wrote the result, where the tool declares that it brings text of strangers."""


class ToolErrorContext(HookContext, kw_only=True):
    """A handler raised."""

    tool_call: ToolCall
    tool_name: str
    arguments: dict[str, Any]
    error: BaseException
    output: str = ""


class MessageContext(HookContext, kw_only=True):
    """A user message about to be stored."""

    message: Message
    source: Literal["send", "inbox"] = "send"
    """Where it is from. A hook that raises refuses one of `send`; one from the inbox was accepted before."""


class CompletionContext(HookContext, kw_only=True):
    """A send about to complete."""

    final_text: str
    message: str = ""


class FoldContext(HookContext, kw_only=True):
    """A fold of the oldest sends."""

    before_tokens: int
    after_tokens: int | None = None


class MemoryContext(HookContext, kw_only=True):
    """What a memory provider recalled."""

    recalled: list[str]
    budget_tokens: int


class TimerContext(HookContext, kw_only=True):
    """A timer is due."""

    timer_id: str
    note: str
    due_at: float
    """UTC epoch seconds."""
    message: str
    """What the session is told; may be changed, to 64 KiB of UTF-8 at most."""
    fire_count: int = 0
    """How often it fired before."""
    recurring: bool = False
    postpone_s: float | None = None
    """Set it to have the timer due this many seconds from now instead, at least 1."""
