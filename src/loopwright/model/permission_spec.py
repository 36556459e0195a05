"""What may be done without asking, after asking, and never: `PermissionRule`, `PermissionPolicy`; and how people answer.

Owns: their fields, bounds and words. Must not know: what a call is, how rules are applied (`core/permissions.py`), files.
Rule: journals hold rules (`PermissionGranted`). So a bound here may be widened later, never narrowed.
Read next: `../core/permissions.py`, `docs/permissions.md`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast, get_args

import msgspec
from msgspec import Struct

from .control_records import Decision, PermissionMode, Standing
from .errors import ConfigError
from .records import Effect

MAX_RULES: Final = 1000
MAX_PATTERNS: Final = 100
MAX_PATTERN_CHARS: Final = 500
MAX_REASON_CHARS: Final = 500

DECISIONS: Final[tuple[str, ...]] = get_args(Decision)
MODES: Final[tuple[str, ...]] = get_args(PermissionMode)
"""From the narrowest to the widest."""
STANDINGS: Final[tuple[str, ...]] = get_args(Standing)
EFFECTS: Final[tuple[str, ...]] = get_args(Effect)

Patterns = str | tuple[str, ...]
"""One pattern or several, of which one has to match; where none is given everything matches."""

_TOOL: Final = re.compile(r"[A-Za-z0-9_*?-]{1,64}\Z")
_HOST: Final = re.compile(
    r"(?:\*|(?:\*\.)?[^\s\x00-\x20\x7f/\\@:?#%*\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(?:\*|[0-9]{1,5}))?\Z"
)
_NO_COMMAND: Final = re.compile(r"""[;&|<>()$`"'\\\x00-\x1f\x7f]""")


class PermissionRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one rule says about the calls that it matches; a rule that cannot be is a `ConfigError` listing all problems.

    It matches a call when everything that is given matches. Patterns are told in `docs/permissions.md`.
    """

    decision: Decision
    tool: Patterns = "*"
    """Names of tools; `*` and `?` stand for characters."""
    path: Patterns = ()
    """Of arguments that are paths; `**` stands for any folders."""
    command: Patterns = ()
    """The words of one simple command; a `*` as a word, or at the end, stands for any further words."""
    host: Patterns = ()
    """Of arguments that are URLs: `example.com`, `*.example.com`, `example.com:8443`."""
    effect: Effect | tuple[Effect, ...] = ()
    reason: str = ""
    """Told to the model with a denial and to people with a question."""
    instead_of: str = ""
    """Of a standing answer: the rule that asked, as `str()` writes it; "": the mode did. It answers nothing else."""

    def __post_init__(self) -> None:
        for name in _LISTS:
            given = getattr(self, name)
            if isinstance(given, str):
                msgspec.structs.force_setattr(self, name, (given,))
            elif isinstance(given, list):
                msgspec.structs.force_setattr(self, name, tuple(cast("list[object]", given)))
        problems = rule_problems(msgspec.structs.asdict(self))
        if problems:
            raise ConfigError([f"permission rule: {where}: {what}" for where, what in problems])

    def __str__(self) -> str:
        """The rule in one line, as questions, records and denials name it."""
        limits = [f"{name} {' or '.join(given)}" for name in _LISTS[1:] if (given := getattr(self, name))]
        return f"{self.decision} " + ", ".join([" or ".join(self.tool), *limits])


_LISTS: Final = ("tool", "path", "command", "host", "effect")


def rule_problems(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(field, what is wrong) for everything that keeps these values from being a rule; values may be of any type."""
    known = PermissionRule.__struct_fields__
    problems = [(name, f"unknown key; known are {', '.join(known)}") for name in given if name not in known]
    decision = given.get("decision")
    if decision not in DECISIONS:
        problems.append(("decision", f"must be one of {', '.join(DECISIONS)}, not {_shown(decision)}"))
    for name in _LISTS:
        problems += [(name, what) for what in _pattern_problems(name, given.get(name, "*" if name == "tool" else ()))]
    for name in ("reason", "instead_of"):
        text = given.get(name, "")
        if not isinstance(text, str) or len(text) > (MAX_REASON_CHARS if name == "reason" else 10_000):
            problems.append((name, f"must be text of at most {MAX_REASON_CHARS} characters"))
    if given.get("instead_of") and decision in ("ask", "deny"):
        problems.append(("instead_of", "belongs to a standing answer, and those allow"))
    return problems


def _pattern_problems(name: str, given: Any) -> list[str]:
    patterns = (given,) if isinstance(given, str) else given
    if not isinstance(patterns, list | tuple):
        return [f"must be a text or a list of texts, not {_shown(given)}"]
    each = cast("Sequence[object]", patterns)
    if len(each) > MAX_PATTERNS:
        return [f"has {len(each)} patterns, {MAX_PATTERNS} are allowed; use more rules"]
    if name == "tool" and not each:
        return ['names no tool; leave it out or write "*" for all']
    return [what for one in each if (what := _pattern_problem(name, one)) is not None]


def _pattern_problem(name: str, one: object) -> str | None:
    if not isinstance(one, str):
        return f"must be a text or a list of texts, not {_shown(one)}"
    if name == "effect":
        return None if one in EFFECTS else f"must be one of {', '.join(EFFECTS)}, not {_shown(one)}"
    if not one.strip():
        return "is an empty pattern, which matches nothing"
    if len(one) > MAX_PATTERN_CHARS:
        return f"has a pattern of {len(one)} characters, {MAX_PATTERN_CHARS} are allowed"
    if name == "tool" and _TOOL.match(one) is None:
        return f"{_shown(one)} is no name of a tool: letters, digits, _ and -, with * and ? for others"
    if name == "command" and (found := _NO_COMMAND.search(one)) is not None:
        return f"{_shown(one)} must be the words of one simple command; {_shown(found.group())} cannot stand in it"
    if name == "host" and not one.isascii():
        return f"{_shown(one)} must be written as it goes over the wire, such as xn--strae-oqa.example"
    if name == "host" and (_HOST.match(one) is None or _port_of(one) > 65_535):
        return f"{_shown(one)} is no host: write example.com, *.example.com, example.com:8443 or [::1]"
    if name == "path" and any(ord(char) < 32 for char in one):
        return f"{_shown(one)} holds a control character"
    return None


def _port_of(host: str) -> int:
    port = host.rpartition(":")[2]
    return int(port) if port.isdecimal() and not host.endswith("]") else 0


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class PermissionPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of an agent; what cannot be is a `ConfigError` listing all problems.

    A matching `deny` always wins; else the first matching `ask` or `allow`, in the order given; else the mode.
    """

    rules: tuple[PermissionRule, ...] = ()
    mode: PermissionMode = "default"
    """The widest mode of the agent's sessions, unless the host widens one."""
    otherwise: Decision = "ask"
    """For a call that may change the world and that no rule matches; others are allowed."""
    workspace: str | None = None
    """The folder that relative paths start from, absolute. None: absolute paths match absolute patterns alone."""
    granted: tuple[PermissionRule, ...] = ()
    """Standing answers of people for the project; see `PermissionRule.instead_of`."""

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name in ("rules", "granted"):
            given = getattr(self, name)
            if isinstance(given, list):
                msgspec.structs.force_setattr(self, name, tuple(cast("list[object]", given)))
            if not all(isinstance(one, PermissionRule) for one in getattr(self, name)):
                problems.append(f"{name} must be PermissionRule values")
            elif len(getattr(self, name)) > MAX_RULES:
                problems.append(f"{name}: {len(getattr(self, name))} rules, {MAX_RULES} are allowed")
            elif name == "granted" and any(rule.decision != "allow" for rule in self.granted):
                problems.append("granted: a standing answer allows; write other rules under rules")
        if self.mode not in MODES:
            problems.append(f"mode must be one of {', '.join(MODES)}, not {_shown(self.mode)}")
        if self.otherwise not in DECISIONS:
            problems.append(f"otherwise must be one of {', '.join(DECISIONS)}, not {_shown(self.otherwise)}")
        if self.workspace is not None and not str(self.workspace).startswith("/"):
            problems.append(f"workspace must be an absolute path, not {_shown(self.workspace)}")
        if problems:
            raise ConfigError([f"permissions: {problem}" for problem in problems])


class ApprovalAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person says to a question for approval; plain "approve" and "deny" are the same without the rest."""

    decision: str
    """"approve", "deny", or another of the question's options."""
    arguments: dict[str, Any] | None = None
    """With "approve": the call is made with these instead."""
    message: str = ""
    """With "deny": what the model reads."""
    remember: Literal["session", "project"] | None = None
    """With "approve": the rule that the question suggests (`metadata["suggested"]`) holds from now on."""


def narrowest(*modes: PermissionMode | None) -> PermissionMode:
    """The narrowest of these modes; None stands for no bound."""
    narrow: PermissionMode = "trusted"
    for mode in modes:
        if mode is not None and MODES.index(mode) < MODES.index(narrow):
            narrow = mode
    return narrow


def as_rule(stored: Mapping[str, Any]) -> PermissionRule:
    """The rule of a `PermissionGranted`. Raises `ConfigError`."""
    return PermissionRule(**stored)


def as_stored(rule: PermissionRule) -> dict[str, Any]:
    """The rule as the JSON object that a record holds, the very same as what is read from it."""
    stored: dict[str, Any] = msgspec.to_builtins(rule)
    for name in _LISTS:
        if name in stored:
            stored[name] = list(stored[name])
    return stored
