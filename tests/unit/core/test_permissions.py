"""What a policy says: precedence, modes, standing answers, and that nothing slips past a pattern."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.core.command_line import read_command_line
from loopwright.core.name_patterns import Places
from loopwright.core.permissions import Ruling, call_of, judge
from loopwright.model.control_records import PermissionMode
from loopwright.model.errors import ConfigError
from loopwright.model.permission_spec import PermissionPolicy, PermissionRule, as_rule, as_stored, narrowest
from loopwright.ports.tool import ToolDefinition

HERE = Places(workspace=("/work/project",), home="/home/me")

BASH = ToolDefinition(name="bash", description="", parameters={}, subjects={"command": "command"})
WRITE = ToolDefinition(
    name="write_file", description="", parameters={}, effect="idempotent", subjects={"path": "path", "paths": "path"}
)
READ = ToolDefinition(name="read_file", description="", parameters={}, effect="pure", subjects={"path": "path"})
FETCH = ToolDefinition(name="web_fetch", description="", parameters={}, effect="once", subjects={"url": "url"})
NOTE = ToolDefinition(name="note", description="", parameters={}, effect="once", touches="session")
DEPLOY = ToolDefinition(name="deploy", description="", parameters={})


def allow(tool: str = "*", **more: Any) -> PermissionRule:
    return PermissionRule(decision="allow", tool=tool, **more)


def ask(tool: str = "*", **more: Any) -> PermissionRule:
    return PermissionRule(decision="ask", tool=tool, **more)


def deny(tool: str = "*", **more: Any) -> PermissionRule:
    return PermissionRule(decision="deny", tool=tool, **more)


def verdict(
    rules: list[PermissionRule],
    tool: ToolDefinition,
    *,
    mode: PermissionMode = "default",
    grants: tuple[PermissionRule, ...] = (),
    places: Places = HERE,
    policy: dict[str, Any] | None = None,
    **arguments: Any,
) -> Ruling:
    return judge(PermissionPolicy(rules=tuple(rules), **(policy or {})), mode, grants, call_of(tool, arguments, places))


def decision(rules: list[PermissionRule], tool: ToolDefinition, **more: Any) -> str:
    return verdict(rules, tool, **more).decision


# --- precedence and modes ---------------------------------------------------------------------------------------------


def test_a_deny_wins_wherever_it_stands_and_of_ask_and_allow_the_first() -> None:
    assert decision([allow(), deny("deploy")], DEPLOY) == "deny"
    assert decision([deny("deploy"), allow()], DEPLOY) == "deny"
    assert decision([ask("deploy"), allow()], DEPLOY) == "ask"
    assert decision([allow(), ask("deploy")], DEPLOY) == "allow"


def test_without_a_rule_what_changes_nothing_runs_and_the_rest_is_asked_about() -> None:
    assert decision([], READ, path="x") == decision([], NOTE) == "allow"
    assert decision([], DEPLOY) == "ask"
    assert decision([], DEPLOY, policy={"otherwise": "allow"}) == "allow"
    assert decision([], DEPLOY, policy={"otherwise": "deny"}) == "deny"


def test_plan_denies_what_changes_the_world_whatever_allows_it() -> None:
    rules = [allow()]
    assert decision(rules, DEPLOY, mode="plan", grants=(allow("deploy"),)) == "deny"
    assert decision(rules, READ, mode="plan", path="x") == decision(rules, NOTE, mode="plan") == "allow"
    assert decision([deny("read_file")], READ, mode="plan", path="x") == "deny"


def test_trusted_asks_nothing_and_keeps_denials() -> None:
    assert decision([ask("deploy")], DEPLOY, mode="trusted") == "allow"
    assert decision([], DEPLOY, mode="trusted") == "allow"
    assert decision([deny("deploy")], DEPLOY, mode="trusted") == "deny"
    assert decision([deny("bash", command="rm *")], BASH, mode="trusted", command="echo $(x)") == "ask"


def test_effects_and_names_of_tools_limit_a_rule() -> None:
    assert decision([deny(effect="once")], DEPLOY) == "deny"
    assert decision([deny(effect=("pure", "idempotent"))], DEPLOY) == "ask"
    assert decision([deny("dep*")], DEPLOY) == decision([deny("d?ploy")], DEPLOY) == "deny"
    assert decision([PermissionRule(decision="deny", tool=("other", "deploy"))], DEPLOY) == "deny"


def test_modes_only_narrow() -> None:
    assert narrowest("trusted", "plan", None) == "plan"
    assert narrowest("default", None, "trusted") == "default"


def test_a_denial_says_why_which_rule_and_what_would_be_allowed() -> None:
    rules = [
        allow("bash", command=["git status *", "git diff *"]),
        deny("bash", command="git push *", reason="no pushing"),
    ]
    found = verdict(rules, BASH, command="git push")
    assert (found.why, found.rule) == ("no pushing", "deny bash, command git push *")
    assert found.would_be_allowed == ("command git status *", "command git diff *")


# --- commands ---------------------------------------------------------------------------------------------------------

GIT = [allow("bash", command=["git status*", "git diff *"])]


@pytest.mark.parametrize(
    "command", ["git status", "git status -s", "git status && git diff a", "git status;git diff", "git status 2>&1"]
)
def test_each_simple_command_has_to_be_allowed_by_a_rule(command: str) -> None:
    assert decision(GIT, BASH, command=command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /", "git status && rm x", "git status || rm x", "git status | sh", "git status & rm x",
        "git status\nrm x", "git status $(rm x)", "git status `rm x`", 'git status "$(rm x)"', "git status > ~/.bashrc",
        "GIT_PAGER=rm git status", "git status <(rm x)", "git 'status", "", " ", "git", "gitstatus", "git  push",
        "./git status", "/tmp/git status", "git status # '\nrm x'", "git status $HOME", "git status \\\n; rm x", "rm x;",
        "git status |& rm", "! git status", "(git status)", "{ git status; }", "git status <<x\nx", "git\u00a0status",
        "'git status'", '"git status" x',
    ],
)  # fmt: skip
def test_no_compound_or_disguised_command_is_allowed(command: str) -> None:
    assert decision(GIT, BASH, command=command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "ls; rm x",
        "ls | xargs rm",
        "sudo rm x",
        "/bin/rm x",
        "bash -c 'rm x'",
        "A=1 rm x",
        "echo $(rm x)",
        "rm x > y",
    ],
)
def test_a_deny_sees_a_command_in_any_place(command: str) -> None:
    assert decision([allow("bash"), deny("bash", command="rm *")], BASH, command=command) == "deny"
    assert decision([ask("bash", command="rm *"), allow("bash")], BASH, command=command) == "ask"


@pytest.mark.parametrize(
    "command", ["echo $(x)", "$X -rf /", "/bin/r? x", "r{m,} x", "bash -c '$X'", "rm", "git 'x", "eval $X"]
)
def test_what_may_be_what_is_denied_is_never_just_allowed(command: str) -> None:
    assert decision([allow("bash"), deny("bash", command="rm *")], BASH, command=command) != "allow"


def test_what_is_surely_not_denied_is_allowed_with_variables_and_file_patterns_too() -> None:
    for command in ("echo $HOME", "ls *.py", 'cp "$A" b', "make > log"):
        assert decision([allow("bash"), deny("bash", command="rm *")], BASH, command=command) == "allow"


def test_a_command_that_is_no_text_is_asked_about() -> None:
    assert decision(GIT, BASH, command=["git status", 3]) == "ask"
    assert decision([allow("bash"), deny("bash", command="rm *")], BASH, command={"a": "rm x"}) == "ask"


def test_words_of_patterns_are_compared_word_by_word() -> None:
    rule = [allow("bash", command="npm run test:* --fast")]
    assert decision(rule, BASH, command="npm run test:unit --fast") == "allow"
    assert decision(rule, BASH, command="npm run test:unit x --fast") == "ask"
    assert decision([allow("bash", command="git * --dry-run")], BASH, command="git push a b --dry-run") == "allow"
    assert decision([allow("bash", command="ls")], BASH, command="ls -l") == "ask"


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["src/a.py", "./src//a.py", "docs/../src/x/a.py", "/work/project/src/a", "@workspace/src/a", "../project/src/a"],
)
def test_a_path_is_allowed_however_it_is_written(path: str) -> None:
    assert decision([allow("write_file", path="src/**")], WRITE, path=path) == "allow"


@pytest.mark.parametrize(
    "path",
    ["src/../a", "srcs/a", "../src/a", "/src/a", "~/src/a", "src/../../src/a", "", "src/a\x00", "SRC/a", "@home/src/a"],
)
def test_a_path_elsewhere_is_not_allowed(path: str) -> None:
    assert decision([allow("write_file", path="src/**")], WRITE, path=path) == "ask"


@pytest.mark.parametrize(
    "path",
    [".env", "a/../.env", "./.env", "x/y/.env", "@workspace/.env", "/work/project/.env", ".ENV", ".env/", "/etc/.env", "~/.env", "../.env", ".env/x"],
)  # fmt: skip
def test_a_denied_path_is_denied_however_it_is_written(path: str) -> None:
    assert decision([allow(), deny(path=".env")], READ, path=path) == "deny"


def test_patterns_of_paths() -> None:
    def denied(pattern: str, path: str, places: Places = HERE) -> bool:
        return decision([deny(path=pattern)], READ, path=path, places=places) == "deny"

    assert denied("./.env", ".env")
    assert not denied("./.env", "x/.env")
    assert denied("secrets/", "secrets/a/b")
    assert denied("secrets", "a/secrets/b")
    assert denied("**", "a")
    assert denied("/etc/**", "/etc/passwd")
    assert not denied("/etc/**", "etc/passwd")
    assert denied("/work/**", "a")
    assert denied("/", "/etc")
    assert denied(".", "a")
    assert denied("~/.ssh", "~/.ssh/id")
    assert denied("~/.ssh", "/home/me/.ssh/id")
    assert denied("src/*.py", "src/a.py")
    assert not denied("src/*.py", "src/x/a.py")
    assert denied("a/**/z", "a/z")
    assert denied("a/**/z", "a/b/c/z")
    assert denied("**/secrets/**", "/".join(["a"] * 100) + "/secrets/x")


def test_several_paths_are_each_judged_and_one_denial_is_enough() -> None:
    rules = [allow("write_file", path=["src/**", "docs/**"]), deny(path="secrets/**")]
    assert decision(rules, WRITE, paths=["src/a", "docs/b"]) == "allow"
    assert decision(rules, WRITE, path="src/a", paths=["x"]) == "ask"
    assert decision(rules, WRITE, path="src/a", paths=["secrets/x"]) == "deny"


def test_without_a_known_workspace_nothing_relative_is_taken_for_outside() -> None:
    nowhere = Places()
    assert decision([allow("write_file", path="src/**")], WRITE, path="src/a", places=nowhere) == "allow"
    assert decision([allow("write_file", path="**")], WRITE, path="../a", places=nowhere) == "ask"
    assert decision([allow("write_file", path="**")], WRITE, path="/etc/x", places=nowhere) == "ask"
    assert decision([allow(), deny(path="secrets/**")], WRITE, path="/w/secrets/a", places=nowhere) == "ask"
    assert decision([allow(), deny(path="/w/**")], WRITE, path="a", places=nowhere) == "ask"


def test_links_are_judged_by_where_they_lead_too() -> None:
    call = call_of(WRITE, {"path": "docs/x"}, HERE, {"docs/x": "secrets/x"})
    assert judge(PermissionPolicy(rules=(allow(), deny(path="secrets/**"))), "default", (), call).decision == "deny"
    assert judge(PermissionPolicy(rules=(allow(path="docs/**"),)), "default", (), call).decision == "ask"


# --- hosts ------------------------------------------------------------------------------------------------------------

GOOD = [allow("web_fetch", host=["good.example", "*.docs.example", "api.example:8443", "[::1]:80"])]


@pytest.mark.parametrize(
    "url",
    ["https://good.example/x", "HTTPS://GOOD.EXAMPLE./", "http://a.b.docs.example", "https://api.example:8443/", "http://[0:0::1]/", "https://good.example:443"],
)  # fmt: skip
def test_a_host_is_allowed_however_it_is_written(url: str) -> None:
    assert decision(GOOD, FETCH, url=url) == "allow"


@pytest.mark.parametrize(
    "url",
    [
        "http://good.example@evil.example/", "http://evil.example/good.example", "http://good.example.evil.example", "//good.example",
        "http://docs.example/", "http://evildocs.example", "https://api.example/", "https://good.example:8443/", "ftp://good.example/",
        "http://good.example\\@evil.example/", "http://user@good.example/", "http://good.example%2eevil", "http://good.example\n.evil",
        "http:/good.example", "javascript:good.example", "http://ｇood.example/", "http://[good.example]/", "good.example", "", "http://",
        "http://good.example:80:80/", "http://a@b@good.example", "http://good..example",
    ],
)  # fmt: skip
def test_no_other_host_is_allowed(url: str) -> None:
    assert decision(GOOD, FETCH, url=url) == "ask"


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example:99",
        "http://EVIL.example./",
        "http://x@evil.example",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://010.0.0.1",
    ],
)
def test_a_denied_host_is_never_allowed(url: str) -> None:
    assert decision([allow(), deny(host=["evil.example", "127.0.0.1"])], FETCH, url=url) != "allow"
    assert decision([allow(), deny(host="127.0.0.1")], FETCH, url="http://[::ffff:127.0.0.1]/") == "deny"


# --- standing answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool, arguments, patterns",
    [
        (BASH, {"command": "git push origin"}, {"command": ["git push *"]}),
        (BASH, {"command": "git push; rm -rf x"}, {"command": ["git push *", "rm -rf x"]}),
        (BASH, {"command": "npm run evil"}, {"command": ["npm run evil"]}),
        (WRITE, {"path": "src/a/b.py"}, {"path": ["src/a/**"]}),
        (WRITE, {"path": "b.py"}, {"path": ["./b.py"]}),
        (WRITE, {"path": "../b.py"}, {"path": ["/work/b.py"]}),
        (FETCH, {"url": "https://a.example:9/"}, {"host": ["a.example:9"]}),
        (DEPLOY, {}, {}),
    ],
)
def test_a_question_suggests_the_answer_that_would_stand_and_it_is_enough(
    tool: ToolDefinition, arguments: dict[str, Any], patterns: dict[str, Any]
) -> None:
    asked = verdict([], tool, **arguments)
    assert asked.decision == "ask"
    assert asked.suggested == allow(tool.name, **patterns)
    stored = as_rule(as_stored(asked.suggested))
    assert decision([], tool, grants=(stored,), **arguments) == "allow"


@pytest.mark.parametrize(
    "tool, arguments",
    [
        (BASH, {"command": "git push $(x)"}), (BASH, {"command": "rm *"}), (BASH, {"command": "A=1 git push"}), (BASH, {"command": "echo 'a b'"}),
        (BASH, {"command": "echo 'a;b'"}), (WRITE, {"path": "a*/b"}), (FETCH, {"url": "http://a@b"}),
    ],
)  # fmt: skip
def test_where_no_pattern_says_it_safely_nothing_is_suggested(tool: ToolDefinition, arguments: dict[str, Any]) -> None:
    asked = verdict([], tool, **arguments)
    assert (asked.decision, asked.suggested) == ("ask", None)


def test_a_standing_answer_answers_the_rule_that_asked_and_no_other() -> None:
    push, force = ask("bash", command="git push *"), ask("bash", command="git push --force *")
    asked = verdict([push], BASH, command="git push")
    assert asked.suggested is not None
    grants = (asked.suggested,)
    assert decision([push], BASH, grants=grants, command="git push origin") == "allow"
    assert decision([force, push], BASH, grants=grants, command="git push --force") == "ask"
    assert (
        decision([push, deny("bash", command="git push --force *")], BASH, grants=grants, command="git push --force")
        == "deny"
    )
    assert decision([push], BASH, policy={"granted": grants}, command="git push x") == "allow"
    assert decision([], BASH, grants=grants, command="git push x") == "ask"


def test_a_standing_answer_is_about_what_was_asked_alone_and_about_one_rule() -> None:
    push = ask("bash", command="git push *")
    asked = verdict([*GIT, push], BASH, command="git status; git push")
    assert asked.suggested == allow("bash", command="git push *", instead_of=str(push))
    assert verdict([push], BASH, command="git push; deploy").suggested is None


# --- values that cannot be --------------------------------------------------------------------------------------------


def test_a_rule_that_cannot_be_lists_everything_that_is_wrong() -> None:
    with pytest.raises(ConfigError) as error:
        PermissionRule(decision="maybe", tool="a/b", command="a; b", host="http://x", effect="never", path=["", 3])  # type: ignore[arg-type, list-item]
    assert len(error.value.problems) == 7
    for wrong in (
        {"host": "a:99999"},
        {"host": "bücher.example"},
        {"command": "echo $X"},
        {"tool": ()},
        {"path": "a\nb"},
        {"instead_of": "x"},
    ):
        with pytest.raises(ConfigError):
            PermissionRule(decision="deny", **wrong)  # type: ignore[arg-type]


def test_a_policy_that_cannot_be_lists_everything_that_is_wrong() -> None:
    with pytest.raises(ConfigError) as error:
        PermissionPolicy(mode="open", otherwise="no", rules=[{"tool": "x"}], workspace="here", granted=[ask("x")])  # type: ignore[arg-type, list-item]
    assert len(error.value.problems) == 5


# --- properties -------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "git",
        "status",
        "rm",
        " ",
        " ",
        ";",
        "&",
        "|",
        "\n",
        "'",
        '"',
        "\\",
        "$(",
        ")",
        "(",
        "`",
        ">",
        "<",
        "{",
        "}",
        "#",
        "$X",
        "*",
        "=",
        "A=1",
        "-c",
    ]
)
COMMANDS = st.lists(PIECES, max_size=20).map("".join) | st.text(max_size=60)
PATHS = st.lists(
    st.sampled_from(["..", ".", "", "src", "secrets", "a", "*", "~", "@workspace", "@home", "\x00", "É"]), max_size=8
).map("/".join)


@pytest.mark.fuzz
@settings(max_examples=examples(150), deadline=None)
@given(COMMANDS, COMMANDS)
def test_nothing_joined_to_an_allowed_command_is_allowed_with_it(before: str, behind: str) -> None:
    """What bash runs for a line without a doubt, `test_command_line.py` asks bash."""
    for text in (f"git status{before}", f"{before}git diff {behind}", before):
        if decision(GIT, BASH, command=text) == "allow":
            line = read_command_line(text)
            assert not line.doubt
            assert line.commands
            for command in line.commands:
                assert command.plain
                assert command.words[0] == "git"
                assert command.words[1] == "diff" or command.words[1].startswith("status")


@pytest.mark.fuzz
@settings(max_examples=examples(150), deadline=None)
@given(PATHS, PATHS)
def test_no_way_of_writing_a_path_gets_around_a_denial(before: str, behind: str) -> None:
    for path in (f"{before}/../secrets/{behind}", f"{before}/secrets", f"./{before}/SECRETS/x"):
        found = call_of(READ, {"path": path}, HERE)
        said = judge(PermissionPolicy(rules=(allow(), deny(path="secrets"))), "trusted", (), found).decision
        named = {part.casefold() for thing in found.things for part in thing.path.split("/")}
        assert said == ("deny" if "secrets" in named else "ask" if found.doubts else "allow")


@pytest.mark.fuzz
@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=80), st.text(max_size=40))
def test_any_arguments_get_a_verdict(text: str, pattern: str) -> None:
    rules = [allow()]
    for kind in ("path", "command", "host"):
        try:
            rules.append(deny(**{kind: pattern}))
        except ConfigError:
            continue
    for tool, name in ((BASH, "command"), (READ, "path"), (FETCH, "url")):
        for value in (text, [text, pattern], f"http://{text}/"):
            assert decision(rules, tool, **{name: value}) in ("allow", "ask", "deny")
