"""Skills are read from folders; a bad one is left out alone and says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.context import SkillLibrary
from loopwright.context.bounded_text import UnusableText
from loopwright.context.front_matter import read_front_matter
from loopwright.context.skills import MAX_DEPTH, MAX_FILE_BYTES, MAX_FOLDERS, MAX_LISTED, MAX_SKILL_BYTES
from loopwright.model.call_errors import SkillUnavailableError
from loopwright.ports.skill_source import SkillSummary
from loopwright.tools.load_skill import load_skill_tool

GOOD = "---\nname: pdf\ndescription: Reads PDFs. Use it for forms.\n---\n\n# PDF\n\nRun it.\n"


def skill(folder: Path, name: str, text: str | bytes | None = None) -> Path:
    """A skill's folder; without a text a good one."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    body = GOOD.replace("pdf", name) if text is None else text
    (place / "SKILL.md").write_bytes(body if isinstance(body, bytes) else body.encode())
    return place


def names(library: SkillLibrary) -> list[str]:
    return [found.name for found in library.skills()]


def test_a_skill_is_its_folders_name_and_its_description_in_one_line(tmp_path: Path) -> None:
    skill(tmp_path, "pdf")
    skill(tmp_path, "csv", "---\ndescription: >\n  Reads\n  CSV files.\n---\nbody")
    skill(tmp_path, "win", b"\xef\xbb\xbf---\r\nname: win\r\ndescription: 'Has: a colon'\r\n---\r\nbody\r\n")
    (tmp_path / "README.md").write_text("no skill")
    (tmp_path / "empty").mkdir()
    (tmp_path / ".git").mkdir()
    library = SkillLibrary(tmp_path)
    assert library.skills() == (
        SkillSummary("csv", "Reads CSV files."),
        SkillSummary("pdf", "Reads PDFs. Use it for forms."),
        SkillSummary("win", "Has: a colon"),
    )
    assert library.problems == ()


BAD: dict[str, tuple[str | bytes, int | None, str, str]] = {
    "no-front": ("# Just text\n", 1, "no front matter", "begin with a line ---"),
    "not-closed": ("---\nname: not-closed\ndescription: x\n", 1, "does not end", "then a line ---"),
    "colon": ("---\nname: colon\ndescription: Use it: always\n---\n", 3, "mapping values", "between quotes"),
    "tab": ("---\nname: tab\n\tdescription: x\n---\n", 3, "not YAML", "spaces"),
    "control": ("---\nname: control\ndescription: a\x07b\n---\n", 3, "not YAML", "correct it"),
    "a-list": ("---\n- name\n---\n", 2, "not a list of fields", "name: and description:"),
    "no-description": ("---\nname: no-description\n---\nbody", 1, "no description", "add description"),
    "null": ("---\nname: 'null'\ndescription: ~\n---\nbody", 1, "no description", "add description"),
    "nested": (
        "---\nname: nested\ndescription: [a, b]\n---\n",
        3,
        "a description that is not text",
        "write description:",
    ),
    "twice": ("---\ndescription: a\ndescription: b\n---\n", 3, "'description' twice", "keep one"),
    "long": (f"---\ndescription: {'x' * 1025}\n---\n", 1, "1025 characters", "shorten it to 1024"),
    "other-name": (
        "---\nname: another\ndescription: x\n---\n",
        1,
        "'another' in a folder called 'other-name'",
        "same name",
    ),
    "deep": (f"---\ndescription: x\nd: {'[' * 2000}\n---\n", 1, "nested too deep", "begin with"),
    "latin": (b"---\ndescription: caf\xe9\n---\n", 2, "not UTF-8", "save it as UTF-8"),
    "binary": (b"---\ndescription: x\n---\n\0\0", 4, "binary", "text file"),
    "spaced name": (GOOD, None, "a folder called 'spaced name'", "name the folder"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_skill_is_left_out_alone_with_file_line_and_what_to_do(name: str, tmp_path: Path) -> None:
    text, line, why, remedy = BAD[name]
    place = skill(tmp_path, name, text)
    skill(tmp_path, "good")
    library = SkillLibrary(tmp_path)
    assert names(library) == ["good"]
    (problem,) = library.problems
    assert (problem.path, problem.line) == (str(place / "SKILL.md"), line)
    assert why in problem.why
    assert remedy in problem.remedy
    with pytest.raises(SkillUnavailableError) as caught:
        library.load(name)
    assert str(problem) in str(caught.value)
    assert caught.value.known == ("good",)


def test_fifty_megabytes_are_left_out_without_being_read(tmp_path: Path) -> None:
    place = skill(tmp_path, "huge")
    with (place / "SKILL.md").open("r+b") as file:
        file.truncate(50 * 1024 * 1024)
        file.seek(0)
        file.write(b"x" * (MAX_SKILL_BYTES + 1))
    skill(tmp_path, "good")
    library = SkillLibrary(tmp_path)
    assert names(library) == ["good"]
    assert "52428800 bytes, over 65536" in library.problems[0].why


def test_links_out_of_the_folder_are_left_out_and_those_inside_count(tmp_path: Path) -> None:
    outside = skill(tmp_path / "elsewhere", "secret")
    home = tmp_path / "skills"
    skill(home, "good")
    (home / "linked").symlink_to(outside)
    (home / "file").mkdir()
    (home / "file" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (home / "gone").mkdir()
    (home / "gone" / "SKILL.md").symlink_to("nowhere")
    (home / "round").symlink_to("round")
    (home / "twin").mkdir()
    (home / "twin" / "SKILL.md").write_text("---\ndescription: here\n---\n")
    library = SkillLibrary(home)
    assert names(library) == ["good", "twin"]
    assert [(Path(p.path).parent.name, p.why) for p in library.problems] == [
        ("file", "is a symbolic link that leads out of its folder"),
        ("gone", "is a link to nothing, or was just removed"),
        ("linked", "is a symbolic link that leads out of its folder"),
        ("round", "cannot be read (Too many levels of symbolic links)"),
    ]


def test_a_pipe_or_a_folder_in_the_files_place_blocks_nothing(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "dir" / "SKILL.md").mkdir(parents=True)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "skill.md").write_text(GOOD)
    library = SkillLibrary(tmp_path)
    assert [problem.why for problem in library.problems] == ["is not a file", "is not a file", "is called skill.md"]


def test_of_two_skills_with_one_name_that_of_the_first_folder_counts(tmp_path: Path) -> None:
    skill(tmp_path / "a", "pdf", "---\ndescription: first\n---\n")
    second = skill(tmp_path / "b", "pdf")
    library = SkillLibrary(tmp_path / "a", str(tmp_path / "b"))
    assert library.skills() == (SkillSummary("pdf", "first"),)
    assert library.problems[0].path == str(second / "SKILL.md")
    assert str(tmp_path / "a" / "pdf") in library.problems[0].why


def test_a_folder_that_is_not_there_is_a_problem_and_the_others_count(tmp_path: Path) -> None:
    skill(tmp_path / "a", "pdf")
    library = SkillLibrary(tmp_path / "nope", tmp_path / "a")
    assert names(library) == ["pdf"]
    assert str(library.problems[0]).startswith(f"{tmp_path / 'nope'}: cannot be read (No such file or directory); ")


def test_a_folder_with_too_many_entries_is_looked_at_in_part_and_says_so(tmp_path: Path) -> None:
    for number in range(MAX_FOLDERS + 2):
        (tmp_path / f"f{number:05}").mkdir()
    skill(tmp_path, "a-first")
    library = SkillLibrary(tmp_path)
    assert names(library) == ["a-first"]
    assert "1003 entries; those after 'f00998'" in library.problems[0].why


def test_folders_come_from_the_environment(tmp_path: Path) -> None:
    skill(tmp_path / "a", "pdf")
    skill(tmp_path / "b", "csv")
    library = SkillLibrary.from_env({"LOOPWRIGHT_SKILLS_DIR": f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}"})
    assert library is not None
    assert names(library) == ["csv", "pdf"]
    assert SkillLibrary.from_env({}) is None


def test_a_skill_is_loaded_as_it_is_now_with_its_files(tmp_path: Path) -> None:
    place = skill(tmp_path, "pdf")
    (place / "scripts").mkdir()
    (place / "scripts" / "fill.py").write_text("print()")
    (place / "notes.md").write_text("more")
    (place / ".hidden").write_text("x")
    library = SkillLibrary(tmp_path)
    assert names(library) == ["pdf"]
    (place / "SKILL.md").write_text(GOOD.replace("Run it.", "Run it twice."))
    loaded = library.load("pdf")
    assert (loaded.body, loaded.folder) == ("# PDF\n\nRun it twice.", str(place))
    assert (loaded.files, loaded.is_complete) == (("notes.md", "scripts/fill.py"), True)


def test_a_skill_that_came_since_is_found_and_one_that_broke_says_how(tmp_path: Path) -> None:
    place = skill(tmp_path, "pdf")
    library = SkillLibrary(tmp_path)
    assert names(library) == ["pdf"]
    skill(tmp_path, "csv")
    assert library.load("csv").name == "csv"
    (place / "SKILL.md").write_text("no more")
    with pytest.raises(SkillUnavailableError, match="has no front matter"):
        library.load("pdf")
    (place / "SKILL.md").unlink()
    with pytest.raises(SkillUnavailableError, match="just removed"):
        library.load("pdf")


def test_an_unknown_name_is_answered_with_the_names_there_are(tmp_path: Path) -> None:
    for number in range(120):
        skill(tmp_path, f"s{number:03}")
    with pytest.raises(SkillUnavailableError, match=r"no such skill; usable skills: s000, .*s099 and 20 more$"):
        SkillLibrary(tmp_path).load("x")
    with pytest.raises(SkillUnavailableError, match="usable skills: none"):
        SkillLibrary().load("../x")


def test_bundled_files_are_listed_within_bounds(tmp_path: Path) -> None:
    place = skill(tmp_path, "many")
    for number in range(MAX_LISTED + 5):
        (place / f"{number:04}.txt").write_text("")
    deep = skill(tmp_path, "deep").joinpath(*["d"] * (MAX_DEPTH + 2))
    deep.mkdir(parents=True)
    (deep / "bottom.txt").write_text("")
    library = SkillLibrary(tmp_path)
    loaded = library.load("many")
    assert (len(loaded.files), loaded.is_complete) == (MAX_LISTED, False)
    assert (library.load("deep").files, library.load("deep").is_complete) == ((), False)


def test_a_bundled_file_is_read_bounded_and_only_below_its_skill(tmp_path: Path) -> None:
    place = skill(tmp_path / "skills", "pdf")
    (tmp_path / "skills" / "key").write_text("secret")
    (tmp_path / "outside").write_text("secret")
    (place / "link").symlink_to(tmp_path / "outside")
    (place / "form.md").write_text("fill\r\nit")
    (place / "big.txt").write_text("é" * MAX_FILE_BYTES)
    (place / "x.bin").write_bytes(b"\0\1")
    library = SkillLibrary(tmp_path / "skills")
    assert library.read("pdf", "./form.md") == "fill\nit"
    big = library.read("pdf", "big.txt")
    assert big.endswith(f"\n({MAX_FILE_BYTES} more bytes of big.txt are not shown)")
    for path, why in (
        ("../key", "not a path below"),
        ("/etc/passwd", "not a path below"),
        ("", "not a path below"),
        ("link", "leads out of its folder"),
        ("x.bin", "is binary"),
        ("none.md", "its files: big.txt, form.md"),
        ("\ud800", "cannot be a file name"),
        ("form.md/x", "cannot be read"),
    ):
        with pytest.raises(SkillUnavailableError, match=why):
            library.read("pdf", path)


@given(st.text(alphabet="-:\n \t[]{}&*!|>'\"#%@`ab~", max_size=80))
def test_no_front_matter_raises_anything_but_what_is_wrong_with_it(inside: str) -> None:
    wrong: UnusableText | None = None
    description = "x"
    try:
        description = read_front_matter(f"---\n{inside}\n---\nbody").description
    except UnusableText as error:
        wrong = error
    assert wrong is None or 1 <= (wrong.line or 0) <= inside.count("\n") + 4
    assert 1 <= len(description) <= 1024
    assert "\n" not in description


def test_other_fields_are_left_alone_whatever_they_are() -> None:
    text = "---\ndescription: x\nwhen: 2024-99-99\nobject: !!python/object/apply:os.system [ls]\na: &a [*a]\n---\nbody\n---\nmore\n"
    assert read_front_matter(text) == (None, "x", "body\n---\nmore")


def test_without_its_driver_the_library_names_the_extra_and_agents_files_still_work(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['yaml'] = None\n"
        "from loopwright.context import PromptFiles\n"
        "print(PromptFiles(workspace='.').sections().problems)\n"
        "from loopwright.model.errors import ConfigError\n"
        "try:\n    from loopwright.context import SkillLibrary\nexcept ConfigError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("()\nskills need pyyaml; pip install 'loopwright[skills]'")


def test_names_with_escapes_are_told_in_text_that_prints(tmp_path: Path) -> None:
    odd = "x\x1b]0;t\x07\nWARNING forged"
    folder = tmp_path / odd
    skill(folder, odd)
    skill(folder, "pdf")
    skill(tmp_path / f"{odd}2", "pdf")
    library = SkillLibrary(folder, tmp_path / f"{odd}2", tmp_path / f"{odd}3")
    assert names(library) == ["pdf"]
    assert len(library.problems) == 3
    assert all(text.isprintable() for one in library.problems for text in (one.path, one.why, str(one)))
    with pytest.raises(SkillUnavailableError) as unknown:
        library.load(odd)
    assert str(unknown.value).isprintable()
    (folder / "pdf" / odd).write_text("a")
    (folder / "pdf" / f"{odd}2").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    handler = load_skill_tool(library).handler
    assert handler is not None
    shown = [handler({"name": "pdf"}, None), handler({"name": "pdf", "file": f"{odd}2"}, None)]  # type: ignore[arg-type]
    assert not [text for text in shown if "\x1b" in text or "\nWARNING" in text]
    with pytest.raises(SkillUnavailableError) as missing:
        library.read("pdf", "nope")
    assert str(missing.value).isprintable()
