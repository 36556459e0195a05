"""The benchmark measures every figure of the budget table and says what it found; how fast it was is nobody's concern here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

FIELDS = {
    "name",
    "unit",
    "budget",
    "floor_name",
    "floor",
    "ours",
    "ratio",
    "ratio_min",
    "ratio_max",
    "verdict",
    "notes",
}

# Group → how many rows it has, and how many of them have a budget.
GROUPS = {
    "import": (2, 2),
    "turn": (3, 2),
    "tool": (4, 4),
    "history": (4, 4),
    "many": (2, 2),
    "streaming": (6, 4),
    "cold": (3, 2),
}

# With --stores: arguments → how many rows there are, and how many of them have a budget.
STORES = {
    "--embedded --only commits": (12, 1),
    "--embedded --only growth": (14, 0),
}
WITH_SERVERS = {
    "--only commits": (18, 1),
}
# With --context: group → how many rows there are at least, and how many of them have a budget.
CONTEXT = {"folds": (8, 8), "counting": (int((ROOT.parent / "shared" / "traffic").is_dir()), 0)}
COLUMNS = 120


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "--quick", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_of_figures_is_measured_and_judged(group: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench("--only", group, "--json", str(file), "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    figures = document["figures"]
    rows, judged = GROUPS[group]
    if group == "history" and not Path("/proc/self/io").exists():
        rows, judged = 2, 2  # bytes are counted by Linux only
    says_something_about_each(figures, rows, judged)
    for figure in figures:
        assert figure["name"] in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"], "databases were left behind"


def says_something_about_each(figures: list[dict[str, Any]], rows: int, judged: int) -> None:
    assert len(figures) == rows
    assert sum(f["verdict"] in ("met", "missed") for f in figures) == judged
    for figure in figures:
        assert figure.keys() >= FIELDS
        assert figure["ratio_min"] <= figure["ratio"] <= figure["ratio_max"]
        assert min(figure["floor"], figure["ours"]) > 0


@pytest.mark.parametrize(
    "arguments", [*STORES, *[pytest.param(name, marks=pytest.mark.server) for name in WITH_SERVERS]]
)
def test_the_stores_are_measured_beside_each_other(arguments: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench("--stores", *arguments.split(), "--json", str(file), "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    says_something_about_each(figures, *(STORES | WITH_SERVERS)[arguments])
    table = done.stdout.splitlines()[1:]
    for figure in figures:
        kind, _, which = figure["name"].partition(", ")
        assert any(line.startswith(kind) for line in table)
        assert any(line.startswith(which) for line in table)
    assert max(map(len, table)) <= COLUMNS
    waits = {f["name"]: f["others"]["waits per commit"] for f in figures if "waits per commit" in f["others"]}
    for name, least in {"SQLite full": 0.9, "PostgreSQL": 0.9, "MariaDB": 0.9, "memory": 0.0}.items():
        assert waits.get(f"commits, {name}, 1 session", least) >= least, "a wait was not counted"
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"], "databases were left behind"


@pytest.mark.parametrize("group", CONTEXT)
def test_long_conversations_are_measured_for_each_way_of_showing_and_folding(group: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench("--context", "--only", group, "--json", str(file), "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    says_something_about_each(figures, *CONTEXT[group])
    assert figures or "skipped" in done.stdout
    for figure in figures:
        if "largest request" in figure["name"]:
            assert figure["verdict"] == "met", "a request was over the budget"
            assert figure["others"]["error of the expected size, %"] < 10


def test_an_unknown_group_is_refused_with_the_known_ones() -> None:
    done = bench("--only", "everything")
    assert done.returncode == 2
    assert "streaming" in done.stderr
    of_stores = bench("--stores", "--only", "turn")
    assert of_stores.returncode == 2
    assert "commits, growth" in of_stores.stderr
    both = bench("--stores", "--context")
    assert both.returncode == 2
    assert "ask for one" in both.stderr
