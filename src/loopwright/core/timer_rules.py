"""The rules of timers: what may be armed, when one is due next, what it says.

Owns: these rules, as functions of values. Must not know: clocks, stores, who reads cron expressions (`../ports/cron_reader.py`).
Read next: `../model/timer_spec.py`, `../engine/timers.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..model.call_errors import SpecValidationError
from ..model.timer_spec import Timer, TimerBody
from ..ports.cron_reader import CronReader
from .fencing import inside

DAY_S: Final = 86_400.0
MOST_NOTE: Final = 2_000
"""Characters of a note."""
MOST_CRON: Final = 200
"""Characters of a cron expression."""
MOST_SPOKEN: Final = 64 * 1024
"""Bytes of UTF-8 of what a hook lets a timer say."""
RETRY_S: Final = 30.0
"""After a firing that went wrong it is tried again."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimerBounds(Struct, frozen=True, kw_only=True):
    """What somebody may arm, in seconds from now and between two firings."""

    least_s: float = 0.0
    most_s: float = 366 * DAY_S
    least_every_s: float = 1.0
    most_cron_s: float | None = None
    """To the first time of a cron expression; None: as far as it says."""
    most_armed: int | None = None
    """Timers with a note that a session may have at once; None: any number."""


FOR_HOSTS: Final = TimerBounds()
FOR_MODELS: Final = TimerBounds(
    least_s=5.0, most_s=30 * DAY_S, least_every_s=5.0, most_cron_s=30 * DAY_S, most_armed=10
)


class TimerWish(Struct, frozen=True, kw_only=True):
    """What somebody wants armed; nothing of it is checked yet."""

    note: str
    delay_s: float | None = None
    due_at: float | None = None
    every_s: float | None = None
    cron: str | None = None
    tz: str | None = None
    timer_id: str | None = None


def armed_by(wish: TimerWish, now: float, bounds: TimerBounds, cron: CronReader) -> tuple[float, TimerBody]:
    """(when it is due first, what is stored of it).

    A `due_at` that has passed is allowed: it fires at once. Raises: `SpecValidationError` with everything that is wrong.
    """
    problems = _problems(wish, now, bounds, cron)
    due: float | None = None
    if not problems:
        due = _first_due(wish, now, cron)
        if due is None:
            problems.append(f"cron {wish.cron!r} names no time in the next 50 years")
        else:
            most_s = bounds.most_s if wish.cron is None else bounds.most_cron_s
            if most_s is not None and not due - now <= most_s:
                problems.append(f"it would be due in {due - now:.0f} s; at most {_shown(most_s)} are allowed")
    if problems or due is None:
        raise SpecValidationError("timer", problems)
    every_s = None if wish.every_s is None else float(wish.every_s)
    tz = None if wish.cron is None else wish.tz or "UTC"
    body = TimerBody(kind="message", note=wish.note.strip(), every_s=every_s, cron=wish.cron, tz=tz, armed_at=now)
    return due, body


def next_due(body: TimerBody, now: float, cron: CronReader) -> float | None:
    """When a timer that fires now is due again; None when it is not armed again.

    Always later than `now`, whatever was missed: periods that passed while nobody fired are one firing.
    """
    if body.every_s is not None:
        return now + body.every_s
    return None if body.cron is None else cron.next_after(body.cron, body.tz or "UTC", now)


def after_firing(body: TimerBody, now: float) -> TimerBody:
    """The body with which a timer is armed again."""
    return replace(body, fire_count=body.fire_count + 1, last_fired_at=now, firing_for=None)


def spoken(timer_id: str, body: TimerBody, due_at: float, now: float) -> str:
    """What the session is told: the note in a frame that it cannot end or forge."""
    late = f' fired="{stamp(now)}"' if now - due_at >= 1.0 else ""
    shown = re.sub(r"[^\w.:-]", "_", timer_id, flags=re.ASCII)
    return f'<timer id="{shown}" due="{stamp(due_at)}"{late}>\n{inside(body.note)}\n</timer>'


def stamp(at: float) -> str:
    """UTC epoch seconds as a date and a time of day, to the second: `2026-11-22T09:30:00Z`."""
    try:
        return f"{(_EPOCH + timedelta(seconds=math.floor(at))).replace(tzinfo=None).isoformat()}Z"
    except (OverflowError, ValueError):
        return f"{at!r}"


def shown_timer(session_id: str, timer_id: str, due_at: float, body: TimerBody) -> Timer:
    """A stored timer as a host sees it."""
    return Timer(
        id=timer_id,
        session_id=session_id,
        due_at=due_at if body.firing_for is None else body.firing_for,
        note=body.note,
        kind=body.kind,
        every_s=body.every_s,
        cron=body.cron,
        tz=body.tz,
        fire_count=body.fire_count,
        last_fired_at=body.last_fired_at,
        armed_at=body.armed_at,
        call_id=body.call_id,
        status="armed" if body.firing_for is None else "firing",
    )


def room_problem(armed: Sequence[Timer], timer_id: str, bounds: TimerBounds) -> str | None:
    """Why no further timer may be armed beside these; None when one may. Arming a timer of theirs anew needs no room."""
    others = [timer for timer in armed if timer.kind == "message" and timer.id != timer_id]
    if bounds.most_armed is None or len(others) < bounds.most_armed:
        return None
    return f"{len(others)} timers are armed, {bounds.most_armed} are allowed; cancel one of them first"


def _problems(wish: TimerWish, now: float, bounds: TimerBounds, cron: CronReader) -> list[str]:
    problems = [*_of_note(wish.note), *_of_id(wish.timer_id)]
    first = [name for name in ("delay_s", "due_at", "cron") if getattr(wish, name) is not None]
    if len(first) > 1:
        problems.append(f"{' and '.join(first)} exclude each other; give one of them")
    elif not first and wish.every_s is None:
        problems.append("it needs delay_s, due_at, cron or every_s")
    for name, least in (("delay_s", bounds.least_s), ("every_s", bounds.least_every_s)):
        value: Any = getattr(wish, name)
        if value is not None and not (_is_number(value) and least <= value <= bounds.most_s):
            problems.append(f"{name} must be from {least:g} to {_shown(bounds.most_s)} seconds, not {value!r:.50}")
    if wish.due_at is not None and not (_is_number(wish.due_at) and wish.due_at >= 0):
        problems.append(f"due_at must be UTC epoch seconds, 0 or more, not {wish.due_at!r:.50}")
    elif wish.due_at is not None and bounds.least_s and wish.due_at - now < bounds.least_s:
        problems.append(f"due_at must be {bounds.least_s:g} seconds from now or later")
    return problems + _of_cron(wish, cron)


def _of_note(note: Any) -> list[str]:
    if not isinstance(note, str) or not note.strip():
        return ["note must not be empty: it is what the session is told"]
    too_long = len(note.strip()) > MOST_NOTE
    return [f"note has {len(note.strip())} characters, {MOST_NOTE} are allowed"] if too_long else []


def _of_id(timer_id: Any) -> list[str]:
    if timer_id is None or (isinstance(timer_id, str) and _ID.fullmatch(timer_id)):
        return []
    return [
        f"timer_id must be 1 to 100 of the characters A-Z a-z 0-9 _ . : - and begin with one of the first, not {timer_id!r:.120}"
    ]


def _of_cron(wish: TimerWish, cron: CronReader) -> list[str]:
    if wish.cron is None:
        return ["tz counts for cron only"] if wish.tz is not None else []
    problems = ["every_s and cron exclude each other; give one of them"] if wish.every_s is not None else []
    for name, value in (("cron", wish.cron), ("tz", wish.tz)):
        given: Any = value
        if given is not None and not (isinstance(given, str) and 0 < len(given) <= MOST_CRON):
            problems.append(f"{name} must be text of 1 to {MOST_CRON} characters")
            return problems
    why = cron.problem(wish.cron, wish.tz or "UTC")
    return problems if why is None else [*problems, why]


def _first_due(wish: TimerWish, now: float, cron: CronReader) -> float | None:
    if wish.due_at is not None:
        return float(wish.due_at)
    if wish.cron is not None:
        return cron.next_after(wish.cron, wish.tz or "UTC", now)
    wait_s = wish.delay_s if wish.delay_s is not None else wish.every_s
    return None if wait_s is None else now + wait_s


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _shown(seconds: float) -> str:
    return f"{seconds:.0f}"
