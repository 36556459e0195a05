"""The report of `loopwright usage` as a table and bars.

Owns: which columns fit a width, how money and tokens are written, bars of block characters. Must not know: stores.
Read next: `usage_command.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Final

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from ..model.usage import NANODOLLARS
from ..ports.ledger import BudgetAccount
from .journal_lines import one_line
from .usage_report import UNDATED, UsageGroup, UsageReport, day_of

GAP: Final = 2
MOST_ROWS: Final = 30
"""Groups that have a line of their own; the others share one."""
MOST_BARS: Final = 45
"""Days in a plot; more become weeks, more weeks months, more months years."""
WIDEST_PLOT: Final = 100

_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_LEFT_OUT: Final = ("reasoning", "cached", "last call", "failed", "calls", "input", "output")
"""What goes when there is no room, in this order; names and money stay."""
_LESS_THAN_A_TITLE: Final = ("reasoning", "cached", "last call")
_NARROWEST: Final = 12
"""Columns that a name may be cut to where it does not fit beside the money alone; ids are never cut."""
_NARROWEST_TITLE: Final = 12
_SHORTEST_BAR: Final = 10


class Column(Struct, frozen=True):
    """A column of figures."""

    heading: str
    cell: Callable[[UsageGroup], str]


def table_lines(report: UsageReport, width: int) -> list[Text]:
    """A line for each group between headings and the sum, at most `width` wide unless ids and money alone are wider.

    Titles of sessions stand at the end where there is room; some room is made for them by figures that say little.
    """
    rows = [*_shown(report), report.total]
    columns = _columns(report, rows, tokens_exact)
    labels = [label_of(report, row) for row in rows]
    widest = max([cell_len(label) for label in [*labels, report.by]])
    titles = [one_line(row.title, 200) for row in rows]
    title = GAP + max(len("title"), min(max(map(cell_len, titles)), _NARROWEST_TITLE)) if any(titles) else 0
    if _total(columns, rows, widest + title) > width:
        columns = _columns(report, rows, tokens_short)
    for name in _LEFT_OUT:
        if _total(columns, rows, widest + (title if name in _LESS_THAN_A_TITLE else 0)) <= width:
            break
        columns = [column for column in columns if column.heading != name]
    narrowest = widest if report.by == "session" else min(widest, _NARROWEST)
    room = max(min(widest, width - _total(columns, rows, 0)), narrowest)
    left = width - _total(columns, rows, room) - GAP
    lines = [_line(report.by, [column.heading for column in columns], columns, rows, room, "dim")]
    for label, row in zip(labels, rows, strict=True):
        style = "bold" if row is report.total else ""
        lines.append(_line(label, [column.cell(row) for column in columns], columns, rows, room, style))
    if title and left >= title - GAP:
        left = min(left, max(map(cell_len, ["title", *titles])))
        for line, text in zip(lines, ["title", *titles], strict=True):
            line.append(" " * GAP + fitted(text, left), "" if text else "dim")
    return lines


def bar_lines(report: UsageReport, width: int, *, blocks: bool) -> list[Text]:
    """A bar for each group, of what it cost where that is known, else of its tokens; none for a single group."""
    groups = _timeline(report.groups) if report.by == "day" else _shown(report)
    value, text, what = _measure(report)
    if len(groups) < 2 or not any(value(group) for group in groups):
        return []
    width = min(width, WIDEST_PLOT)
    labels = [label_of(report, group) for group in groups]
    texts = [text(group) for group in groups]
    beside = max([cell_len(one) for one in texts])
    widest = max([cell_len(label) for label in labels])
    room = min(widest, max(width - beside - 2 * GAP - _SHORTEST_BAR, _NARROWEST))
    room = widest if report.by == "session" else room
    length = max(width - room - beside - 2 * GAP, 4)
    most = max([value(group) for group in groups])
    lines = [Text(what.format(report.by), style="dim")]
    for group, label, figure in zip(groups, labels, texts, strict=True):
        line = Text(fitted(label, room) + " " * GAP)
        line.append(bar(value(group), most, length, blocks=blocks), style="cyan")
        line.append("  " + figure if value(group) else "  ?" if group.usage.unpriced_calls or group.uncomputed else "")
        lines.append(line)
    return lines


def bar(value: int, most: int, length: int, *, blocks: bool) -> str:
    """A bar as long as `value` is of `most`, in eighths of a character; what is not nothing is at least one of them."""
    eighths = max(round(value * length * 8 / most), 1) if value > 0 else 0
    if not blocks:
        return "#" * max(round(eighths / 8), 1 if value > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_BLOCKS[rest] if rest else "")


def label_of(report: UsageReport, group: UsageGroup) -> str:
    """The name of a row, without what could drive a terminal."""
    return f"send {group.key}" if report.by == "send" and group.key.isdigit() else one_line(group.key, 200)


def tokens_exact(count: int) -> str:
    """`1,234,567`."""
    return f"{count:,}"


def tokens_short(count: int) -> str:
    """`1.2M`: three figures and a unit, from 10,000 on."""
    if count < 10_000:
        return f"{count:,}"
    size = float(count)
    for unit in ("k", "M", "G"):
        size /= 1000
        if size < 999.5:
            return f"{size:.1f}{unit}" if size < 99.95 else f"{size:.0f}{unit}"
    return f"{size / 1000:,.1f}T"


def decimals_of(amounts: Sequence[int]) -> int:
    """With how many decimals these nanodollars are written, so that the smallest of them does not vanish."""
    least = min([amount for amount in amounts if amount > 0], default=NANODOLLARS)
    return 2 if least >= NANODOLLARS // 10 else 4 if least >= NANODOLLARS // 1000 else 6


def money(amount: int, decimals: int) -> str:
    """Nanodollars as `$1,234.50`."""
    return f"${amount / NANODOLLARS:,.{decimals}f}"


def cost_text(amount: int, unknown: int, decimals: int, *, estimated: bool) -> str:
    """A cost; `~` marks an estimate, `+?` that calls without a price are not in it."""
    if not amount and unknown:
        return "?"
    return ("~" if estimated else "") + money(amount, decimals) + ("+?" if unknown else "")


def budget_lines(accounts: Sequence[BudgetAccount], width: int) -> list[Text]:
    """A line for each account of shared money between headings, the first ones only where there are many."""
    if not accounts:
        return []
    kept = accounts[:MOST_ROWS]
    decimals = decimals_of([amount for one in kept for amount in (one.spent, one.held)])
    table = [
        ("budget", "spent", "held", "holds"),
        *[(one_line(one.key, 200), money(one.spent, decimals), money(one.held, decimals), f"{one.holds:,}")
          for one in kept],
    ]  # fmt: skip
    widths = [max([cell_len(row[place]) for row in table]) for place in range(4)]
    # Keys and what was spent stay whole as long as possible: what is held goes before they are cut.
    while len(widths) > 2 and sum(widths) + GAP * (len(widths) - 1) > width:
        widths.pop()
    room = max(min(widths[0], width - sum(widths[1:]) - GAP * (len(widths) - 1)), _NARROWEST)
    lines = [
        Text(
            fitted(name, room) + "".join([" " * GAP + cell.rjust(w) for cell, w in zip(cells, widths[1:], strict=True)])
        )
        for name, *cells in [row[: len(widths)] for row in table]
    ]
    lines[0].stylize("dim")
    return [*lines, *([Text(f"{len(accounts) - len(kept):,} more", style="dim")] if len(accounts) > len(kept) else [])]


def notes_of(report: UsageReport) -> list[str]:
    """What the marks in the table mean, as far as there are any."""
    total, said = report.total, list[str]()
    if total.usage.estimated:
        said.append("~ partly estimated, where a provider said nothing")
    if total.usage.unpriced_calls or total.uncomputed:
        said.append("? calls without a known price, not in the sum")
    return said


def fitted(label: str, room: int) -> str:
    """A name in exactly so many columns."""
    cell = Text(label)
    cell.truncate(room, overflow="ellipsis", pad=True)
    return cell.plain


def _shown(report: UsageReport) -> list[UsageGroup]:
    """The rows, with those beyond the most that are shown put together."""
    if len(report.groups) <= MOST_ROWS:
        return report.groups
    in_time = report.by in ("day", "send")
    kept = report.groups[-MOST_ROWS + 1 :] if in_time else report.groups[: MOST_ROWS - 1]
    left = report.groups[: -MOST_ROWS + 1] if in_time else report.groups[MOST_ROWS - 1 :]
    rest = UsageGroup(key=f"{len(left):,} {'earlier' if in_time else 'others'}")
    for group in left:
        rest.add(group)
    return [rest, *kept] if in_time else [*kept, rest]


def _columns(report: UsageReport, rows: Sequence[UsageGroup], tokens: Callable[[int], str]) -> list[Column]:
    def about(row: UsageGroup, count: int) -> str:
        return ("~" if row.usage.estimated and count else "") + tokens(count)

    columns = [
        Column("calls", lambda row: f"{row.usage.calls:,}"),
        Column("failed", lambda row: f"{row.failed:,}" if row.failed else ""),
        Column("input", lambda row: about(row, row.usage.input_tokens)),
        Column("cached", lambda row: tokens(row.usage.cached_tokens)),
        Column("output", lambda row: about(row, row.usage.output_tokens)),
        Column("reasoning", lambda row: tokens(row.usage.reasoning_tokens)),
    ]
    if not report.total.failed:
        del columns[1]
    if report.by in ("session", "send"):
        columns.insert(0, Column("last call", _moment))
    total = report.total
    if total.usage.nanodollars or total.usage.unpriced_calls:
        columns.append(_money_column("cost", rows, lambda r: (r.usage.nanodollars, r.usage.unpriced_calls)))
    if report.with_prices:
        columns.append(_money_column("by prices", rows, lambda r: (r.computed, r.uncomputed)))
    return columns


def _money_column(heading: str, rows: Sequence[UsageGroup], of: Callable[[UsageGroup], tuple[int, int]]) -> Column:
    decimals = decimals_of([of(row)[0] for row in rows])
    incomplete = any(of(row)[1] for row in rows)

    def cell(row: UsageGroup) -> str:
        text = cost_text(*of(row), decimals, estimated=row.usage.estimated)
        # Digits stand below digits, whether something follows them or not.
        return text + "  " if incomplete and not text.endswith("?") else text

    return Column(heading, cell)


def _measure(report: UsageReport) -> tuple[Callable[[UsageGroup], int], Callable[[UsageGroup], str], str]:
    """What bars show: the value, its text, its name."""
    if report.with_prices and report.total.computed:
        decimals = decimals_of([group.computed for group in report.groups])
        return (lambda one: one.computed), (lambda one: money(one.computed, decimals)), "cost per {}, by prices"
    if report.total.usage.nanodollars:
        decimals = decimals_of([group.usage.nanodollars for group in report.groups])
        return (lambda one: one.usage.nanodollars), (lambda one: money(one.usage.nanodollars, decimals)), "cost per {}"
    return (lambda one: one.usage.total_tokens), (lambda one: tokens_short(one.usage.total_tokens)), "tokens per {}"


def _timeline(days: Sequence[UsageGroup]) -> list[UsageGroup]:
    """Every day from the first to the last, also those without calls; weeks, months or years where those are too many."""
    days = [day for day in days if day.key != UNDATED]
    if not days:
        return []
    first, last = date.fromisoformat(days[0].key), date.fromisoformat(days[-1].key)
    steps: list[Callable[[date], date]] = [
        lambda day: day,
        lambda day: day - timedelta(days=day.weekday()),
        lambda day: day.replace(day=1),
        lambda day: day.replace(month=1, day=1),
    ]
    dates = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    spans = [(step, dict.fromkeys([step(day) for day in dates])) for step in steps]
    step, span = next((one for one in spans if len(one[1]) <= MOST_BARS), spans[-1])
    bars = {start: UsageGroup(key=start.isoformat()) for start in span}
    for group in days:
        bars[step(date.fromisoformat(group.key))].add(group)
    return list(bars.values())


def _moment(row: UsageGroup) -> str:
    if not row.last or day_of(row.last) == UNDATED:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(row.last))


def _total(columns: Sequence[Column], rows: Sequence[UsageGroup], label: int) -> int:
    return label + sum([GAP + _width(column, rows) for column in columns])


def _width(column: Column, rows: Sequence[UsageGroup]) -> int:
    return max([len(column.heading), *[len(column.cell(row)) for row in rows]])


def _line(
    label: str, cells: Sequence[str], columns: Sequence[Column], rows: Sequence[UsageGroup], room: int, style: str
) -> Text:
    line = Text(fitted(label, room), style=style)
    for cell, column in zip(cells, columns, strict=True):
        line.append(" " * GAP + cell.rjust(_width(column, rows)))
    return line
