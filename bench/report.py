"""Figures as a table for people and as JSON for programs.

Owns: the layout. Must not know: how anything was measured.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from .measuring import Figure

COLUMNS = ("figure", "budget", "floor", "loopwright", "ratio (min … max)", "verdict")


def environment() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "sqlite3": sqlite3.sqlite_version,
        "apsw": apsw.sqlite_lib_version(),
    }


def fsync_us(folder: Path, count: int = 40) -> float:
    """Median wall time of one append and fsync in `folder`: what a synced commit cannot be faster than."""
    path = folder / "fsync.bin"
    times: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    path.unlink()
    return sorted(times)[count // 2] * 1e6


def amount(value: float, unit: str) -> str:
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 3 if 0 < size < 0.1 else 2
    return f"{value:,.{digits}f} {unit}"


def table(figures: Sequence[Figure]) -> str:
    rows = [COLUMNS]
    for f in figures:
        ratio = f"{f.ratio:.2f} ({f.ratio_min:.2f} … {f.ratio_max:.2f})"
        rows.append(
            (
                f.name,
                f.budget or "–",
                f"{amount(f.floor, f.unit)} [{f.floor_name}]",
                amount(f.ours, f.unit),
                ratio,
                f.verdict,
            )
        )
    return _aligned(rows)


def side_by_side(figures: Sequence[Figure]) -> str:
    """A table for each kind of figure, the first word of a name up to its comma; what `details` lists are columns here."""
    kinds: dict[str, list[Figure]] = {}
    for f in figures:
        kinds.setdefault(f.name.partition(", ")[0], []).append(f)
    return "\n\n".join(_of_kind(kind, rows) for kind, rows in kinds.items())


def _of_kind(kind: str, figures: Sequence[Figure]) -> str:
    first = figures[0]
    rows = [(kind, first.unit, *first.others, f"× at {first.floor_name} (min … max)", "verdict")]
    for f in figures:
        values = [amount(value, "").rstrip() for value in (f.ours, *f.others.values())]
        ratio = f"{f.ratio:.2f} ({f.ratio_min:.2f} … {f.ratio_max:.2f})"
        verdict = f"{f.verdict}, {f.budget}" if f.budget else f.verdict
        rows.append((f.name.partition(", ")[2], *values, ratio, verdict))
    notes = dict.fromkeys(note for f in figures for note in f.notes)
    return "\n".join([_aligned(rows), *[f"  {note}" for note in notes]])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def details(figures: Sequence[Figure]) -> str:
    """What the table leaves out: further floors, wall times, notes."""
    lines: list[str] = []
    for f in figures:
        facts = [
            f"{name} {value:.2f}" if name.startswith("ratio") else f"{name} {amount(value, '').rstrip()}"
            for name, value in f.others.items()
        ]
        if facts or f.notes:
            lines.append(f"  {f.name}: " + "; ".join([*facts, *f.notes]))
    return "\n".join(lines)


def document(figures: Sequence[Figure], facts: dict[str, Any]) -> str:
    whole = {"environment": facts, "figures": [f.as_json() for f in figures]}
    return json.dumps(whole, indent=2, ensure_ascii=False, default=str)
