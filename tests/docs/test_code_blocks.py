"""What the documentation shows is true: Python blocks run, help texts are the command's own, options exist.

`python -m tests.docs.test_code_blocks` writes the help texts of docs/cli.md anew.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks_of, pages, programs_of, run
from tests.docs.test_examples import without_settings
from tests.quick_processes import ended

from loopwright.testing.model_server import ModelServer, echo_model

PROGRAMS = [(page, number) for page in pages() for number in range(len(programs_of(page)))]
SHELLS = ("console", "text", "sh", "bash", "shell")


@pytest.fixture(scope="module")
def offline_providers() -> Iterator[dict[str, str]]:
    """An environment in which every provider is a model on this machine that repeats what it hears."""
    with ModelServer(echo_model) as server:
        settings = {f"{who}_{what}": value for who in ("OPENAI", "ANTHROPIC") for what, value in (("API_KEY", "test"),)}
        settings["OPENAI_BASE_URL"] = server.base_url
        settings["ANTHROPIC_BASE_URL"] = server.base_url.removesuffix("/v1")
        yield {**without_settings(), **settings, "NO_PROXY": "127.0.0.1", "LOOPWRIGHT_MODEL": "openai:gpt-5-mini"}


@pytest.mark.parametrize("page, number", PROGRAMS, ids=[f"{page.name}-{number}" for page, number in PROGRAMS])
def test_a_python_block_runs(page: Path, number: int, tmp_path: Path, offline_providers: dict[str, str]) -> None:
    done = ended(
        "tests.docs.pages", str(page), str(number), cwd=tmp_path, env={**offline_providers, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr[-3000:]


def shown_commands() -> list[tuple[str, str, str]]:
    """(place, command line, text under it) of every `$ loopwright` in the documentation."""
    found: list[tuple[str, str, str]] = []
    for page in pages():
        for block in blocks_of(page, *SHELLS):
            for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
                line, _, under = part.removeprefix(".venv/bin/").partition("\n")
                if line.startswith("loopwright"):
                    found.append((str(block), line.partition(" # ")[0].strip(), under.rstrip()))
    return found


COMMANDS = shown_commands()


def command_of(line: str) -> tuple[str, ...]:
    """The words of a command line that name the command."""
    words = line.split()
    command = [word for word in words[1:3] if word.isalpha() and word != "last"]
    return tuple(command if command[:1] in (["sessions"], ["inbox"], ["mcp"], ["db"], ["workflow"]) else command[:1])


ALL_HELP = """
import contextlib, io, json, sys
from loopwright.cli.application import run_application

found = {}
for words in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        run_application([*words, "--help"])
    found[" ".join(words)] = out.getvalue()
json.dump(found, sys.stdout)
"""
"""A program that asks for the help of each command; the command line is loaded once for all of them."""


@functools.cache
def help_texts(commands: frozenset[tuple[str, ...]]) -> dict[str, str]:
    """Command → its help text, 80 columns wide."""
    env = {**without_settings(), "COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALL_HELP],
        env=env,
        input=json.dumps(sorted(commands)),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    texts: dict[str, str] = json.loads(done.stdout)
    return {name: "\n".join(line.rstrip() for line in text.strip().splitlines()) for name, text in texts.items()}


SHOWN = frozenset(command_of(line) for _, line, _ in COMMANDS)


@pytest.mark.parametrize("place, line, under", COMMANDS, ids=[f"{place}: {line}"[:60] for place, line, _ in COMMANDS])
def test_a_shown_command_is_one_that_exists(place: str, line: str, under: str) -> None:
    words, known = line.split(), help_texts(SHOWN)[" ".join(command_of(line))]
    options = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--help"]
    assert [option for option in options if option not in known and option != "--version"] == []
    if words[-1] == "--help":
        assert under == known


def test_a_block_that_fails_or_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = ROOT / "docs" / "cli.md"
    block = blocks_of(page, *SHELLS)[0]
    wrong = type(block)("page", 1, "python", "print(1)\n#> 2\n", "")
    with pytest.raises(SystemExit):
        run([wrong])
    with pytest.raises(ZeroDivisionError):
        run([type(block)("page", 1, "python", "1 / 0\n", "")])
    run(
        [
            type(block)(
                "page",
                1,
                "python",
                "import asyncio\nawait asyncio.wait_for(asyncio.Event().wait(), 0) if False else None\n",
                "",
            )
        ]
    )


def rewrite() -> None:
    """Puts today's help texts into docs/cli.md."""
    page, texts = ROOT / "docs" / "cli.md", help_texts(SHOWN)

    def renewed(match: re.Match[str]) -> str:
        known = texts[match["words"].strip()]
        return f"$ loopwright {match['words']}--help\n{known}\n```"

    text = re.sub(
        r"^\$ loopwright (?P<words>[a-z ]*)--help\n.*?^```", renewed, page.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    page.write_text(text)


if __name__ == "__main__":
    os.chdir(ROOT)
    rewrite()
