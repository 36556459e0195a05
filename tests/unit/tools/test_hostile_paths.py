"""Any folder full of links, any path: what is done stays below the root, and what is read was there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.jail import Jail, NotRegularError, OutsideError, split
from loopwright.model.call_errors import PathRefusedError, ToolFailure
from loopwright.tools import Workspace

SECRET = b"the secret outside"
PARTS = st.sampled_from(
    ["a", "b", "c", "..", ".", "", "l1", "l2", "l3", "outside", "secret", "w", "~", "@home", "@workspace", "x" * 300, "\0", "é", "e\u0301", "\u202e", "．．", "-", " "]
) | st.text(st.characters(codec="utf-8"), max_size=3)  # fmt: skip
PATHS = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(
        ["", "/", "//", "./", "@workspace/", "ROOT/", "ROOT/../", "OUTSIDE/", "/proc/self/root", "/proc/self/cwd/"]
    ),
    st.lists(PARTS, max_size=6),
    st.sampled_from(["", "/", "/.", "/.."]),
)
LINKS = st.lists(st.tuples(st.sampled_from(["l1", "a/l2", "a/b/l3", "c", "a/b/c"]), PATHS), max_size=5)


@contextmanager
def tree(links: list[tuple[str, str]]) -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(os.path.realpath(folder))
        root, outside = top / "w", top / "outside"
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "file").write_bytes(b"inside")
        outside.mkdir()
        (outside / "secret").write_bytes(SECRET)
        for name, target in links:
            with suppress(OSError, ValueError):  # a name that is taken or too long, a target with a NUL or none
                (root / name).symlink_to(real(target, root, outside))
        yield root, outside


def real(text: str, root: Path, outside: Path) -> str:
    return text.replace("ROOT", str(root)).replace("OUTSIDE", str(outside))


def whole(root: Path) -> dict[str, bytes]:
    """Everything beside the root."""
    found = {str(path): path.read_bytes() for path in (root.parent / "outside").rglob("*") if path.is_file()}
    return found | {str(path): b"" for path in root.parent.iterdir()}


@pytest.mark.fuzz
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(LINKS, st.lists(PATHS, min_size=1, max_size=6))
@example([("l1", "OUTSIDE"), ("a/l2", "../l1")], ["a/l2/secret", "a/l2/new"])
@example([("l1", "l1"), ("c", "/")], ["l1", "c/etc/passwd", "c/proc/self/environ"])
@example([("a/b/c", "../../.."), ("l1", "a/b/c/outside")], ["l1/secret", "a/b/c/outside/secret", "l1"])
@example([("l1", "ROOT/../outside")], ["l1/secret"])
def test_no_links_and_no_path_lead_out(links: list[tuple[str, str]], paths: list[str]) -> None:
    with tree(links) as (root, outside):
        workspace, jail = Workspace(root), Jail(str(root))
        before = whole(root)
        for text in paths:
            path = real(text, root, outside)
            acts: list[Callable[[str], Any]] = [
                workspace.read_bytes,
                workspace.kind,
                workspace.resolve,
                lambda path: workspace.write_bytes(path, b"written"),
            ]
            for act in acts:
                try:
                    answer = act(path)
                except (PathRefusedError, ToolFailure) as error:
                    answer = str(error).encode("utf-8", "replace")
                assert not isinstance(answer, bytes) or SECRET not in answer
            # The jail below is for callers that read the text themselves; it raises what the system raises.
            with suppress(Exception):
                os.close(jail.open_file(tuple(split(path))))
                way = jail.way(tuple(split(path)))
                assert os.path.realpath(root.joinpath(*way)).startswith(str(root))
            assert whole(root) == before


@pytest.mark.fuzz
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(LINKS, PATHS)
def test_what_the_jail_opens_is_a_file_below_its_root(links: list[tuple[str, str]], text: str) -> None:
    with tree(links) as (root, outside):
        path = real(text, root, outside)
        try:
            handle = Jail(str(root)).open_file(tuple(split(path)))
        except (OSError, ValueError, OutsideError, NotRegularError):
            return
        try:
            place = os.readlink(f"/proc/self/fd/{handle}") if os.path.isdir("/proc/self/fd") else str(root)
            assert place.startswith(f"{root}/") or place == str(root)
        finally:
            os.close(handle)
