"""What the command's exit codes mean, and errors as words.

Owns: the stable table of exit codes. Must not know: any command, any output library.
Read next: `application.py`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ..model.errors import (
    AgentUnavailableError,
    CancellationRequested,
    InvariantError,
    LoopwrightError,
    RetryLaterError,
    SessionBusyError,
    SessionNotFoundError,
    SessionPendingError,
    StoreError,
    StoreSchemaError,
    UsageError,
)
from ..model.records import Outcome
from .agent_setup import AgentSettings
from .store_place import db_option


class ExitCode(IntEnum):
    """Stable: scripts rely on these numbers."""

    COMPLETED = 0
    FAILED = 1
    """The send failed or degraded, or `doctor` or `verify` found a problem."""
    USAGE = 2
    """The command cannot work as it was given; nothing was stored or spent."""
    WAITING = 3
    """The session waits for a person's answer or for tool results of a host."""
    LIMIT = 4
    """The round limit or a budget was reached."""
    UNAVAILABLE = 5
    """The session is busy, or the store is locked, away, full, read-only or damaged."""
    CANCELLED = 130
    """Stopped by Ctrl-C or a signal."""


_OF_OUTCOME: Final[dict[Outcome, ExitCode]] = {
    "completed": ExitCode.COMPLETED,
    "waiting_for_input": ExitCode.WAITING,
    "pending_tools": ExitCode.WAITING,
    "cancelled": ExitCode.CANCELLED,
    "hit_round_limit": ExitCode.LIMIT,
    "budget_exceeded": ExitCode.LIMIT,
    "degraded": ExitCode.FAILED,
    "failed": ExitCode.FAILED,
}


def code_of_outcome(outcome: Outcome) -> ExitCode:
    """The exit code of a send that ended or paused like this."""
    return _OF_OUTCOME[outcome]


def code_of_error(error: LoopwrightError) -> ExitCode:
    """The exit code of an error that left no outcome."""
    match error:
        case SessionPendingError():
            return ExitCode.WAITING
        case UsageError():
            return ExitCode.USAGE
        case RetryLaterError() | StoreError():
            return ExitCode.UNAVAILABLE
        case CancellationRequested():
            return ExitCode.CANCELLED
        case _:
            return ExitCode.FAILED


def words_of(error: LoopwrightError, given: AgentSettings) -> str:
    """What happened and what to do, in the words of the command line; commands to type next find the same store."""
    db, sid = db_option(given.db), getattr(error, "session_id", "")
    abort = f"`loopwright sessions abort {sid}{db}`"
    match error:
        case SessionNotFoundError():
            return f"no session {error.session_id!r} in this store; `loopwright sessions list{db}` shows them"
        case SessionBusyError():
            return (
                f"session {error.session_id!r} is being run by another process ({error.holder}); nothing was changed;"
                f" wait until it is done, or stop it with {abort}"
            )
        case AgentUnavailableError() if error.missing_tools:
            missing = ", ".join(error.missing_tools)
            how = "add --allow-bash" if error.missing_tools == ("bash",) else "go on in the program that has them"
            return (
                f"session {error.session_id!r} waits for tools that are not here: {missing}; {how}, or end the send with"
                f" {abort}"
            )
        case AgentUnavailableError():
            return (
                f"session {error.session_id!r} belongs to agent {error.agent_name!r}: the program that made it has its"
                f" tools and continues it; `--agent {error.agent_name}` runs it here with the command's own tools"
            )
        case SessionPendingError() if error.pending_interactions:
            asked = "; ".join(f"{question.prompt} ({question.id})" for question in error.pending_interactions)
            which = error.pending_interactions[0].id if len(error.pending_interactions) == 1 else "ID"
            return (
                f"session {error.session_id!r} waits for an answer: {asked}; give it with"
                f" `loopwright inbox answer {which}{given.repeated()}`, or drop the question with {abort}"
            )
        case SessionPendingError():
            calls = ", ".join(f"{call.name} ({call.id})" for call in error.pending_tool_calls) or "none"
            return (
                f"session {error.session_id!r} waits for results of a host's tools: {calls}; they come from the program"
                f" that made it, or drop them with {abort}"
            )
        case StoreSchemaError() if error.ddl:
            what = str(error).partition("\n")[0].partition(" and schema is VERIFY")[0].partition(", or this script")[0]
            migrate = f"`loopwright db migrate{db}`"
            if "`loopwright db migrate`" in what:
                return what.replace("`loopwright db migrate`", migrate)
            return f"{what}; if it is a store of an older loopwright, {migrate} brings it to this version"
        case InvariantError():
            return f"a fault of loopwright, please report it: {error}"
        case _:
            return str(error)
