"""The file `mcp.json` of a project: which servers there are, and how each is reached.

Owns: where the file is looked for, its fields, `${VARIABLE}`, all that is wrong with it at once with file and line.
Must not know: connections, the SDK.
Read next: `mcp_connection.py`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from msgspec import Struct, field

from ..model.errors import ConfigError
from .json_places import line_of

PLACES: Final = (".loopwright/mcp.json", "mcp.json", ".mcp.json")
"""Where the file is looked for in a project, in this order; the first that is there is the only one that is read."""

MAX_BYTES: Final = 1024 * 1024
MAX_SERVERS: Final = 64

SERVER_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_FOREIGN: Final = frozenset({"alwaysAllow", "autoApprove", "description", "icon", "title"})
"""Fields that other programs write into the same file; what they ask for is not ours to grant."""


class McpServerSpec(Struct, frozen=True, kw_only=True):
    """One server: exactly one of `command` and `url`."""

    name: str
    """What it is called in messages, and in the names of its tools unless `prefix` says otherwise."""
    command: str | None = None
    """The program to start; found through PATH, never through a shell."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=lambda: {})
    """Added to a short list of harmless variables; nothing else of this process's environment is passed on."""
    cwd: str | None = None
    """None: the folder of this process."""
    url: str | None = None
    """Where a server answers streamable HTTP."""
    headers: dict[str, str] = field(default_factory=lambda: {})
    disabled: bool = False
    prefix: str | None = None
    """Before the names of its tools; None: `name`."""
    tools: tuple[str, ...] | None = None
    """Which of its tools are offered, by the server's names; None: all."""
    trust_annotations: bool = False
    """Believe what the server says about the effects of its tools."""
    start_timeout_s: float = 60.0
    """Until it has answered the handshake. A first start may have to load a package."""
    list_timeout_s: float = 30.0
    """For a list of tools, resources or prompts."""
    call_timeout_s: float = 120.0
    """For one call of a tool."""

    @property
    def where(self) -> str:
        """The program or the address, without anything that may be secret."""
        if self.command is not None:
            return self.command
        parts = urlsplit(self.url or "")
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class McpFile(Struct, frozen=True):
    """What a file says."""

    path: str
    servers: tuple[McpServerSpec, ...]
    """In the order of the file, those that are disabled included."""


def find_mcp_file(project: str | Path) -> Path | None:
    """The file of a project: the first of `PLACES` that is there; None without one."""
    for place in PLACES:
        path = Path(project) / place
        if path.is_file():
            return path
    return None


def read_mcp_file(path: str | Path, *, env: Mapping[str, str]) -> McpFile:
    """The servers of a file, `${NAME}` and `${NAME:-default}` replaced from `env`.

    Relative folders are taken from the project, which is the file's folder (or the one above, for `.loopwright/mcp.json`).
    Raises: `ConfigError` with every problem, each with file and line.
    """
    place = Path(path)
    try:
        data = place.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{place}: cannot be read: {error.strerror or error}; name another file with --mcp"
        ) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{place}: is larger than {MAX_BYTES} bytes")
    folder = place.absolute().parent
    project = folder.parent if folder.name == ".loopwright" else folder
    text = data.decode("utf-8-sig", "replace")
    return parsed_mcp_file(text, name=str(place), project=str(project), env=env)


def parsed_mcp_file(text: str, *, name: str, project: str, env: Mapping[str, str]) -> McpFile:
    """The same from the text of a file. Raises: `ConfigError`."""
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}:{error.lineno}: is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: is not JSON: {error}") from error
    reader = _McpFileReading(text, name, project, env)
    servers = reader.servers(value)
    if reader.problems:
        raise ConfigError(reader.problems)
    return McpFile(name, tuple(servers))


_TEXT: Final = "a text"
_FIELDS: Final[dict[str, str]] = {
    "args": "a list of texts",
    "callTimeoutSeconds": "a number of seconds above 0",
    "command": _TEXT,
    "cwd": _TEXT,
    "disabled": "true or false",
    "env": "an object of texts",
    "headers": "an object of texts",
    "listTimeoutSeconds": "a number of seconds above 0",
    "prefix": _TEXT,
    "startTimeoutSeconds": "a number of seconds above 0",
    "tools": "a list of texts",
    "trustAnnotations": "true or false",
    "type": '"stdio" or "http"',
    "url": _TEXT,
}
_KINDS: Final[dict[str, Literal["stdio", "http"]]] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
}
_OURS: Final = {
    "callTimeoutSeconds": "call_timeout_s",
    "listTimeoutSeconds": "list_timeout_s",
    "startTimeoutSeconds": "start_timeout_s",
    "trustAnnotations": "trust_annotations",
}
MAX_TIMEOUT_S: Final = 86_400.0


class _McpFileReading:
    """One file being read; problems are gathered, not raised."""

    def __init__(self, text: str, name: str, project: str, env: Mapping[str, str]) -> None:
        self._text = text
        self._name = name
        self._project = project
        self._env = env
        self.problems: list[str] = []

    def servers(self, value: Any) -> list[McpServerSpec]:
        """Those of the whole file that can be used; what is wrong with the others is in `problems`."""
        if not isinstance(value, dict):
            self._say((), 'must be an object with "mcpServers"')
            return []
        whole = cast("dict[str, Any]", value)
        for key in whole:
            if key not in ("mcpServers", "$schema"):
                self._say((key,), f"unknown field {key!r}{_meant(key, ('mcpServers',))}")
        listed = whole.get("mcpServers")
        if not isinstance(listed, dict):
            self._say(("mcpServers",), 'needs "mcpServers", an object from names to servers')
            return []
        named = cast("dict[str, Any]", listed)
        if len(named) > MAX_SERVERS:
            self._say(("mcpServers",), f"has {len(named)} servers; at most {MAX_SERVERS} are allowed")
            return []
        found = [self._server(name, entry) for name, entry in named.items()]
        return [server for server in found if server is not None]

    def _server(self, name: str, value: Any) -> McpServerSpec | None:
        place = ("mcpServers", name)
        before = len(self.problems)
        if not SERVER_NAME.fullmatch(name):
            self._say(place, f"the name {name!r} must be 1 to 64 characters of A-Z, a-z, 0-9, _, . and -")
        if not isinstance(value, dict):
            self._say(place, f"server {name!r} must be an object")
            return None
        entry = cast("dict[str, Any]", value)
        given: dict[str, Any] = {}
        for key, member in entry.items():
            if key in _FOREIGN:
                continue
            if key not in _FIELDS:
                self._say((*place, key), f"server {name!r}: unknown field {key!r}{_meant(key, tuple(_FIELDS))}")
            elif not _fits(key, member):
                self._say((*place, key), f"server {name!r}: {key} must be {_FIELDS[key]}")
            elif key != "type":
                given[_OURS.get(key, key)] = self._expanded((*place, key), name, member)
        self._one_way(place, name, entry)
        if len(self.problems) > before:
            return None
        if given.get("command") is not None:
            given["cwd"] = str(Path(self._project) / given.get("cwd", "."))
        for key in ("args", "tools"):
            if key in given:
                given[key] = tuple(given[key])
        return McpServerSpec(name=name, **given)

    def _one_way(self, place: tuple[str, ...], name: str, entry: Mapping[str, Any]) -> None:
        """There is exactly one way to the server, and nothing belongs to the other one."""
        if ("command" in entry) == ("url" in entry):
            self._say(place, f'server {name!r}: needs exactly one of "command" (a program) and "url" (streamable HTTP)')
            return
        kind = "stdio" if "command" in entry else "http"
        said = entry.get("type")
        if said == "sse":
            self._say(
                (*place, "type"), f"server {name!r}: the transport sse is not spoken; use the server's http address"
            )
        elif isinstance(said, str) and _KINDS.get(said, kind) != kind:
            self._say(
                (*place, "type"),
                f"server {name!r}: type {said!r} does not go with {'url' if kind == 'http' else 'command'}",
            )
        for key in ("args", "env", "cwd") if kind == "http" else ("headers",):
            if key in entry:
                self._say(
                    (*place, key), f"server {name!r}: {key} does not go with {'url' if kind == 'http' else 'command'}"
                )
        url = entry.get("url")
        if isinstance(url, str) and not _VARIABLE.search(url) and urlsplit(url).scheme not in ("http", "https"):
            self._say((*place, "url"), f"server {name!r}: url must begin with http:// or https://")

    def _expanded(self, place: tuple[str, ...], name: str, value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(lambda found: self._variable(place, name, found), value)
        if isinstance(value, list):
            return [self._expanded(place, name, one) for one in cast("list[object]", value)]
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {key: self._expanded((*place, key), name, one) for key, one in members.items()}
        return value

    def _variable(self, place: tuple[str, ...], name: str, found: re.Match[str]) -> str:
        variable, default = found.group(1), found.group(2)
        value = self._env.get(variable)
        if value:
            return value
        if default is not None:
            return default
        if value is None:
            self._say(place, f"server {name!r}: {variable} is not set; set it, or write ${{{variable}:-default}}")
        return ""

    def _say(self, place: tuple[str, ...], problem: str) -> None:
        self.problems.append(f"{self._name}:{line_of(self._text, place)}: {problem}")


def _fits(key: str, value: Any) -> bool:
    wanted = _FIELDS[key]
    if wanted == _TEXT:
        return isinstance(value, str) and bool(value.strip()) and "\0" not in value
    if wanted == "a list of texts":
        return isinstance(value, list) and all(_is_text(one) for one in cast("list[object]", value))
    if wanted == "an object of texts":
        return isinstance(value, dict) and all(_is_text(one) for one in cast("dict[str, object]", value).values())
    if wanted == "true or false":
        return isinstance(value, bool)
    if key == "type":
        return isinstance(value, str) and (value in _KINDS or value == "sse")
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TIMEOUT_S


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _meant(key: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
