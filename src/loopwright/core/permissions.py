"""What a policy says about one call: allow, ask or deny, and why.

Owns: precedence of rules, modes and standing answers; which standing answer a question suggests. Must not know: stores,
the disk, who asks. The order: a `deny` that matches wins, whatever stands before it, so that no rule added later can
open what was closed. Then, for each thing that the call names (each command of a command line, each path, each host), the first
matching `ask` or `allow`; the strictest of them counts for the call. Then the mode.
`deny` and `ask` match when any of those things does, `allow` when all do. What cannot be read with certainty is never
allowed by a pattern, and is asked about where a `deny` or `ask` could be meant.
Read next: `command_line.py`, `name_patterns.py`, `../engine/permits.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from msgspec import Struct

from ..model.control_records import Decision, PermissionMode
from ..model.errors import ConfigError
from ..model.permission_spec import PermissionPolicy, PermissionRule
from ..ports.tool import Subject, ToolDefinition
from .command_line import CommandLine, SimpleCommand, may_become_another, read_command_line, readings
from .name_patterns import Places, Target, host_fits, name_fits, normal_path, path_fits, target_of, words_fit

MAX_SUBJECTS: Final = 200
"""Paths or URLs of one call that are judged one by one; a call with more is doubtful."""
_MAX_NAMED: Final = 10

_FIELDS: Final[Mapping[Subject, Literal["path", "command", "host"]]] = {
    "path": "path",
    "command": "command",
    "url": "host",
}


class Thing(Struct, frozen=True):
    """One thing that a call names."""

    kind: Literal["path", "command", "host"]
    text: str
    """As the model wrote it."""
    path: str = ""
    command: SimpleCommand | None = None
    runs: tuple[tuple[str, ...], ...] = ()
    """Words that the command may come to run."""
    target: Target | None = None


class JudgedCall(Struct, frozen=True):
    """A call as rules see it."""

    tool: str
    effect: str
    harmless: bool
    """It changes nothing outside of its own session."""
    things: tuple[Thing, ...] = ()
    doubts: Mapping[str, str] = {}
    """By kind: why there may be other things than those."""
    places: Places = Places()


class Ruling(Struct, frozen=True):
    """What becomes of a call."""

    decision: Decision
    rule: str = ""
    """The rule that decided; "": none did, the mode alone."""
    why: str = ""
    """In words for the model and for people."""
    would_be_allowed: tuple[str, ...] = ()
    """What of this tool the rules allow without a question, as patterns."""
    suggested: PermissionRule | None = None
    """Of a question: the standing answer that fits it."""


def call_of(
    tool: ToolDefinition, arguments: Mapping[str, Any], places: Places, real: Mapping[str, str] | None = None
) -> JudgedCall:
    """The call of a tool with these arguments. `real`: of paths in it, where they lead when links are followed."""
    things: list[Thing] = []
    doubts: dict[str, str] = {}
    for name, subject in tool.subjects.items():
        if (given := arguments.get(name)) is None:
            continue
        kind = _FIELDS[subject]
        for text in _texts(given):
            if text is None or len(things) >= MAX_SUBJECTS:
                doubts[kind] = f"its argument {name} cannot be read"
                continue
            why = _add(things, kind, text, places, real or {})
            if why:
                doubts[kind] = why
    return JudgedCall(
        tool.name, tool.effect, tool.effect == "pure" or tool.touches == "session", tuple(things), doubts, places
    )


def judge(policy: PermissionPolicy, mode: PermissionMode, grants: Sequence[PermissionRule], call: JudgedCall) -> Ruling:
    """The verdict about a call. `mode`: the session's; `grants`: its standing answers beside those of the policy."""
    unclear: list[PermissionRule] = []
    for rule in policy.rules:
        if rule.decision == "deny" and (hit := _hits(rule, call)) is not False:
            if hit:
                return _denied(policy, call, str(rule), rule.reason or "a rule forbids it")
            unclear.append(rule)
    if mode == "plan" and not call.harmless:
        return _denied(
            policy, call, "", "this session only plans: nothing that changes the world may run", planning=True
        )
    answers = (*policy.granted, *grants)
    verdict = Ruling("allow")
    asked: list[tuple[Thing | None, str]] = []
    for thing in call.things or (None,):
        said = _about(policy, answers, call, thing)
        verdict = _stricter(verdict, said)
        if said.decision == "ask":
            asked.append((thing, said.rule))
    if verdict.decision == "ask" and mode == "trusted" and not unclear:
        return Ruling("allow", verdict.rule, "the session is trusted")
    if verdict.decision == "allow" and unclear:
        verdict = Ruling("ask", str(unclear[0]), _doubt(call, unclear[0]))
    if verdict.decision == "deny":
        return _denied(policy, call, verdict.rule, verdict.why)
    if verdict.decision == "ask" and not unclear:
        return Ruling("ask", verdict.rule, verdict.why, suggested=_suggestion(call, asked))
    return verdict


def allowed_patterns(policy: PermissionPolicy, tool: str) -> tuple[str, ...]:
    """What the rules allow of a tool without a question, in words; at most ten."""
    found: list[str] = []
    for rule in (*policy.rules, *policy.granted):
        if rule.decision == "allow" and any(name_fits(one, tool) for one in rule.tool):
            limits = [f"{name} {one}" for name in ("command", "path", "host") for one in getattr(rule, name)]
            limits += [f"effect {one}" for one in rule.effect]
            found += limits or [f"{tool} with any arguments"]
    return tuple(dict.fromkeys(found))[:_MAX_NAMED]


def _suggestion(call: JudgedCall, asked: Sequence[tuple[Thing | None, str]]) -> PermissionRule | None:
    """The rule under which calls like this one would not be asked about again; None when no pattern says it safely.

    It answers one rule: what several ask about is answered each time.
    """
    if call.doubts or len({rule for _, rule in asked}) != 1:
        return None
    given: dict[str, list[str]] = {}
    for thing, _ in asked:
        if thing is None:
            continue
        pattern = _pattern_for(thing)
        if pattern is None:
            return None
        if pattern not in given.setdefault(thing.kind, []):
            given[thing.kind].append(pattern)
    try:
        named: dict[str, Any] = {kind: tuple(patterns) for kind, patterns in given.items()}
        return PermissionRule(decision="allow", tool=call.tool, instead_of=asked[0][1], **named)
    except ConfigError:
        return None  # a name holds what no pattern can say


def _about(
    policy: PermissionPolicy, answers: Iterable[PermissionRule], call: JudgedCall, thing: Thing | None
) -> Ruling:
    """What is said about one thing of the call, or about the call where it names none."""
    asked, why = "", "no rule allows it"
    for rule in policy.rules:
        if rule.decision == "allow" and _allows(rule, call, thing):
            return Ruling("allow", str(rule), rule.reason)
        if rule.decision == "ask" and (hit := _asks(rule, call, thing)) is not False:
            asked, why = str(rule), (rule.reason or "a rule asks a person first") if hit else _doubt(call, rule)
            break
    else:
        if call.harmless or policy.otherwise == "allow":
            return Ruling("allow")
        if policy.otherwise == "deny":
            return Ruling("deny", "", why)
    for rule in answers:
        if rule.instead_of == asked and _allows(rule, call, thing):
            return Ruling("allow", str(rule), "a person allowed it")
    return Ruling("ask", asked, why)


_ORDER: Final[tuple[Decision, ...]] = ("allow", "ask", "deny")


def _stricter(one: Ruling, other: Ruling) -> Ruling:
    if _ORDER.index(one.decision) != _ORDER.index(other.decision):
        return max(one, other, key=lambda verdict: _ORDER.index(verdict.decision))
    rules = dict.fromkeys(rule for rule in (*one.rule.split("; "), other.rule) if rule)
    return Ruling(one.decision, "; ".join(rules) if one.decision == "allow" else one.rule, one.why or other.why)


def _denied(policy: PermissionPolicy, call: JudgedCall, rule: str, why: str, *, planning: bool = False) -> Ruling:
    return Ruling("deny", rule, why, () if planning else allowed_patterns(policy, call.tool))


def _doubt(call: JudgedCall, rule: PermissionRule) -> str:
    whys = [call.doubts[kind] for kind in ("command", "path", "host") if kind in call.doubts and getattr(rule, kind)]
    said = f" ({whys[0]})" if whys else ""
    return f"it cannot be told whether the rule {str(rule)!r} covers it{said}"


# --- whether a rule matches ------------------------------------------------------------------------------------------


def _covers(rule: PermissionRule, call: JudgedCall) -> bool:
    """Whether tool and effect fit."""
    return any(name_fits(one, call.tool) for one in rule.tool) and (not rule.effect or call.effect in rule.effect)


def _hits(rule: PermissionRule, call: JudgedCall) -> bool | None:
    """Whether a rule that must not be got around matches any part of the call; None when that cannot be told."""
    if not _covers(rule, call):
        return False
    sure = True
    for kind in ("path", "command", "host"):
        patterns: Sequence[str] = getattr(rule, kind)
        if not patterns:
            continue
        hits = [_touched(patterns, thing, call.places) for thing in call.things if thing.kind == kind]
        if any(hits):
            continue
        if None not in hits and kind not in call.doubts:
            return False
        sure = False
    return True if sure else None


def _asks(rule: PermissionRule, call: JudgedCall, thing: Thing | None) -> bool | None:
    """The same for one thing of the call: one that the rule does not speak of is not asked about because of others."""
    hit = _hits(rule, call)
    if hit is False or thing is None or not getattr(rule, thing.kind):
        return hit
    found = _touched(getattr(rule, thing.kind), thing, call.places)
    return None if found is False and thing.kind in call.doubts else found


def _touched(patterns: Sequence[str], thing: Thing, places: Places) -> bool | None:
    found: bool | None = False
    for pattern in patterns:
        hit: bool | None = False
        if thing.kind == "path":
            hit = path_fits(pattern, thing.path, places, widely=True)
        elif thing.command is not None:
            hit = _runs(pattern, thing)
        elif thing.target is not None:
            hit = host_fits(pattern, thing.target, widely=True)
        if hit:
            return True
        found = None if hit is None else found
    return found


def _runs(pattern: str, thing: Thing) -> bool | None:
    """Whether a command may come to run what the pattern says; None when that is for the shell to say."""
    if any(words_fit(pattern, words) for words in thing.runs):
        return True
    assert thing.command is not None
    if not thing.command.open_words:
        return False
    program = pattern.split()[0]
    return None if any(may_become_another(words) or name_fits(program, words[0]) for words in thing.runs) else False


def _allows(rule: PermissionRule, call: JudgedCall, thing: Thing | None) -> bool:
    """Whether an allowing rule matches one thing: itself, and all others of the kinds that the rule limits."""
    if not _covers(rule, call):
        return False
    for kind in ("path", "command", "host"):
        patterns: Sequence[str] = getattr(rule, kind)
        if not patterns:
            continue
        same = [one for one in call.things if one.kind == kind]
        looked = [thing] if thing is not None and thing.kind == kind else same
        if not same or kind in call.doubts or not all(_fits_one(patterns, one, call.places) for one in looked):
            return False
    return True


def _fits_one(patterns: Sequence[str], thing: Thing, places: Places) -> bool:
    if thing.kind == "path":
        return any(path_fits(one, thing.path, places, widely=False) is True for one in patterns)
    if (command := thing.command) is not None:
        return command.plain and any(words_fit(one, command.words) for one in patterns)
    return thing.target is not None and any(host_fits(one, thing.target, widely=False) for one in patterns)


# --- what a call names -----------------------------------------------------------------------------------------------


def _texts(given: Any) -> list[str | None]:
    """The texts of an argument; None stands for what is none."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, list | tuple):
        return [one if isinstance(one, str) else None for one in cast("Sequence[object]", given)]
    return [None]


def _add(
    things: list[Thing], kind: Literal["path", "command", "host"], text: str, places: Places, real: Mapping[str, str]
) -> str:
    """Adds what a text names; returns why there may be more, "" when not."""
    if kind == "command":
        line: CommandLine = read_command_line(text)
        why = line.doubt or ("" if line.commands else "it holds no command")
        for one in line.commands:
            runs, whole = readings(one)
            things.append(Thing("command", " ".join(one.words), command=one, runs=runs))
            why = why or ("" if whole else "it runs commands that cannot be read")
        return why
    if kind == "path":
        spellings = {normal_path(one, places) for one in (text, real.get(text, text))}
        things += [Thing("path", text, path=one) for one in sorted(one for one in spellings if one is not None)]
        return "the path cannot be read" if None in spellings else ""
    target = target_of(text)
    if target is None:
        return "the address can be read in more than one way, or is none of http"
    things.append(Thing("host", text, target=target))
    return ""


_WITH_SUBCOMMANDS: Final = frozenset(
    [
        "apt",
        "brew",
        "bundle",
        "cargo",
        "composer",
        "conda",
        "dotnet",
        "gem",
        "gh",
        "git",
        "go",
        "gradle",
        "helm",
        "kubectl",
        "mvn",
        "npm",
        "pip",
        "pip3",
        "pnpm",
        "poetry",
        "rustup",
        "systemctl",
        "terraform",
        "uv",
        "yarn",
    ]
)
"""Programs whose second word says what is done; of others a standing answer is about the very same words."""
_OPEN_ENDED: Final = frozenset({"run", "exec", "x", "dlx", "config", "alias"})
"""Second words behind which there can be anything."""


def _pattern_for(thing: Thing) -> str | None:
    """The pattern that a standing answer about this thing would have; None when there is none that is no wider than meant."""
    if thing.kind == "path":
        folder, _, name = thing.path.rpartition("/")
        if any(char in thing.path for char in "*?") or thing.path.startswith(("..", "~/", "@home/")):
            return None
        if thing.path.startswith("/"):
            return thing.path  # outside of the workspace: that one alone
        return f"{folder}/**" if folder else f"./{name}"
    if thing.target is not None:
        host = f"[{thing.target.host}]" if ":" in thing.target.host else thing.target.host
        return host if thing.target.is_default_port else f"{host}:{thing.target.port}"
    command = thing.command
    if command is None or not command.plain:
        return None
    words = command.words
    if any(len(word.split()) != 1 or "*" in word or "?" in word for word in words):
        return None
    if len(words) > 1 and words[0] in _WITH_SUBCOMMANDS and words[1][0].isalpha() and words[1] not in _OPEN_ENDED:
        return f"{words[0]} {words[1]} *"
    return " ".join(words)
