"""MCP servers of other people, from npm: installed once by name and version, outside the repository.

Owns: the fixtures `everything_server` and `filesystem_server`, and what is said when there are none. Must not know: what is
tested with them. With `--embedded` nothing is installed; what is there is used in any case. With CI=true a server that is
missing is a failure.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.servers.choice import Need, install

NEED = Need("npm", "npm", (), ("nodejs", "npm"), "")
VERSION = "2026.8.31"
PACKAGES = tuple(f"@modelcontextprotocol/server-{name}@{VERSION}" for name in ("everything", "filesystem"))
FOLDER = Path.home() / ".cache" / "loopwright-tests" / f"npm-mcp-{VERSION}"
PROGRAMS = FOLDER / "node_modules" / ".bin"
INSTALL_S = 300
WHAT = "no MCP server from npm"


def _is_installed() -> bool:
    return all((PROGRAMS / f"mcp-server-{name}").exists() for name in ("everything", "filesystem"))


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if is_worker or config.option.embedded or config.option.collectonly or _is_installed():
        return
    if shutil.which("npm") is None:
        install(NEED)
    if shutil.which("npm") is None:
        return  # what is missing is said below
    FOLDER.mkdir(parents=True, exist_ok=True)
    words = ["npm", "install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
    try:
        subprocess.run(words, capture_output=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        pass  # the next run tries again


@functools.cache
def missing() -> str | None:
    """Why the servers are not there; None when they are."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "node and npm are not installed"
    return None if _is_installed() else f"npm could not install {', '.join(PACKAGES)} into {FOLDER}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = [report for report in terminalreporter.stats.get("skipped", []) if WHAT in str(report.longrepr)]
    if left_out:
        terminalreporter.section("MCP SERVERS FROM NPM WERE NOT TESTED", red=True, bold=True)
        terminalreporter.write_line(f"{len(left_out)} tests were left out: {missing()}")


def _program(name: str) -> str:
    reason = missing()
    if reason is not None:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"{WHAT}: {reason}")
        pytest.skip(f"{WHAT}: {reason}")
    return str(PROGRAMS / name)


@pytest.fixture(scope="session")
def everything_server() -> str:
    """The program of the server that has one of everything."""
    return _program("mcp-server-everything")


@pytest.fixture(scope="session")
def filesystem_server() -> str:
    """The program of the server for files; its arguments are the folders it may see."""
    return _program("mcp-server-filesystem")
