"""New processes: what the import costs, and how long until a stored session asks its model again.

Owns: these figures. Read next: `cold_ours.py`, `cold_floor.py`: the programs that are started.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from .figures_turn import our_loop, our_turns
from .floor import FloorSession, FloorStore
from .measuring import Figure, Sample, Scale, child_environment, compared, cpu, cpu_of_processes, wall
from .workload import QUESTION, SYSTEM, FakeModel

MILLI = 1e3
HERE = Path(__file__).resolve().parent

FLOOR_IMPORT = "import sqlite3, json, asyncio"
OURS_IMPORT = "import loopwright"
OURS_LOOP_IMPORT = "from loopwright import StatefulAgentLoop"
UNWANTED = ("anthropic", "apsw", "click", "httpx2", "mcp", "openai", "pydantic", "rich", "sqlite3", "typer")
"""SDKs, drivers and command-line libraries."""


async def imports(scale: Scale) -> list[Figure]:
    """CPU of a process that imports and ends, less that of one that does nothing."""
    programs = {
        "nothing": ("-c", "pass"),
        "floor": ("-c", FLOOR_IMPORT),
        "ours": ("-c", OURS_IMPORT),
        "ours with the loop": ("-c", OURS_LOOP_IMPORT),
    }
    samples = await asyncio.to_thread(cpu_of_processes, programs, scale.of(15, 3), child_environment(scale.folder))
    nothing = statistics.median(cpu(samples["nothing"]))
    figures: list[Figure] = []
    for name, program in (("ours", OURS_IMPORT), ("ours with the loop", OURS_LOOP_IMPORT)):
        # Single runs of a millisecond or two less the interpreter's start can be zero: the ratio's range is then wide.
        floor = [max(c - nothing, 1e-4) for c in cpu(samples["floor"])]
        ours = [max(c - nothing, 1e-4) for c in cpu(samples[name])]
        figure = compared(program, "ms", {FLOOR_IMPORT: floor}, ours, scale=MILLI, budget="≤ 2×", limit=2.0)
        figure.others["the interpreter alone"] = nothing * MILLI
        loaded = unwanted_after(program)
        figure.notes.append(f"loads {', '.join(loaded)}" if loaded else "no SDK, driver or command-line library loaded")
        if loaded and name == "ours":
            figure.limit = 0.0
        figures.append(figure)
    return figures


def unwanted_after(program: str) -> list[str]:
    """Which SDKs, drivers and command-line libraries a fresh interpreter holds after `program`."""
    report = f"import sys; print(*[name for name in {UNWANTED!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{program}; {report}"], capture_output=True, text=True, check=True)
    return done.stdout.split()


async def cold_start(scale: Scale) -> list[Figure]:
    messages = scale.of(1000, 200)
    figures: list[Figure] = []
    for level in ("relaxed", "barrier"):
        ours_path, floor_path = scale.folder / f"cold-{level}.db", scale.folder / f"cold-{level}-floor.db"
        session_id = await _fill(ours_path, floor_path, messages)
        for http in (False, True) if level == "barrier" else (False,):
            flags = ["--http"] if http else []
            programs = {
                "floor": [str(HERE / "cold_floor.py"), str(floor_path), session_id, level, *flags],
                "ours": [str(HERE / "cold_ours.py"), str(ours_path), session_id, level, *flags],
            }
            samples = await asyncio.to_thread(_cold, programs, scale.of(25, 2), child_environment(scale.folder))
            figure = compared(
                f"cold process → first model call, {messages:,} messages, CPU, {level}"
                + (", an HTTP client loaded on both sides" if http else ""),
                "ms",
                {"sqlite3 + json + asyncio": cpu(samples["floor"])},
                cpu(samples["ours"]),
                scale=MILLI,
                budget="" if http else "≤ 1.5×",
                limit=None if http else 1.5,
            )
            for name, found in samples.items():
                figure.others[f"wall of {name}"] = statistics.median(wall(found)) * MILLI
            figures.append(figure)
    return figures


async def _fill(ours_path: Path, floor_path: Path, messages: int) -> str:
    """The same conversation in both databases; the session's id."""
    async with our_loop(ours_path, "relaxed") as loop:
        session_id = await loop.new_session(system_prompt=SYSTEM)
        await our_turns(loop, session_id, messages // 2)
    store = FloorStore(floor_path, "sqlite3", "relaxed")
    session, model = FloorSession(store, session_id), FakeModel()
    for _ in range(messages // 2):
        await session.send(model, QUESTION)
    store.close()
    return session_id


def _cold(programs: dict[str, list[str]], rounds: int, environment: dict[str, str]) -> dict[str, list[Sample]]:
    """Each program says its CPU time and the monotonic clock, which all processes share, at its first model call.

    Every run leaves an unfinished send behind on our side, as a process that dies does, so each gets a fresh copy.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in programs}
    names = list(programs)
    for n in range(-1, rounds):
        for name in names:
            script, path, *rest = programs[name]
            copy = Path(path).with_suffix(".copy.db")
            copy.write_bytes(Path(path).read_bytes())
            began = time.monotonic()
            done = subprocess.run(
                [sys.executable, script, str(copy), *rest], capture_output=True, text=True, check=True, env=environment
            )
            said = json.loads(done.stdout)
            for leftover in copy.parent.glob(copy.name + "*"):
                leftover.unlink()
            if n >= 0:
                samples[name].append(Sample(said["cpu_s"], said["monotonic_s"] - began))
        names.append(names.pop(0))
    return samples
