"""AGENTS.md files are read from the repository's root to the workspace, bounded, and never from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from loopwright.context import PromptFiles, SkillLibrary
from loopwright.context.agents_md import MAX_AGENTS_BYTES, read_agents_files, repository_root
from loopwright.core.prompt_assembly import RepositoryFile
from loopwright.model.errors import ConfigError
from loopwright.ports.prompt_source import PromptSections, PromptSource


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository below a folder whose own AGENTS.md is none of its business."""
    (tmp_path / "AGENTS.md").write_text("not ours")
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / "pkg" / "app").mkdir(parents=True)
    return root


def test_files_are_read_from_the_root_down_to_the_workspace_and_not_beside_it(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("\ufeffroot\r\nrules", encoding="utf-8")
    (repository / "pkg" / "app" / "AGENTS.md").write_text("app")
    (repository / "pkg" / "other").mkdir()
    (repository / "pkg" / "other" / "AGENTS.md").write_text("other")
    found = read_agents_files(repository / "pkg" / "app")
    assert found.files == (RepositoryFile("AGENTS.md", "root\nrules"), RepositoryFile("pkg/app/AGENTS.md", "app"))
    assert found.problems == ()
    assert read_agents_files(repository / "pkg").files == found.files[:1]


def test_a_worktree_is_a_repository_and_a_folder_without_git_is_its_own_root(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("above")
    inner = tmp_path / "tree" / "inner"
    inner.mkdir(parents=True)
    assert read_agents_files(inner).files == ()
    (tmp_path / "tree" / ".git").write_text("gitdir: elsewhere")
    assert repository_root(str(inner)) == str(tmp_path / "tree")


def test_what_is_too_long_together_is_cut_at_the_farthest_file_and_says_so(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("ü" * 40)
    (repository / "pkg" / "AGENTS.md").write_text("p" * 25)
    (repository / "pkg" / "app" / "AGENTS.md").write_text("a" * 50)
    found = read_agents_files(repository / "pkg" / "app", 100)
    assert found.files == (
        RepositoryFile("AGENTS.md", "ü" * 12, 56),
        RepositoryFile("pkg/AGENTS.md", "p" * 25),
        RepositoryFile("pkg/app/AGENTS.md", "a" * 50),
    )
    assert [problem.why for problem in found.problems] == ["was cut: 56 of its 80 bytes"]
    nothing = read_agents_files(repository / "pkg" / "app", 50).files
    assert nothing[:2] == (RepositoryFile("AGENTS.md", "", 80), RepositoryFile("pkg/AGENTS.md", "", 25))


def test_fifty_megabytes_are_read_up_to_the_limit(repository: Path) -> None:
    with (repository / "AGENTS.md").open("wb") as file:
        file.write(b"x" * MAX_AGENTS_BYTES)
        file.truncate(50 * 1024 * 1024)
    (file,) = read_agents_files(repository).files
    assert (len(file.text), file.cut) == (MAX_AGENTS_BYTES, 50 * 1024 * 1024 - MAX_AGENTS_BYTES)


def test_what_cannot_be_used_is_a_problem_and_the_rest_counts(repository: Path) -> None:
    outside = repository.parent / "AGENTS.md"
    (repository / "AGENTS.md").symlink_to(outside)
    (repository / "pkg" / "AGENTS.md").write_bytes(b"one\n\xff\xfe")
    (repository / "pkg" / "app" / "AGENTS.md").write_text("app")
    (repository / "pkg" / "app" / "deep").mkdir()
    os.mkfifo(repository / "pkg" / "app" / "deep" / "AGENTS.md")
    found = read_agents_files(repository / "pkg" / "app" / "deep")
    assert [file.text for file in found.files] == ["app"]
    assert [(problem.line, problem.why) for problem in found.problems] == [
        (None, "is a symbolic link that leads out of its folder"),
        (2, "is not UTF-8"),
        (None, "is not a file"),
    ]
    assert str(found.problems[1]) == f"{repository / 'pkg' / 'AGENTS.md'}:2: is not UTF-8; save it as UTF-8"


def test_a_link_inside_the_repository_counts_and_an_empty_file_is_nothing(repository: Path) -> None:
    (repository / "CLAUDE.md").write_text("shared")
    (repository / "AGENTS.md").symlink_to("CLAUDE.md")
    (repository / "pkg" / "AGENTS.md").write_text("")
    assert [file.text for file in read_agents_files(repository / "pkg").files] == ["shared"]


def test_a_workspace_that_is_no_folder_is_a_problem_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name, why in (("no\x1bpe", "is not there"), ("file", "is no folder")):
        found = PromptFiles(workspace=tmp_path / name).sections()
        assert found.repository == ""
        (problem,) = found.problems
        assert (problem.path, problem.why) == (str(tmp_path / name).replace("\x1b", "\\x1b"), why)


def test_a_path_with_escapes_is_told_in_text_that_prints(tmp_path: Path) -> None:
    root = tmp_path / "re\x1b]0;t\x07po"
    (root / ".git").mkdir(parents=True)
    (root / "AGENTS.md").write_bytes(b"\0")
    (problem,) = read_agents_files(root).problems
    assert problem.path.isprintable()
    (root / "AGENTS.md").write_bytes(b"x" * 90)
    (problem,) = read_agents_files(root, 50).problems
    assert problem.path.isprintable()


def test_a_prompts_files_are_read_anew_each_time_and_unchanged_ones_give_the_same_bytes(repository: Path) -> None:
    skills = repository / "skills"
    (skills / "pdf").mkdir(parents=True)
    (skills / "pdf" / "SKILL.md").write_text("---\ndescription: Reads PDFs.\n---\n")
    (skills / "bad").mkdir()
    (skills / "bad" / "SKILL.md").write_text("bad")
    (repository / "AGENTS.md").write_text("Use tabs.")
    source: PromptSource = PromptFiles(skills=SkillLibrary(skills), workspace=repository)
    first = source.sections()
    assert first == source.sections()
    assert first.skills == "- pdf: Reads PDFs."
    assert first.repository == '<repository-file path="AGENTS.md">\nUse tabs.\n</repository-file>'
    assert [problem.why for problem in first.problems] == ["has no front matter"]
    (repository / "AGENTS.md").write_text("Use spaces.")
    assert "spaces" in source.sections().repository
    assert PromptFiles().sections() == PromptSections()


def test_skills_may_be_named_by_their_folder_and_what_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf" / "SKILL.md").write_text("---\ndescription: Reads PDFs.\n---\nRun it.")
    for given in (tmp_path, str(tmp_path)):
        assert PromptFiles(skills=given).sections() == PromptFiles(skills=SkillLibrary(tmp_path)).sections()
    for wrong in (5, SkillLibrary, ["skills"]):
        with pytest.raises(ConfigError, match="skills must be a SkillLibrary or the path of a folder"):
            PromptFiles(skills=cast("Any", wrong))
