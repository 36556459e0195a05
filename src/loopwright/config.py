"""How a loop behaves: every setting, its unit and its default.

Owns: `AgentLoopConfig`, `LLMRetryPolicy`, `WorkerSettings`. Must not know: how a setting is carried out.
Read next: `loop.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from .core.retry import LLMRetryPolicy
from .core.settings import type_problems
from .model.errors import ConfigError

if TYPE_CHECKING:
    from .model.notes import NotesPolicy
else:
    NotesPolicy = Any  # few sessions keep notes

__all__ = ["AgentLoopConfig", "LLMRetryPolicy", "WorkerSettings"]


LONGEST_KEY = 200
"""Characters of the key of a budget."""

LEAST_CONTEXT = 500
"""Tokens below which a context budget cannot hold a request: a note and the tools of recall alone take as much."""

SHORTEST_KEY = 16
"""Bytes of a key for `hash_chain_key`."""


class AgentLoopConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a loop; an unknown field is a `TypeError`, an impossible value a `ConfigError` that lists all problems."""

    agent_name: str = "default"
    """Sessions made by this loop belong to this agent and are run only by loops of the same name."""
    system_prompt: str | None = None
    """Instructions where neither session nor send has its own."""
    inject_tool_descriptions: bool = False
    """List names and descriptions of the tools in the instructions, too; their definitions hold them already."""
    tool_catalog_header: str | None = None
    """What stands above that list; None takes the library's words."""
    defer_tools_beyond: int | None = None
    """List so many tools, in their order, and let the model find the others by `tool_search`; None lists all that are not
    declared deferred. Tools that touch nothing but the session are listed in any case."""
    model: str | None = None
    """Overrides the service's model."""
    max_rounds: int = 24
    """Model calls per send, the wrap-up at the limit not counted."""
    max_output_tokens: int | None = None
    """Upper limit of one reply; None leaves it to the service."""
    temperature: float | None = None
    run_token_budget: int | None = None
    """Tokens one send may use, checked between rounds; None is unlimited."""
    context_budget_tokens: int | None = None
    """Tokens one request may hold, instructions, tools and tail included, from 500 on; older sends are folded into a note
    to stay within. What people say is never cut, and in the newest send never folded: where that alone is more, a request
    is over it. None: nothing is folded before a provider refuses the window as too long."""
    fold_timeout_s: float = 120.0
    """How long one fold may take."""
    notes: NotesPolicy | None = None
    """Bounds of the notes that a model keeps; None: `NotesPolicy()`."""
    memory_budget_tokens: int = 1500
    """What recalled memory may add to a request; kept free in `context_budget_tokens` where a loop has a memory."""
    memory_timeout_s: float = 5.0
    """How long a send waits for what memory recalls."""
    run_cost_budget_usd: float | None = None
    """US dollars one send may cost; None is unlimited. Budgets of money need the loop's `prices`. Before each model call
    the most that it is expected to cost is reserved; where there is not so much left the send ends as budget_exceeded."""
    session_cost_budget_usd: float | None = None
    """US dollars all sends of a session may cost together; None is unlimited."""
    cost_budgets: dict[str, float] | None = None
    """US dollars by the key of a budget, such as a customer or a month: all sessions and processes that name the key
    share it, through their store."""
    stream: bool = True
    """Ask services that can for a stream; replies are the same."""
    retry: LLMRetryPolicy = LLMRetryPolicy()
    max_continuations: int = 2
    """How often a reply that was cut at the output limit is continued."""
    max_corrections: int = 2
    """How often an answer that does not fit the asked schema is asked for again."""
    max_completion_vetoes: int = 3
    """How often completion hooks may send the model back to work in one send."""
    max_parallel_tools: int = 8
    """Calls of one batch that run at once."""
    max_spawn_depth: int = 3
    """How deep agents may spawn agents, workflow runs counted; 0: not at all."""
    max_children_per_send: int = 20
    """Agents that one send may start."""
    tool_timeout_s: float = 120.0
    """For tools that name none."""
    tool_output_limit: int = 50_000
    """Characters of one result that the model sees; the rest is kept and can be read back."""
    max_message_bytes: int = 50_000_000
    """Of one message: characters of its text and bytes of its pictures and files. A host's message over it is refused
    (`MessageTooLargeError`); in a tool result a picture or file beyond it becomes a text that says so."""
    stop_grace_s: float = 0.5
    """How long a stopped handler or model call may take to wind down before the run leaves it behind."""
    on_interrupted: Literal["resume", "abort", "raise"] = "resume"
    """What `send` does when the last run of the session was interrupted."""
    on_uncertain: Literal["tell_model", "ask_host"] = "tell_model"
    """What becomes of a `once` call of unknown outcome that `reconcile` cannot settle: the model is told,
    or the send pauses as pending_tools until the host submits its result."""
    serve_timers: bool = True
    """An open loop fires the due timers of its agent and runs the sessions that they wake, from about a second after its
    first use. False leaves them to workers (`serve`) and to other processes."""
    lease_ttl_s: float = 15.0
    """How long a session stays locked after its process stopped answering."""
    lease_wait_s: float = 0.0
    """How long `send` waits for a session that another process runs before it raises `SessionBusyError`."""
    loop_stall_s: float = 60.0
    """A process whose event loop has not turned for this long lets its leases go."""
    session_cache_size: int = 1024
    """Idle sessions whose state is kept in memory; 0 reads the journal for each send."""
    checkpoint_every: int = 500
    """Records between state checkpoints."""
    hash_chain: bool = False
    """Link every transition, so that `verify` finds what was changed in the store (docs/tamper-evidence.md)."""
    hash_chain_key: bytes | None = None
    """Secret of at least 16 bytes with which links are made and verified; None: anybody can make them anew."""

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self.__rich_repr__()]
        return f"AgentLoopConfig({', '.join(given)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Without the key: settings are printed and logged, and pretty tracebacks show local variables.
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name != "hash_chain_key"]

    def __post_init__(self) -> None:
        wrong = type_problems(self)
        problems = list(wrong.values())
        for names, rule, holds in _RANGES:
            problems += [f"{n} must be {rule}" for n in names if n not in wrong and not holds(getattr(self, n))]
        room = self.context_budget_tokens
        if "context_budget_tokens" not in wrong and room is not None and room < LEAST_CONTEXT:
            problems.append(f"context_budget_tokens must be {LEAST_CONTEXT} or more, or None")
        if not self.agent_name:
            problems.append("agent_name must not be empty")
        key = self.hash_chain_key
        # Text would be read as base64 by the check of types.
        whole = isinstance(key, bytes) and len(key) >= SHORTEST_KEY
        if key is not None and not whole:
            problems.append(f"hash_chain_key must be bytes, at least {SHORTEST_KEY} of them")
        if self.notes is not None and type(self.notes).__name__ != "NotesPolicy":
            problems.append(f"notes must be a NotesPolicy, not {type(self.notes).__name__}")
        if "cost_budgets" not in wrong:
            problems += _budget_problems(self.cost_budgets or {})
        if problems:
            raise ConfigError(problems)


def has_cost_budget(config: AgentLoopConfig) -> bool:
    """True when any budget of money is set."""
    return bool(config.run_cost_budget_usd or config.session_cost_budget_usd or config.cost_budgets)


class WorkerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How `StatefulAgentLoop.serve` looks for work; an impossible value is a `ConfigError` that lists all problems."""

    max_sessions: int = 16
    """Sessions that one worker runs at once."""
    poll_min_s: float = 0.1
    """Longest pause between two looks at the store after work was found."""
    poll_max_s: float = 2.0
    """What the pause doubles up to while there is nothing to do or the store is away. Each pause is cut by up to half at
    random, so that workers do not march in step."""
    drain_timeout_s: float | None = None
    """How long running sessions may go on after a stop, before they are left to others.
    None: 10 s or two thirds of `lease_ttl_s`, whichever is less."""
    set_aside_s: float = 60.0
    """How long this worker leaves a session alone that it cannot run (a tool is missing, the journal is damaged, it fails
    without taking its inbox); doubled each time, up to 16 times as long."""
    away_limit_s: float | None = None
    """How long the store may be away before `serve` raises its error; None waits for ever."""

    def __post_init__(self) -> None:
        wrong = type_problems(self)
        problems = list(wrong.values())
        for names, rule, holds in _WORKER_RANGES:
            problems += [f"{n} must be {rule}" for n in names if n not in wrong and not holds(getattr(self, n))]
        if not problems and self.poll_min_s > self.poll_max_s:
            problems.append("poll_min_s must not be more than poll_max_s")
        if problems:
            raise ConfigError(problems)


_POSITIVE = (
    "max_rounds",
    "max_parallel_tools",
    "tool_timeout_s",
    "tool_output_limit",
    "max_message_bytes",
    "fold_timeout_s",
    "memory_budget_tokens",
    "memory_timeout_s",
    "lease_ttl_s",
    "loop_stall_s",
    "checkpoint_every",
)
_NOT_NEGATIVE = (
    "max_continuations",
    "max_corrections",
    "max_completion_vetoes",
    "stop_grace_s",
    "lease_wait_s",
    "session_cache_size",
    "max_spawn_depth",
    "max_children_per_send",
)
_POSITIVE_OR_NONE = (
    "max_output_tokens",
    "run_token_budget",
    "run_cost_budget_usd",
    "session_cost_budget_usd",
)

_COUNT_OR_NONE = ("defer_tools_beyond",)

_RANGES: tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...] = (
    (_POSITIVE, "positive", lambda value: value > 0),
    (_NOT_NEGATIVE, "0 or more", lambda value: value >= 0),
    (_COUNT_OR_NONE, "0 or more, or None", lambda value: value is None or value >= 0),
    (_POSITIVE_OR_NONE, "positive or None", lambda value: value is None or value > 0),
)


def _budget_problems(budgets: dict[str, float]) -> list[str]:
    problems = [f"cost_budgets[{key!r}] must be positive" for key, usd in budgets.items() if not usd > 0]
    problems += [f"cost_budgets[{key!r}] must be a finite number" for key, usd in budgets.items() if usd == math.inf]
    return problems + [
        f"key {key!r} of cost_budgets must be 1 to {LONGEST_KEY} printable characters"
        for key in budgets
        if not _is_key(key)
    ]


def _is_key(key: str) -> bool:
    return 1 <= len(key) <= LONGEST_KEY and key.isprintable()


_WORKER_RANGES: tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...] = (
    (("max_sessions", "poll_min_s", "poll_max_s", "set_aside_s"), "positive", lambda value: value > 0),
    (("drain_timeout_s", "away_limit_s"), "0 or more, or None", lambda value: value is None or value >= 0),
)
