"""What happened between sessions: children that were spawned and ended, calls that wait, signals, hand-offs.

Owns: these kinds of records. Must not know: how they are folded (`core/family_state.py`). Loaded with the first of them:
a plain conversation has none. The rules of `records.py` hold here as well.
Read next: `core/family_state.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from .messages import UserMessage
from .records import Interaction, Outcome
from .specs import StructuredOutputSpec
from .usage import NO_USAGE, Usage

Lifecycle = Literal["ephemeral", "linked", "detached"]
"""What happens to a child when its result was copied, and when its parent goes: dropped, deleted with it, neither."""

WaitsOn = Literal["child", "time", "signal"]


class SharedAccount(Struct, frozen=True, gc=False):
    """Money of a parent's send that its children spend, too."""

    key: str
    limit: int
    """Nanodollars."""


class Persona(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """As what a session answers: what an `AgentSpec` asked for and its parent allows."""

    name: str
    system_prompt: str | None = None
    tools: tuple[str, ...] | None = None
    """Names that it may use; None: all that the agent has."""
    model: str | None = None
    max_rounds: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    output: StructuredOutputSpec | None = None
    run_token_budget: int | None = None
    run_cost_budget: int | None = None
    """Nanodollars."""
    timeout_s: float | None = None
    metadata: dict[str, Any] = field(default_factory=lambda: {})


class SessionSpawned(
    Struct, frozen=True, gc=False, tag_field="kind", tag="session_spawned", omit_defaults=True, kw_only=True
):
    """This session is a child: everything that is needed to begin it, so that whoever knows its id can run it."""

    persona: Persona
    parent_id: str
    root_id: str
    depth: int
    """1 for a child of a session that nobody spawned."""
    agents: tuple[str, ...]
    """Names from the root's agent to this one."""
    by: str
    """The call or step of the parent that spawned it."""
    input: UserMessage | None = None
    """What it is told first; None: what its inbox holds."""
    awaited: bool = True
    """Its call or step ends with it; False: it runs in the background and its end is said to the parent."""
    lifecycle: Lifecycle = "linked"
    accounts: tuple[SharedAccount, ...] = ()


class ChildStarted(
    Struct, frozen=True, gc=False, tag_field="kind", tag="child_started", omit_defaults=True, kw_only=True
):
    """A call spawned a child; written with its creation."""

    call_id: str
    child_id: str
    name: str
    lifecycle: Lifecycle = "linked"
    awaited: bool = True
    account: SharedAccount | None = None
    """Of this send, made with its first child when money bounds it."""


class ChildFinished(
    Struct, frozen=True, gc=False, tag_field="kind", tag="child_finished", omit_defaults=True, kw_only=True
):
    """A child's send ended, and its parent heard of it."""

    child_id: str
    outcome: Outcome
    child_usage: Usage = NO_USAGE
    """Of the child and its own children in that send; counted for the parent's send, not for its session."""


class CallWaits(Struct, frozen=True, gc=False, tag_field="kind", tag="call_waits", omit_defaults=True, kw_only=True):
    """A call goes on when something outside happened; until then nothing of it runs."""

    call_id: str
    on: WaitsOn
    child_id: str | None = None
    interactions: tuple[Interaction, ...] = ()
    """Questions of that child and its own children."""
    until: float | None = None
    """UTC epoch seconds: the time, or when a signal is waited for no longer."""
    signal: str | None = None


class CallWoken(Struct, frozen=True, gc=False, tag_field="kind", tag="call_woken", omit_defaults=True):
    """What a call waited for has happened: its handler runs again and is told."""

    call_id: str
    why: WaitsOn
    payload: Any = None
    """Of the signal; None for a time, and for a signal that was waited for too long (`why` is "time" then)."""


class SignalReceived(Struct, frozen=True, gc=False, tag_field="kind", tag="signal_received", omit_defaults=True):
    """A signal arrived; kept for the next call or step that waits for its name."""

    name: str
    payload: Any = None
    item_id: str = ""


class SignalTaken(Struct, frozen=True, gc=False, tag_field="kind", tag="signal_taken"):
    """A call or step took the oldest kept signal of this name."""

    name: str
    by: str


class HandedOff(Struct, frozen=True, gc=False, tag_field="kind", tag="handed_off", omit_defaults=True):
    """From here on the session answers as another agent."""

    persona: Persona
    reason: str = ""
    call_id: str = ""


FamilyRecord: TypeAlias = (
    SessionSpawned | ChildStarted | ChildFinished | CallWaits | CallWoken | SignalReceived | SignalTaken | HandedOff
)
"""What makes sessions a family."""
