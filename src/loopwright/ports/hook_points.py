"""The seam to hooks: host code that runs inside a run, at named points, and may change its course.

Owns: the points and the directives. Must not know: the registry or the run.
Read next: `hook.py` for the context of each point.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, TypeAlias


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


HookHandler: TypeAlias = Callable[[Any], Awaitable[HookDirective | None] | HookDirective | None]
"""A hook: takes the context of its point."""
