"""A workflow that goes through many items with an agent each: leaves a second, CPU, memory and bytes of each leaf.

Owns: these figures; each size is measured in a process of its own, so that memory is its own. There is no floor written by
hand: the budget is 1,000 leaves a second, and that a leaf costs the same however many there are.
Read next: `docs/workflows.md`.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from loopwright import StatefulAgentLoop

from .measuring import Figure, Scale, child_environment
from .workload import FakeModel

LEAVES_A_SECOND = 1_000.0
SAME = 1.5
"""What a leaf of the largest run may cost against one of the smallest, and its process may hold."""

AGENT = {"name": "clerk", "system_prompt": "You answer in one sentence."}
CONCURRENCY = 64


async def workflow(scale: Scale) -> list[Figure]:
    sizes = (100, 200) if scale.quick else (1_000, 5_000, 10_000)
    rounds = 1 if scale.quick else 3
    measured = {size: [_in_a_process(scale, size, number) for number in range(rounds)] for size in sizes}
    first, last = sizes[0], sizes[-1]
    return [
        *[_speed(size, measured[size]) for size in sizes],
        _growth("CPU of a leaf", "ms", "cpu_ms", measured[first], measured[last], f"{last:,} vs {first:,} items"),
        _growth("peak memory", "MB", "peak_mb", measured[first], measured[last], f"{last:,} vs {first:,} items"),
        _growth("bytes of a leaf", "B", "bytes", measured[first], measured[last], f"{last:,} vs {first:,} items"),
    ]


def _speed(size: int, runs: list[dict[str, float]]) -> Figure:
    speeds = [run["per_s"] / LEAVES_A_SECOND for run in runs]
    return Figure(
        name=f"workflow, foreach over {size:,} items, an agent each, barrier",
        unit="leaves/s",
        budget="≥ 1,000/s",
        limit=1.0,
        floor_name="the budget",
        floor=LEAVES_A_SECOND,
        ours=statistics.median(speeds) * LEAVES_A_SECOND,
        ratio=statistics.median(speeds),
        ratio_min=min(speeds),
        ratio_max=max(speeds),
        repetitions=len(runs),
        more_is_better=True,
        others={
            "CPU of a leaf, ms": statistics.median(run["cpu_ms"] for run in runs),
            "peak memory, MB": statistics.median(run["peak_mb"] for run in runs),
            "bytes of a leaf": statistics.median(run["bytes"] for run in runs),
        },
    )


def _growth(
    what: str, unit: str, name: str, few: list[dict[str, float]], many: list[dict[str, float]], sizes: str
) -> Figure:
    floor, ours = (statistics.median(run[name] for run in runs) for runs in (few, many))
    ratios = [b[name] / a[name] for a, b in zip(few, many, strict=True)]
    return Figure(
        name=f"workflow, {what}, {sizes}",
        unit=unit,
        budget=f"≤ {SAME}x",
        limit=SAME,
        floor_name="few items",
        floor=floor,
        ours=ours,
        ratio=ours / floor,
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        repetitions=len(few),
    )


def _in_a_process(scale: Scale, size: int, number: int) -> dict[str, float]:
    file = scale.folder / f"workflow-{size}-{number}.db"
    command = [sys.executable, "-m", "bench.figures_workflow", str(size), str(file)]
    done = subprocess.run(
        command, env=child_environment(scale.folder), stdout=subprocess.PIPE, check=True, text=True, timeout=600
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _peak_mb() -> float:
    """The most memory that this program held; `getrusage` would count what its parent held before it was started."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def _measure(size: int, file: Path) -> dict[str, Any]:
    body = {"type": "agent", "id": "a", "spec": AGENT, "input": "order {{item}}"}
    each = {"type": "foreach", "id": "f", "as": "item", "items": list(range(size)), "body": body}
    spec = {"name": "many", "root": {**each, "max_concurrency": CONCURRENCY}}
    async with StatefulAgentLoop(llm=FakeModel(), dsn=str(file)) as loop:
        cpu, wall = time.process_time(), time.perf_counter()
        result = await loop.workflows.run(spec)
        spent, took = time.process_time() - cpu, time.perf_counter() - wall
        assert result.ok, result.error_message
    return {
        "per_s": size / took,
        "cpu_ms": spent / size * 1000,
        "peak_mb": _peak_mb(),
        "bytes": os.path.getsize(file) / size,  # noqa: ASYNC240 - nothing else runs any more
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(int(sys.argv[1]), Path(sys.argv[2])))))
