"""The tool that searches file contents.

Owns: `grep`, by ripgrep where installed, else by `grep_worker.py`, with the same files and the same form of result.
Must not know: how processes are run (`process.py`).
Read next: `grep_worker.py`.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import DecodeError, Meta, Struct, convert, json

from ..model.call_errors import ToolFailure
from ..ports.shell import ShellLaunch
from ..ports.tool import ToolContext, ToolDefinition
from .descriptions import description_of
from .process import Ended, run_process
from .tree import EXCLUDED, GlobPattern, is_searched
from .workspace import Workspace

TIMEOUT_S = 60.0
MAX_LINE_CHARS = 300
MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are not searched."""
_MAX_RECORD_BYTES = 1024 * 1024
_HEAD_BYTES = 64 * 1024
# Quotes inside of JSON strings are escaped, so neither can be found in a searched text.
_LINE_NUMBER = re.compile(rb'"\},"line_number":(\d+),')
_LONG_MATCH = re.compile(
    rb'\{"type":"match","data":\{"path":(\{"\w+":"(?:[^"\\]|\\.)*"\}),"lines":\{"(text|bytes)":"((?:[^"\\]|\\u[0-9a-f]{4}|\\[^u])*)'
)
_SUFFIX = re.compile(r"\*(\.\w+)")
_WORKER = str(Path(__file__).with_name("grep_worker.py"))


class Query(Struct, frozen=True, forbid_unknown_fields=True):
    """What to search for: the arguments of the tool."""

    pattern: Annotated[
        str, Meta(min_length=1, max_length=10_000, description="Regular expression, matched line by line.")
    ]
    path: Annotated[str, Meta(description="File or folder to search, relative to the workspace.")] = "."
    include: Annotated[str | None, Meta(description="Only files that fit this glob, such as *.py or src/**/*.ts.")] = (
        None
    )
    max_results: Annotated[int, Meta(ge=1, le=500, description="Lines to show.")] = 50
    literal: Annotated[bool, Meta(description="Take the pattern as plain text.")] = False
    case_sensitive: Annotated[bool, Meta(description="False ignores case.")] = True
    include_hidden: Annotated[bool, Meta(description="Also files and folders that start with a dot.")] = False

    @property
    def suffix(self) -> str:
        """The end of every wanted file's name, where `include` is as simple as that; both searches then skip the rest."""
        match = _SUFFIX.fullmatch(self.include or "")
        return match[1] if match else ""


class Match(NamedTuple):
    """A line that fits."""

    path: str
    line: int
    text: str


def grep_tool(workspace: Workspace, *, ripgrep: str | Literal[False] | None = None) -> ToolDefinition:
    """`grep` in a workspace. `ripgrep`: its program; None looks for `rg`, False never uses it. Effect pure."""

    async def grep(arguments: dict[str, Any], ctx: ToolContext) -> str:
        query = convert(arguments, Query)
        program = shutil.which("rg") if ripgrep is None else ripgrep or None
        return _answer(*await _search(workspace, query, program, ctx), query)

    # Built by hand: the arguments are one value here, wider than a function's parameters should be.
    return ToolDefinition(
        name="grep",
        description=description_of("grep"),
        parameters=_parameters(),
        handler=grep,
        effect="pure",
        subjects={"path": "path"},
        timeout_s=TIMEOUT_S + 15,
    )


def _parameters() -> dict[str, Any]:
    (_, found) = json.schema_components([Query], ref_template="#/$defs/{name}")
    return {name: value for name, value in found["Query"].items() if name not in ("title", "description")}


async def _search(workspace: Workspace, query: Query, program: str | None, ctx: ToolContext) -> tuple[list[Match], int]:
    path = query.path
    kind = workspace.kind(path)
    name = workspace.display(path)
    folder, file = (os.path.dirname(name) or ".", os.path.basename(name)) if kind == "file" else (path, "")
    prefix = (name if not file else os.path.dirname(name)).removeprefix(".")
    with workspace.open_folder(folder) as handle:
        cwd = _folder_path(handle, workspace, folder)
        # A single file always goes to the worker: ripgrep would follow a link that took the file's place.
        if program is not None and not file:
            collector = _Collector(query, _ripgrep_records())
            ended = await _run(_ripgrep(program, query, cwd), collector, ctx)
            if ended.exit_code != 2 or collector.matches or collector.skipped:
                return _below(prefix, collector.matches), collector.skipped
            # Exit 2 without a match: mostly syntax that only Python's expressions have; the worker says what is wrong.
        collector = _Collector(query, _worker_records)
        ended = await _run(_python(query, cwd, file), collector, ctx)
        if collector.problem or (ended.exit_code != 0 and not ended.enough):
            raise ToolFailure(f"the search failed: {collector.problem or f'exit code {ended.exit_code}'}")
        return _below(prefix, collector.matches), collector.skipped


async def _run(launch: ShellLaunch, collector: _Collector, ctx: ToolContext) -> Ended:
    ended = await run_process(launch, collector, timeout_s=TIMEOUT_S, cancellation=ctx.cancellation)
    if ended.timed_out:
        raise ToolFailure(f"the search took over {TIMEOUT_S:g} s; narrow the path, the include or the pattern")
    return ended


def _answer(matches: list[Match], skipped: int, query: Query) -> str:
    if not matches and not skipped:
        return f"no line below {query.path!r} matches {query.pattern!r}"
    shown = matches[: query.max_results]
    lines = [f"{match.path}:{match.line}:{match.text}" for match in shown]
    if len(matches) > len(shown):
        lines.append(f"(only the first {len(shown)} matches are shown; narrow the search or raise max_results)")
    if skipped:
        lines.append(f"({skipped} matching line(s) skipped: too long to be read)")
    return "\n".join(lines)


def _below(prefix: str, matches: list[Match]) -> list[Match]:
    return [Match(os.path.join(prefix, match.path), match.line, match.text) for match in matches]


def _folder_path(handle: int, workspace: Workspace, folder: str) -> str:
    """A path of an open folder for the child to start in: by its descriptor where the system can, so it cannot be swapped."""
    by_descriptor = f"/proc/self/fd/{handle}"
    return by_descriptor if os.path.isdir(by_descriptor) else str(workspace.root / workspace.resolve(folder))


def _ripgrep(program: str, query: Query, cwd: str) -> ShellLaunch:
    argv = [
        program,
        "--json",
        "--no-config",
        "--no-ignore",
        "--no-messages",
        "--encoding=none",
        "--crlf",
        "--sort=path",
    ]
    argv += ["--regexp", query.pattern, f"--max-filesize={MAX_FILE_BYTES}"]
    argv += ["--case-sensitive" if query.case_sensitive else "--ignore-case"]
    argv += ["--fixed-strings"] if query.literal else []
    argv += ["--hidden"] if query.include_hidden else []
    argv += ["--glob", f"*{query.suffix}"] if query.suffix else []
    for name in EXCLUDED:
        argv += ["--glob", f"!{name}"]
    return ShellLaunch((*argv, "--", "."), cwd, _environment())


def _python(query: Query, cwd: str, file: str) -> ShellLaunch:
    job = {
        "pattern": query.pattern,
        "literal": query.literal,
        "case_sensitive": query.case_sensitive,
        "include_hidden": query.include_hidden,
        "suffix": query.suffix if not file else "",
        "excluded": EXCLUDED,
        "file": file,
        "max_text": MAX_LINE_CHARS,
        "max_bytes": MAX_FILE_BYTES,
    }
    return ShellLaunch((sys.executable, "-I", "-S", _WORKER, json.encode(job).decode()), cwd, _environment())


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}


Records = Callable[[bytes], "tuple[list[Match], str]"]
"""Matches that became certain by one line of a search's output, and an error text."""


class _Collector:
    """Takes a search's output as it comes, keeps wanted matches, and has enough at one over the limit; a `Sink`."""

    def __init__(self, query: Query, records: Records) -> None:
        self._query = query
        self._include = _pattern(query.include)
        self._records = records
        self._record = _Record()
        self.matches: list[Match] = []
        self.problem = ""
        self.skipped = 0
        """Matches in lines so long that not even their place could be read."""

    def __call__(self, data: bytes) -> bool:
        first, *others = data.split(b"\n")
        self._record.add(first)
        for piece in others:
            line = self._record.whole()
            self._record = _Record()
            self._record.add(piece)
            if line is None:
                self.skipped += 1
                continue
            found, problem = self._records(line)
            self.problem = problem or self.problem
            self.matches.extend(match for match in found if self._wanted(match.path))
        return len(self.matches) <= self._query.max_results

    def _wanted(self, path: str) -> bool:
        # A wanted suffix makes ripgrep show hidden files too, so the rule is applied here for both.
        hidden = self._query.include_hidden
        if not all(is_searched(part, include_hidden=hidden) for part in path.split("/")):
            return False
        return self._include is None or self._include.matches(path)


class _Record:
    """One line of a search's output; of one that is too long, what is shown of a match."""

    __slots__ = ("_end", "_number", "_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._end = b""
        """The last bytes of a line that is too long: the number may be split between two pieces."""
        self._number = b""

    def add(self, piece: bytes) -> None:
        """Takes more of the line; in all, the time is linear in its length."""
        self._size += len(piece)
        if self._size <= _MAX_RECORD_BYTES:
            self._pieces.append(piece)
            return
        if not self._end:
            kept = b"".join(self._pieces) + piece
            self._pieces = [kept[:_HEAD_BYTES]]
            piece = kept
        if not self._number:
            piece = self._end + piece
            found = _LINE_NUMBER.search(piece)
            self._number = found[1] if found else b""
        self._end = piece[-64:]

    def whole(self) -> bytes | None:
        """The line; one that was too long as a record of its start, or None when that says too little."""
        line = b"".join(self._pieces)
        if not self._end:
            return line
        found = _LONG_MATCH.match(line)
        if found is None or not self._number:
            return None
        text = found[3].decode("utf-8", "ignore").encode()
        text = text[: len(text) // 4 * 4] if found[2] == b"bytes" else text
        head = b'{"type":"match","data":{"path":' + found[1] + b',"lines":{"' + found[2] + b'":"' + text
        return head + b'"},"line_number":' + self._number + b"}}"


def _pattern(include: str | None) -> GlobPattern | None:
    if not include:
        return None
    try:
        return GlobPattern(include)
    except ValueError as error:
        raise ToolFailure(f"include {include!r} cannot be used: {error}") from error


def _worker_records(line: bytes) -> tuple[list[Match], str]:
    try:
        record = json.decode(line)
    except DecodeError:
        return [], ""
    if "error" in record:
        return [], f"the pattern is not a valid regular expression: {record['error']}"
    return [Match(record["path"], record["line"], record["text"])], ""


def _ripgrep_records() -> Records:
    """A reader of `rg --json`; a file's matches count at its end only, for a NUL after them makes it binary."""
    pending: list[Match] = []

    def read(line: bytes) -> tuple[list[Match], str]:
        try:
            record: dict[str, Any] = json.decode(line)
        except DecodeError:
            return [], ""
        match record:
            case {"type": "match", "data": {"path": path, "lines": lines, "line_number": int(number)}}:
                if len(pending) <= 500:
                    text = _text(lines).removesuffix("\n").removesuffix("\r")[:MAX_LINE_CHARS]
                    pending.append(Match(_text(path).removeprefix("./"), number, text))
            case {"type": "end", "data": {"binary_offset": offset}}:
                done = pending.copy() if offset is None else []
                pending.clear()
                return done, ""
            case _:
                pass
        return [], ""

    return read


def _text(value: dict[str, str]) -> str:
    """Text of ripgrep's record; what is not UTF-8 comes as base64."""
    text = value.get("text")
    return text if text is not None else base64.b64decode(value.get("bytes", "")).decode("utf-8", "replace")
