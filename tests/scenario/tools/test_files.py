from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenario.tools.toolbox import Toolbox

from loopwright.ports.tool import ToolHandlerResult, UnknownOutcome
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import create_default_tool_registry


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(create_default_tool_registry(workspace=tmp_path, allow_bash=False))


async def test_a_file_is_read_in_numbered_pages(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"line {n}\n" for n in range(1, 2501)))
    first = await box.text("read_file", path="f")
    assert first.startswith("     1\tline 1\n")
    assert first.endswith("  2000\tline 2000\n(lines 1-2000 of 2500; continue with offset=2001)")
    second = await box.text("read_file", path="f", offset=2001)
    assert second.endswith("  2500\tline 2500\n(lines 2001-2500 of 2500)")
    assert (
        await box.text("read_file", path="f", offset=7, limit=1)
        == "     7\tline 7\n(lines 7-7 of 2500; continue with offset=8)"
    )
    assert "has 2500 lines" in await box.failure("read_file", path="f", offset=2501)


async def test_a_large_file_is_read_by_parts_only(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("0123456789\n" * 600_000)
    assert "with offset and limit" in await box.failure("read_file", path="big")
    part = await box.text("read_file", path="big", offset=599_999, limit=1)
    assert part.startswith("599999\t0123456789\n")


async def test_a_folder_is_listed_and_an_empty_file_says_so(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "d" / "sub").mkdir(parents=True)
    (tmp_path / "d" / "f").touch()
    assert await box.text("read_file", path="d") == "f\nsub/"
    assert await box.text("read_file", path="d/f") == "(d/f is empty)"


@pytest.mark.parametrize("text", ["привет, мир\n", "日本語\n", "مرحبا بالعالم\n"])
async def test_text_of_any_script_is_read_and_edited(box: Toolbox, tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_text(text * 1000 + "end\n", encoding="utf-8")
    assert text.strip() in await box.text("read_file", path="f")
    await box.text("edit_file", path="f", old_text="end", new_text=text.strip())
    assert (tmp_path / "f").read_text(encoding="utf-8") == text * 1001


async def test_a_new_file_is_written_with_its_folders(box: Toolbox, tmp_path: Path) -> None:
    assert await box.text("write_file", path="a/b/c.txt", content="x\ny") == "created a/b/c.txt: 2 lines, 3 bytes"
    assert (tmp_path / "a/b/c.txt").read_text() == "x\ny"


async def test_an_existing_file_is_replaced_only_as_the_session_knows_it(box: Toolbox, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("theirs")
    assert "was not read" in await box.failure("write_file", path="f", content="mine")
    await box.text("read_file", path="f")
    status = file.stat()
    file.write_text("edited")  # the same length, and the same time: only the content tells
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "has changed" in await box.failure("write_file", path="f", content="mine")
    assert file.read_text() == "edited"
    await box.text("read_file", path="f")
    assert "overwrite is false" in await box.failure("write_file", path="f", content="mine", overwrite=False)
    assert "replaced" in await box.text("write_file", path="f", content="mine")
    assert "replaced" in await box.text("write_file", path="f", content="mine again")
    other_session = Toolbox(box.registry, FakeToolContext(session_id="other"))
    assert "was not read" in await other_session.failure("write_file", path="f", content="theirs")


async def test_a_write_repeated_after_a_crash_finds_its_own_work(box: Toolbox, tmp_path: Path) -> None:
    await box.text("write_file", path="f", content="x")
    after_restart = Toolbox(box.registry, FakeToolContext())
    assert "already" in await after_restart.text("write_file", path="f", content="x")
    (tmp_path / "f").write_text("someone else's")
    assert "was not read" in await Toolbox(box.registry).failure("write_file", path="f", content="x")


async def test_an_edit_answers_with_its_diff_and_keeps_bom_line_ends_and_mode(box: Toolbox, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\n")
    file.chmod(0o640)
    diff = await box.text("edit_file", path="f", old_text="two\n", new_text="zwei\ndrei\n")
    assert diff == "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n one\n-two\n+zwei\n+drei\n three"
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\nzwei\r\ndrei\r\nthree\n"
    assert file.stat().st_mode & 0o777 == 0o640


async def test_an_edit_that_is_not_unique_names_the_lines(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a = 1\nb\na = 1\n")
    message = await box.failure("edit_file", path="f", old_text="a = 1", new_text="a = 2")
    assert "2 times" in message
    assert "lines 1, 3" in message
    assert (tmp_path / "f").read_text() == "a = 1\nb\na = 1\n"
    await box.text("edit_file", path="f", old_text="a = 1", new_text="a = 2", replace_all=True)
    assert (tmp_path / "f").read_text() == "a = 2\nb\na = 2\n"


async def test_an_edit_that_is_not_found_shows_what_is_there(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("def f():\n\treturn  “x”\n\nend\n")
    spaces = await box.failure("edit_file", path="f", old_text='def f():\n    return "x"', new_text="y")
    assert "only white space" in spaces
    assert "     2\t\treturn  “x”" in spaces
    similar = await box.failure("edit_file", path="f", old_text="def f():\n    return 7\n", new_text="y")
    assert "most similar" in similar
    assert "     1\tdef f():" in similar
    assert "nothing near it" in await box.failure("edit_file", path="f", old_text="nowhere", new_text="y")


@pytest.mark.parametrize("old, new, why", [("", "x", "empty"), ("x", "x", "the same"), ("x", "\udc00", "surrogate")])
async def test_a_pointless_edit_is_refused(box: Toolbox, tmp_path: Path, old: str, new: str, why: str) -> None:
    (tmp_path / "f").write_text("x")
    assert why in await box.failure("edit_file", path="f", old_text=old, new_text=new)
    assert (tmp_path / "f").read_text() == "x"


@pytest.mark.parametrize("data", [b"caf\xe9 x\n", b"x\0x", "x".encode("utf-16")])
@pytest.mark.parametrize("tool", ["edit_file", "apply_patch"])
async def test_a_file_that_is_not_utf8_is_refused_and_stays_as_it_is(
    box: Toolbox, tmp_path: Path, data: bytes, tool: str
) -> None:
    (tmp_path / "f").write_bytes(data)
    arguments = {"old_text": "x", "new_text": "y"} if tool == "edit_file" else {"patch": "@@\n-x\n+y\n"}
    assert "not changed" in await box.failure(tool, path="f", **arguments)
    assert (tmp_path / "f").read_bytes() == data


async def test_after_an_edit_of_a_known_file_it_may_be_rewritten(box: Toolbox, tmp_path: Path) -> None:
    for name in ("known", "unknown"):
        (tmp_path / name).write_text("a")
    await box.text("read_file", path="known")
    for name in ("known", "unknown"):
        await box.text("edit_file", path=name, old_text="a", new_text="b")
    assert "replaced" in await box.text("write_file", path="known", content="c")
    assert "was not read" in await box.failure("write_file", path="unknown", content="c")


async def test_a_patch_is_applied_whole_or_not_at_all(box: Toolbox, tmp_path: Path) -> None:
    text = "one\ntwo\nthree\nfour\n"
    (tmp_path / "f").write_text(text)
    stale = "@@ -1 +1 @@\n-one\n+1\n@@ -9 +9 @@\n-nine\n+9\n"
    assert "hunk 2" in await box.failure("apply_patch", path="f", patch=stale)
    assert (tmp_path / "f").read_text() == text
    diff = await box.text("apply_patch", path="f", patch="@@ -1 +1 @@\n-one\n+1\n@@ -4 +4 @@\n-four\n+4\n")
    assert (tmp_path / "f").read_text() == "1\ntwo\nthree\n4\n"
    assert "+1\n" in diff


async def test_a_patch_creates_a_file_only_where_none_is(box: Toolbox, tmp_path: Path) -> None:
    patch = "--- /dev/null\n+++ b/new/f\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert "created new/f" in await box.text("apply_patch", path="new/f", patch=patch)
    assert (tmp_path / "new/f").read_text() == "one\ntwo\n"
    assert "exists" in await box.failure("apply_patch", path="new/f", patch=patch)


async def test_parallel_edits_of_one_file_are_all_kept(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"<{n}>\n" for n in range(40)))
    edits = [box.text("edit_file", path="f", old_text=f"<{n}>", new_text=f"[{n}]") for n in range(40)]
    await asyncio.gather(*edits)
    assert (tmp_path / "f").read_text() == "".join(f"[{n}]\n" for n in range(40))


async def test_a_reader_sees_the_old_or_the_new_file_and_never_a_part(box: Toolbox, tmp_path: Path) -> None:
    versions = {name: name * 500_000 for name in "ab"}
    await box.text("write_file", path="f", content=versions["a"])
    stop = threading.Event()
    seen: set[str] = set()

    def look() -> None:
        while not stop.is_set():
            seen.add((tmp_path / "f").read_text())

    reader = asyncio.get_running_loop().run_in_executor(None, look)
    for number in range(40):
        await box.text("write_file", path="f", content=versions["ba"[number % 2]])
    stop.set()
    await reader
    assert seen <= set(versions.values())


def unknown(**arguments: object) -> UnknownOutcome:
    return UnknownOutcome("s", "c", "edit_file", dict(arguments), "0" * 64, 0.0)


def reconcile(box: Toolbox, name: str, call: UnknownOutcome) -> ToolHandlerResult | None:
    definition = box.registry.get(name)
    assert definition is not None
    assert definition.reconcile is not None
    result = definition.reconcile(call)
    assert result is None or isinstance(result, ToolHandlerResult)
    return result


@pytest.mark.parametrize(
    "text, old, new, ok",
    [
        ("a new b", "old", "new", True),
        ("a old b", "old", "new", False),
        ("a old old b", "old", "old old", None),
        ("a old b", "old", "old older", False),
        ("neither", "old", "new", None),
        ("gone", "old", "", True),
        ("old", "old", "", False),
    ],
)
async def test_the_outcome_of_an_interrupted_edit_is_read_from_the_file(
    box: Toolbox, tmp_path: Path, text: str, old: str, new: str, ok: bool | None
) -> None:
    (tmp_path / "f").write_text(text)
    result = reconcile(box, "edit_file", unknown(path="f", old_text=old, new_text=new))
    assert (result.ok if result else None) is ok
    assert (tmp_path / "f").read_text() == text


async def test_the_outcome_of_an_interrupted_patch_is_read_from_the_file(box: Toolbox, tmp_path: Path) -> None:
    patch = "@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"
    expected = {"one\ntwo\n": False, "one\nzwei\n": True, "one\nzwei\none\ntwo\n": None, "else\n": None}
    for text, ok in expected.items():
        (tmp_path / "f").write_text(text)
        result = reconcile(box, "apply_patch", unknown(path="f", patch=patch))
        assert (result.ok if result else None) is ok, text
    assert reconcile(box, "apply_patch", unknown(path="f", patch="nonsense")) is None


@given(
    st.text(alphabet="ab\n\r", max_size=30),
    st.text(alphabet="ab\n", min_size=1, max_size=4),
    st.text(alphabet="c\n", max_size=4),
)
async def test_an_edit_and_its_reverse_give_the_file_back(text: str, old: str, new: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        box = Toolbox(create_default_tool_registry(workspace=folder, allow_bash=False))
        data = text.replace("\r", "").encode()
        (Path(folder) / "f").write_bytes(data)
        plain = data.decode()
        new = f"<{new}>"
        if plain.count(old) == 1 and plain.replace(old, new).count(new) == 1:
            await box.text("edit_file", path="f", old_text=old, new_text=new)
            assert (Path(folder) / "f").read_bytes().decode() == plain.replace(old, new)
            await box.text("edit_file", path="f", old_text=new, new_text=old)
            assert (Path(folder) / "f").read_bytes() == data
