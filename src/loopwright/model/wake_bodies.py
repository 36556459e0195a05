"""What an inbox item of kind "wake" or "signal" says.

Owns: their shapes. Must not know: who puts and who takes them.
Read next: `core/waking.py`.
"""

from typing import Any

from msgspec import Struct

from .records import Outcome
from .usage import NO_USAGE, Usage


class Wake(Struct, frozen=True, omit_defaults=True):
    """Something that a waiting call or step waits for has happened."""

    child_id: str | None = None
    """This child ended or pauses."""
    call_id: str | None = None
    """The time of this call, or the path of this step, has come."""
    outcome: Outcome | None = None
    """How the child's send ended; None: it waits."""
    usage: Usage = NO_USAGE
    """Of that send."""


class Signal(Struct, frozen=True, omit_defaults=True):
    """Somebody outside says that something happened."""

    name: str
    payload: Any = None
