"""What a model does with notes, the todo list and skills, as a run validates and calls them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenario.tools.toolbox import Toolbox

from loopwright.context import SkillLibrary
from loopwright.model.notes import Note, NotesPolicy, TodoItem
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import ToolRegistry, create_default_tool_registry
from loopwright.tools.note import note_tool
from loopwright.tools.todo import todo_tool

KEYS = [f"{number:02}" + "a" * 62 for number in range(10)]


@pytest.fixture
def box() -> Toolbox:
    return Toolbox(ToolRegistry.of(note_tool(), todo_tool()))


async def test_notes_are_added_changed_listed_and_deleted(box: Toolbox) -> None:
    box.context.idempotency_key = KEYS[1]
    assert await box.text("note", action="add", content=" The port is 8080. ") == "added n01aaaa (1 of 50 notes)"
    box.context.idempotency_key = KEYS[2]
    await box.text("note", action="add", content="Ann likes tea", pinned=True)
    assert await box.text("note", action="update", note_id="n01aaaa", content="The port is 9090.") == (
        "updated n01aaaa (2 of 50 notes)"
    )
    assert await box.text("note", action="list") == "- [n01aaaa] The port is 9090.\n- [n02aaaa, pinned] Ann likes tea"
    assert await box.text("note", action="delete", note_id="n02aaaa") == "deleted n02aaaa (1 of 50 notes)"
    assert box.context.notes.all() == (Note("n01aaaa", "The port is 9090."),)


async def test_the_bounds_of_the_session_hold_and_each_refusal_says_the_way_out(box: Toolbox) -> None:
    box.context.notes.policy = NotesPolicy(max_notes=2, max_note_chars=20)
    for key in KEYS[:2]:
        box.context.idempotency_key = key
        await box.text("note", action="add", content=f"note {key[:2]}")
    box.context.idempotency_key = KEYS[3]
    assert "delete or update one of them first:\n- [n00aaaa] note 00" in await box.failure(
        "note", action="add", content="third"
    )
    assert "20 are allowed" in await box.failure("note", action="update", note_id="n00aaaa", content="x" * 21)
    assert "add needs content" in await box.failure("note", action="add")
    assert "delete needs note_id" in await box.failure("note", action="delete")
    assert "the notes are:\n- [n00aaaa]" in await box.failure("note", action="delete", note_id="other")
    box.context.notes.policy = NotesPolicy(max_notes=2, eviction="fifo")
    assert await box.text("note", action="add", content="third") == (
        "added n03aaaa; dropped to make room: n00aaaa (2 of 2 notes)"
    )
    assert [note.note_id for note in box.context.notes.all()] == ["n01aaaa", "n03aaaa"]


async def test_a_todo_list_is_replaced_as_a_whole_or_not_at_all(box: Toolbox) -> None:
    plan = [{"id": "1", "text": "read", "status": "in_progress"}, {"id": "2", "text": "write"}]
    assert await box.text("todo", items=plan) == "[>] 1: read\n[ ] 2: write\n(0 of 2 done)"
    wrong = [{"id": "1", "text": "a", "status": "in_progress"}, {"id": "1", "text": "b", "status": "in_progress"}]
    assert "each id may occur once: 1; one item may be in_progress" in await box.failure("todo", items=wrong)
    assert box.context.todo.items() == (TodoItem("1", "read", "in_progress"), TodoItem("2", "write"))
    assert "status" in (box.registry.problems("todo", {"items": [{"id": "1", "text": "x", "status": "later"}]}) or "")
    assert await box.text("todo", items=[]) == "the list is empty now"
    assert box.context.todo.items() == ()


async def test_where_a_run_keeps_no_notes_the_model_is_told_to_go_on_without() -> None:
    class Bare(FakeToolContext):
        def __init__(self) -> None:
            super().__init__()
            del self.notes, self.todo

    box = Toolbox(ToolRegistry.of(note_tool(), todo_tool()), Bare())
    assert "go on without" in await box.failure("note", action="list")
    assert "go on without" in await box.failure("todo", items=[])


async def test_a_skill_is_read_with_its_folder_and_files_and_then_file_by_file(tmp_path: Path) -> None:
    place = tmp_path / "skills" / "pdf"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: pdf\ndescription: Reads PDFs.\n---\n# PDF\nOpen it.\n")
    (place / "form.md").write_text("Fill it.")
    library = SkillLibrary(tmp_path / "skills")
    box = Toolbox(create_default_tool_registry("explore", workspace=tmp_path, skills=library))
    assert await box.text("load_skill", name="pdf") == (
        f"Skill pdf, in the folder {place}\n\n# PDF\nOpen it.\n\n"
        'Files (read one with load_skill(name="pdf", file=...)):\nform.md'
    )
    assert await box.text("load_skill", name="pdf", file="form.md") == "Fill it."
    assert await box.failure("load_skill", name="word") == ("skill 'word': there is no such skill; usable skills: pdf")
    assert "not a path below it" in await box.failure("load_skill", name="pdf", file="../../x")
    assert "Fill it." in await box.text("read_file", path=str(place / "form.md"))
