"""Shells that live on between commands: what lasts, what ends them, what the model is told."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.scenario.tools.toolbox import Toolbox

from loopwright import StatefulAgentLoop, tool
from loopwright.executors.bubblewrap import BubblewrapLauncher
from loopwright.ports.cancellation import CancellationToken
from loopwright.ports.tool import ToolContext
from loopwright.testing.scripted import ScriptedLLM, calls
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import BubblewrapShellBackend, LocalShellBackend, ToolRegistry, Workspace
from loopwright.tools import shell_session as shells
from loopwright.tools.process import BoundedOutput
from loopwright.tools.shell import bash_tool
from loopwright.tools.shell_session import ShellSession

OK = "[exit code 0]"


@pytest.fixture
def registry(tmp_path: Path) -> ToolRegistry:
    return ToolRegistry.of(bash_tool(Workspace(tmp_path), LocalShellBackend()))


@pytest.fixture
def box(registry: ToolRegistry) -> Toolbox:
    return Toolbox(registry)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> bool:
    async with asyncio.timeout(10):
        while alive(pid):
            await looked()
    return True


async def looked() -> None:
    """Between two looks."""
    await asyncio.to_thread(os.sched_yield)


async def test_folder_variables_functions_and_jobs_last_and_options_that_end_a_shell_do_not(box: Toolbox) -> None:
    await box.text("bash", command="mkdir -p d; cd d; export A=1; f() { echo f-$1; }; declare -a L=(x y); set -e")
    text = await box.text("bash", command="false; pwd; f $A; echo ${L[1]}; break; echo no")
    folder, _, rest = text.partition("\n")
    assert folder.endswith("/d")
    assert rest == f"f-1\ny\n{OK}"


async def test_restart_begins_with_a_new_shell(box: Toolbox) -> None:
    await box.text("bash", command="A=1")
    text = await box.text("bash", command="echo [$A]", restart=True)
    assert text == (
        f"[]\n{OK}\n[began in a new shell: the last one was ended by restart; its folder, variables and jobs are gone]"
    )
    assert await box.text("bash", command=" ", restart=True) == "the next command begins in a new shell"


async def test_a_shell_that_ended_is_told_and_the_next_command_says_what_was_lost(box: Toolbox) -> None:
    ended = "; the shell itself ended, so the next command begins in a new one]"
    assert (await box.text("bash", command="echo a; exit 3")).startswith(f"a\n[exit code 3{ended}")
    text = await box.text("bash", command="kill -9 $$")
    assert text.startswith(
        f"(no output)\n[ended by signal 9{ended}\n[began in a new shell: the last one ended with exit"
    )
    assert "the last one was ended by signal 9" in await box.text("bash", command="sleep 300 & echo $!", timeout=5)
    stopped = await box.text("bash", command="sleep 300", timeout=1)
    assert "[stopped after 1 s with the shell and everything it started" in stopped
    assert "the last one was stopped after 1 s" in await box.text("bash", command="true")


async def test_a_shell_that_died_between_two_commands_does_not_swallow_the_next(box: Toolbox) -> None:
    pid = int((await box.text("bash", command="(sleep 0.05; kill -9 $$) & echo $$")).split("\n")[0])
    assert await gone(pid)
    text = await box.text("bash", command="echo here")
    assert text.startswith(f"here\n{OK}\n[began in a new shell: the last one ended between two commands")


@pytest.mark.parametrize(
    "command, expected",
    [
        ("printf 'no newline'", f"no newline\n{OK}"),
        ("cat <<'X'\na\n\nb\nX", f"a\n\nb\n{OK}"),
        ("exec >/dev/null; echo hidden", f"(no output)\n{OK}"),
        ("cat; read x; echo $?", f"1\n{OK}"),
        ("(exit 7)", "(no output)\n[exit code 7]"),
        ("printf '%s0;' $_lw_mark; false", None),
        ("alias printf=false; printf() { :; }; set -x; true", None),
        ("read() { :; }; IFS=x; cd /; unset PATH", f"(no output)\n{OK}"),
        ("echo " + "x" * 200_000 + " | wc -c", f"200001\n{OK}"),
    ],
)
async def test_whatever_a_command_does_its_end_is_found(box: Toolbox, command: str, expected: str | None) -> None:
    await box.text("bash", command="true")
    result = await box.result("bash", command=command, timeout=20)
    assert not result.data["timed_out"]
    if expected is not None:
        assert result.content == expected


async def test_output_that_looks_like_an_end_is_output(box: Toolbox) -> None:
    """A file that holds the mark of an earlier command, and pieces of marks at the edges of what is read at once."""
    await box.text("bash", command="echo $_lw_mark > mark")
    assert await box.text("bash", command="printf '%s0;' $(cat mark); false") != f"(no output)\n{OK}"
    text = await box.text(
        "bash", command="m=$(cat mark); for i in {1..3000}; do printf '%s\\n%s+;%s5;' $m a b; done; (exit 4)"
    )
    assert text.endswith("\n[exit code 4]")
    assert len(text) == len("\n[exit code 4]") + 3000 * (33 + 6)


async def test_endless_binary_and_one_endless_line_are_stopped_with_their_beginning_and_end(box: Toolbox) -> None:
    for command in ("printf start; cat /dev/urandom", "printf start; tr '\\0' x < /dev/zero"):
        result = await box.result("bash", command=command, timeout=1)
        assert result.data["timed_out"]
        assert result.content.startswith("start")
        assert len(result.content) < 1_100_000


async def test_sessions_never_share_a_shell(registry: ToolRegistry) -> None:
    one, other = (Toolbox(registry, FakeToolContext(session_id=name)) for name in ("a", "b"))
    await one.text("bash", command="A=secret; cd /")
    assert (await other.text("bash", command="echo [$A]")).startswith("[]\n")


async def test_a_stop_during_output_ends_the_shell_and_the_next_command_says_so(box: Toolbox) -> None:
    call = asyncio.ensure_future(box.result("bash", command="yes"))
    async with asyncio.timeout(10):
        while not box.context.scratch or next(iter(box.context.scratch.values())).pid is None:
            await looked()
    pid = next(iter(box.context.scratch.values())).pid
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not alive(pid)
    assert "the last one was stopped" in await box.text("bash", command="true")


async def test_only_so_many_shells_are_open_and_idle_ones_end(tmp_path: Path, registry: ToolRegistry) -> None:
    async def used(session: ShellSession) -> int:
        await session.run("true", BoundedOutput(100), timeout_s=10, cancellation=CancellationToken())
        assert session.pid is not None
        return session.pid

    first = ShellSession(LocalShellBackend(), str(tmp_path))
    pid = await used(first)
    others = [ShellSession(LocalShellBackend(), str(tmp_path)) for _ in range(shells.MAX_OPEN)]
    for other in others[:8]:
        await used(other)
    assert alive(pid)
    impatient = ShellSession(LocalShellBackend(), str(tmp_path), idle_s=0.0)
    assert await gone(await used(impatient))
    for other in others:
        await used(other)
    assert not alive(pid)
    assert sum(one.pid is not None for one in [first, *others]) == shells.MAX_OPEN


async def test_a_shell_ends_with_its_loop(tmp_path: Path) -> None:
    pids: list[int] = []

    @tool(effect="pure")
    async def look(ctx: ToolContext) -> str:
        """Keeps the number of the shell."""
        pids.extend(one.pid for one in ctx.scratch.values() if isinstance(one, ShellSession) and one.pid)
        return "seen"

    model = ScriptedLLM([calls(("bash", {"command": "cd /; X=1"})), calls(("look", {})), "done"])
    tools = [bash_tool(Workspace(tmp_path), LocalShellBackend()), look]
    async with StatefulAgentLoop(llm=model, dsn="memory:", tools=tools) as loop:
        assert (await loop.send("go")).status == "completed"
        assert alive(pids[0])
    assert await gone(pids[0])


async def test_a_shell_in_a_sandbox_lives_on_inside_with_its_own_tmp(
    tmp_path: Path, sandbox: BubblewrapLauncher
) -> None:
    box = Toolbox(ToolRegistry.of(bash_tool(Workspace(tmp_path), BubblewrapShellBackend())))
    await box.text("bash", command="cd /tmp; echo kept > file; echo mine > $OLDPWD/here; X=1")
    assert await box.text("bash", command="cat file; echo $X") == f"kept\n1\n{OK}"
    assert (tmp_path / "here").read_text() == "mine\n"
    assert "exit code 137" in await box.text("bash", command="kill -9 $$")
    assert (await box.text("bash", command="cat /tmp/file")).startswith("cat: /tmp/file: No such file")
