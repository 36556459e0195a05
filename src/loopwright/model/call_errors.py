"""Errors of tool calls and of what people and hosts answer to them.

Owns: these branches of the tree in `errors.py`. Must not know: who raises them. Read next: `errors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import RunError, UsageError

_MAX_NAMED = 100


class InteractionError(UsageError):
    """No open question has this id: it never existed or was answered."""

    code = "interaction.unknown"

    def __init__(
        self, session_id: str, interaction_id: str, *, open_ids: Sequence[str] = (), answered: bool = False
    ) -> None:
        self.session_id = session_id
        self.interaction_id = interaction_id
        self.answered = answered
        state = f"{'was answered before' if answered else 'is not open'}; open: {', '.join(open_ids) or 'none'}"
        super().__init__(f"interaction {interaction_id!r} of session {session_id!r} {state}")


class MessageTooLargeError(UsageError):
    """A message is larger than `max_message_bytes`; nothing of it was stored."""

    code = "message.too_large"

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        """Characters of its text and bytes of its pictures and files."""
        self.limit = limit
        super().__init__(
            f"the message has {size} bytes with its pictures and files, over max_message_bytes={limit}; send less or give an url"
        )


class ToolResultError(UsageError):
    """A host's tool result was refused: unknown call, or a second result for one call."""

    code = "tool.result_refused"

    def __init__(self, session_id: str, call_id: str, why: str) -> None:
        self.session_id = session_id
        self.call_id = call_id
        super().__init__(f"result for call {call_id!r} of session {session_id!r} refused: {why}")


class ToolValidationError(UsageError):
    """Arguments do not fit the tool's schema; the handler was not called."""

    code = "tool.invalid_args"

    def __init__(self, tool_name: str, message: str) -> None:
        self.tool_name = tool_name
        self.message = message
        super().__init__(f"arguments of {tool_name!r} are not valid: {message}")


class PathRefusedError(UsageError):
    """A path leads outside of the workspace or cannot be used there."""

    code = "tool.path_refused"


class SpecValidationError(UsageError):
    """A spec written by a person or a model is not valid; every problem is listed with its path."""

    code = "spec.invalid"

    def __init__(self, field: str, problems: Sequence[str]) -> None:
        self.field = field
        self.problems = tuple(problems)
        super().__init__(f"{field}: " + "; ".join(self.problems))


class NotesFullError(UsageError):
    """A session has as many notes as it may have; nothing was changed."""

    code = "notes.full"

    def __init__(self, max_notes: int, pinned: int, listing: str) -> None:
        self.max_notes = max_notes
        self.pinned = pinned
        """Of them pinned, which no eviction touches."""
        super().__init__(
            f"all {max_notes} notes are taken ({pinned} pinned); delete or update one of them first:\n{listing}"
        )


class SkillUnavailableError(UsageError):
    """No skill has this name, or it or one of its files cannot be used."""

    code = "skill.unavailable"

    def __init__(self, name: str, why: str, known: Sequence[str]) -> None:
        self.name = name
        self.why = why
        self.known = tuple(known)
        shown = ", ".join(self.known[:_MAX_NAMED]) or "none"
        more = f" and {len(self.known) - _MAX_NAMED} more" if len(self.known) > _MAX_NAMED else ""
        super().__init__(f"skill {name!r}: {why}; usable skills: {shown}{more}")


class OnCommitError(RunError):
    """What a tool wanted done with its result failed or took too long; nothing of that transition was stored."""

    code = "tool.on_commit"

    def __init__(self, call_id: str, why: str, *, limit_s: float | None = None) -> None:
        self.call_id = call_id
        self.limit_s = limit_s
        """The limit when the work took longer; None when it failed."""
        super().__init__(f"the on_commit work of call {call_id!r} failed, nothing of it was stored: {why}")


class ToolFailure(RunError):
    """Raise it in a handler: the message goes to the model as a failed result, without a traceback."""

    code = "tool.failed"


class CompactionFailed(RunError):
    """A fold that the host asked for gave no note; the window is as it was, what it cost is stored."""

    code = "compaction.failed"

    def __init__(self, session_id: str, why: str, detail: str) -> None:
        super().__init__(
            f"session {session_id!r}: no note was made ({why}): {detail}; the conversation is whole, try again later"
        )
        self.session_id = session_id
        self.why = why
        """The code of what went wrong, such as "fold.timed_out" or "fold.empty"."""
        self.detail = detail


class GuardrailBlockedError(RunError):
    """A guardrail refused an input, of which nothing was stored, or a reply, whose send ended as failed."""

    code = "guardrail.blocked"

    def __init__(self, guardrail: str, session_id: str, reason: str, *, input_refused: bool) -> None:
        self.guardrail = guardrail
        self.session_id = session_id
        self.reason = reason
        self.input_refused = input_refused
        """False: it was the reply."""
        what = "the input; nothing was stored" if input_refused else "the reply; the session goes on with the next send"
        super().__init__(f"guardrail {guardrail!r} refused {what} (session {session_id!r}): {reason}")
