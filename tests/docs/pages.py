"""Fenced blocks of the documentation, and running them.

`<!-- skip: reason -->` right above a block leaves it out. `<!-- one program -->` anywhere on a page lets its Python blocks
share their names, in order. A line `# > text` in a block is what it prints at that point; all of them together are all that
the block prints.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<code>.*?)^(?P=indent)```\s*$", re.MULTILINE | re.DOTALL
)
SKIP = re.compile(r"<!--\s*skip:\s*(?P<reason>\S[^>]*?)\s*-->\s*\Z")
ONE_PROGRAM = "<!-- one program -->"


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    code: str
    skipped: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """README.md and everything under docs/."""
    readme = ROOT / "README.md"
    return [*([readme] if readme.exists() else []), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """Blocks of these languages, in order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for match in FENCE.finditer(text):
        if match["language"] in languages:
            before = SKIP.search(text[: match.start()].rstrip(" "))
            code = re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
            line = text.count("\n", 0, match.start()) + 2
            found.append(
                Block(
                    page.relative_to(ROOT).as_posix(), line, match["language"], code, before["reason"] if before else ""
                )
            )
    return found


def programs_of(page: Path) -> list[list[Block]]:
    """Python blocks that are to run, grouped by what shares its names."""
    found = [block for block in blocks_of(page, "python", "py") if not block.skipped]
    if ONE_PROGRAM in page.read_text(encoding="utf-8"):
        return [found] if found else []
    return [[block] for block in found]


def run(blocks: list[Block]) -> None:
    """Runs blocks in one namespace; `await` is allowed at the top, as in a notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for block in blocks:
            source = "\n" * (block.line - 1) + block.code
            code = compile(source, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                if code.co_flags & inspect.CO_COROUTINE:
                    made = eval(code, names)
                    runner.run(made)
                else:
                    exec(code, names)
            expected = re.findall(r"^\s*# ?> ?(.*)$", block.code, flags=re.MULTILINE)
            if expected and printed.getvalue().splitlines() != expected:
                sys.exit(f"{block}: printed {printed.getvalue()!r}, the page says {expected!r}")


if __name__ == "__main__":
    run(programs_of(Path(sys.argv[1]))[int(sys.argv[2])])
