"""What was decided about calls: permissions, standing answers, modes, tools that were found; what their handlers asked.

Owns: these kinds of records. Must not know: how they are folded (`core/control_state.py`). Loaded with the first of them:
a plain conversation has none. The rules of `records.py` hold here as well.
Read next: `core/control_state.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .records import QuestionAsked

Decision = Literal["allow", "ask", "deny"]
"""What a policy says about a call."""

PermissionMode = Literal["plan", "default", "trusted"]
"""`plan`: nothing that changes the world. `trusted`: what would be asked is allowed."""

Standing = Literal["session", "project"]
"""For how long an answer holds."""


class PermissionDecided(
    Struct, frozen=True, gc=False, tag_field="kind", tag="permission_decided", omit_defaults=True, kw_only=True
):
    """A policy decided about a call, on the arguments that its handler would get."""

    call_id: str
    tool_name: str
    decision: Decision
    rule: str = ""
    """The rule that decided, as people write it; "": none did, the mode alone."""
    why: str = ""


class PermissionGranted(
    Struct, frozen=True, gc=False, tag_field="kind", tag="permission_granted", omit_defaults=True, kw_only=True
):
    """A person's answer holds for later calls, too."""

    rule: dict[str, Any]
    """The rule as a JSON object (`permission_spec.py`)."""
    standing: Standing = "session"
    interaction_id: str = ""
    by: str = ""


class PermissionModeSet(
    Struct, frozen=True, gc=False, tag_field="kind", tag="permission_mode_set", omit_defaults=True, kw_only=True
):
    """From here on the session's calls are judged in this mode."""

    mode: PermissionMode
    widened: bool = False
    """The host said that it holds where the loop's own mode is narrower."""
    by: str = ""


class ToolsRevealed(
    Struct, frozen=True, gc=False, tag_field="kind", tag="tools_revealed", omit_defaults=True, kw_only=True
):
    """A search found tools that were kept back: from the next round on the model may see them."""

    names: tuple[str, ...]
    call_id: str = ""


class HandlerAsked(QuestionAsked, frozen=True, gc=False, tag_field="kind", tag="handler_asked"):
    """A handler asked a person and left: its call waits, and with the answer the handler runs again from its start.

    A kind of its own, not a field of `QuestionAsked`: a reader that does not know it would make the answer the result of
    the call and never run the handler. So it needs format 5, and an older reader refuses the session before anything is
    spent. The answer is a `QuestionAnswered` as ever. Until it comes nothing of the handler runs: an intent that was stored
    before is void, and the call is not one of unknown outcome.
    """


ControlRecord: TypeAlias = PermissionDecided | PermissionGranted | PermissionModeSet | ToolsRevealed | HandlerAsked
"""Everything above."""
