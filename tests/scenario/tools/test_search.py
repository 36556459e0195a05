from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from pathlib import Path

import pytest
from tests.scenario.tools.toolbox import Toolbox

from loopwright.model.errors import CancellationRequested
from loopwright.tools import ToolRegistry, Workspace
from loopwright.tools.glob import glob_tool
from loopwright.tools.grep import grep_tool

RIPGREP = str(Path(sys.executable).parent / "rg")
"""The one that belongs to the project's test tools."""
ENGINES = [pytest.param(False, id="python"), pytest.param(RIPGREP, id="ripgrep")]


def grep_box(folder: Path, ripgrep: object) -> Toolbox:
    return Toolbox(ToolRegistry.of(grep_tool(Workspace(folder), ripgrep=ripgrep)))  # type: ignore[arg-type]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("needle outside\n")
    root = tmp_path / "w"
    files = {
        "a.py": "one\nneedle here\nNEEDLE loud\n",
        "src/b.py": "x\r\nneedle\r\n",
        "src/deep/c.txt": "日本語 needle\n",
        "src/latin.txt": b"caf\xe9 needle\n",
        "src/binary": b"needle\n" + b"x" * 200_000 + b"\0",
        "src/wide.txt": "needle".encode("utf-16"),
        ".hidden/d.py": "needle hidden\n",
        ".env.py": "needle hidden\n",
        ".git/config": "needle\n",
        "node_modules/x/y.py": "needle\n",
        "deep/__pycache__/z.py": "needle\n",
        ".gitignore": "a.py\n",
        "long.txt": "needle " + "x" * 5000 + "\n",
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "linked").symlink_to(outside)
    return root


@pytest.mark.parametrize("ripgrep", ENGINES)
async def test_grep_finds_lines_in_text_files_and_leaves_out_the_rest(tree: Path, ripgrep: object) -> None:
    text = await grep_box(tree, ripgrep).text("grep", pattern="needle")
    lines = text.split("\n")
    assert lines[0] == "a.py:2:needle here"
    assert lines[1].startswith("long.txt:1:needle xxx")
    assert len(lines[1]) < 400
    assert lines[2:] == [
        "src/b.py:2:needle",
        "src/deep/c.txt:1:日本語 needle",
        "src/latin.txt:1:caf\N{REPLACEMENT CHARACTER} needle",
    ]


@pytest.mark.parametrize("ripgrep", ENGINES)
async def test_grep_options(tree: Path, ripgrep: object) -> None:
    box = grep_box(tree, ripgrep)
    assert "a.py:3:NEEDLE loud" in await box.text("grep", pattern="needle", case_sensitive=False)
    assert "no line" in await box.text("grep", pattern="need.e", literal=True)
    assert await box.text("grep", pattern="^needle$", path="src") == "src/b.py:2:needle"
    assert await box.text("grep", pattern="needle", path="a.py") == "a.py:2:needle here"
    python = await box.text("grep", pattern="needle", include="*.py")
    assert python == "a.py:2:needle here\nsrc/b.py:2:needle"
    assert await box.text("grep", pattern="needle", include="**/deep/*.txt") == "src/deep/c.txt:1:日本語 needle"
    hidden = await box.text("grep", pattern="needle", include="*.py", include_hidden=True)
    assert hidden.split("\n")[:2] == [".env.py:1:needle hidden", ".hidden/d.py:1:needle hidden"]
    assert ".git/" not in hidden
    limited = await box.text("grep", pattern="needle", max_results=2)
    assert limited.count("\n") == 2
    assert "only the first 2" in limited


@pytest.mark.parametrize("ripgrep", ENGINES)
async def test_grep_takes_what_either_kind_of_expression_can_say_and_names_what_none_can(
    tree: Path, ripgrep: object
) -> None:
    box = grep_box(tree, ripgrep)
    assert await box.text("grep", pattern="(?<=needle )h", include="*.py") == "a.py:2:needle here"
    assert "not a valid regular expression" in await box.failure("grep", pattern="needle(")
    assert "outside" in await box.failure("grep", pattern="needle", path="/etc")
    assert "leads out" in await box.failure("grep", pattern="needle", path="linked")
    assert "leads out" in await box.failure("grep", pattern="needle", path="link.txt")


@pytest.mark.parametrize("seed", range(8))
async def test_both_searches_find_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = ["a", "b.py", ".c", "d.txt", "node_modules", "E", "f f", "é", "-x"]
    for _ in range(30):
        path = tmp_path.joinpath(*chance.choices(names, k=chance.randint(1, 3)))
        if path.exists() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(chance.choices([b"ab", b"\n", b"\r\n", b"B", b" ", "é".encode(), b"\xff"], k=40)))
    for pattern in ("ab", "^a", "b$", "é+", r"\bB\b", "a.?b", "^$", r"\s", "[^a]b"):
        options = {
            "pattern": pattern,
            "max_results": chance.choice([1, 5, 500]),
            "include_hidden": chance.random() < 0.5,
        }
        options |= {"include": chance.choice(["*.py", "*.txt", "*", "d*", "a/**"])} if chance.random() < 0.5 else {}
        answers = [await grep_box(tmp_path, engine).text("grep", **options) for engine in (False, RIPGREP)]
        assert answers[0] == answers[1], options


async def test_an_expression_that_explodes_is_stopped_with_the_run(tmp_path: Path) -> None:
    """In a thread it would hold the interpreter and with it the whole event loop."""
    (tmp_path / "f").write_text("a" * 60 + "!\n")
    box = grep_box(tmp_path, False)
    search = asyncio.ensure_future(box.result("grep", pattern="(a+)+$"))
    asyncio.get_running_loop().call_later(0.3, box.context.cancellation.cancel, "stop")
    async with asyncio.timeout(5):
        with pytest.raises(CancellationRequested):
            await search


async def test_glob_lists_newest_first_and_leaves_out_the_rest(tree: Path) -> None:
    box = Toolbox(ToolRegistry.of(glob_tool(Workspace(tree))))
    for age, name in enumerate(["src/b.py", "a.py"]):
        os.utime(tree / name, (1_000_000 - age, 1_000_000 - age))
    assert await box.text("glob", pattern="*.py") == "src/b.py\na.py"
    assert await box.text("glob", pattern="*.txt", path="src/deep") == "src/deep/c.txt"
    assert ".hidden/d.py" in await box.text("glob", pattern="**/*.py", include_hidden=True)
    everything = await box.text("glob", pattern="**", include_hidden=True)
    assert not any(word in everything for word in ("node_modules", "__pycache__", ".git/", "linked/", "secret"))
    assert "(1 more" in await box.text("glob", pattern="*.py", max_results=1)
    assert "no file" in await box.text("glob", pattern="*.rs")
    assert "leads out" in await box.failure("glob", pattern="*", path="linked")
    assert "64 patterns" in await box.failure("glob", pattern="{a,b}" * 10)


@pytest.mark.parametrize("ripgrep", ENGINES)
@pytest.mark.parametrize("rest", [b"x", b'\\"', b"\xe9", "é".encode()], ids=["ascii", "quotes", "latin", "utf-8"])
async def test_a_line_of_megabytes_is_found_and_shown_by_its_start(
    tmp_path: Path, ripgrep: object, rest: bytes
) -> None:
    (tmp_path / 'lo"ng.txt').write_bytes(b"first\nneedle " + rest * (20_000_000 // len(rest)) + b"\nneedle again\n")
    began = time.monotonic()
    lines = (await grep_box(tmp_path, ripgrep).text("grep", pattern="needle")).split("\n")
    assert lines[0].startswith('lo"ng.txt:2:needle ' + rest.decode("utf-8", "replace"))
    assert len(lines[0]) < 400
    assert lines[1:] == ['lo"ng.txt:3:needle again']
    assert time.monotonic() - began < 10
