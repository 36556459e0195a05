"""A permission file is read with every problem named by its line, and added to without losing anything."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.context.permission_file import load_permissions, policy_of
from loopwright.model.errors import ConfigError
from loopwright.model.permission_spec import PermissionRule

FILE = """\
# what our agent may do
mode = "trusted"
otherwise = "deny"

[[rules]]
decision = "allow"
tool = "bash"
command = ["git status *", "git diff *"]

[[rules]]  # never
decision = "deny"
path = ".env"
reason = \"\"\"
mode = "secrets"
stay here\"\"\"

[[granted]]
tool = "bash"
command = "git push *"
instead_of = "ask bash"
"""


def made(folder: Path, text: str) -> Path:
    path = folder / ".loopwright" / "permissions.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def problems_of(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        policy_of(text, "f.toml")
    return error.value.problems


def test_a_file_is_a_policy_whose_workspace_is_the_projects_folder(tmp_path: Path) -> None:
    policy = load_permissions(made(tmp_path, FILE)).policy()
    assert (policy.mode, policy.otherwise, policy.workspace) == ("trusted", "deny", str(tmp_path))
    assert [rule.decision for rule in policy.rules] == ["allow", "deny"]
    assert policy.rules[0].command == ("git status *", "git diff *")
    assert str(policy.granted[0]) == "allow bash, command git push *"
    assert load_permissions(made(tmp_path, FILE), mode="plan").policy().mode == "plan"


def test_all_problems_are_told_at_once_each_with_its_line() -> None:
    wrong = FILE.replace('mode = "trusted"', 'mode = "open"').replace('decision = "deny"', 'decison = "deny"')
    wrong = wrong.replace('command = "git push *"', 'command = "git push; ls"\ndecision = "deny"').replace(
        'otherwise = "deny"', "extra = 1"
    )
    found = problems_of(wrong)
    assert [one.split(": ")[0] for one in found] == [
        "f.toml:3",
        "f.toml:2",
        "f.toml:11",
        "f.toml:10",
        "f.toml:19",
        "f.toml:21",
        "f.toml:20",
    ]
    assert "unknown key 'extra'" in found[0]
    assert "rules[1].decison: unknown key" in found[2]
    assert "rules[1].decision: must be one of" in found[3]


@pytest.mark.parametrize(
    "text, where",
    [
        ('mode = "plan"\nmode = ', "f.toml:2: no TOML"),
        ('mode = "plan', "f.toml:1: no TOML"),
        ("\n\n[[rules]", "f.toml:3: no TOML"),
        ("a = 1\nrules = 3", "f.toml:2: must be a list of tables"),
        ("\n[rules]\ntool = 1", "f.toml:2: must be a list of tables"),
        ("\nrules = [{decision = 'maybe'}]", "f.toml:2: rules[0].decision"),
        ("\n[[rules]]\ndecision='deny'\nhost=['a', 3]", "f.toml:4: rules[0].host"),
        ("[[rules]]\n" * 1001, "f.toml:1001: 1001 rules, 1000 are allowed"),
    ],
)
def test_whatever_is_wrong_is_told_with_the_line(text: str, where: str) -> None:
    assert any(one.startswith(where) for one in problems_of(text))


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_permissions(tmp_path / "none.toml")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"mode = \xff\n")
    (tmp_path / "large").write_text("#" * (1024 * 1024 + 1))
    for name in ("folder", "binary", "large"):
        with pytest.raises(ConfigError, match=name):
            load_permissions(tmp_path / name)
    assert load_permissions(tmp_path / "none.toml", may_be_missing=True).policy().rules == ()


def test_a_changed_file_counts_at_once_and_a_broken_one_is_an_error_until_it_is_mended(tmp_path: Path) -> None:
    path = made(tmp_path, FILE)
    found = load_permissions(path)
    path.write_text('mode = "plan"\n')
    assert found.policy().mode == "plan"
    path.write_text('mode = "planned"\n')
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"permissions\.toml:1: mode must be one of"):
            found.policy()
    path.unlink()
    with pytest.raises(ConfigError, match="does not exist"):
        found.policy()
    path.write_text(FILE)
    assert found.policy().mode == "trusted"


def test_a_standing_answer_is_added_once_and_nothing_else_changes(tmp_path: Path) -> None:
    path = made(tmp_path, FILE.rstrip("\n"))
    path.chmod(0o640)
    found = load_permissions(path)
    rule = PermissionRule(
        decision="allow", tool="write_file", path=["a b/**", 'q"\\é'], instead_of='ask write_file, path "x"'
    )
    found.remember(rule)
    found.remember(rule)
    text = path.read_text()
    assert text.startswith(FILE)
    assert text.count("[[granted]]") == 2
    assert path.stat().st_mode & 0o777 == 0o640
    assert found.policy().granted[-1] == rule


def test_a_missing_file_is_made_with_its_folder(tmp_path: Path) -> None:
    found = load_permissions(tmp_path / ".loopwright" / "permissions.toml", may_be_missing=True)
    rule = PermissionRule(decision="allow", tool="deploy")
    found.remember(rule)
    assert found.policy().granted == (rule,)


def test_what_cannot_be_added_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    rule = PermissionRule(decision="allow", tool="deploy")
    for text in ("granted = []\n", "mode = 'x'\n"):
        path = made(tmp_path, text)
        found = load_permissions(made(tmp_path, "mode='plan'"))
        path.write_text(text)
        with pytest.raises(ConfigError):
            found.remember(rule)
        assert path.read_text() == text
    with pytest.raises(ConfigError):
        load_permissions(made(tmp_path, "")).remember(PermissionRule(decision="allow", path="\ud800"))
    assert path.read_text() == ""


REMEMBERING = """
import sys
from loopwright.context.permission_file import load_permissions
from loopwright.model.permission_spec import PermissionRule
for number in range(8):
    load_permissions(sys.argv[1]).remember(PermissionRule(decision="allow", tool=f"t{sys.argv[2]}_{number}"))
"""


def test_two_processes_and_several_threads_at_once_lose_nothing(tmp_path: Path) -> None:
    path = made(tmp_path, FILE)
    processes = [subprocess.Popen([sys.executable, "-c", REMEMBERING, str(path), name]) for name in ("a", "b")]
    with ThreadPoolExecutor(4) as pool:
        rules = [PermissionRule(decision="allow", tool=f"tc_{number}") for number in range(8)]
        list(pool.map(load_permissions(path).remember, rules))
    assert [process.wait(30) for process in processes] == [0, 0]
    names = {rule.tool[0] for rule in load_permissions(path).policy().granted}
    assert names == {"bash"} | {f"t{who}_{number}" for who in "abc" for number in range(8)}
    assert [name for name in os.listdir(path.parent) if name.endswith(".tmp")] == []


NAMES = st.text(min_size=1, max_size=30)


@pytest.mark.fuzz
@settings(max_examples=examples(60), deadline=None)
@given(NAMES, NAMES, st.text(max_size=40))
def test_whatever_can_be_a_rule_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, one: str, other: str, said: str
) -> None:
    try:
        rule = PermissionRule(decision="allow", tool="t", path=[one, other], reason=said, instead_of=said)
    except ConfigError:
        return
    found = load_permissions(tmp_path_factory.mktemp("rules") / "p.toml", may_be_missing=True)
    try:
        found.remember(rule)
    except ConfigError:
        assert found.policy().granted == ()
    else:
        assert found.policy().granted == (rule,)


@pytest.mark.fuzz
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(FILE.split("\n")) | st.text(max_size=20), max_size=20).map("\n".join))
def test_any_text_is_a_policy_or_a_list_of_problems_with_lines(text: str) -> None:
    problems: tuple[str, ...] = ()
    with contextlib.suppress(ConfigError):
        try:
            policy_of(text, "f.toml")
        except ConfigError as error:
            problems = error.problems
            raise
    assert all(one.startswith("f.toml:") for one in problems)
