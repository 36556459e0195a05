from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from loopwright.core.secret_patterns import is_secret
from loopwright.model.call_errors import ToolFailure
from loopwright.model.errors import ConfigError
from loopwright.ports.skill_source import LoadedSkill, SkillSummary
from loopwright.ports.tool import InputNeeded
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import Workspace, create_default_tool_registry
from loopwright.tools.local_shell import LocalShellBackend
from loopwright.tools.process import BoundedOutput
from loopwright.tools.tree import GlobPattern

FILES = ["read_file", "write_file", "edit_file", "apply_patch", "glob", "grep"]


def test_explore_changes_nothing(tmp_path: Path) -> None:
    registry = create_default_tool_registry("explore", workspace=tmp_path)
    assert {definition.effect for definition in registry} == {"pure"}
    assert not {"bash", "write_file", "edit_file", "apply_patch"} & set(registry.names())


def test_every_built_in_tool_has_a_valid_schema_a_description_and_described_parameters(tmp_path: Path) -> None:
    registry = create_default_tool_registry("full", workspace=tmp_path, skills=OneSkill())
    registry.check()
    for definition in registry:
        assert len(definition.description) > 60
        for name, parameter in definition.parameters["properties"].items():
            assert parameter.get("description"), f"{definition.name}.{name}"


def test_effects_are_declared_for_what_a_crash_can_leave_behind(tmp_path: Path) -> None:
    effects = {item.name: item.effect for item in create_default_tool_registry(workspace=tmp_path)}
    assert {name for name, effect in effects.items() if effect == "once"} == {"bash", "edit_file", "apply_patch"}
    assert effects["write_file"] == "idempotent"


def test_rules_can_tell_what_an_argument_names_and_what_only_touches_the_session(tmp_path: Path) -> None:
    tools = {item.name: item for item in create_default_tool_registry("full", workspace=tmp_path)}
    paths = {name for name, item in tools.items() if "path" in item.parameters["properties"]}
    assert {name for name, item in tools.items() if item.subjects == {"path": "path"}} == paths == set(FILES)
    assert tools["bash"].subjects == {"command": "command"}
    assert {name for name, item in tools.items() if item.touches == "world"} == {*FILES, "bash"}


class OneSkill:
    """A skill source without files."""

    def skills(self) -> tuple[SkillSummary, ...]:
        return (SkillSummary("pdf", "Reads PDFs."),)

    def load(self, name: str) -> LoadedSkill:
        return LoadedSkill(name, "Run it.", "/skills/pdf", ("a.md",), is_complete=False)

    def read(self, name: str, path: str) -> str:
        return f"{path} of {name}"


@pytest.mark.parametrize("skills", ["skills", Path("skills"), 5, OneSkill])
def test_skills_of_a_wrong_kind_are_refused_with_what_is_wanted(tmp_path: Path, skills: Any) -> None:
    with pytest.raises(ConfigError, match=r"skills must be a SkillLibrary: skills=SkillLibrary\("):
        create_default_tool_registry(workspace=tmp_path, skills=skills)


def test_notes_the_todo_list_and_wakeups_are_in_the_full_preset_and_skills_come_with_a_library(tmp_path: Path) -> None:
    core = create_default_tool_registry("core", workspace=tmp_path).names()
    assert create_default_tool_registry("full", workspace=tmp_path).names() == (
        *core,
        "note",
        "todo",
        "schedule_wakeup",
        "list_wakeups",
        "cancel_wakeup",
        "current_time",
        "recall_send",
        "recall_folded",
    )
    for preset in ("core", "explore", "full"):
        registry = create_default_tool_registry(preset, workspace=tmp_path, skills=OneSkill())  # type: ignore[arg-type]
        assert registry.names()[-1] == "load_skill"
    assert not create_default_tool_registry(workspace=tmp_path, skills=OneSkill(), exclude=["load_skill"]).has(
        "load_skill"
    )
    with pytest.raises(ConfigError, match="load_skill needs skills="):
        create_default_tool_registry(workspace=tmp_path, include=["load_skill"])


def test_bash_can_be_left_out_of_any_preset(tmp_path: Path) -> None:
    assert not create_default_tool_registry("full", workspace=tmp_path, allow_bash=False).has("bash")
    with pytest.raises(ConfigError, match="choose one"):
        create_default_tool_registry(workspace=tmp_path, allow_bash=False, include=["bash"])


def test_names_are_added_and_left_out(tmp_path: Path) -> None:
    registry = create_default_tool_registry("explore", workspace=tmp_path, include=["write_file"], exclude=["grep"])
    assert registry.names() == ("read_file", "glob", "read_output", "request_user_input", "write_file")


def test_every_unknown_name_is_reported_at_once() -> None:
    with pytest.raises(ConfigError, match=r"preset 'all'.*include: unknown tools fly.*exclude: unknown tools swim"):
        create_default_tool_registry("all", include=["fly"], exclude=["swim"])  # type: ignore[arg-type]


def test_a_workspace_comes_from_the_caller_or_the_environment_and_never_from_chance(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="LOOPWRIGHT_WORKSPACE"):
        create_default_tool_registry(env={})
    assert create_default_tool_registry(env={"LOOPWRIGHT_WORKSPACE": str(tmp_path)}).has("bash")
    assert create_default_tool_registry(workspace=Workspace(tmp_path), env={}).has("bash")
    assert create_default_tool_registry(env={}, exclude=[*FILES, "bash"]).names() == (
        "read_output",
        "request_user_input",
    )


def test_variables_that_look_like_secrets_are_not_passed_on(tmp_path: Path) -> None:
    env = {
        "PATH": os.defpath,
        "HOME": "/h",
        "KEYBOARD": "de",
        "PWD": "/x",
        "MONKEY": "see",
        "GIT_AUTHOR_NAME": "Ann",
        "OPENAI_API_KEY": "v",
        "AWS_SECRET_ACCESS_KEY": "v",
        "GITHUB_TOKEN": "v",
        "DB_PASSWORD": "v",
        "npm_config__auth": "v",
        "DATABASE_URL": "postgres://user:hunter2@db/x",
        "HARMLESS_NAME": "sk-abcdefghijklmnopqrstuvwx",
        "SERVICE_TOKEN": "wanted",
    }
    launch = LocalShellBackend(env=env, keep=["SERVICE_TOKEN"], extra={"ADDED": "1"}).launch("true", str(tmp_path))
    assert {"PATH", "HOME", "KEYBOARD", "GIT_AUTHOR_NAME", "SERVICE_TOKEN", "ADDED", "PWD"} <= set(launch.env)
    assert not {name for name in env if env[name] == "v"} & set(launch.env)
    assert not {"DATABASE_URL", "HARMLESS_NAME"} & set(launch.env)
    assert launch.env["PWD"] == str(tmp_path)
    assert not is_secret("PATH", "/usr/bin:/bin")


def test_a_bounded_output_keeps_head_and_tail_in_bounded_memory() -> None:
    output = BoundedOutput(1000)
    output(b"START")
    for _ in range(10_000):
        assert output(b"x" * 999)
    output(b"END")
    text = output.text()
    assert text.startswith("STARTx")
    assert text.endswith("xEND")
    assert f"... {output.total - 1000} bytes not kept ..." in text
    assert sum(map(len, output._tail)) < 500 + 1000
    whole = BoundedOutput(10)
    whole(b"12345")
    whole(b"67890")
    assert whole.text() == "1234567890"


@pytest.mark.parametrize(
    "pattern, path, fits",
    [
        ("*.py", "a/b/c.py", True),
        ("*.py", "c.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/*.py", "lib/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/a/b/c.py", True),
        ("**/b/**", "a/b/c/d", True),
        ("**/b/**", "a/b", False),
        ("**", "a/b", True),
        ("*.{ts,tsx}", "a/x.tsx", True),
        ("{a,b}/{c,d}.txt", "b/c.txt", True),
        ("[!a]*.txt", "b.txt", True),
        ("./a.txt", "a.txt", True),
        ("/a.txt", "b/a.txt", False),
        ("?.txt", "ab.txt", False),
    ],
)
def test_glob_patterns(pattern: str, path: str, fits: bool) -> None:
    assert GlobPattern(pattern).matches(path) is fits


def test_no_glob_pattern_is_slow_or_large() -> None:
    assert not GlobPattern("*a" * 400 + "b").matches("a" * 4000)
    assert not GlobPattern("**/a/" * 200 + "b").matches("a/" * 500 + "c")
    with pytest.raises(ValueError, match="64 patterns"):
        GlobPattern("{a,b}" * 10)


async def test_asking_returns_what_the_person_needs_and_refuses_half_questions() -> None:
    definition = create_default_tool_registry("core", exclude=[*FILES, "bash"]).get("request_user_input")
    assert definition is not None
    assert definition.handler is not None
    context = FakeToolContext()
    answer = await definition.handler({"prompt": "Which?", "kind": "choice", "options": ["a", "b"]}, context)
    assert answer == InputNeeded("Which?", "choice", ("a", "b"), {"enum": ["a", "b"]}, {})
    with pytest.raises(ToolFailure, match="options"):
        await definition.handler({"prompt": "Which?", "kind": "choice"}, context)


async def test_a_stored_output_is_read_in_pages() -> None:
    definition = create_default_tool_registry("core", exclude=[*FILES, "bash"]).get("read_output")
    assert definition is not None
    assert definition.handler is not None
    context = FakeToolContext(outputs={"art_1": "abcdefghij"})
    first = await definition.handler({"artifact_id": "art_1", "limit": 4}, context)
    assert first == "abcd\n(bytes 0 to 4 of 10; continue with offset=4)"
    assert await definition.handler({"artifact_id": "art_1", "offset": 8, "limit": 4}, context) == "ij"
    assert "has 10 bytes" in await definition.handler({"artifact_id": "art_1", "offset": 10}, context)
    with pytest.raises(ToolFailure, match="art_1"):
        await definition.handler({"artifact_id": "art_2"}, context)


@pytest.mark.parametrize(
    "name, value",
    [
        ("AWS_CRED_FILE", "x"),
        ("GOOGLECREDENTIALS", "x"),
        ("PGPASSFILE", "x"),
        ("STRIPE_ID", "x"),
        ("SENTRYDSN", "x"),
        ("SLACK_WEBHOOK_URL", "x"),
        ("A", "sk_live_abcdefgh1234"),
        ("A", "sk-abcdefghijklmnop"),
        ("A", "ghp_" + "a" * 36),
        ("A", "AKIA" + "A" * 16),
        ("A", "xoxb-1234567890-abc"),
        ("A", "-----BEGIN CERTIFICATE-----"),
    ],
)
def test_what_looks_like_a_secret_is_kept_from_commands(name: str, value: str) -> None:
    assert is_secret(name, value)
