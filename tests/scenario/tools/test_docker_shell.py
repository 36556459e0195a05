"""How Docker's command line is called, fed and ended, with a program that stands in for it: no test here has met an engine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from tests.scenario.tools.toolbox import Toolbox

from loopwright.model.call_errors import ToolFailure
from loopwright.tools import DockerShellBackend, SandboxLimits, ToolRegistry, Workspace
from loopwright.tools.background_keeper import ticks_of
from loopwright.tools.shell import bash_tool

STAND_IN = Path(__file__).with_name("stand_in_docker.py")


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[DockerShellBackend]:
    program = tmp_path / "docker"
    program.write_text(f"#!{sys.executable}\n{STAND_IN.read_text()}")
    program.chmod(0o755)
    (tmp_path / "work" / ".git" / "hooks").mkdir(parents=True)
    yield DockerShellBackend(program=str(program), image="some:1", extra={"LANG": "C"})
    for file in tmp_path.glob("loopwright-*"):
        os.killpg(int(file.read_text()), 9)


def calls(docker: DockerShellBackend) -> list[list[str]]:
    return [json.loads(line) for line in Path(docker.program).with_name("calls").read_text().splitlines()]


async def test_a_shell_lives_on_in_its_container_and_the_container_ends_with_it(docker: DockerShellBackend) -> None:
    work = Path(docker.program).with_name("work")
    box = Toolbox(ToolRegistry.of(bash_tool(Workspace(work), docker)))
    await box.text("bash", command="A=1; cd /")
    assert await box.text("bash", command="pwd; echo $A $LANG; cat; (exit 4)") == "/\n1 C\n[exit code 4]"
    pid = int((await box.text("bash", command="echo $$")).split("\n")[0])
    stopped = await box.text("bash", command="sleep 300", timeout=1)
    assert "[stopped after 1 s" in stopped
    async with asyncio.timeout(20):
        while not any(words[0] == "rm" for words in calls(docker)) or ticks_of(pid):
            await asyncio.to_thread(os.sched_yield)
    (run,) = [words for words in calls(docker) if words[0] == "run"]
    assert next(words for words in calls(docker) if words[0] == "rm") == ["rm", "--force", run[run.index("--name") + 1]]


def test_a_container_gets_the_workspace_its_limits_and_nothing_else(docker: DockerShellBackend) -> None:
    work = str(Path(docker.program).with_name("work"))
    limits = SandboxLimits(memory_bytes=1000, processes=7)
    launch = structs.replace(docker, limits=limits, user="7:8").launch("true", work)
    words = list(launch.argv[launch.argv.index("run") :])
    options = {word: words[at + 1] for at, word in enumerate(words) if word.startswith("--")}
    assert {"--rm", "--interactive", "--init", "--read-only"} < set(options)
    expected = {
        "--network": "none", "--cap-drop": "ALL", "--security-opt": "no-new-privileges", "--user": "7:8",
        "--memory": "1000", "--memory-swap": "1000", "--pids-limit": "7", "--ipc": "private", "--workdir": work,
    }  # fmt: skip
    assert {name: options[name] for name in expected} == expected
    mounts = [words[at + 1] for at, word in enumerate(words) if word == "--mount"]
    assert mounts == [
        f"type=bind,source={work},target={work}",
        f"type=bind,source={work}/.git,target={work}/.git",
        f"type=bind,source={work}/.git/hooks,target={work}/.git/hooks,readonly",
    ]
    assert [word for word in words if word.startswith(("HOME=", "LANG="))] == ["HOME=/tmp", "LANG=C"]
    assert words[-4:-2] == ["some:1", "-c"]
    assert words[-1] == "true"
    assert docker.available() is None


def test_what_a_container_cannot_be_given_is_refused(docker: DockerShellBackend, tmp_path: Path) -> None:
    strange = tmp_path / "a,b"
    strange.mkdir()
    with pytest.raises(ToolFailure, match="cannot be written in an option"):
        docker.launch("true", str(strange))
    with pytest.raises(ToolFailure, match="there is no /nowhere"):
        structs.replace(docker, readable=("/nowhere",)).launch("true", str(tmp_path))
    with pytest.raises(ToolFailure, match="is not installed"):
        structs.replace(docker, program="no-such-docker").launch("true", str(tmp_path))
