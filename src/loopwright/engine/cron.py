"""Cron expressions in time zones, through the package `cronsim` (extra `cron`).

Owns: the adapter to the package. Must not know: timers.
Five fields, as Debian's cron reads them. Where a clock is put forward, a time of day that does not exist is the first
minute after the gap; where it is put back, a fixed time of day counts once, and one with `*` in minutes or hours goes on
in real minutes and hours. Read next: `../ports/cron_reader.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ..late import Late
from ..model.errors import ConfigError

if TYPE_CHECKING:
    import cronsim
else:
    cronsim = Late("cronsim")

_FIELDS = 5


class CronTimes:
    """See `ports.cron_reader.CronReader`; the `ImportError` names the extra to install."""

    def problem(self, cron: str, tz: str) -> str | None:
        """Why the expression or the zone cannot be used."""
        if (zone := _zone(tz)) is None:
            return f"tz {tz!r} is no time zone that is known here; write it as Europe/Lisbon or UTC"
        reader = _reader()
        if len(cron.split()) != _FIELDS:
            return f"cron {cron!r} must have five fields: minute, hour, day of month, month, day of week"
        try:
            reader(cron, datetime(2000, 1, 1, tzinfo=zone))
        except (cronsim.CronSimError, ValueError) as error:
            return f"cron {cron!r} cannot be read: {error}"
        return None

    def next_after(self, cron: str, tz: str, after: float) -> float | None:
        """See `CronReader.next_after`."""
        zone, reader = _zone(tz), _reader()
        if zone is None:
            raise ValueError(f"time zone {tz!r} is not known here")
        try:
            begin = datetime.fromtimestamp(after, UTC).astimezone(zone)
        except (OverflowError, ValueError, OSError) as error:
            raise ConfigError(
                f"{after!r} is no time of the calendar, which ends with the year 9999; look at the clock"
            ) from error
        try:
            for at in reader(cron, begin):
                # In an hour that happens twice the package may name the first one during the second.
                if at.timestamp() > after:
                    return at.timestamp()
        except cronsim.CronSimError as error:
            raise ValueError(f"cron {cron!r} cannot be read: {error}") from error
        except OverflowError:
            return None
        return None


def _reader() -> type[cronsim.CronSim]:
    try:
        return cronsim.CronSim
    except ModuleNotFoundError as error:
        raise ImportError('cron expressions need the extra: pip install "loopwright[cron]"') from error


def _zone(name: str) -> tzinfo | None:
    if name == "UTC":
        return UTC  # also where a system has no time zones
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return None
