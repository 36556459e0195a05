"""Workflows and inputs that a command is given: in files, on standard input, as an argument.

Owns: reading them. Must not know: what is done with them.
Read next: `workflow_command.py`.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from ..model.errors import ConfigError
from ..model.family_errors import WorkflowSpecError
from ..model.workflow_spec import WorkflowSpec
from ..workflow import parse_workflow_spec
from .journal_lines import counted, printable

MOST_CHARACTERS: Final = 16 * 1024 * 1024
"""Of a file with a spec or an input; what is beyond is not read."""


def read_text(name: str) -> str:
    """What a file or standard input holds. Raises: `ConfigError`."""
    try:
        if name == "-":
            return sys.stdin.read(MOST_CHARACTERS)
        with open(name, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_CHARACTERS)
    except OSError as error:
        raise ConfigError(f"cannot read {name}: {error.strerror}") from error


def read_json(name: str) -> Any:
    """The JSON value of a file or of standard input. Raises: `ConfigError`."""
    where = "standard input" if name == "-" else name
    try:
        return json.loads(read_text(name))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error


def read_spec(name: str) -> WorkflowSpec:
    """A spec that can be run. Raises: `ConfigError`; `WorkflowSpecError` with every problem."""
    return parse_workflow_spec(read_json(name))


def say_problems(error: WorkflowSpecError) -> None:
    """A line on standard error for each problem, and how many there are."""
    for one in error.listed:
        sys.stderr.write(f"{printable(str(one))}\n")
    sys.stderr.write(f"loopwright: the workflow has {counted(len(error.listed), 'problem')}; nothing was started\n")


def input_of(given: str) -> Any:
    """The value that `--input` means: what is in a file for @FILE, else itself; JSON where it is JSON, else text."""
    text = read_text(given[1:]) if given.startswith("@") else given
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
