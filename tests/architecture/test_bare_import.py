"""Importing the package does nothing: it loads no driver, SDK or command-line library, writes no file, prints nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.architecture.source_tree import SRC

# Top-level modules that `import loopwright` may bring into a bare interpreter. A new line is a decision about start-up time.
ALLOWED = {
    "loopwright",
    # Standard library only, and only what is light.
    "__future__",
    "_collections",
    "_functools",
    "_operator",
    "_typing",
    "collections",
    "contextlib",
    "copyreg",
    "functools",
    "importlib",
    "itertools",
    "_stat",  # these five come with every interpreter that runs `site`
    "genericpath",
    "os",
    "posixpath",
    "stat",
    "keyword",
    "operator",
    "re",
    "reprlib",
    "types",
    "typing",
    "warnings",
}

# Loaded when a transport, a store or the command line is built, never because a public name is looked at.
NEVER_BY_NAME = {"anthropic", "click", "httpx2", "mcp", "openai", "pydantic", "rich", "sqlite3", "typer"}

REPORT = "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
IMPORT = f"import json, sys; before = set(sys.modules); import loopwright; {REPORT}"
IMPORT_AND_LOOK = (
    "import json, sys; before = set(sys.modules); import loopwright;"
    f" [getattr(loopwright, name) for name in loopwright.__all__]; {REPORT}"
)


def loaded_by(program: str, home: Path) -> set[str]:
    """Run a program in an interpreter without site, user settings or inherited environment; the modules it loaded."""
    paths = [str(SRC), *dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", f"import sys; sys.path[:0] = {paths!r}; {program}"],
        cwd=home,
        env={"HOME": str(home), "PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1, f"importing printed: {done.stdout}"
    assert list(home.iterdir()) == [], "importing made a file"
    loaded: list[str] = json.loads(done.stdout)
    return set(loaded)


def test_importing_the_package_loads_nothing_but_itself(tmp_path: Path) -> None:
    assert loaded_by(IMPORT, tmp_path) - ALLOWED == set()


def test_looking_at_every_public_name_loads_no_driver_sdk_or_command_line_library(tmp_path: Path) -> None:
    assert loaded_by(IMPORT_AND_LOOK, tmp_path) & NEVER_BY_NAME == set()


@pytest.mark.parametrize("name", ["apsw", "httpx2", "jsonschema_rs", "rich", "sqlite3", "typer"])
def test_the_bare_import_test_would_notice(name: str, tmp_path: Path) -> None:
    program = IMPORT.replace("import loopwright;", f"import {name};")
    assert loaded_by(program, tmp_path) - ALLOWED >= {name}
