"""The seam to where leaves run: the child sessions that a workflow or an agent starts.

Owns: what is handed over (a reference, never messages), what comes back (a hint, never the truth), the five verbs.
Must not know: processes, sandboxes, engines. Why it is so small: docs/decisions/0013-executors-by-reference.md.
Read next: `executors/in_process.py`, then `testing/executor_suite.py` (the promises as tests).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from ..model.errors import ConfigError
from ..model.records import Outcome
from ..model.usage import Usage
from .store_admin import SessionStore

LARGEST_REF: Final = 1023
"""Bytes of an encoded reference: under 1 KB, so that any queue, signal or header can carry it."""

LARGEST_REASON: Final = 2000
"""Characters of a `LeafEnd.reason`; what is longer is cut in its middle."""

LeafFault = Literal[
    "leaf.crashed",
    "leaf.timed_out",
    "leaf.launch_failed",
    "leaf.result_broken",
    "leaf.store",
    "leaf.cancelled",
    "leaf.left",
    "leaf.unknown",
]
"""Why an executor has no outcome from the journal. crashed: its process ended without a result. timed_out: it was ended after
its time. launch_failed: nothing was started. result_broken: it ended in order and what it said cannot be read. store: its
journal could not be lent, brought home or opened. cancelled: it was stopped before it could note that. left: its executor or
host closed, and whoever runs the session next goes on. unknown: this executor was never given it, or has forgotten it."""


class LeafRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that is needed to find a leaf: ids and names. No message, no specification, no address, no secret.

    Raises: `ConfigError` when it is larger than `LARGEST_REF` encoded, or a field is impossible.
    """

    session_id: str
    """The session that is the leaf; all else that there is to know stands in its journal."""
    agent_name: str
    """Whose code runs it."""
    run_id: str = ""
    """The session that it belongs to; "" when nobody waits for it."""
    path: str = ""
    """The step within the run, such as `research[2]/r`."""
    attempt: int = 1
    """Counts from 1; with `session_id` the key by which a second `submit` is known."""
    place: str = ""
    """Which store holds the session: a name that both sides know, "" where there is only one."""
    timeout_s: float | None = None
    """How long this attempt may run; None leaves it to the executor. A hint, as those below: what a send may spend stands
    in its journal and is kept there."""
    tokens_left: int | None = None
    """For executors that choose among machines or queues; None: not bounded."""
    nanodollars_left: int | None = None

    def __post_init__(self) -> None:
        problems = [f"{name} must not be empty" for name in ("session_id", "agent_name") if not getattr(self, name)]
        if self.attempt < 1:
            problems.append("attempt must be 1 or more")
        if self.timeout_s is not None and not (math.isfinite(self.timeout_s) and self.timeout_s > 0):
            problems.append("timeout_s must be a finite number over 0, or None")
        try:
            size = len(encode_ref(self))
        except UnicodeEncodeError:
            size = 0
            problems.append("a reference to a leaf is text; an id or name holds half a character")
        if size > LARGEST_REF:
            problems.append(f"a reference to a leaf takes {size} bytes, at most {LARGEST_REF}; shorten path and names")
        if problems:
            raise ConfigError(problems)

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes two submits the same one: place, session, attempt."""
        return self.place, self.session_id, self.attempt


class LeafEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an executor says about a leaf that it does not run any more; small, and a hint to look into the journal."""

    status: Outcome
    """As the journal has it where `in_journal`; else "failed", or "cancelled" when it was cancelled."""
    in_journal: bool
    """True: the leaf's send ended or pauses, and its journal says so. False: the executor gave it up, its session may be
    interrupted, and whoever begins it goes on where its journal ends."""
    reason: str = ""
    """For people; at most `LARGEST_REASON` characters. Of a crash, the last words of its error output."""
    fault: LeafFault | None = None
    """Why there is no outcome from the journal, and where `error_code` does not say it; `in_journal` it is None, but for a
    send that its executor stopped because its time was over: that is cancelled and "leaf.timed_out"."""
    error_code: str | None = None
    """Code of the error that ended the send, or that kept it from being begun (`session.busy` …)."""
    usage: Usage | None = None
    """What the send used so far; None when the executor does not know. The journal has the figure that counts."""

    def __post_init__(self) -> None:
        if len(self.reason) > LARGEST_REASON:
            half = LARGEST_REASON // 2 - 10
            msgspec.structs.force_setattr(self, "reason", f"{self.reason[:half]} ... {self.reason[-half:]}")

    @property
    def ok(self) -> bool:
        """True when the send completed."""
        return self.status == "completed" and self.in_journal


def gave_up(fault: LeafFault, reason: str) -> LeafEnd:
    """The end of a leaf that its executor has no outcome of."""
    status: Outcome = "cancelled" if fault == "leaf.cancelled" else "failed"
    return LeafEnd(status=status, in_journal=False, fault=fault, reason=reason)


def encode_ref(ref: LeafRef) -> bytes:
    """The reference as one line of JSON."""
    return msgspec.json.encode(ref)


def decode_ref(data: bytes) -> LeafRef:
    """A reference from its JSON; unknown fields of a later version are passed over. Raises: `ConfigError`."""
    try:
        return msgspec.json.decode(data, type=LeafRef)
    except msgspec.DecodeError as error:
        raise ConfigError(f"this is no reference to a leaf: {error}") from error


class Executor(Protocol):
    """Runs leaves somewhere: here, in another process, on another machine.

    The journal is the truth. A leaf that has begun can be begun again by anybody, at any time, and goes on where its
    journal ends; two that begin it at once are kept apart by the lease of its session. So an executor may lose a leaf, run
    it twice one after the other, or forget its end: nothing is lost by that but time. It delivers *at least once*; that a
    step counts once is the journal's doing.

    Every verb takes the reference alone, may be called from any task of one event loop, concurrently, and by somebody who
    has not called `submit` himself. None of them raises because of what the leaf does; they raise `ConfigError` for a
    reference that the executor cannot serve (another place), and whatever the way to a remote engine raises when it cannot
    be reached: then nothing is known, and the same call may be made again.
    """

    @property
    def place(self) -> str:
        """Where the journals of leaves are while they run here: "" for the store that they belong to, else a name of the
        place, by which another process finds them. A run keeps it with each leaf that it begins, and is only gone on with
        by a loop whose executor says the same: what a leaf did stands in its journal, and nowhere else.
        """
        ...

    async def submit(self, ref: LeafRef) -> None:
        """Begins the leaf, and returns when this executor is answerable for it, long before its end.

        Idempotent by session and attempt: a second call while it runs joins it, one after its end changes nothing. A new
        attempt of a session whose earlier one still runs here waits for that one's end. What cannot be started is no error
        of this call but the end that `observe` tells. Cancel: the leaf may or may not have been begun; call it again.
        """
        ...

    async def nudge(self, ref: LeafRef) -> None:
        """Says that something new waits for the leaf in the store: an answer, a message, a wake.

        A leaf that runs looks once more before its end is told; one that does not run is begun, whatever its earlier end.
        What waits is never part of the call. A nudge too many costs a look.
        """
        ...

    async def cancel(self, ref: LeafRef, reason: str) -> None:
        """Asks the leaf to stop; returns at once, and `observe` tells the end.

        Its send ends as cancelled in its journal where there is still somebody to write that; else its end is the fault
        `leaf.cancelled` and its session stays interrupted. No effect on a leaf that is not running here.
        """
        ...

    async def observe(self, ref: LeafRef) -> LeafEnd:
        """The end of this attempt, waiting for it; any number of callers.

        An executor may lose an end: whoever gets none, or one that is not `in_journal`, looks into the journal before
        anything else. A leaf that was never submitted here, or so long ago that it is forgotten, is the fault
        `leaf.unknown` at once. Cancel: the leaf goes on.
        """
        ...

    async def aclose(self) -> None:
        """Takes no more leaves and leaves those that run: their sessions stay interrupted for whoever is next.

        Nothing that this executor started runs any more when it returns. Safe to call twice.
        """
        ...


@runtime_checkable
class FilingExecutor(Protocol):
    """An executor that lends sessions to files of its own, and brings them home."""

    def attach(self, home: SessionStore, open_file: Callable[[str], SessionStore]) -> None:
        """Says where sessions belong, and how a file is opened; a loop does so with the executor that it is given."""
        ...
