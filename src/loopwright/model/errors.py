"""The errors that Loopwright raises, as one tree, each with a code that never changes.
Those marked (calls), (archive), (family), (connection) and (web) are in `call_errors.py` and so on: few processes need them.

    LoopwrightError                      loopwright.error
    ├── UsageError                       fix the call
    │   ├── ConfigError                  config.invalid
    │   ├── InvalidMessageError          message.invalid
    │   ├── MessageTooLargeError         message.too_large   (calls)
    │   ├── SessionNotFoundError         session.not_found
    │   ├── SessionGoneError             session.gone
    │   ├── SessionPendingError          session.pending
    │   ├── SessionReentrantError        session.reentrant
    │   ├── SessionExistsError           session.exists
    │   ├── InteractionError             interaction.unknown   (calls)
    │   ├── ToolResultError              tool.result_refused   (calls)
    │   ├── ToolNotFound                 tool.not_found
    │   ├── ToolValidationError          tool.invalid_args   (calls)
    │   ├── PathRefusedError             tool.path_refused   (calls)
    │   ├── SpecValidationError          spec.invalid   (calls)
    │   │   ├── AgentSpecError           spec.agent   (family)
    │   │   └── WorkflowSpecError        spec.workflow   (family)
    │   ├── RenderedTooLargeError        workflow.rendered_too_large   (family)
    │   ├── WorkflowRunError             workflow.run   (family)
    │   ├── TooManyLeavesError           workflow.too_many_leaves   (family)
    │   ├── SpawnRefusedError            spawn.refused   (family)
    │   ├── ChildTimedOutError           spawn.timed_out   (family)
    │   ├── NotesFullError               notes.full   (calls)
    │   ├── BoardFullError               board.full   (family)
    │   ├── BoardEntryError              board.entry   (family)
    │   ├── SkillUnavailableError        skill.unavailable   (calls)
    │   ├── ExportFileError              export.refused   (archive)
    │   ├── ForkPositionError            session.fork_position   (archive)
    │   ├── SessionReferencedError       session.referenced   (archive)
    │   ├── MemoryRefusedError           memory.refused   (archive)
    │   ├── WebRefusedError              web.refused   (web)
    │   └── LoopClosedError              loop.closed
    ├── RetryLaterError                  wait and try again
    │   ├── SessionBusyError             session.busy
    │   ├── SessionFencedError           session.fenced
    │   ├── SessionMovedError            session.moved
    │   ├── InboxMovedError              session.inbox_moved
    │   ├── SessionLeftError             session.left
    │   ├── AgentUnavailableError        agent.unavailable
    │   ├── LeafElsewhereError           leaf.elsewhere   (family)
    │   ├── BudgetRefusedError           budget.refused
    │   ├── StoreUnavailableError        store.unavailable
    │   ├── StoreFullError               store.full
    │   └── McpUnavailableError          mcp.unavailable   (connection)
    ├── StoreError                       look after the database
    │   ├── StoreSchemaError             store.schema
    │   ├── StoreCorruptError            store.corrupt
    │   ├── StoreReadOnlyError           store.read_only
    │   ├── StoreForkedError             store.forked
    │   ├── StoreRolledBackError         store.rolled_back
    │   ├── SealBrokenError              seal.broken   (archive)
    │   ├── SealKeyError                 seal.key   (archive)
    │   ├── UnsealedError                seal.absent   (archive)
    │   └── SessionTooNewError           session.too_new
    ├── LLMError                         llm.error
    │   ├── LLMRequestError              llm.request      (permanent: 4xx)
    │   ├── LLMContextOverflowError      llm.context_overflow
    │   ├── LLMTransientError            llm.transient    (429, 5xx, network, cut stream)
    │   ├── LLMEmptyReplyError           llm.empty_reply
    │   ├── LLMTimeout                   llm.timeout
    │   └── LLMRetryExhausted            llm.retry_exhausted
    ├── RunError                         what ended a run
    │   ├── CancellationRequested        cancelled
    │   ├── HookFailedError              hook.failed
    │   ├── GuardrailBlockedError        guardrail.blocked   (calls)
    │   ├── StructuredOutputError        output.invalid
    │   ├── PoisonedError                session.poisoned
    │   ├── CompactionFailed             compaction.failed   (calls)
    │   ├── ToolFailure                  tool.failed   (calls)
    │   ├── WebFailedError               web.failed   (web)
    │   ├── WebServiceError              web.service   (web)
    │   ├── DocumentUnreadableError      document.unreadable   (web)
    │   ├── OnCommitError                tool.on_commit   (calls)
    │   ├── McpAnswerError               mcp.answer   (connection)
    │   └── McpLostError                 mcp.lost   (connection)
    └── InvariantError                   bug.invariant    (a fault of ours: please report it)

Owns: these classes, their codes and their facts. Must not know: anything else. Read next: `records.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class LoopwrightError(Exception):
    """Root of every error raised by Loopwright; facts are attributes, `code` is frozen."""

    code: ClassVar[str] = "loopwright.error"


class UsageError(LoopwrightError):
    """The call cannot work as it is; nothing was stored or spent."""

    code = "usage.error"


class ConfigError(UsageError):
    """A setting is missing, unknown or contradicts another; all problems are listed at once."""

    code = "config.invalid"

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class InvalidMessageError(UsageError):
    """A message is empty or not of a known shape."""

    code = "message.invalid"


class SessionNotFoundError(UsageError):
    """No session has this id in this store."""

    code = "session.not_found"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"no session {session_id!r} in this store; create one with new_session() or list them")


class SessionGoneError(UsageError):
    """The session was deleted; its id is never used again."""

    code = "session.gone"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id!r} was deleted")


class SessionExistsError(UsageError):
    """A session of this id exists or existed."""

    code = "session.exists"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"session id {session_id!r} is taken; ids are never reused")


class SessionPendingError(UsageError):
    """The session waits for tool results, a person or a resume; the input was not stored."""

    code = "session.pending"

    def __init__(
        self,
        session_id: str,
        *,
        assistant_position: int | None = None,
        pending_tool_calls: Sequence[Any] = (),
        pending_interactions: Sequence[Any] = (),
        waits_for: Sequence[str] = (),
    ) -> None:
        self.session_id = session_id
        self.assistant_position = assistant_position
        self.pending_tool_calls = tuple(pending_tool_calls)
        self.pending_interactions = tuple(pending_interactions)
        open_calls = ", ".join(f"{c.name} ({c.id})" for c in self.pending_tool_calls) or "none"
        questions = ", ".join(f"{i.id}: {i.prompt}" for i in self.pending_interactions)
        self.waits_for = tuple(waits_for)
        """What calls wait for outside, in words: a child, a time, a signal."""
        asked = f"; open questions: {questions}; answer with submit_input()" if questions else ""
        asked += f"; {'; '.join(self.waits_for)}" if self.waits_for else ""
        todo = "use resume(), submit_tool_results(), abort_pending(), or send(heal_pending=True)"
        super().__init__(f"session {session_id!r} has unfinished work; open calls: {open_calls}{asked}; {todo}")


class SessionReentrantError(UsageError):
    """A tool or hook of a running session called back into the same session."""

    code = "session.reentrant"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id!r} is running this very code; use follow_up() or another session")


class ToolNotFound(UsageError):
    """No tool of this name is registered."""

    code = "tool.not_found"

    def __init__(self, tool_name: str, known: Sequence[str] = ()) -> None:
        self.tool_name = tool_name
        super().__init__(f"no tool named {tool_name!r}; available: {', '.join(known) or 'none'}")


class LoopClosedError(UsageError):
    """The loop object was closed; open a new one on the same store."""

    code = "loop.closed"


class RetryLaterError(LoopwrightError):
    """Nothing is wrong with the call; the same call can work later."""

    code = "retry.later"


class SessionBusyError(RetryLaterError):
    """Another owner holds the lease; nothing was stored or spent."""

    code = "session.busy"

    def __init__(self, session_id: str, holder: str, expires_in_s: float) -> None:
        self.session_id = session_id
        self.holder = holder
        self.expires_in_s = expires_in_s
        lease = f"lease expires in {max(expires_in_s, 0.0):.1f} s"
        todo = "use follow_up(), wait with lease_wait_s, or try again"
        super().__init__(f"session {session_id!r} is run by {holder} ({lease}); {todo}")


class SessionFencedError(RetryLaterError):
    """This writer's lease was taken by another; the commit wrote nothing."""

    code = "session.fenced"

    def __init__(self, session_id: str, *, epoch: int, current_epoch: int) -> None:
        self.session_id = session_id
        self.epoch = epoch
        self.current_epoch = current_epoch
        superseded = f"lease epoch {epoch} was superseded by {current_epoch}"
        super().__init__(f"session {session_id!r}: {superseded}; nothing was written; the new owner continues the run")


class SessionMovedError(RetryLaterError):
    """The journal is not where the writer thought; nothing was written; read it and decide again."""

    code = "session.moved"

    def __init__(self, session_id: str, *, expected: int, actual: int) -> None:
        self.session_id = session_id
        self.expected = expected
        self.actual = actual
        super().__init__(f"session {session_id!r} is at position {actual}, not {expected}; nothing was written")


class InboxMovedError(RetryLaterError):
    """An inbox item arrived before a commit that asked for an unchanged inbox; nothing was written."""

    code = "session.inbox_moved"

    def __init__(self, session_id: str, inbox_seq: int) -> None:
        self.session_id = session_id
        self.inbox_seq = inbox_seq
        super().__init__(f"session {session_id!r} got a new inbox item (inbox_seq {inbox_seq}); nothing was written")


class SessionLeftError(RetryLaterError):
    """The worker that ran the session was told to stop; the run stays open and whoever claims it next goes on."""

    code = "session.left"


class AgentUnavailableError(RetryLaterError):
    """This process has no code for the session's agent name; another one may."""

    code = "agent.unavailable"

    def __init__(
        self, session_id: str, agent_name: str, known: Sequence[str], missing_tools: Sequence[str] = ()
    ) -> None:
        self.session_id = session_id
        self.agent_name = agent_name
        self.missing_tools = tuple(missing_tools)
        here = ", ".join(known) or "none"
        what = f"waits for tools that are not registered here: {', '.join(missing_tools)} (registered: {here})"
        todo = "continue it in a loop that has them, or abort_pending()"
        if not missing_tools:
            what = f"belongs to agent {agent_name!r}; this loop runs {here}"
            todo = "open a loop with AgentLoopConfig(agent_name=...)"
        super().__init__(f"session {session_id!r} {what}; {todo}")


class BudgetRefusedError(RetryLaterError):
    """A budget has not enough left for what was to be held; nothing was held. Amounts are nanodollars (1e-9 USD)."""

    code = "budget.refused"

    def __init__(self, key: str, *, limit: int, spent: int, held: int, asked: int, shared: bool = True) -> None:
        self.key = key
        self.limit = limit
        self.spent = spent
        self.held = held
        self.asked = asked
        self.shared = shared
        """False for the budgets of one send (key `run`) and one session (`session`)."""
        there = f"{_usd(spent)} spent" + (f" and {_usd(held)} held" if held else "")
        there += f" of {_usd(limit)}: {_usd(self.left)} are left and {_usd(asked)} were asked for"
        todo = f"{'wait until what is held was settled, or ' if held else ''}raise the limit"
        if not shared:
            todo = f"raise the limit or start another {'send' if key == 'run' else 'session'}"
        done = "no call was made; what was said before stays stored"
        super().__init__(f"budget {key!r} has {there}; {done}; {todo}, or set a lower max_output_tokens")

    @property
    def left(self) -> int:
        """What could still be held; never negative."""
        return max(self.limit - self.spent - self.held, 0)


def _usd(nanodollars: int) -> str:
    """With as many digits as are needed, two at least."""
    whole, rest = divmod(nanodollars, 10**9)
    return f"{whole}.{f'{rest:09d}'.rstrip('0'):0<2} USD"


class StoreUnavailableError(RetryLaterError):
    """The store cannot be reached or stayed locked longer than allowed; whether the last commit happened is known to the next read."""

    code = "store.unavailable"


class StoreFullError(RetryLaterError):
    """No space is left; the commit was rolled back; free space and resume."""

    code = "store.full"


class StoreError(LoopwrightError):
    """The database itself needs attention."""

    code = "store.error"


class StoreSchemaError(StoreError):
    """The tables are missing, older or newer than this version; `ddl` is what would make them right."""

    code = "store.schema"

    def __init__(self, message: str, *, ddl: str = "") -> None:
        self.ddl = ddl
        super().__init__(message + (f"\n{ddl}" if ddl else ""))


class StoreCorruptError(StoreError):
    """The file is not a database, or a page or record cannot be read; nothing was changed."""

    code = "store.corrupt"


class StoreReadOnlyError(StoreError):
    """The database cannot be written; nothing was changed."""

    code = "store.read_only"


class StoreForkedError(StoreError):
    """The store was opened before this process forked; open it anew in the child."""

    code = "store.forked"


class StoreRolledBackError(StoreError):
    """The database is behind what this process was promised: a restored backup or lost writes."""

    code = "store.rolled_back"


class SessionTooNewError(StoreError):
    """The journal holds record formats of a newer version; nothing was read or spent."""

    code = "session.too_new"

    def __init__(self, session_id: str, needed: int, known: int) -> None:
        self.session_id = session_id
        self.needed = needed
        self.known = known
        super().__init__(f"session {session_id!r} needs format {needed}, this is for up to {known}; upgrade loopwright")


class LLMError(LoopwrightError):
    """A model call failed; `status`, `provider` and `retry_after_s` are what the provider said."""

    code = "llm.error"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        retry_after_s: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.provider = provider
        self.status = status
        self.retry_after_s = retry_after_s
        self.details = dict(details or {})
        super().__init__(message)


class LLMRequestError(LLMError):
    """The provider refuses this request for good (4xx other than 408, 409, 429); retrying cannot help."""

    code = "llm.request"


class LLMContextOverflowError(LLMError):
    """The request is longer than the model's context."""

    code = "llm.context_overflow"


class LLMTransientError(LLMError):
    """Rate limit, overload, server fault, network fault or a stream that ended before its end."""

    code = "llm.transient"
    retryable = True


class LLMEmptyReplyError(LLMError):
    """The model returned neither text nor a call."""

    code = "llm.empty_reply"
    retryable = True


class LLMTimeout(LLMError):
    """The time for one logical call, all attempts together, is over."""

    code = "llm.timeout"

    def __init__(self, elapsed_s: float, attempts: int, total_timeout_s: float) -> None:
        self.elapsed_s = elapsed_s
        self.attempts = attempts
        self.total_timeout_s = total_timeout_s
        super().__init__(f"no reply within {total_timeout_s:g} s ({attempts} attempts, {elapsed_s:.1f} s)")


class LLMRetryExhausted(LLMError):
    """Every attempt failed with a passing fault; `last_error` is the newest (also `__cause__`)."""

    code = "llm.retry_exhausted"

    def __init__(self, attempts: int, last_error: BaseException, *, before: str = "") -> None:
        self.attempts = attempts
        self.last_error = last_error
        super().__init__(f"{before}{attempts} attempts failed; the last: {last_error}")


class RunError(LoopwrightError):
    """What ended a run after its input was accepted."""

    code = "run.error"


class CancellationRequested(RunError):
    """Somebody asked the run to stop."""

    code = "cancelled"

    def __init__(self, reason: str = "cancelled") -> None:
        self.reason = reason
        super().__init__(reason)


class HookFailedError(RunError):
    """A hook raised; the run ends as failed, all calls stay answered."""

    code = "hook.failed"

    def __init__(self, hook: str, point: str, error: BaseException) -> None:
        self.hook = hook
        self.point = point
        super().__init__(f"hook {hook!r} at {point} raised {type(error).__name__}: {error}")


class StructuredOutputError(RunError):
    """The model's answer does not fit the asked schema after the allowed re-asks."""

    code = "output.invalid"

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        """no_json | invalid_json | not_object | missing_required | schema."""
        super().__init__(message)


class PoisonedError(RunError):
    """The session stopped its process several times in a row without progress."""

    code = "session.poisoned"


class InvariantError(LoopwrightError):
    """A rule of ours was about to be broken; nothing was written. Please report it with the session id."""

    code = "bug.invariant"
