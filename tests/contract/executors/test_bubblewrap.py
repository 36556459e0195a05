"""What a leaf in a sandbox can reach, and what is said where there is none."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from pathlib import Path

import pytest
from msgspec import structs
from tests.contract.executors.conftest import Shop
from tests.contract.executors.processes import ROOT

from loopwright.executors.bubblewrap import BubblewrapLauncher
from loopwright.model.errors import ConfigError
from loopwright.ports.executor import LeafRef

REF = LeafRef(session_id="s", agent_name="leaf")


def commands() -> list[str]:
    """The command lines of all processes that can be seen."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text().replace("\0", " "))
        except OSError:
            continue
    return found


async def said(shop: Shop, launcher: BubblewrapLauncher, command: str) -> str:
    """What a line of the shell answers in the sandbox."""
    ref = await shop.leaf(f"run_shell {command}")
    end = await shop.end(shop.executor(launcher=launcher), ref)
    assert end.ok, end
    text = (await shop.loop.get_messages(ref.session_id))[-1].text  # type: ignore[union-attr]
    return str(text).removeprefix("done: ")


async def test_a_leaf_in_a_sandbox_writes_to_its_workspace_and_its_store_only(
    shop: Shop, sandbox: BubblewrapLauncher
) -> None:
    elsewhere = ROOT / f"written-{uuid.uuid4().hex}"
    answer = await said(
        shop, sandbox, f"echo mine > here.txt; echo a > /tmp/own; ls /tmp | grep -c own; touch {elsewhere} 2>/dev/null"
    )
    assert answer == "1|1"
    assert not elsewhere.exists()
    assert "own" not in os.listdir("/tmp")
    assert (shop.folder / "here.txt").read_text() == "mine\n"


async def test_a_leaf_in_a_sandbox_has_no_network_unless_it_is_given_one(
    shop: Shop, sandbox: BubblewrapLauncher
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        asks = f"{sys.executable} -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)' 2>/dev/null"
        assert await said(shop, sandbox, asks) == "|1"
        assert await said(shop, structs.replace(sandbox, network=True), asks) == "|0"


async def test_a_leaf_in_a_sandbox_sees_no_process_and_no_hidden_folder(
    shop: Shop, sandbox: BubblewrapLauncher
) -> None:
    asks = f"ls /proc | grep -c '^[0-9]'; ls {ROOT / 'docs'} | wc -l"
    count, files = (
        (await said(shop, structs.replace(sandbox, hidden=(str(ROOT / "docs"),)), asks)).split("|")[0].split()
    )
    assert int(count) < 10
    assert files == "0"


async def test_nothing_escapes_from_a_sandbox(shop: Shop, sandbox: BubblewrapLauncher) -> None:
    """Not even what left its group and dropped the environment by which it could be found."""
    seconds = str(100_000 + uuid.uuid4().int % 100_000)
    ref = await shop.leaf(f"run_shell setsid env -i sleep {seconds} >/dev/null 2>&1 & echo started")
    assert (await shop.end(shop.executor(launcher=sandbox), ref)).ok
    assert [line for line in commands() if seconds in line] == []


async def test_a_crash_in_a_sandbox_is_told_and_goes_on_at_the_shared_store(
    shop: Shop, sandbox: BubblewrapLauncher
) -> None:
    """Whether a process of another namespace is alive nobody can see, so its lease has to run out."""
    ref = await shop.leaf("crash exit")
    end = await shop.end(shop.executor(launcher=sandbox), ref)
    assert (end.in_journal, end.fault) == (False, "leaf.crashed")
    head = (await shop.loop.store.lookup(ref.session_id)).head
    assert (head.status, 0 < head.expires_in_s <= 4) == ("running", True)
    await shop.loop.stop(ref.session_id)


async def test_where_the_kernel_forbids_sandboxes_it_is_said_before_and_the_leaf_fails(shop: Shop) -> None:
    """It never runs outside of one instead."""
    program = shop.folder / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    launcher = BubblewrapLauncher(program=str(program))
    assert "No permissions to create a new namespace" in str(launcher.available())
    ref = await shop.leaf(f"mark {shop.folder}/a")
    end = await shop.end(shop.executor(launcher=launcher), ref)
    assert (end.status, end.in_journal, end.fault) == ("failed", False, "leaf.crashed")
    assert "No permissions" in end.reason
    assert not (shop.folder / "a").exists()


async def test_without_the_program_it_is_said_what_to_install(shop: Shop) -> None:
    launcher = BubblewrapLauncher(program="no-such-bwrap")
    assert "apt-get install bubblewrap" in str(launcher.available())
    end = await shop.end(shop.executor(launcher=launcher), await shop.leaf("hello"))
    assert (end.fault, "no-such-bwrap" in end.reason) == ("leaf.launch_failed", True)


def test_the_command_gives_the_leaf_its_workspace_its_store_and_nothing_else(tmp_path: Path) -> None:
    launcher = BubblewrapLauncher(program="/bin/sh")
    (tmp_path / "stores").mkdir()

    def bound(dsn: str) -> list[str]:
        env = {"LOOPWRIGHT_DB": dsn, "PATH": "/bin"}
        argv, built = launcher.build([sys.executable, "-m", "x"], env, REF, str(tmp_path))
        assert argv[-3:] == [sys.executable, "-m", "x"]
        assert {"--unshare-all", "--die-with-parent", "--new-session"} <= set(argv)
        assert "--share-net" not in argv
        assert not [word for word in argv if "secret" in word]
        assert built == {**env, "TMPDIR": "/tmp"}
        return [argv[at + 1] for at, word in enumerate(argv) if word == "--bind"]

    assert bound(f"sqlite:///{tmp_path}/stores/a.db") == [str(tmp_path), f"{tmp_path}/stores"]
    assert bound("stores/a.db") == [str(tmp_path), f"{tmp_path}/stores"]
    assert bound("postgresql://someone:secret@host/db") == [str(tmp_path)]
    with pytest.raises(ConfigError, match="nowhere"):
        structs.replace(launcher, writable=(str(tmp_path / "nowhere"),)).build(["python"], {"PATH": "/bin"}, REF, "/")
