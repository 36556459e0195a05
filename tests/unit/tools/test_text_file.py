from __future__ import annotations

import difflib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.model.call_errors import ToolFailure
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools.difference import unified_diff
from loopwright.tools.nearest import nearest_block
from loopwright.tools.patch import PatchError, parse_patch, spans_of
from loopwright.tools.text_file import (
    BOM,
    MAX_STAMPS,
    decode_for_edit,
    decode_for_reading,
    encode,
    known_stamp,
    remember,
)

lines = st.lists(st.text(alphabet="ab -+@\\é日\u2028\t", max_size=4), max_size=12)
stored = st.builds(
    lambda pieces, bom: (BOM if bom else b"") + "".join(a + b for a, b in pieces).encode(),
    st.lists(st.tuples(st.text(alphabet="abé日 \r", max_size=4), st.sampled_from(["\n", "\r\n", ""])), max_size=10),
    st.booleans(),
)


@given(stored)
def test_an_edit_of_nothing_changes_no_byte(data: bytes) -> None:
    file = decode_for_edit(data, "f")
    assert file.spliced([]) == data
    assert file.spliced([(0, 0, "")]) == data
    assert file.spliced([(len(file.text), len(file.text), "")]) == data


@given(stored, st.data())
def test_only_the_replaced_span_changes(data: bytes, draw: st.DataObject) -> None:
    file = decode_for_edit(data, "f")
    start = draw.draw(st.integers(0, len(file.text)))
    end = draw.draw(st.integers(start, len(file.text)))
    new = decode_for_edit(file.spliced([(start, end, "NEW\nLINE")]), "f")
    assert new.text == file.text[:start] + "NEW\nLINE" + file.text[end:]
    assert new.bom == file.bom
    before, after = file.original, new.original
    added = "NEW" + file.newline + "LINE"
    at = after.index(added)
    assert before.startswith(after[:at])
    assert before.endswith(after[at + len(added) :])


def test_new_lines_get_the_line_end_that_most_lines_have() -> None:
    assert decode_for_edit(b"a\r\nb\r\nc\n", "f").spliced([(0, 0, "x\ny\n")]) == b"x\r\ny\r\na\r\nb\r\nc\n"
    assert decode_for_edit(b"a\nb\nc\r\n", "f").spliced([(0, 0, "x\r\n")]) == b"x\na\nb\nc\r\n"


@pytest.mark.parametrize(
    "data, why",
    [(b"a\xffb", "not UTF-8"), (b"a\0b", "binary"), ("aé".encode("utf-16"), "UTF-16"), (b"\xe9t\xe9", "iconv")],
)
def test_what_is_not_utf8_text_is_not_edited(data: bytes, why: str) -> None:
    with pytest.raises(ToolFailure, match=why):
        decode_for_edit(data, "f")


@pytest.mark.parametrize("text", ["привет, мир", "日本語のテキスト", "مرحبا", "שלום", "🎉🎊", "ไทย"])
def test_text_of_any_script_is_text(text: str) -> None:
    data = (text * 100).encode()
    assert decode_for_reading(data, "f") == (text * 100, "")
    assert decode_for_edit(data, "f").text == text * 100


def test_another_encoding_is_shown_with_a_note_and_binary_is_refused() -> None:
    text, note = decode_for_reading("café au lait".encode("latin-1"), "f")
    assert text == "caf\N{REPLACEMENT CHARACTER} au lait"
    assert "editing is refused" in note
    with pytest.raises(ToolFailure, match="binary"):
        decode_for_reading(bytes(range(1, 256)), "f")


def test_half_a_character_is_not_written() -> None:
    with pytest.raises(ToolFailure, match="surrogate"):
        encode("a\ud800")


def test_remembered_files_are_bounded_and_the_oldest_go_first() -> None:
    context = FakeToolContext()
    for number in range(MAX_STAMPS + 5):
        remember(context, "/w", str(number), "s")
    assert known_stamp(context, "/w", "4") is None
    assert known_stamp(context, "/w", "5") == "s"
    assert known_stamp(context, "/other", "5") is None


def patched(patch: str, text: str) -> str:
    file = decode_for_edit(text.encode(), "f")
    return file.spliced(spans_of(parse_patch(patch).hunks, text)).decode()


@given(lines, lines, st.booleans(), st.booleans())
def test_a_diff_of_ours_applied_to_the_old_text_gives_the_new(old: list[str], new: list[str], a: bool, b: bool) -> None:
    before = "\n".join(old) + ("\n" if a and old else "")
    after = "\n".join(new) + ("\n" if b and new else "")
    diff = unified_diff(before, after, "f")
    assert (diff == "") == (before == after)
    if diff:
        assert patched(diff, before) == after


@given(lines, lines)
def test_a_patch_made_by_difflib_applies(old: list[str], new: list[str]) -> None:
    before, after = "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    split = [f"{line}\n" for line in old], [f"{line}\n" for line in new]
    diff = "".join(difflib.unified_diff(*split, "a/f", "b/f"))
    if diff:
        assert patched(diff, before) == after


@given(lines, lines)
def test_a_patch_backwards_undoes_itself_where_it_fits_one_place(old: list[str], new: list[str]) -> None:
    before, after = "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    diff = unified_diff(before, after, "f")
    if not diff:
        return
    undo = tuple(hunk.reversed() for hunk in parse_patch(diff).hunks)
    try:
        spans = spans_of(undo, after)
    except PatchError:
        return  # without line numbers a piece can fit in several places
    if all(after.count("\n".join(hunk.old)) == 1 for hunk in undo if hunk.old):
        assert decode_for_edit(after.encode(), "f").spliced(spans).decode() == before


@given(st.text(alphabet="@-+ \\0123,ab\n/", max_size=200))
def test_no_text_is_too_odd_to_be_read_as_a_patch(text: str) -> None:
    with suppress(PatchError):
        spans_of(parse_patch(text).hunks, "a\nb\na\n")


FILE = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


def test_a_hunk_is_found_by_its_context_whatever_its_numbers_say() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -90,2 +90,2 @@\n def b():\n-    return 1\n+    return 2\n"
    assert patched(patch, FILE) == FILE[: FILE.rindex("1")] + "2\n"
    assert patched("@@\n def b():\n-    return 1\n+    return 2", FILE) == FILE[: FILE.rindex("1")] + "2\n"


def test_a_hunk_that_fits_in_two_places_is_refused_with_their_lines() -> None:
    with pytest.raises(PatchError, match=r"2 places, at lines 2, 6"):
        patched("@@ -40,1 +40,1 @@\n-    return 1\n+    return 2\n", FILE)
    assert patched("@@ -6 +6 @@\n-    return 1\n+    return 2\n", FILE).count("return 2") == 1


def test_a_stale_hunk_is_refused_and_shows_what_the_file_has() -> None:
    with pytest.raises(PatchError, match=r"hunk 2 does not fit(?s:.*)5\tdef b") as error:
        patched("@@\n def a():\n-    return 1\n+    return 0\n@@\n def b():\n-    return 3\n+    return 4\n", FILE)
    assert "     6\t    return 1" in str(error.value)


def test_white_space_at_line_ends_does_not_matter_and_context_stays_as_in_the_file() -> None:
    assert patched("@@\n a\n-b\n+c\n\n", "a  \nb\t\n\n") == "a  \nc\n\n"


@pytest.mark.parametrize(
    "patch, why",
    [
        ("", "changes nothing"),
        ("@@ -1 +1 @@\n a\n", "changes nothing"),
        ("-a\n+b\n", "outside of a hunk"),
        ("@@ -1 +1 @@\n-a\n+b\nc\n", "line 4 of the patch"),
        ("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deletes the file"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "2 files"),
        ("@@\n+b\n", "does not say where"),
        ("@@\n-a\n+b\n@@\n-a\n+c\n", "same lines"),
    ],
)
def test_an_unusable_patch_says_what_is_wrong(patch: str, why: str) -> None:
    with pytest.raises(PatchError, match=why):
        patched(patch, "a\nx\n")


@pytest.mark.parametrize(
    "before, patch, after",
    [
        ("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", "a\nb\nc"),
        ("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
        ("a\nb", "@@ -2 +2 @@\n-b\n+c\n", "a\nc"),
        ("", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n"),
        ("a\n", "@@ -1 +0,0 @@\n-a\n", ""),
        ("a\n--- x\n", "@@ -1,2 +1,2 @@\n a\n---- x\n++++ y\n", "a\n+++ y\n"),
    ],
)
def test_the_end_of_a_file_is_as_the_patch_says(before: str, patch: str, after: str) -> None:
    assert patched(patch, before) == after


def test_the_diff_of_a_small_change_in_a_large_file_is_small() -> None:
    before = "".join(f"line {n}\n" for n in range(200_000))
    diff = unified_diff(before, before.replace("line 777\n", "LINE\n"), "f")
    assert diff.count("\n") == 10
    assert "@@ -775,7 +775,7 @@" in diff


def test_the_nearest_place_sees_through_white_space_and_typography() -> None:
    text = "a\n    if  x == “y”:\n        pass\nb\n"
    block = nearest_block(text, 'if x == "y":\n    pass')
    assert block is not None
    assert (block.first_line, block.equal_but_for_space) == (2, True)
    assert nearest_block(text, "nothing of it") is None
