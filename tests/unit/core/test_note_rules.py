"""Notes of a session stay within their bounds, and nothing is lost that nobody deleted."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.note_rules import (
    NoteChange,
    added,
    deleted,
    listed_notes,
    new_note_id,
    rendered_notes,
    updated,
    with_change,
)
from loopwright.model.call_errors import NotesFullError, ToolFailure
from loopwright.model.errors import ConfigError
from loopwright.model.notes import Note, NotesPolicy

SMALL = NotesPolicy(max_notes=4, max_note_chars=30, inject_max_chars=500, eviction="fifo")
STRICT = NotesPolicy(max_notes=4, max_note_chars=30, inject_max_chars=500)

contents = st.text(max_size=45)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "update", "delete"]), st.integers(0, 5), contents, st.booleans()), max_size=25
)
notes_of_any_kind = st.lists(
    st.builds(Note, st.uuids().map(str), st.text(min_size=1, max_size=300), st.booleans()), max_size=60
).map(tuple)


def key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


@pytest.mark.parametrize("policy", [SMALL, STRICT])
@given(steps=steps)
def test_no_sequence_of_writes_leaves_the_bounds_or_loses_a_note(
    policy: NotesPolicy, steps: list[tuple[str, int, str, bool]]
) -> None:
    notes: tuple[Note, ...] = ()
    for number, (action, which, content, pinned) in enumerate(steps):
        target = notes[which % len(notes)].note_id if notes else "none"
        try:
            if action == "add":
                changes = added(notes, Note(new_note_id(key(number), notes), content, pinned), policy)
            elif action == "update":
                changes = (updated(notes, target, content, pinned, policy),)
            else:
                changes = (deleted(notes, target),)
        except (ToolFailure, NotesFullError):
            continue
        before = notes
        for change in changes:
            notes = with_change(notes, change)
        gone = [note for note in before if note.note_id not in {kept.note_id for kept in notes}]
        assert len(notes) <= policy.max_notes
        assert all(0 < len(note.content) <= policy.max_note_chars for note in notes)
        assert action == "delete" or not any(note.pinned for note in gone)
        assert action != "update" or [n.note_id for n in notes] == [n.note_id for n in before]
        assert action != "add" or gone == [n for n in before if not n.pinned][: len(gone)]
        assert policy.eviction == "fifo" or action == "delete" or gone == []


def test_what_is_too_long_is_refused_and_never_cut() -> None:
    with pytest.raises(ToolFailure, match="31 characters, 30 are allowed"):
        added((), Note("n1", "x" * 31), STRICT)
    with pytest.raises(ToolFailure, match="31 characters, 30 are allowed"):
        updated((Note("n1", "x"),), "n1", "x" * 31, None, STRICT)
    assert added((), Note("n1", "x" * 30), STRICT) == (NoteChange("n1", "x" * 30, pinned=False),)


def test_a_full_book_refuses_a_note_and_shows_what_is_in_it() -> None:
    full = tuple(Note(f"n{i}", f"fact {i}", i == 0) for i in range(4))
    with pytest.raises(
        NotesFullError, match=r"all 4 notes are taken \(1 pinned\).*\n- \[n0, pinned\] fact 0"
    ) as caught:
        added(full, Note("new", "fact"), STRICT)
    assert (caught.value.max_notes, caught.value.pinned) == (4, 1)


def test_the_oldest_note_that_is_not_pinned_makes_room_and_a_book_of_pinned_ones_makes_none() -> None:
    mixed = (Note("a", "1", True), Note("b", "2"), Note("c", "3"), Note("d", "4"))
    assert [change.note_id for change in added(mixed, Note("e", "5"), SMALL)] == ["b", "e"]
    with pytest.raises(NotesFullError, match="4 pinned"):
        added(tuple(Note(name, "x", True) for name in "abcd"), Note("e", "5"), SMALL)


def test_a_call_that_is_repeated_writes_the_same_note_and_no_second_one() -> None:
    note_id = new_note_id(key(1), ())
    assert note_id == new_note_id(key(1), (Note("other", "x"),))
    full = (Note(note_id, "x"), Note("b", "2"), Note("c", "3"), Note("d", "4"))
    assert added(full, Note(note_id, "again"), STRICT) == (NoteChange(note_id, "again", pinned=False),)


@given(st.integers(0, 50))
def test_a_new_id_is_one_that_no_note_has(number: int) -> None:
    taken = tuple(Note(f"n{key(number)[:length]}", "x") for length in range(6, 10))
    assert new_note_id(key(number), taken) not in {note.note_id for note in taken}


def test_what_is_unknown_or_says_nothing_is_refused_with_what_there_is() -> None:
    book = (Note("n1", "the port is 8080"),)
    for refused in (lambda: deleted(book, "n2"), lambda: updated(book, "n2", "x", None, STRICT)):
        with pytest.raises(ToolFailure, match=r"no note 'n2'(.|\n)*the port is 8080"):
            refused()
    with pytest.raises(ToolFailure, match="needs content, pinned or both"):
        updated(book, "n1", None, None, STRICT)
    with pytest.raises(ToolFailure, match="empty"):
        added(book, Note("n3", " \n"), STRICT)


@given(notes_of_any_kind, st.integers(500, 5000))
def test_the_list_a_model_sees_is_never_longer_than_allowed_and_counts_what_it_hides(
    notes: tuple[Note, ...], limit: int
) -> None:
    text = rendered_notes(notes, limit)
    assert len(text) <= limit
    shown = [note for note in notes if f"- [{note.note_id}" in text]
    hidden = [note for note in notes if note not in shown]
    assert (f"({len(hidden)} older notes are not shown" in text) == bool(hidden)
    loose = [note for note in notes if not note.pinned]
    assert [n for n in loose if n in shown] == loose[sum(n in hidden for n in loose) :]
    assert not any(note.pinned for note in hidden) or not any(not note.pinned for note in shown)


def test_the_rendering_is_one_line_a_note_with_further_lines_indented() -> None:
    assert rendered_notes((), 8000) == rendered_notes((Note("a", "x"),), 0) == ""
    text = rendered_notes((Note("a", "one\n- [b] two"), Note("c", "three", True)), 8000)
    assert text.splitlines()[1:] == ["- [a] one", "  - [b] two", "- [c, pinned] three"]
    assert listed_notes(()) == "(no notes)"


def test_impossible_bounds_are_all_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"max_notes.*max_note_chars.*inject_max_chars.*eviction"):
        NotesPolicy(max_notes=0, max_note_chars="9", inject_max_chars=10, eviction="lifo")  # type: ignore[arg-type]
    assert NotesPolicy(inject_max_chars=0).inject_max_chars == 0
