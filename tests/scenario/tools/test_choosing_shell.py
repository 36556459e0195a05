"""Which sandbox there is where nobody chose one, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from tests.scenario.tools.toolbox import Toolbox

from loopwright.executors.bubblewrap import BubblewrapLauncher
from loopwright.model.call_errors import ToolFailure
from loopwright.model.errors import ConfigError
from loopwright.tools import (
    BubblewrapShellBackend,
    DockerShellBackend,
    LocalShellBackend,
    ToolRegistry,
    Workspace,
    choosing_shell,
    shell_backend_for_here,
)
from loopwright.tools.shell import bash_tool


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_a_sandbox_is_the_default_where_one_can_be_made(tmp_path: Path, sandbox: BubblewrapLauncher) -> None:
    assert isinstance(shell_backend_for_here().backend, BubblewrapShellBackend)
    assert shell_backend_for_here().notice == ""
    text = await Toolbox(ToolRegistry.of(bash_tool(Workspace(tmp_path)))).text("bash", command="ls -d /sys; echo x > y")
    assert "cannot access '/sys'" in text
    assert (tmp_path / "y").exists()


def test_where_the_kernel_forbids_sandboxes_there_is_none_and_a_notice_says_so(tmp_path: Path) -> None:
    refusing = program(tmp_path / "bwrap", "echo 'bwrap: No permissions to create a new namespace' >&2; exit 1")
    chosen = choosing_shell.chosen(BubblewrapShellBackend(program=refusing))
    assert isinstance(chosen.backend, LocalShellBackend)
    assert chosen.notice.startswith("shell commands run without a sandbox and can do what this user can: ")
    assert "No permissions to create a new namespace" in chosen.notice
    assert "\n" not in chosen.notice


def test_a_sandbox_that_was_asked_for_by_name_is_never_replaced_by_none(tmp_path: Path) -> None:
    assert "is not installed" in str(BubblewrapShellBackend(program="no-such-bwrap").available())
    silent = program(tmp_path / "docker", "echo no engine >&2; exit 1")
    assert "no engine" in str(DockerShellBackend(program=silent).available())
    for name in ("podman", "local:x", "auto:x", "bubblewrap:x", ""):
        with pytest.raises(ConfigError, match="unknown sandbox"):
            shell_backend_for_here(name)
    assert isinstance(shell_backend_for_here("local").backend, LocalShellBackend)


def test_a_workspace_that_a_sandbox_could_not_protect_is_refused(tmp_path: Path) -> None:
    backend = BubblewrapShellBackend()
    for folder in ("/", str(Path.home()), "/proc"):
        with pytest.raises(ToolFailure, match=r"would protect nothing|is not installed"):
            backend.launch("true", folder)
    (tmp_path / ".loopwright").symlink_to("/tmp")
    with pytest.raises(ToolFailure, match=r"is a link|is not installed"):
        backend.launch("true", str(tmp_path))
    with pytest.raises(ToolFailure, match=r"there is no /nowhere|is not installed"):
        structs.replace(backend, writable=("/nowhere",)).launch("true", str(tmp_path))
