"""What a command line would run is told from its text, and bash has the last word on it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.core.command_line import read_command_line, readings


def words_of(text: str) -> list[list[str]]:
    return [list(command.words) for command in read_command_line(text).commands]


def runs(text: str) -> set[str]:
    """The first words of all readings of all commands."""
    return {words[0] for command in read_command_line(text).commands for words in readings(command)[0]}


@pytest.mark.parametrize(
    "text, words",
    [
        ("git status", [["git", "status"]]),
        ("  git   'a b'  \"c d\" e\\ f ''", [["git", "a b", "c d", "e f", ""]]),
        ("a;b&c&&d||e|f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("g\\\nit status", [["git", "status"]]),
        ("grep '$(rm)' \"a\\$b\" 'x;y'", [["grep", "$(rm)", "a$b", "x;y"]]),
        ("ls 2>&1 >/dev/null", [["ls"]]),
        ("echo a#b 'c' ~/x", [["echo", "a#b", "c", "~/x"]]),
    ],
)
def test_a_plain_line_is_read_as_the_shell_reads_it_without_a_doubt(text: str, words: list[list[str]]) -> None:
    line = read_command_line(text)
    assert (words_of(text), line.doubt) == (words, "")
    assert all(command.plain for command in line.commands)


@pytest.mark.parametrize(
    "text",
    [
        "git status $(rm -rf /)", "git status `rm -rf /`", 'git log "$(rm)"', "git <(rm)", "(rm)", "git $'a'", "r{m,}",
        "git 'status", 'git "status', "git \\", "git # '\nrm '", "/bin/r? x", "git <<EOF\nrm\nEOF", "! rm", "if rm; then x; fi",
        "time rm", "{ rm; }", "git \x00", "git\x0brm", "git\u2003rm", "git >", "x=1", "> file", "git ${x:-$(rm)}", "f() { rm; }",
        "$X", "git 'a\x00b'", "a" * 20_001, ";".join("a" * 60), "'if' x; if x", "echo $[1]", 'echo "${x:=1}"',
    ],
)  # fmt: skip
def test_what_is_not_plain_is_a_doubt(text: str) -> None:
    assert read_command_line(text).doubt


@pytest.mark.parametrize(
    "text", ["git log > x", "git log >> x", "A=1 git log", "git < x", "git $HOME", "git &> x", "git >&x"]
)
def test_a_command_with_variables_or_files_is_told_and_not_plain(text: str) -> None:
    line = read_command_line(text)
    assert [command.words[0] for command in line.commands] == ["git"]
    assert not line.commands[0].plain


@pytest.mark.parametrize(
    "text",
    [
        "rm x", "/bin/rm x", "\\rm x", "'rm' x", "A=1 rm x", "ls; rm x", "ls|rm", "ls &rm", "sudo -u bob rm x", "env A=1 rm",
        "timeout 5 nice rm", "bash -c 'ls; rm x'", "sh -c rm", "xargs rm", "find . -exec rm {} ;", "eval rm x", "eval 'rm x'",
        "sudo bash -c 'env rm'", "echo $(rm x)", "echo `rm x`", "(rm x)", "nohup setsid /usr/bin/rm", "r\\\nm x", "r''m x",
        "git status\nrm x", "trap 'rm x' EXIT", "ls 2>&1|rm", "ls >/dev/null;rm", "sudo " * 30 + "rm", "bash -c \"bash -c 'rm x'\"",
    ],
)  # fmt: skip
def test_a_program_is_found_behind_others_and_in_quotations(text: str) -> None:
    assert "rm" in runs(text)


def test_words_that_cannot_be_followed_to_their_end_are_said_to_be_incomplete() -> None:
    for text in ("sudo " * 300 + "rm", "bash -c 'x $(rm)'", "bash -c 'git pu$X'"):
        assert not all(readings(command)[1] for command in read_command_line(text).commands)


PIECES = st.sampled_from(
    [
        "git",
        "evil",
        "status",
        " ",
        " ",
        " ",
        ";",
        "&",
        "|",
        "&&",
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
        "!",
        "$X",
        "$",
        "*",
        "=",
        "A=1",
        "2>&1",
        "/dev/null",
        "-c",
        "if",
        "then",
        "fi",
        "\t",
        "<<",
        "evil ",
        "sh",
        "--",
    ]
)
RECORDING = """
command_not_found_handle() { printf "%s\\0" "$1" >> ran; }
git() { printf "git\\0" >> ran; }
evil() { printf "evil\\0" >> ran; }
"""


@pytest.mark.fuzz
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=14).map("".join))
def test_bash_runs_nothing_but_the_programs_that_were_told(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """For lines without a doubt; the real shell is asked, in a folder of its own and without any program."""
    line = read_command_line(text)
    bash = shutil.which("bash")
    if line.doubt or bash is None:
        return
    folder = Path(tmp_path_factory.mktemp("shell"))
    (folder / "rc").write_text(RECORDING)
    subprocess.run(
        [bash, "--norc", "-c", f". ./rc\n{text}\nwait"],
        cwd=folder,
        env={"PATH": "/nowhere", "X": "evil", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )
    ran = (folder / "ran").read_text().split("\0")[:-1] if (folder / "ran").exists() else []
    told = {command.words[0] for command in line.commands}
    assert set(ran) <= told
    made = set(os.listdir(folder)) - {"rc", "ran"}
    assert not made or any(not command.plain for command in line.commands)


@pytest.mark.fuzz
@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=300) | st.lists(PIECES, max_size=60).map("".join))
def test_any_text_is_read_to_its_end(text: str) -> None:
    line = read_command_line(text)
    assert all(command.words for command in line.commands)
    assert all(readings(command)[0] for command in line.commands)
