"""Cron expressions: time zones, clocks that are put forward and back, and what cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.engine.cron import CronTimes
from loopwright.model.errors import ConfigError

CRON = CronTimes()
BERLIN = "Europe/Berlin"


def times(cron: str, tz: str, after: str, count: int) -> list[str]:
    """The next times, as the clock on the wall there shows them."""
    at = datetime.fromisoformat(after).timestamp()
    found: list[str] = []
    for _ in range(count):
        following = CRON.next_after(cron, tz, at)
        assert following is not None
        assert following > at
        at = following
        found.append(f"{datetime.fromtimestamp(at, ZoneInfo(tz)):%d %H:%M%z}")
    return found


def test_a_time_of_day_stays_that_time_of_day_over_the_year() -> None:
    assert times("0 9 1 * *", BERLIN, "2026-02-15T00:00+00:00", 3) == [
        "01 09:00+0100",
        "01 09:00+0200",
        "01 09:00+0200",
    ]


def test_a_time_that_does_not_exist_when_clocks_go_forward_is_the_end_of_the_gap_once() -> None:
    assert times("30 2 * * *", BERLIN, "2026-03-28T00:00+00:00", 3) == [
        "28 02:30+0100",
        "29 03:00+0200",
        "30 02:30+0200",
    ]


def test_a_fixed_time_that_happens_twice_when_clocks_go_back_counts_once() -> None:
    assert times("30 2 * * *", BERLIN, "2026-10-24T22:00+00:00", 2) == ["25 02:30+0200", "26 02:30+0100"]


def test_asked_in_the_second_of_two_equal_hours_the_next_fixed_time_is_not_in_the_first() -> None:
    assert times("30 2 * * *", BERLIN, "2026-10-25T02:10+01:00", 1) == ["26 02:30+0100"]


def test_every_half_hour_goes_on_in_real_half_hours_over_both_changes() -> None:
    assert times("*/30 * * * *", BERLIN, "2026-10-25T02:15+02:00", 4) == [
        "25 02:30+0200",
        "25 02:00+0100",
        "25 02:30+0100",
        "25 03:00+0100",
    ]
    assert times("*/30 * * * *", BERLIN, "2026-03-29T01:15+01:00", 2) == ["29 01:30+0100", "29 03:00+0200"]


@given(
    st.sampled_from(
        ["0 0 29 2 *", "15,45 8-18 * * MON-FRI", "0 12 L * *", "30 2 * * SUN", "*/7 * * * *", "0 3 * 3,10 SUN#5"]
    ),
    st.sampled_from(["UTC", BERLIN, "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia"]),
    st.integers(631_152_000, 3_786_912_000),
)
def test_the_next_time_is_always_later_and_none_lies_between(cron: str, tz: str, after: int) -> None:
    following = CRON.next_after(cron, tz, after)
    assert following is not None
    assert following > after
    # A moment right before it finds the same one: nothing was passed over, and nothing depends on where one asks.
    assert CRON.next_after(cron, tz, following - 1) == following


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "0 * * * * *", "61 * * * *", "* * 30 2 *", "a b c d e", "*/0 * * * *", "5-1 * * * *", "* * * * 9"],
)
def test_what_cannot_be_read_is_said(cron: str) -> None:
    assert (CRON.problem(cron, "UTC") or "").startswith(f"cron {cron!r} ")


@pytest.mark.parametrize("tz", ["", "Mars/Base", "../etc/passwd", "/etc/localtime", "Europe", "x" * 300, "a\0b"])
def test_a_zone_that_is_none_is_said(tz: str) -> None:
    assert "is no time zone" in (CRON.problem("* * * * *", tz) or "")
    with pytest.raises(ValueError, match="not known"):
        CRON.next_after("* * * * *", tz, 0.0)


@given(st.text(alphabet="0123456789*/,-#LW MONJAN ", max_size=40))
def test_no_expression_raises_anything_or_names_a_time_that_has_passed(cron: str) -> None:
    if CRON.problem(cron, "UTC") is None:
        following = CRON.next_after(cron, BERLIN, 1_800_000_000.0)
        assert following is None or following > 1_800_000_000.0


def test_the_end_of_the_calendar_is_no_error() -> None:
    assert CRON.next_after("0 0 1 1 *", "UTC", datetime(9999, 12, 30, tzinfo=UTC).timestamp()) is None


@pytest.mark.parametrize("after", [1e12, -1e12, 1e300, -1e300, float("inf"), float("nan")])
def test_a_time_beyond_the_calendar_is_refused_in_a_sentence(after: float) -> None:
    with pytest.raises(ConfigError, match="no time of the calendar"):
        CRON.next_after("0 0 1 1 *", BERLIN, after)
