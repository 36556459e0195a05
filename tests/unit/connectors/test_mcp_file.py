"""The file mcp.json: what it says, and everything that is wrong with it at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.connectors.json_places import line_of
from loopwright.connectors.mcp_file import McpFile, McpServerSpec, find_mcp_file, parsed_mcp_file, read_mcp_file
from loopwright.model.errors import ConfigError

ENV = {"TOKEN": "t0ken", "EMPTY": ""}


def read(value: Any, env: dict[str, str] | None = None) -> McpFile:
    text = value if isinstance(value, str) else json.dumps(value, indent=1)
    return parsed_mcp_file(text, name="mcp.json", project="/project", env=ENV if env is None else env)


def problems(value: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        read(value)
    return list(raised.value.problems)


def test_both_kinds_of_servers_are_read_with_their_variables() -> None:
    file = read(
        {
            "mcpServers": {
                "files": {
                    "command": "${WHERE:-npx}",
                    "args": ["-y", "${TOKEN}", "${EMPTY:-none}"],
                    "env": {"KEY": "a${TOKEN}b"},
                    "cwd": "sub",
                    "tools": ["read"],
                    "alwaysAllow": ["*"],
                },
                "web": {
                    "type": "http",
                    "url": "https://user:word@example.org/mcp?key=1",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                    "disabled": True,
                    "prefix": "w",
                    "trustAnnotations": True,
                    "callTimeoutSeconds": 5,
                },
            }
        }
    )
    files, web = file.servers
    assert (files.command, files.args) == ("npx", ("-y", "t0ken", "none"))
    assert (files.env, files.cwd, files.tools) == ({"KEY": "at0kenb"}, "/project/sub", ("read",))
    assert (web.headers, web.disabled, web.prefix) == ({"Authorization": "Bearer t0ken"}, True, "w")
    assert (web.trust_annotations, web.call_timeout_s) == (True, 5)
    assert web.where == "https://example.org/mcp"


def test_all_problems_are_said_at_once_each_with_its_line() -> None:
    text = """{
 "servers": {},
 "mcpServers": {
  "a b": {"command": "x"},
  "two": {"command": "x", "url": "http://y"},
  "none": {},
  "typo": {"comand": "x",
    "command": "x"},
  "kinds": {"command": 5, "args": "x",
    "env": {"A": 1}, "disabled": "no", "callTimeoutSeconds": 0},
  "mixed": {"url": "ftp://x", "args": [],
    "type": "stdio"},
  "old": {"url": "http://x", "type": "sse"},
  "unset": {"command": "x", "env": {
     "A": "${NOT_SET}"}},
  "list": []
 }
}"""
    said = problems(text)
    assert [problem.partition(": ")[0] for problem in said] == [
        f"mcp.json:{line}" for line in (2, 4, 5, 6, 7, 9, 9, 10, 10, 10, 12, 11, 11, 13, 15, 16)
    ]
    assert "did you mean 'mcpServers'" in said[0] or "known are mcpServers" in said[0]
    assert "did you mean 'command'" in said[4]
    assert "NOT_SET is not set" in said[14]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mcpServers": 5}', "nul", "[" * 5_000, '{"mcpServers": {"a": NaN}}'])
def test_a_file_that_is_none_is_one_clear_error(text: str) -> None:
    assert problems(text)[0].startswith("mcp.json:")


def test_secrets_of_a_url_are_not_shown_in_problems() -> None:
    assert "word" not in " ".join(problems({"mcpServers": {"a": {"url": "ftp://me:word@host/"}}}))


def test_the_first_of_the_known_places_is_the_only_one_that_is_read(tmp_path: Path) -> None:
    assert find_mcp_file(tmp_path) is None
    for place in (".mcp.json", "mcp.json", ".loopwright/mcp.json"):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"mcpServers": {"a": {"command": "x", "cwd": "."}}}')
        assert find_mcp_file(tmp_path) == path
    assert read_mcp_file(path, env={}).servers[0].cwd == str(tmp_path)


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_mcp_file(tmp_path, env={})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def places(value: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [here]
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        found += places(member, (*here, key))
    return found


@pytest.mark.fuzz
@settings(max_examples=examples(30))
@given(value=JSON, indent=st.sampled_from([None, 0, 2]), data=st.data())
def test_every_place_of_any_json_has_the_line_in_which_it_begins(value: Any, indent: int | None, data: Any) -> None:
    text = json.dumps(value, indent=indent)
    place = data.draw(st.sampled_from(places(value)))
    line = line_of(text, place)
    wanted = value
    for step in place:
        wanted = wanted[step]
    rest = "\n".join(text.split("\n")[line - 1 :])
    first = json.dumps(wanted, indent=indent).split("\n")[0]
    assert first in rest.split("\n")[0]


SERVERS = st.dictionaries(
    st.text(max_size=6),
    st.dictionaries(
        st.sampled_from(
            ["command", "url", "args", "env", "cwd", "type", "tools", "disabled", "x", "callTimeoutSeconds"]
        ),
        JSON | st.just("${A:-b}") | st.just("${NOPE}"),
        max_size=5,
    )
    | JSON,
    max_size=3,
)


@pytest.mark.fuzz
@settings(max_examples=examples(30))
@given(value=st.builds(lambda servers: {"mcpServers": servers}, SERVERS) | JSON)
def test_whatever_a_file_says_it_is_read_or_refused_with_lines(value: Any) -> None:
    said: tuple[str, ...] = ()
    servers: tuple[McpServerSpec, ...] = ()
    try:
        servers = read(value).servers
    except ConfigError as error:
        said = error.problems
    assert all(problem.startswith("mcp.json:") for problem in said)
    assert all((one.command is None) != (one.url is None) for one in servers)
