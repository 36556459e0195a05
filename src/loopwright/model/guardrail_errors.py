"""What a guardrail did not let through.

Owns: this branch of the tree in `errors.py`. Must not know: guardrails. Read next: `errors.py`.
"""

from __future__ import annotations

from .errors import HookFailedError


class GuardrailBlockedError(HookFailedError):
    """A guardrail refused an input, of which nothing was stored, or a reply, whose send ended as failed."""

    code = "guardrail.blocked"

    def __init__(self, guardrail: str, point: str, session_id: str, reason: str) -> None:
        super().__init__(guardrail, point, ValueError(reason))
        self.guardrail = guardrail
        self.session_id = session_id
        self.reason = reason
        what = "the input; nothing was stored" if point == "message.append" else "the reply; the session goes on with the next send"
        self.args = (f"guardrail {guardrail!r} refused {what} (session {session_id!r}): {reason}",)
