"""Taking turns at the clock: the same work by two or more contestants, round by round, and what came out.

Owns: CPU and wall time, interleaving, medians, ratios, verdicts. Must not know: what is measured.
Read next: `report.py` for how figures are shown.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Scale:
    """How much work one run of the benchmark does."""

    quick: bool
    folder: Path
    """For databases; on the disk whose syncs are measured."""

    def of(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True)
class Sample:
    """One measured piece of work."""

    cpu_s: float
    wall_s: float


@dataclass
class Figure:
    """One row: ours against a floor, and whether the budget is met."""

    name: str
    unit: str
    budget: str
    """As DESIGN says it; "" for a row that only informs."""
    limit: float | None
    """The highest ratio that meets the budget (the lowest where `more_is_better`); None for a row that only informs."""
    floor_name: str
    floor: float
    ours: float
    ratio: float
    ratio_min: float
    ratio_max: float
    repetitions: int
    more_is_better: bool = False
    notes: list[str] = field(default_factory=list)
    others: dict[str, float] = field(default_factory=dict)
    """Further measured values in the same unit, or as their name says."""

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return "info"
        met = self.ratio >= self.limit if self.more_is_better else self.ratio <= self.limit
        return "met" if met else "missed"

    def as_json(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "verdict": self.verdict}


Work = Callable[[], Awaitable[int]]
"""Does some work and answers how many units of it (turns, chunks) were done."""


async def interleaved(contestants: dict[str, Work], rounds: int, *, warm_up: int = 1) -> dict[str, list[Sample]]:
    """Each round lets everybody work once, in an order that rotates; samples are seconds per unit of work.

    CPU time is that of the whole process: threads of the contestants count, the kernel's work for syncs too.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in contestants}
    names = list(contestants)
    for n in range(-warm_up, rounds):
        for name in names:
            gc.collect()
            cpu, wall = time.process_time(), time.perf_counter()
            units = await contestants[name]()
            # A thread that commits for us may be one step behind; what it still does belongs to this contestant.
            sample = Sample((time.process_time() - cpu) / units, (time.perf_counter() - wall) / units)
            if n >= 0:
                samples[name].append(sample)
        names.append(names.pop(0))
    return samples


def child_environment(folder: Path) -> dict[str, str]:
    """For new processes: compiled modules are kept, as an installed package's are, in a place of this run's own."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def cpu_of_processes(
    programs: dict[str, Sequence[str]], rounds: int, environment: dict[str, str]
) -> dict[str, list[Sample]]:
    """Runs Python programs by turns, each in a new process; CPU is what the system says of the ended child."""
    samples: dict[str, list[Sample]] = {name: [] for name in programs}
    names = list(programs)
    for n in range(-1, rounds):
        for name in names:
            began = time.perf_counter()
            child = subprocess.Popen([sys.executable, *programs[name]], stdout=subprocess.DEVNULL, env=environment)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode != 0:
                raise RuntimeError(f"{name} ended with {child.returncode}")
            if n >= 0:
                samples[name].append(Sample(usage.ru_utime + usage.ru_stime, time.perf_counter() - began))
        names.append(names.pop(0))
    return samples


def cpu(samples: Sequence[Sample]) -> list[float]:
    return [s.cpu_s for s in samples]


def wall(samples: Sequence[Sample]) -> list[float]:
    return [s.wall_s for s in samples]


def compared(
    name: str,
    unit: str,
    floors: dict[str, Sequence[float]],
    ours: Sequence[float],
    *,
    scale: float = 1.0,
    budget: str = "",
    limit: float | None = None,
    more_is_better: bool = False,
) -> Figure:
    """A row from values of the same rounds. The first of several floors is the floor; the others are listed.

    The ratio is the median of the ratios round by round, with the smallest and the largest.
    """
    medians = {floor: statistics.median(values) for floor, values in floors.items()}
    best = next(iter(floors))
    ratios = sorted(o / f for o, f in zip(ours, floors[best], strict=True))
    figure = Figure(
        name=name,
        unit=unit,
        budget=budget,
        limit=limit,
        floor_name=best,
        floor=medians[best] * scale,
        ours=statistics.median(ours) * scale,
        ratio=statistics.median(ratios),
        ratio_min=ratios[0],
        ratio_max=ratios[-1],
        repetitions=len(ratios),
        more_is_better=more_is_better,
    )
    for floor, values in floors.items():
        if floor != best:
            figure.others[floor] = medians[floor] * scale
            figure.others[f"ratio to {floor}"] = statistics.median(o / f for o, f in zip(ours, values, strict=True))
    return figure


def bytes_written() -> int | None:
    """Bytes that this process has handed to write calls so far; None where the system does not count them."""
    try:
        for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
            if line.startswith("wchar:"):
                return int(line.split()[1])
    except OSError:
        pass
    return None


async def settle() -> None:
    """Lets threads finish what they began for the last contestant."""
    await asyncio.sleep(0.05)
