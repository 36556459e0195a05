"""The tools through which a model has itself woken later.

Owns: `schedule_wakeup`, `list_wakeups`, `cancel_wakeup`, `current_time`. Must not know: how timers are stored and fired.
Read next: `../core/timer_rules.py`, `../ports/timer_book.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from ..core.timer_rules import FOR_MODELS, TimerWish, armed_by, room_problem, stamp
from ..model.call_errors import SpecValidationError, ToolFailure
from ..model.timer_spec import Timer
from ..ports.timer_book import TimedSession, TimerBook
from ..ports.tool import ToolContext, ToolDefinition
from .decorator import tool
from .descriptions import description_of

_ID_DIGITS = 10


def schedule_wakeup_tool() -> ToolDefinition:
    """`schedule_wakeup`: the session is told a note later, once or again and again. Effect idempotent: the timer is armed in
    the commit of the result, under an id made from the call's key."""

    @tool(description=description_of("schedule_wakeup"), effect="idempotent", touches="session")
    async def schedule_wakeup(
        note: str,
        ctx: ToolContext,
        delay_seconds: float | None = None,
        every_seconds: float | None = None,
        cron: str | None = None,
        timezone: str | None = None,
    ) -> str:
        """Set a timer.

        Args:
            note: What you want to be told then, with all you need to know to go on.
            delay_seconds: Seconds from now, 5 to 2592000 (30 days).
            every_seconds: Repeat this many seconds after each wakeup, 5 or more.
            cron: Instead of delays: minute, hour, day of month, month, day of week, as in "0 9 * * MON-FRI".
            timezone: Of cron, as in "Europe/Lisbon"; UTC if absent.
        """
        book = timers_of(ctx)
        wish = TimerWish(note=note, delay_s=delay_seconds, every_s=every_seconds, cron=cron, tz=timezone)
        try:
            due_at, body = armed_by(wish, book.now(), FOR_MODELS, book.cron)
        except SpecValidationError as error:
            raise ToolFailure("; ".join([_in_words_of_the_tool(problem) for problem in error.problems])) from error
        timer_id = f"t{ctx.idempotency_key[:_ID_DIGITS]}"
        if (why := room_problem(await book.armed(), timer_id, FOR_MODELS)) is not None:
            raise ToolFailure(why)
        book.arm(timer_id, due_at, body)
        return f"{timer_id} is set: {_when(due_at, book.now())}{_again(body.every_s, body.cron, body.tz)}"

    return schedule_wakeup


def list_wakeups_tool() -> ToolDefinition:
    """`list_wakeups`: the timers of the session that are armed."""

    @tool(description=description_of("list_wakeups"), effect="pure", output_limit=100_000, touches="session")
    async def list_wakeups(ctx: ToolContext) -> str:
        """List timers."""
        book = timers_of(ctx)
        return "\n".join([_line(timer, book.now()) for timer in await _set(book)]) or "(no wakeups)"

    return list_wakeups


def cancel_wakeup_tool() -> ToolDefinition:
    """`cancel_wakeup`: takes a timer away. Effect idempotent: it goes in the commit of the result."""

    @tool(description=description_of("cancel_wakeup"), effect="idempotent", touches="session")
    async def cancel_wakeup(timer_id: str, ctx: ToolContext) -> str:
        """Cancel a timer.

        Args:
            timer_id: Which one; list_wakeups shows the ids.
        """
        book = timers_of(ctx)
        armed = await _set(book)
        if all(timer.id != timer_id for timer in armed):
            raise ToolFailure(
                f"no wakeup {timer_id!r} is set; set are: {', '.join(timer.id for timer in armed) or 'none'}"
            )
        book.cancel(timer_id)
        return f"{timer_id} is cancelled"

    return cancel_wakeup


def current_time_tool() -> ToolDefinition:
    """`current_time`: the date and the time of day."""

    @tool(description=description_of("current_time"), effect="pure", touches="session")
    async def current_time(ctx: ToolContext, timezone: str | None = None) -> str:
        """Tell the time.

        Args:
            timezone: As in "Europe/Lisbon"; UTC if absent.
        """
        now = timers_of(ctx).now()
        try:
            zone = UTC if timezone in (None, "", "UTC") else ZoneInfo(str(timezone))
        except (LookupError, ValueError, OSError) as error:
            raise ToolFailure(f"timezone {timezone!r} is not known; write it as Europe/Lisbon or UTC") from error
        at = datetime.fromtimestamp(int(now), zone)
        shown = stamp(now) if zone is UTC else at.isoformat()
        return f"{shown} ({at:%A})"

    return current_time


def timers_of(context: ToolContext) -> TimerBook:
    """The timers of the session. Raises: `ToolFailure` where the run lets its tools set none."""
    if not isinstance(context, TimedSession):
        raise ToolFailure("this session has no clock and sets no timers; go on without")
    return context.timers


async def _set(book: TimerBook) -> list[Timer]:
    return [timer for timer in await book.armed() if timer.kind == "message"]


def _line(timer: Timer, now: float) -> str:
    note = "\n  ".join(timer.note.splitlines())
    return f"- [{timer.id}] {_when(timer.due_at, now)}{_again(timer.every_s, timer.cron, timer.tz)}: {note}"


def _when(due_at: float, now: float) -> str:
    return f"due {stamp(due_at)}, in {max(due_at - now, 0.0):.0f} s"


def _again(every_s: float | None, cron: str | None, tz: str | None) -> str:
    if every_s is not None:
        return f", then every {every_s:g} s"
    return "" if cron is None else f", then by cron {cron!r} in {tz or 'UTC'}"


def _in_words_of_the_tool(problem: str) -> str:
    for ours, theirs in (
        ("delay_s", "delay_seconds"),
        ("every_s", "every_seconds"),
        ("due_at, ", ""),
        ("tz ", "timezone "),
    ):
        problem = problem.replace(ours, theirs)
    return problem
