"""A project's permissions in a TOML file: read with every problem named by its line, and written to when an answer stands.

Owns: the form of `.loopwright/permissions.toml`. Must not know: how rules are applied, who asks.
The file belongs to people: it is only ever added to, at its end, and nothing that stands in it is changed.
Read next: `../model/permission_spec.py`, `docs/permissions.md`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from ..jail import Jail
from ..model.control_records import PermissionMode
from ..model.errors import ConfigError
from ..model.permission_spec import DECISIONS, MAX_RULES, MODES, PermissionPolicy, PermissionRule, rule_problems
from .bounded_text import UnusableText, read_text

PERMISSION_FILE: Final = ".loopwright/permissions.toml"
"""Where a project's file is, below its folder."""

MAX_FILE_BYTES: Final = 1024 * 1024
_MAX_PROBLEMS: Final = 100
_KEYS: Final = ("mode", "otherwise", "rules", "granted")
_HEADER: Final = re.compile(r"\s*\[\[\s*(rules|granted)\s*\]\]")
_KEY: Final = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*=""")
_NO_RULE: Final = "must be a list of tables, each written below a line [[{}]]"


def load_permissions(
    path: str | os.PathLike[str] = PERMISSION_FILE,
    *,
    mode: PermissionMode | None = None,
    workspace: str | os.PathLike[str] | None = None,
    may_be_missing: bool = False,
) -> PermissionFile:
    """The permissions in a TOML file, for `StatefulAgentLoop(permissions=…)`.

    `mode` in place of the file's. `workspace`: where relative paths start, by default the folder that holds `.loopwright`,
    else that of the file. `may_be_missing`: no file is one without rules, which is made with the first standing answer.
    Raises: `ConfigError` with every problem and its line.
    """
    if mode is not None and mode not in MODES:
        raise ConfigError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    found = PermissionFile(Path(path), mode, None if workspace is None else Path(workspace), may_be_missing)
    found.policy()
    return found


class PermissionFile:
    """Rules that stand in a file; read again when it was changed. Safe to use from several threads and processes."""

    keeps = True

    def __init__(self, path: Path, mode: PermissionMode | None, workspace: Path | None, may_be_missing: bool) -> None:
        self.path = Path(os.path.abspath(path))
        """Absolute."""
        folder = self.path.parent
        self._workspace = os.path.abspath(workspace or (folder.parent if folder.name == ".loopwright" else folder))
        self._mode = mode
        self._may_be_missing = may_be_missing
        self._reading = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._policy: PermissionPolicy | None = None

    def policy(self) -> PermissionPolicy:
        """The rules as the file has them now. Raises: `ConfigError` with every problem and its line."""
        with self._reading:
            seen = self._state()
            if self._policy is None or seen != self._seen:
                # On an error what was read before is forgotten: a rule that somebody just wrote must not be passed over.
                self._policy = None
                policy = self._read()
                self._policy, self._seen = policy, seen
            return self._policy

    def remember(self, rule: PermissionRule) -> None:
        """Adds a standing answer at the end of the file, unless it is there; two processes at once lose none.

        Raises: `ConfigError` when the file cannot be written or would not be readable then; it is as it was then.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                text = self._text()
                policy = policy_of(text, str(self.path))
                if rule in policy.granted:
                    return
                added = _with_line_end(text) + _written(rule)
                try:
                    kept = rule in policy_of(added, str(self.path)).granted
                except ConfigError as error:
                    raise ConfigError(f"{self.path}: {_written(rule)!r} cannot be added: {error}") from error
                if not kept:
                    raise ConfigError(f"{self.path}: the rule {str(rule)!r} cannot be written as TOML")
                Jail(str(self.path.parent)).replace_file((self.path.name,), added.encode())
        except (OSError, UnicodeEncodeError) as error:
            raise ConfigError(f"{self.path} cannot be written: {error}") from error

    def _state(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self) -> PermissionPolicy:
        policy = policy_of(self._text(), str(self.path))
        return msgspec.structs.replace(policy, mode=self._mode or policy.mode, workspace=self._workspace)

    def _text(self) -> str:
        try:
            found = read_text(Jail(str(self.path.parent)), (self.path.name,), MAX_FILE_BYTES)
        except FileNotFoundError:
            if self._may_be_missing:
                return ""
            raise ConfigError(f"{self.path} does not exist; write the project's permissions there") from None
        except UnusableText as error:
            where = f"{self.path}:{error.line}" if error.line else str(self.path)
            raise ConfigError(f"{where}: {error.why}; {error.remedy}") from error
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read: {error.strerror or error}") from error
        if found.size > found.taken and found.size > MAX_FILE_BYTES:
            raise ConfigError(f"{self.path} has {found.size} bytes, {MAX_FILE_BYTES} are allowed")
        return found.text

    @contextmanager
    def _alone(self) -> Generator[None, None, None]:
        """While this holds nobody else adds to the file: neither a thread nor another process of this machine."""
        handle = os.open(self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)  # which gives the lock back


def policy_of(text: str, name: str) -> PermissionPolicy:
    """The policy that a TOML text is. Raises: `ConfigError` with every problem, each with `name` and its line."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(name, str(error), text)) from error
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    places = _Places(text, name)
    problems = [
        places.said(f"unknown key {key!r}; known are {', '.join(_KEYS)}", key) for key in given if key not in _KEYS
    ]
    for key, known in (("mode", MODES), ("otherwise", DECISIONS)):
        if key in given and given[key] not in known:
            problems.append(places.said(f"{key} must be one of {', '.join(known)}, not {given[key]!r}", key))
    rules: dict[str, list[PermissionRule]] = {}
    for table in ("rules", "granted"):
        rules[table] = _rules(given.get(table, []), table, places, problems)
    if problems:
        left = len(problems) - _MAX_PROBLEMS
        raise ConfigError([*problems[:_MAX_PROBLEMS], *([f"{name}: and {left} more"] if left > 0 else [])])
    said = {key: given[key] for key in ("mode", "otherwise") if key in given}
    return PermissionPolicy(rules=tuple(rules["rules"]), granted=tuple(rules["granted"]), **said)


def _rules(given: Any, table: str, places: _Places, problems: list[str]) -> list[PermissionRule]:
    each: list[object] = list(cast("list[object]", given)) if isinstance(given, list) else [None]
    if not all(isinstance(one, Mapping) for one in each):
        problems.append(places.said(_NO_RULE.format(table), table))
        return []
    if len(each) > MAX_RULES:
        problems.append(places.said(f"{len(each)} {table}, {MAX_RULES} are allowed", table, MAX_RULES))
        return []
    found: list[PermissionRule] = []
    for number, one in enumerate(cast("list[Mapping[str, Any]]", each)):
        values: dict[str, Any] = {"decision": "allow", **one} if table == "granted" else dict(one)
        wrong = rule_problems(values)
        if table == "granted" and values["decision"] != "allow":
            wrong.append(("decision", "must be allow, or left out: a standing answer allows"))
        for field, what in wrong:
            problems.append(places.said(f"{table}[{number}].{field}: {what}", table, number, field))
        if not wrong:
            found.append(PermissionRule(**values))
    return found


class _Places(NamedTuple):
    """Where things stand in the file, as far as its lines show it: a reader of TOML does not tell."""

    text: str
    name: str

    def said(self, what: str, table: str, number: int | None = None, field: str | None = None) -> str:
        """The problem behind the file's name and the line that it is in."""
        return f"{self.name}:{self._line(table, number, field)}: {what}"

    def _line(self, table: str, number: int | None, field: str | None) -> int:
        at, counts, best = "", {"rules": -1, "granted": -1}, 1
        for line, text in _lines_outside_texts(self.text):
            if (header := _HEADER.match(text)) is not None:
                at = header[1]
                counts[at] += 1
                if at == table and number in (None, counts[at]):
                    best = line
                    if field is None:
                        return line
            elif text.lstrip().startswith("["):
                at = text.strip()
                if at.strip("[] \t").split(".")[0].strip("\"' ") == table:
                    return line
            elif (key := _KEY.match(text)) is not None:
                if at == table and counts[at] == number and key[1] == field:
                    return line
                if not at and key[1] == table:
                    best = line
        return best


def _lines_outside_texts(text: str) -> Generator[tuple[int, str], None, None]:
    """The lines with their numbers, without those inside of texts of several lines."""
    quote = ""
    for number, line in enumerate(text.split("\n"), 1):
        inside = bool(quote)
        for mark in re.findall(r'"""|\'\'\'', line):
            quote = "" if quote == mark else quote or mark
        if not inside:
            yield number, line


def _syntax(name: str, said: str, text: str) -> str:
    where = re.search(r"\(at (?:line (\d+), column \d+|end of document)\)", said)
    line = where[1] if where is not None and where[1] else str(text.count("\n") + 1)
    return f"{name}:{line}: no TOML: {said}"


def _with_line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _written(rule: PermissionRule) -> str:
    """A standing answer as lines of the file."""
    lines = ["", "[[granted]]"]
    for name in ("tool", "path", "command", "host", "effect"):
        given: tuple[str, ...] = getattr(rule, name)
        if given:
            each = ", ".join([_quoted(one) for one in given])
            lines.append(f"{name} = {each}" if len(given) == 1 else f"{name} = [{each}]")
    lines += [f"{name} = {_quoted(said)}" for name in ("reason", "instead_of") if (said := getattr(rule, name))]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as TOML has it: as JSON, but for one sign."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
