from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.jail import Jail
from loopwright.model.call_errors import PathRefusedError, ToolFailure
from loopwright.model.errors import ConfigError
from loopwright.tools import Workspace

SECRET = "the secret outside"


@contextmanager
def tree() -> Iterator[tuple[Path, Path, Path]]:
    """A workspace with links of every kind, a home folder, and a folder outside that must not be touched."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(os.path.realpath(folder))
        root, home, outside = top / "w", top / "home", top / "outside"
        for path in (root / "a" / "b", home / "logs", home / ".cache", outside / "deep"):
            path.mkdir(parents=True)
        (root / "a" / "b" / "file").write_text("inside")
        (outside / "secret").write_text(SECRET)
        (outside / "deep" / "secret").write_text(SECRET)
        (home / "logs" / "log").write_text("a log")
        (home / "private").write_text(SECRET)
        (home / "logs" / "out").symlink_to(home / "private")
        links = {
            "in": "a/b",
            "in_absolute": str(root / "a"),
            "out": str(outside),
            "out_relative": "../outside",
            "out_file": str(outside / "secret"),
            "out_later": "a/../../outside/deep",
            "circle": "circle",
            "nowhere": "a/none",
            "a/up": "..",
            "a/b/up_out": "../../..",
        }
        for name, target in links.items():
            (root / name).symlink_to(target)
        yield root, home, outside


def contents(folder: Path) -> dict[str, str | None]:
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


PIECES = st.sampled_from(
    [
        *(
            "a",
            "b",
            "file",
            "in",
            "in_absolute",
            "out",
            "out_relative",
            "out_file",
            "out_later",
            "circle",
            "nowhere",
            "up",
        ),
        *(
            "up_out",
            "..",
            ".",
            "",
            "~",
            "@home",
            "@workspace",
            "logs",
            "log",
            "outside",
            "secret",
            "deep",
            "w",
            "home",
            "new",
        ),
        *(
            "tmp",
            "proc",
            "self",
            "root",
            "cwd",
            "etc",
            "passwd",
            "private",
            " ",
            "\n",
            "\0",
            "x" * 300,
            "\u202e",
            "e\u0301",
            "\uff0e\uff0e",
            "..\u200b",
            "\\..\\",
        ),
    ]
)
PATHS = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/", "//", "@workspace/", "@home/", "~/", "ROOT/", "ROOT/../", "OUTSIDE/"]),
    st.lists(PIECES | st.text(max_size=3), max_size=7),
    st.sampled_from(["", "/", "/."]),
)


@pytest.mark.fuzz
@settings(max_examples=examples(60))
@given(st.lists(PATHS, min_size=1, max_size=12))
def test_no_path_leaves_the_workspace(paths: list[str]) -> None:
    with tree() as (root, home, outside):
        workspace = Workspace(root, home=home)
        before = contents(outside), (home / "private").read_text()
        for text in paths:
            path = text.replace("ROOT", str(root)).replace("OUTSIDE", str(outside))
            for act in (workspace.read_bytes, workspace.resolve, lambda p: workspace.write_bytes(p, b"written")):
                try:
                    result = act(path)
                except (PathRefusedError, ToolFailure) as error:
                    result = str(error).encode()
                if isinstance(result, bytes):
                    assert SECRET.encode() not in result
                elif isinstance(result, str):
                    real = os.path.realpath(root / result)
                    assert real == str(root) or real.startswith(f"{root}/")
            assert (contents(outside), (home / "private").read_text()) == before


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "w"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("x = 1\n")
    return folder


def test_every_way_to_name_a_place_inside_works(root: Path) -> None:
    workspace = Workspace(root)
    names = ["src/app.py", "./src//app.py", "@workspace/src/app.py", str(root / "src" / "app.py"), "src/../src/app.py"]
    assert [workspace.read_bytes(name) for name in names] == [b"x = 1\n"] * len(names)
    assert workspace.resolve(".") == workspace.resolve("@workspace") == workspace.resolve(str(root)) == "."
    assert workspace.resolve("new/folder/file") == "new/folder/file"


def test_the_home_is_readable_in_parts_and_never_writable() -> None:
    with tree() as (root, home, _):
        workspace = Workspace(root, home=home)
        assert workspace.read_bytes("@home/logs/log") == b"a log"
        for path in ("@home/private", "@home", "@home/logs/../private", "@home/logs/out", "@home/../outside/secret"):
            with pytest.raises((PathRefusedError, ToolFailure)):
                workspace.read_bytes(path)
        with pytest.raises(PathRefusedError, match="read-only"):
            workspace.write_bytes("@home/logs/log", b"")
        with pytest.raises(PathRefusedError, match="has none"):
            Workspace(root).read_bytes("@home/logs/log")


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
def test_a_path_that_is_none_is_refused(root: Path, path: str) -> None:
    with pytest.raises(PathRefusedError):
        Workspace(root).read_bytes(path)


@pytest.mark.parametrize("path", ["/src/app.py", "../src/app.py", "~/src/app.py", "/home/user/project/src/app.py"])
def test_a_refusal_names_the_workspace_and_the_same_place_inside(root: Path, path: str) -> None:
    with pytest.raises(PathRefusedError) as error:
        Workspace(root).read_bytes(path)
    assert str(root) in str(error.value)
    assert "did you mean 'src/app.py'?" in str(error.value)


def test_a_missing_file_names_the_place_where_it_is(root: Path) -> None:
    with pytest.raises(ToolFailure, match=r"does not exist.*did you mean 'src/app.py'"):
        Workspace(root).read_bytes("w/src/app.py")


def test_devices_pipes_and_sockets_are_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(root, os.O_RDONLY)
        try:
            listener.bind(f"/proc/self/fd/{here}/socket" if os.path.isdir("/proc/self/fd") else str(root / "socket"))
        finally:
            os.close(here)
        workspace = Workspace(root)
        for name in ("pipe", "socket"):
            with pytest.raises(PathRefusedError, match="not a file"):
                workspace.read_bytes(name)
            with pytest.raises(PathRefusedError, match="not a file"):
                workspace.write_bytes(name, b"")


def test_a_folder_is_no_file(root: Path) -> None:
    workspace = Workspace(root)
    for act in (workspace.read_bytes, lambda path: workspace.write_bytes(path, b"")):
        with pytest.raises(ToolFailure, match="folder"):
            act("src")
    with pytest.raises(PathRefusedError):
        workspace.write_bytes(".", b"")
    with pytest.raises(PathRefusedError):
        workspace.write_bytes("src/app.py/below", b"")


def test_a_workspace_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not an existing folder"):
        Workspace(tmp_path / "none")


def test_a_write_keeps_the_mode_and_leaves_nothing_beside_it(root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    Workspace(root).write_bytes("run.sh", b"new")
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("new", 0o750)
    assert sorted(os.listdir(root)) == ["run.sh", "src"]


def test_a_write_through_a_link_inside_changes_its_target(root: Path) -> None:
    (root / "link").symlink_to("src/app.py")
    Workspace(root).write_bytes("link", b"changed")
    assert (root / "link").is_symlink()
    assert (root / "src" / "app.py").read_text() == "changed"


def test_a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    workspace = Workspace(root)
    with pytest.raises(TypeError):
        Jail(str(root)).replace_file(("src", "app.py"), 12345)  # type: ignore[arg-type]
    assert (root / "src" / "app.py").read_text() == "x = 1\n"
    assert os.listdir(root / "src") == ["app.py"]
    assert workspace.kind("src/app.py") == "file"


def test_a_file_too_large_for_the_limit_is_not_half_written(root: Path) -> None:
    """The real thing in a child: the system refuses to let a file grow, in the middle of writing it."""
    program = f"""
import resource, signal, sys
sys.path[:0] = {sys.path!r}
from loopwright.model.call_errors import ToolFailure
from loopwright.tools import Workspace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    Workspace({str(root)!r}).write_bytes("src/app.py", b"y" * 1_000_000)
except ToolFailure as error:
    print("refused", error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("refused")
    assert (root / "src" / "app.py").read_text() == "x = 1\n"
    assert os.listdir(root / "src") == ["app.py"]


def test_a_link_swapped_in_during_the_access_does_not_lead_out() -> None:
    """A thread swaps a folder for a link to the outside as fast as it can; a check-then-open would be caught soon."""
    with tree() as (root, _, outside):
        (root / "d").mkdir()
        (root / "d" / "secret").write_text("harmless")
        workspace = Workspace(root)
        stop = threading.Event()
        before = contents(outside)

        def swap() -> None:
            while not stop.is_set():
                os.rename(root / "d", root / "kept")
                with suppress(FileExistsError):  # a write can make the missing folder in between
                    os.symlink(outside, root / "d")
                    os.unlink(root / "d")
                while (root / "kept").exists():
                    shutil.rmtree(root / "d", ignore_errors=True)
                    with suppress(OSError):
                        os.rename(root / "kept", root / "d")

        thread = threading.Thread(target=swap)
        thread.start()
        seen = {"read": 0, "refused": 0, "escaped by checking first": 0}
        try:
            for number in range(20_000):
                try:
                    assert workspace.read_bytes("d/secret") == b"harmless"
                    seen["read"] += 1
                    workspace.write_bytes("d/secret", b"harmless")
                except (PathRefusedError, ToolFailure):
                    seen["refused"] += 1
                try:
                    if os.path.realpath(root / "d" / "secret").startswith(str(root)):
                        seen["escaped by checking first"] += (root / "d" / "secret").read_text() == SECRET
                except OSError:
                    pass
                if number > 500 and all(seen.values()):
                    break
        finally:
            stop.set()
            thread.join()
        assert contents(outside) == before
        assert all(seen.values()), f"the race did not happen, so the test shows nothing: {seen}"
