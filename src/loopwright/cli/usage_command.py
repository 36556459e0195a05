"""`loopwright usage`.

Owns: the options, where prices and the time come from. Must not know: how usage is added up or drawn.
Read next: `usage_report.py`, `usage_view.py`.
"""

from __future__ import annotations

import json
import math
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..late import Late
from ..model.errors import ConfigError
from ..model.usage import NANODOLLARS
from ..ports.prices import Prices
from ..ports.store_admin import SessionStore
from .journal_lines import counted
from .live_screen import terminal_console
from .options import AsJson, Db
from .quantities import age_of
from .session_commands import with_store
from .session_drive import write_json
from .session_ids import resolved
from .store_place import DEFAULT_DB, shown
from .usage_report import Grouping, UsageGroup, UsageReport, Wanted, usage_report
from .usage_view import bar_lines, budget_lines, notes_of, table_lines

if TYPE_CHECKING:
    from ..transports import price_table, published_prices
else:
    price_table = Late("loopwright.transports.price_table")
    published_prices = Late("loopwright.transports.published_prices")

_IN_A_PIPE = 80
"""Columns of a plot that nobody sees on a terminal."""


def usage(
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="session|model|day|agent", help="What makes a line; default model."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="One session, send by send; `last` is the newest."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="AGE|DATE", help="Calls since then: 12h, 7d, 2026-11-01.")
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option("--prices", metavar="auto|FILE", help="Also what calls cost by list prices, or by a JSON file."),
    ] = None,
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Bars below the table.")] = True,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Show what sessions used: calls, tokens and cost.

    Costs are those that were stored with the calls, by programs that gave their loop prices.
    """
    grouping = _grouping(by, session)
    known = None if prices is None else _price_list(prices)
    start = -math.inf if since is None else _start(since)

    async def work(store: SessionStore) -> UsageReport:
        sid = None if session is None else await resolved(store, session)
        return await usage_report(store, Wanted(by=grouping, session_id=sid, since=start, prices=known))

    report = with_store(db, work)
    if report.unreadable:
        sys.stderr.write(
            f"loopwright: {counted(report.unreadable, 'record')} cannot be read: not counted;"
            " `loopwright doctor` says more\n"
        )
    if report.unreadable_budgets:
        sys.stderr.write(
            f"loopwright: {counted(report.unreadable_budgets, 'budget')} cannot be read: not shown, since rows of"
            " lw_budgets hold values of another type\n"
        )
    if as_json:
        return write_json(report_json(report))
    if not report.groups and not report.budgets:
        when = "" if since is None else f" since {since}"
        sys.stderr.write(f"loopwright: no model was called{when} in {shown(db)}\n")
        return None
    _show(report, plot=plot)
    return None


def report_json(report: UsageReport) -> dict[str, Any]:
    """The report as JSON values; money is in US dollars and, exactly, in nanodollars."""
    groups = [group_json(group, report) for group in report.groups]
    budgets = [
        {"key": one.key, "spent_usd": one.spent / NANODOLLARS, "held_usd": one.held / NANODOLLARS, "holds": one.holds}
        for one in report.budgets
    ]
    total = group_json(report.total, report)
    return {
        "by": report.by,
        "groups": groups,
        "total": total,
        "budgets": budgets,
        "unreadable": report.unreadable,
        "unreadable_budgets": report.unreadable_budgets,
    }


def group_json(group: UsageGroup, report: UsageReport) -> dict[str, Any]:
    """A row as JSON values."""
    used = group.usage
    return {
        **({} if group is report.total else {"key": group.key}),
        **({"title": group.title} if group.title else {}),
        "calls": used.calls,
        "failed_calls": group.failed,
        "input_tokens": used.input_tokens,
        "cached_tokens": used.cached_tokens,
        "cache_write_tokens": used.cache_write_tokens,
        "output_tokens": used.output_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "estimated": used.estimated,
        "cost_usd": used.cost_usd,
        "nanodollars": used.nanodollars,
        "unpriced_calls": used.unpriced_calls,
        **(
            {
                "computed_usd": group.computed / NANODOLLARS,
                "computed_nanodollars": group.computed,
                "uncomputed_calls": group.uncomputed,
            }
            if report.with_prices
            else {}
        ),
    }


def _grouping(by: str | None, session: str | None) -> Grouping:
    wanted = by or ("model" if session is None else "send")
    if wanted not in get_args(Grouping):
        raise ConfigError(f"--by {wanted!r} is none of session, model, day, agent")
    if wanted == "send" and session is None:
        raise ConfigError("sends are those of one session: name it with --session")
    return cast("Grouping", wanted)


def _price_list(name: str) -> Prices:
    if name == "auto":
        try:
            return published_prices.PublishedPrices()
        except ImportError as error:
            raise ConfigError(str(error)) from error
    try:
        with open(name, encoding="utf-8") as file:
            given = json.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read prices from {name}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{name} is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigError(f'{name} must be an object like {{"gpt-5*": {{"input": 1.25, "output": 10}}}}')
    return price_table.PriceTable(cast("dict[str, Any]", given))


def _start(since: str) -> float:
    """UTC epoch seconds of an age before now, or of a local date or time."""
    try:
        return datetime.fromisoformat(since).astimezone().timestamp()
    except ValueError:
        pass
    try:
        return time.time() - age_of(since)
    except ConfigError:
        raise ConfigError(f"--since {since!r} is neither an age (12h, 7d) nor a date (2026-11-01)") from None


def _show(report: UsageReport, *, plot: bool) -> None:
    console = terminal_console(sys.stdout)
    width = console.width if console.is_terminal else 10_000
    for line in table_lines(report, width):
        _print(console, line)
    for note in notes_of(report):
        _print(console, Text(note, style="dim"))
    if accounts := budget_lines(report.budgets, width):
        for line in [Text(), *accounts]:
            _print(console, line)
    if not plot:
        return
    blocks = "utf" in (console.encoding or "").lower()
    bars = bar_lines(report, console.width if console.is_terminal else _IN_A_PIPE, blocks=blocks)
    for line in [Text(), *bars] if bars else []:
        _print(console, line)


def encodable_in(encoding: str, text: str) -> bool:
    """True when an output with this encoding can hold the text."""
    try:
        text.encode(encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _print(console: Console, line: Text) -> None:
    line.rstrip()
    if not encodable_in(console.encoding, line.plain):
        line.plain = "".join([c if encodable_in(console.encoding, c) else "?" * cell_len(c) for c in line.plain])
    console.print(line, soft_wrap=True)
