"""Permissions of calls as they run: the rules are asked, what they say is stored, people are asked where rules say so.

Owns: from a verdict to records, questions and refusals; the mode that counts in a session. Must not know: precedence and
patterns (`core/permissions.py`), where rules are kept, how handlers run.
A verdict is about the arguments that the handler would get, after hooks and people changed them, and is made each time the
handler would run: in children, steps of workflows and continued runs, too. Loaded with the first call under a policy.
Read next: `approving.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

from ..core import approvals, permissions
from ..core.name_patterns import Places
from ..core.permissions import JudgedCall, Ruling
from ..core.state import State
from ..model.codec import encode
from ..model.control_records import PermissionDecided, PermissionGranted, PermissionMode, PermissionModeSet
from ..model.errors import ConfigError, InvalidMessageError
from ..model.permission_spec import MODES, PermissionPolicy, PermissionRule, as_rule, as_stored, narrowest
from ..model.records import Record
from ..model.visible import visible
from ..ports.permission_source import PermissionSource
from ..ports.tool import InputNeeded, ToolDefinition
from . import call_waits
from .threads import in_thread

if TYPE_CHECKING:
    from .tool_call import ToolRun
    from .turn import Turn

_SHOWN = 2000
"""Characters of the arguments in the text of a question; all of them stand in its metadata."""


async def permitted(one: ToolRun, source: PermissionSource) -> bool:
    """True when the handler may run. Else the call has its refusal, or waits for a person, durably.

    What is said about it is stored with what comes next of the call: no commit of its own.
    """
    run, tool = one.run_context, one.tool
    assert tool is not None
    verdict = await verdict_of(source, run.state, tool, one.arguments)
    call_id = one.call.call.id
    if approvals.is_answered(one.call) and verdict.decision != "deny":
        if verdict.decision == "allow" or approvals.covers(one.call, one.name, one.arguments):
            await _remembered(one, source)
            if tool.background and verdict.decision == "ask":
                rule = PermissionRule(decision="allow", tool=one.name, instead_of=verdict.rule)
                one.granted = PermissionGranted(rule=as_stored(rule), interaction_id=_asked(one))
            return True
        # A hook changed them since. To ask once more could go on for ever.
        verdict = Ruling("deny", verdict.rule, "a person did not approve of the call with these arguments")
    if verdict.rule or verdict.decision != "allow":
        decided = PermissionDecided(
            call_id=call_id, tool_name=one.name, decision=verdict.decision, rule=verdict.rule, why=verdict.why
        )
        one.decided = [decided]
    if verdict.decision == "allow":
        return True
    if verdict.decision == "ask":
        await call_waits.ask(one, _question(one.name, one.arguments, verdict))
    else:
        await one.answer("refused", _refusal(one.name, verdict))
    return False


def _asked(one: ToolRun) -> str:
    return "" if one.call.question is None else one.call.question.id


async def verdict_of(
    source: PermissionSource, state: State, tool: ToolDefinition, arguments: Mapping[str, Any]
) -> Ruling:
    """What the rules say about a call in this session."""
    try:
        policy = source.policy()
    except ConfigError as error:
        if tool.effect == "pure" or tool.touches == "session":
            return Ruling("allow")
        return Ruling("deny", "", f"the permissions cannot be read: {error}")
    judged = await _judged(policy, tool, arguments)
    control = state.facts.control
    grants = [] if control is None else [as_rule(grant.rule) for grant in control.grants]
    return permissions.judge(policy, mode_of(policy, state), grants, judged)


def mode_of(policy: PermissionPolicy, state: State) -> PermissionMode:
    """The mode that counts in a session: its own where it is narrower than the loop's, or where the host widened it."""
    control = state.facts.control
    if control is None or control.mode is None:
        return policy.mode
    return control.mode if control.widened else narrowest(policy.mode, control.mode)


def inherited(state: State) -> list[Record]:
    """The records with which a child is as narrow as its parent, and has to ask no more than it."""
    control = state.facts.control
    if control is None:
        return []
    records: list[Record] = list(control.grants)
    if control.mode is not None:
        records.append(PermissionModeSet(mode=control.mode, widened=control.widened))
    return records


async def set_mode(turn: Turn, mode: PermissionMode, *, widen: bool, by: str) -> bool:
    """Stores the mode of a session; False when it is that already. See `StatefulAgentLoop.set_permission_mode`."""
    if mode not in MODES:
        raise ConfigError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    source = turn.kernel.permissions
    if source is None:
        raise ConfigError("this loop has no permissions; give it permissions=PermissionPolicy(...)")
    widest = source.policy().mode
    if not widen and narrowest(mode, widest) != mode:
        raise ConfigError(f"the loop's mode is {widest}; {mode} is wider and needs widen=True")
    await turn.journal.load(fresh=True)
    control = turn.journal.state.facts.control
    if control is not None and control.mode == mode and control.widened == widen:
        return False
    await turn.journal.commit([PermissionModeSet(mode=mode, widened=widen, by=by)], sync=True, release=True)
    return True


async def _judged(policy: PermissionPolicy, tool: ToolDefinition, arguments: Mapping[str, Any]) -> JudgedCall:
    places = _places(policy.workspace)
    real: dict[str, str] = {}
    if policy.workspace is not None and "path" in tool.subjects.values():
        texts = [text for name, kind in tool.subjects.items() if kind == "path" for text in _texts(arguments.get(name))]
        real = await in_thread(lambda: _followed(policy.workspace or "/", texts)) if texts else {}
    return permissions.call_of(tool, arguments, places, real)


def _texts(given: Any) -> list[str]:
    each = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    return [one for one in each if isinstance(one, str)][: permissions.MAX_SUBJECTS]


@lru_cache(maxsize=64)
def _places(workspace: str | None) -> Places:
    roots = (
        () if workspace is None else tuple(dict.fromkeys([workspace.rstrip("/") or "/", os.path.realpath(workspace)]))
    )
    home = os.path.expanduser("~")
    return Places(roots, home if home.startswith("/") else None)


def _followed(workspace: str, texts: Sequence[str]) -> dict[str, str]:
    """Of paths, where they lead when links are followed. The tools' own walls hold where a link is put in after this look."""
    found: dict[str, str] = {}
    for text in texts:
        if "\x00" in text or text.startswith("@home"):
            continue
        below = (
            text.removeprefix("@workspace").lstrip("/") if text.startswith("@workspace") else os.path.expanduser(text)
        )
        try:
            found[text] = os.path.realpath(os.path.join(workspace, below))
        except (OSError, ValueError):
            continue
    return found


def _question(name: str, arguments: Mapping[str, Any], verdict: Ruling) -> InputNeeded:
    shown = visible(encode(arguments).decode())
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}… ({len(shown)} characters)"
    metadata: dict[str, Any] = {"arguments": arguments, "rule": verdict.rule, "why": verdict.why}
    if verdict.suggested is not None:
        metadata["suggested"] = as_stored(verdict.suggested)
    return InputNeeded(
        f"May {name} be called with {shown}? ({verdict.why})",
        "approval",
        (approvals.APPROVE, approvals.DENY),
        None,
        metadata,
    )


def _refusal(name: str, verdict: Ruling) -> str:
    by = f" (rule: {verdict.rule})" if verdict.rule else ""
    allowed = "; ".join(verdict.would_be_allowed)
    instead = f" Allowed without asking: {allowed}." if allowed else ""
    return (
        f"{name} was not permitted: {verdict.why}{by}.{instead} Do not try to get around it; say what you need instead."
    )


async def _remembered(one: ToolRun, source: PermissionSource) -> None:
    """Keeps a standing answer for the project where the rules are kept: here, so that it is done after a crash as well."""
    control, question = one.run_context.state.facts.control, one.call.question
    if control is None or question is None:
        return
    for grant in control.grants:
        if grant.standing == "project" and grant.interaction_id == question.id:
            try:
                await in_thread(partial(source.remember, as_rule(grant.rule)))
            except (ConfigError, OSError) as error:
                one.run_context.note(f"a standing answer holds for this session alone: {error}")


def granted(
    source: PermissionSource | None, question_id: str, suggested: Any, standing: Any, by: str
) -> PermissionGranted:
    """The record of a standing answer. Raises `InvalidMessageError` when there is nothing that could be remembered."""
    if suggested is None:
        raise InvalidMessageError(
            f"question {question_id!r} suggests no rule that could be remembered; approve this once"
        )
    if standing == "project" and (source is None or not source.keeps):
        raise InvalidMessageError(
            f"the answer to {question_id!r} cannot be kept for the project: this loop's permissions are in no file;"
            ' use remember="session"'
        )
    rule: PermissionRule = as_rule(suggested)
    return PermissionGranted(rule=as_stored(rule), standing=standing, interaction_id=question_id, by=by)
