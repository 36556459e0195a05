"""`python -m bench`: measures, prints a table, and writes JSON when asked."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from .figures_context import COMBINATIONS, conversation
from .figures_counting import counting
from .figures_many import many
from .figures_process import cold_start, imports
from .figures_streaming import streaming
from .figures_turn import history, linked, turn
from .figures_workflow import workflow
from .measuring import Figure, Scale
from .report import details, document, environment, fsync_us, side_by_side, table
from .stores.commits import commits
from .stores.contestants import Contestant, NoServerError, contestants
from .stores.growth import growth

Measured = Figure | list[Figure]
Steps = Sequence[tuple[str, Callable[[], Awaitable[Measured]]]]
"""(group, how to measure it), in the order of the budgets."""

LEVELS = ("relaxed", "barrier")


STORE_GROUPS = {"commits": commits, "growth": growth}


def steps(scale: Scale) -> Steps:
    return [
        ("import", lambda: imports(scale)),
        *[("turn", partial(turn, scale, level)) for level in LEVELS],
        ("turn", lambda: linked(scale, "relaxed")),
        *[("tool", partial(turn, scale, level, tool_effect=e)) for level in LEVELS for e in ("pure", "once")],
        *[("history", partial(history, scale, level)) for level in LEVELS],
        *[("many", partial(many, scale, level)) for level in LEVELS],
        ("streaming", lambda: streaming(scale)),
        ("cold", lambda: cold_start(scale)),
    ]


def store_steps(scale: Scale, stores: Sequence[Contestant]) -> Steps:
    # A larger database is a question to the file, not to when it is synced: one level of SQLite answers it.
    return [
        (group, partial(measure, scale, store))
        for group, measure in STORE_GROUPS.items()
        for store in stores
        if group == "commits" or store.grows
    ]


def context_steps(scale: Scale) -> Steps:
    return [
        *[("folds", partial(conversation, scale, shown, folded)) for shown, folded in COMBINATIONS],
        ("counting", lambda: counting(scale)),
    ]


CONTEXT_GROUPS = ("folds", "counting")
WORKFLOW_GROUPS = ("workflow",)


def workflow_steps(scale: Scale) -> Steps:
    return [("workflow", lambda: workflow(scale))]


def measured(steps: Steps, only: str | None) -> list[Figure]:
    figures: list[Figure] = []
    for group, measure in steps:
        if only is not None and only != group:
            continue
        began = time.perf_counter()
        # An event loop of its own for each, so that none inherits tasks or timers of another.
        result = asyncio.run(_awaited(measure))
        figures += result if isinstance(result, list) else [result]
        print(f"{group}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
    return figures


async def _awaited(measure: Callable[[], Awaitable[Measured]]) -> Measured:
    return await measure()


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="loopwright-bench-", dir=given.folder) as folder:
        scale = Scale(quick=given.quick, folder=Path(folder))
        facts = {**environment(), "fsync_us": fsync_us(scale.folder), "quick": given.quick}
        if given.stores:
            try:
                with contestants(scale.folder, embedded=given.embedded, durable=not given.quick) as stores:
                    figures = measured(store_steps(scale, stores), given.only)
            except NoServerError as error:
                sys.exit(f"bench: {error}")
        elif given.workflow:
            figures = measured(workflow_steps(scale), given.only)
        else:
            figures = measured(context_steps(scale) if given.context else steps(scale), given.only)
    text = document(figures, facts)
    if str(given.json) == "-":
        print(text)
        return
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")
    sync = f"one fsync here takes {facts['fsync_us']:.0f} µs"
    print(
        f"Python {facts['python']}, {facts['machine']}, SQLite {facts['apsw']} (apsw) and {facts['sqlite3']} (sqlite3); {sync}"
    )
    print("\n" + (side_by_side(figures) if given.stores else table(figures) + "\n\n" + details(figures)))
    missed = [f.name for f in figures if f.verdict == "missed"]
    print(f"\n{len(missed)} of {sum(f.limit is not None for f in figures)} budgets missed")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description="Loopwright beside a loop written by hand.")
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="also write the figures as JSON; - is standard output"
    )
    parser.add_argument("--quick", action="store_true", help="small and rough: shows that it runs, not how fast")
    parser.add_argument("--stores", action="store_true", help="the stores beside each other instead; starts servers")
    parser.add_argument("--context", action="store_true", help="long conversations under a budget instead")
    parser.add_argument("--workflow", action="store_true", help="a workflow over many items instead")
    parser.add_argument("--embedded", action="store_true", help="with --stores: leave out PostgreSQL and MariaDB")
    groups = list(dict.fromkeys(group for group, _ in steps(Scale(quick=True, folder=Path()))))
    known = f"one group of figures: {', '.join(groups)}; with --stores: {', '.join(STORE_GROUPS)}; with --context: {', '.join(CONTEXT_GROUPS)}"
    parser.add_argument("--only", metavar="GROUP", help=known)
    parser.add_argument("--folder", type=Path, help="where the databases go: the disk whose syncs count")
    given = parser.parse_args()
    if given.stores + given.context + given.workflow > 1:
        parser.error("--stores, --context and --workflow are benchmarks of their own; ask for one")
    choices = list(STORE_GROUPS) if given.stores else list(CONTEXT_GROUPS) if given.context else groups
    choices = list(WORKFLOW_GROUPS) if given.workflow else choices
    if given.only not in {None, *choices}:
        parser.error(f"unknown group {given.only!r}; there are {', '.join(choices)}")
    if given.embedded and not given.stores:
        parser.error("--embedded goes with --stores; nothing else starts servers")
    return given


if __name__ == "__main__":
    main()
