"""What a child may be and do: ids, depth, number, tools, budgets.

Owns: the rules of spawning. Must not know: stores, how a child runs.
Read next: `engine/children.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..late import Late
from ..model.agent_spec import AgentSpec, SubagentLifecycle
from ..model.family_records import Lifecycle, Persona, SessionSpawned, SharedAccount
from ..model.messages import UserMessage
from ..model.records import SendStarted
from .family_state import FamilyFacts, narrowed
from .state import State

if TYPE_CHECKING:
    import hashlib

    from ..model.workflow_spec import WorkflowSpec
    from . import pricing
else:
    hashlib = Late("hashlib")
    pricing = Late("loopwright.core.pricing")


def lifecycle_of(spec: AgentSpec) -> Lifecycle:
    """How long a spawned child lives: dropped with its result where its spec says nothing."""
    return spec.lives(SubagentLifecycle.EPHEMERAL).value


def child_id_of(key: str, ordinal: int) -> str:
    """The id of a call's child: follows from the call's idempotency key and from how many it spawned before."""
    return "sess_" + hashlib.sha256(f"{key}\x00child\x00{ordinal}".encode()).hexdigest()[:24]


def depth_of(state: State) -> int:
    """0 for a session that nobody spawned."""
    family = state.facts.family
    return 0 if family is None or family.spawned is None else family.spawned.depth


def too_deep(state: State, max_depth: int) -> str | None:
    """Why a child of this session would be nested too deep; None when it would not."""
    if (depth := depth_of(state)) < max_depth:
        return None
    return f"agents and workflows may be nested {max_depth} deep, and this session is at depth {depth}"


def refusal(state: State, *, max_depth: int, max_children: int, under_way: int = 0) -> str | None:
    """Why this session must not spawn another child now; None when it may. `under_way`: children that are being made."""
    if (why := too_deep(state, max_depth)) is not None:
        return f"{why}; do the work in this agent"
    family = state.facts.family
    started = under_way + (0 if family is None else family.started_in(state.facts.sends))
    if started >= max_children:
        return f"one send may start {max_children} agents, and this one has; do the rest in this agent"
    return None


def spawned_in(
    state: State,
    persona: Persona,
    *,
    by: str,
    lifecycle: Lifecycle,
    awaited: bool = True,
    first: UserMessage | None = None,
    accounts: tuple[SharedAccount, ...] = (),
) -> SessionSpawned:
    """The record that a child of this session begins with. `by`: the call or step that wants it."""
    family = state.facts.family
    mine = None if family is None else family.spawned
    parent = state.facts.session_id
    return SessionSpawned(
        persona=persona,
        parent_id=parent,
        root_id=parent if mine is None else mine.root_id,
        depth=depth_of(state) + 1,
        agents=(*((state.facts.agent_name,) if mine is None else mine.agents), persona.name),
        by=by,
        input=first,
        awaited=awaited,
        lifecycle=lifecycle,
        accounts=accounts,
    )


def persona_of(spec: AgentSpec, allowed: tuple[str, ...] | None, tokens_left: int | None) -> Persona:
    """What the spec asks for, as far as the parent's send allows it.

    `allowed`: tools of that send. `tokens_left`: of its budget; a child gets no more than that at its beginning.
    """
    asked = [one for one in (spec.run_token_budget, tokens_left) if one is not None]
    usd = spec.run_cost_budget_usd
    return Persona(
        name=spec.name,
        system_prompt=spec.system_prompt,
        tools=narrowed(allowed, spec.tools),
        model=spec.model,
        max_rounds=spec.max_rounds,
        max_output_tokens=spec.max_output_tokens,
        temperature=spec.temperature,
        output=spec.output(),
        run_token_budget=max(min(asked), 1) if asked else None,
        run_cost_budget=None if usd is None else pricing.nanodollars(usd),
        timeout_s=spec.timeout_s,
        metadata=dict(spec.metadata),
    )


def run_persona(spec: WorkflowSpec, allowed: tuple[str, ...] | None, tokens_left: int | None) -> Persona:
    """As what a workflow run answers: its steps may use no more tools and tokens than it."""
    budget = spec.budget
    asked = [one for one in (tokens_left, None if budget is None else budget.max_tokens) if one is not None]
    usd = None if budget is None else budget.max_cost_usd
    return Persona(
        name=spec.name,
        tools=allowed,
        run_token_budget=max(min(asked), 1) if asked else None,
        run_cost_budget=None if usd is None else pricing.nanodollars(usd),
    )


def as_spawned(start: SendStarted, persona: Persona | None, overridden: frozenset[str]) -> SendStarted:
    """The send of a session that was spawned or handed on: as its persona says where the send itself says nothing.

    Never with more tools or budget than the persona has. `overridden`: fields that the send's caller set.
    """
    if persona is None:
        return start
    said = {name: getattr(persona, name) for name in _SAID if name not in overridden}
    tokens = [one for one in (start.run_token_budget, persona.run_token_budget) if one is not None]
    money = [one for one in (start.run_cost_budget, persona.run_cost_budget) if one is not None]
    return msgspec.structs.replace(
        start,
        tools=narrowed(persona.tools, start.tools),
        run_token_budget=min(tokens, default=None),
        run_cost_budget=min(money, default=None),
        **{name: value for name, value in said.items() if value is not None},
    )


_SAID = ("system_prompt", "model", "output", "max_rounds", "max_output_tokens")


def tokens_left(state: State) -> int | None:
    """What is left of the open send's token budget; None without one."""
    send = state.active
    if send is None or send.start.run_token_budget is None:
        return None
    return max(send.start.run_token_budget - send.usage.total_tokens, 0)


def account_of(state: State) -> SharedAccount | None:
    """The account that this send shares with its children, made with the first of them; None where no money bounds it."""
    send, family = state.active, state.facts.family
    if send is None or send.start.run_cost_budget is None:
        return None
    index = state.facts.sends
    if family is not None and family.send == index and family.account is not None:
        return family.account
    left = max(send.start.run_cost_budget - send.usage.nanodollars, 0)
    return SharedAccount(f"send:{state.facts.session_id}:{index}", left)


def accounts_for(family: FamilyFacts | None, own: SharedAccount | None) -> tuple[SharedAccount, ...]:
    """What a child's calls hold money in: accounts of all sends above it."""
    inherited = () if family is None or family.spawned is None else family.spawned.accounts
    return inherited if own is None else (*inherited, own)
