"""The seam to hooks: host code that runs inside a run, at named points, and may change its course.

Owns: the points, the directives and the typed context of each point. Must not know: the registry or the run.
A hook is a plain or async function of one context; it changes the context in place and may return a directive
(or set `context.directive`). A hook that raises ends the send as failed, with the hook's name in the error.
Read next: `engine/hooks.py` (registry), `docs/hooks.md` (what each directive means at each point).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field

from ..model.messages import Message, ToolCall
from ..model.records import Outcome
from ..model.specs import ToolSpec
from .llm import LLMResponse


class HookPoint(StrEnum):
    """Where hooks run. The comment names the context and the directives that mean something there."""

    SESSION_START = "session.start"
    """`SessionStartContext`, after the input is accepted. BREAK: the send ends as completed, nothing is paid for."""
    SESSION_END = "session.end"
    """`SessionEndContext`, after the outcome is durable; read-only."""
    ROUND_START = "round.start"
    """`RoundContext`. BREAK: the send ends as completed."""
    ROUND_END = "round.end"
    """`RoundContext`, read-only."""
    LLM_BEFORE = "llm.before"
    """`LLMBeforeContext`: edits count for this request only. SHORT_CIRCUIT: `response` is used instead of a call.
    BREAK: the send ends as completed without the call."""
    LLM_AFTER = "llm.after"
    """`LLMAfterContext`: `response` may be replaced before it is stored. BREAK: its calls are dropped, its text is the answer."""
    ROUND_DECIDE = "round.decide"
    """`DecideContext`, once per reply with calls. SKIP: all calls are answered with `output`. BREAK: likewise, and the send ends."""
    TOOLS_BATCH_BEFORE = "tools.batch.before"
    """`BatchContext`. SKIP: all calls that still wait are answered with `output`."""
    TOOLS_BATCH_AFTER = "tools.batch.after"
    """`BatchContext`, read-only."""
    TOOL_BEFORE = "tool.before"
    """`ToolBeforeContext`, on every path that runs a tool, resume included. SKIP: not run, answered with `output` (refused).
    `ask(...)`: the run pauses until a person answers; then the hook runs again with `answer`."""
    TOOL_AFTER = "tool.after"
    """`ToolAfterContext`: `output` and `failed` may be changed before they are stored. BREAK: calls not yet started are skipped."""
    TOOL_ERROR = "tool.error"
    """`ToolErrorContext`, when a handler raised. SKIP: `output` is the result. SHORT_CIRCUIT: the handler is called once more."""
    MESSAGE_APPEND = "message.append"
    """`MessageContext`: a user message right before it is stored; `message` may be replaced."""
    COMPLETION = "completion"
    """`CompletionContext`, when a send is about to complete. SKIP: it goes on with `message` as one more user message,
    within its round limit and at most `max_completion_vetoes` times."""
    FOLD_BEFORE = "fold.before"
    """`FoldContext`, before the oldest sends of the window are folded. SKIP: not now."""
    FOLD_AFTER = "fold.after"
    """`FoldContext`, after a fold was stored; read-only."""
    MEMORY_RECALLED = "memory.recalled"
    """`MemoryContext`: `recalled` may be filtered before it is shown. SKIP: nothing is shown."""
    TIMER_FIRE = "timer.fire"
    """`TimerContext`. SKIP: this firing. BREAK: the timer is cancelled. `postpone_s`: it is armed again."""


class HookDirective(StrEnum):
    """What a hook wants; what it means is said at each point, elsewhere it means CONTINUE."""

    CONTINUE = "continue"
    SKIP = "skip"
    BREAK = "break"
    SHORT_CIRCUIT = "short_circuit"


class HookContext(Struct, kw_only=True):
    """What every point has."""

    session_id: str
    round_index: int = 0
    directive: HookDirective = HookDirective.CONTINUE


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
    failed: bool


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
    postpone_s: float | None = None


HookHandler: TypeAlias = Callable[[Any], Awaitable[HookDirective | None] | HookDirective | None]
"""A hook: takes the context of its point."""
