"""The seam to whatever reads cron expressions.

Owns: `CronReader`. Must not know: who reads them. Read next: `../core/timer_rules.py`, `../engine/cron.py`.
"""

from __future__ import annotations

from typing import Protocol


class CronReader(Protocol):
    """Reads cron expressions of five fields in a time zone. Raises `ImportError` where the package for it is missing."""

    def problem(self, cron: str, tz: str) -> str | None:
        """Why the expression or the zone cannot be used; None when they can."""
        ...

    def next_after(self, cron: str, tz: str, after: float) -> float | None:
        """The first time of the expression that is later than `after` (both UTC epoch seconds); None when there is none.

        Raises: `ValueError` for what has a `problem`, `ConfigError` for a time beyond the calendar (years 1 to 9999).
        """
        ...
