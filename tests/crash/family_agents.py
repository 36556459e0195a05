"""Agents that are stopped everywhere while they work together: children, questions below, hand-offs, calls that wait.

Models are casts: each agent has its script, and its place in it is what the conversation shows. Registered like `agents.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.crash.agents import SESSION, Agent, Drive, Expected, open_session, told_of_uncertain_calls, tools_of

from loopwright import (
    AgentLoopConfig,
    PermissionPolicy,
    PermissionRule,
    StatefulAgentLoop,
    StatefulResult,
    ToolContext,
    ToolDefinition,
    tool,
)
from loopwright.model.agent_spec import AgentSpec, SubagentLifecycle
from loopwright.model.call_errors import InteractionError
from loopwright.model.codec import decode_record
from loopwright.model.family_records import ChildStarted
from loopwright.model.records import AssistantMessageAdded, Interaction
from loopwright.ports.tool import WaitNeeded
from loopwright.testing import calls
from loopwright.testing.cast import CastLLM
from loopwright.testing.crash_matrix import CrashScenario, Life
from loopwright.tools.agents import hand_off_tool, spawn_agent_tool
from loopwright.tools.ask import request_user_input_tool

FAMILIES: dict[str, Agent] = {}

ROOT = "Be brief."
"""What `open_session` gives."""

LINKED = SubagentLifecycle.LINKED
SPECS = [
    AgentSpec(name="payer", system_prompt="You pay.", lifecycle=LINKED),
    AgentSpec(name="brief", system_prompt="You are short.", run_token_budget=5000),
    AgentSpec(name="chief", system_prompt="You lead.", lifecycle=LINKED),
    AgentSpec(name="asker", system_prompt="You ask.", lifecycle=LINKED),
]


def spawns(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("spawn_agent", {"name": name, "task": f"{name}, go", **more})


def family(
    name: str,
    scripts: Mapping[str, Sequence[Any]],
    drive: Drive,
    *,
    tools: Any = None,
    expected: Expected = told_of_uncertain_calls,
    permissions: PermissionPolicy | None = None,
) -> None:
    """Registers a family. `scripts`: instructions → steps; `tools`: further ones, from the life and the loop."""

    def build(life: Life) -> StatefulAgentLoop:
        made: list[ToolDefinition] = [*tools_of(life), spawn_agent_tool(SPECS), request_user_input_tool()]
        more = [] if tools is None else tools(life, lambda: loop)
        loop = StatefulAgentLoop(
            llm=life.model(CastLLM(scripts)),
            dsn=life.dsn,
            tools=[*made, *more],
            config=AgentLoopConfig(serve_timers=False),
            ambient=life.ambient,
            permissions=permissions,
        )
        return loop

    FAMILIES[name] = Agent(build, CrashScenario(name=name, drive=drive, expected=expected))


# --- hosts ------------------------------------------------------------------------------------------------------------


async def to_its_end(loop: StatefulAgentLoop) -> StatefulResult:
    """Waits for what goes on beside the host; what was left behind is for `serve`, as in a worker's process."""
    for _ in range(500):
        result = await loop.get_result(SESSION)
        if result is not None and result.status != "waiting_for_input":
            return result
        await loop.serve(once=True)
        await loop._kernel.ambient.sleep(1.0)
    raise AssertionError(f"it does not end: {result}")


async def one_send(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    result = await loop.send("go", session_id=SESSION, send_id="first")
    if not result.ok:
        result = await to_its_end(loop)
    assert result.ok, result


async def answered_at_the_root(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    result = await loop.send("go", session_id=SESSION, send_id="first")
    for question in result.pending_interactions:
        with suppress(InteractionError):  # answered by the process before; the tree goes on beside
            result = await loop.submit_input(SESSION, question.id, "blue", by="ada")
    if not result.ok:
        result = await to_its_end(loop)
    assert result.ok, result


async def answered_until_it_ends(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    result: StatefulResult | None = await loop.send("go", session_id=SESSION, send_id="first")
    answered = set[str]()
    for _ in range(500):
        if result is not None and result.status != "waiting_for_input":
            break
        asked = () if result is None else result.pending_interactions
        if question := next((one for one in asked if one.id not in answered), None):
            answered.add(question.id)
            with suppress(InteractionError):
                await loop.submit_input(SESSION, question.id, "blue", by="ada")
        else:
            await loop.serve(once=True)
            await loop._kernel.ambient.sleep(1.0)
        result = await loop.get_result(SESSION)
    assert result is not None
    assert result.ok, result


async def answered_at_the_child(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    result = await loop.send("go", session_id=SESSION, send_id="first")
    for question in result.pending_interactions:
        at = SESSION
        while (child := await the_child(loop, at)) is not None:
            at = child
        with suppress(InteractionError):
            await loop.submit_input(at, question.id, "blue", by="ada")
    assert (await to_its_end(loop)).ok


async def the_child(loop: StatefulAgentLoop, session_id: str) -> str | None:
    rows = await loop.store.read(session_id)
    records = [decode_record(row.kind, row.version, row.body) for row in rows]
    return next((record.child_id for record in records if isinstance(record, ChildStarted)), None)


ANSWERS: tuple[Any, ...] = (
    {"decision": "approve", "arguments": {"to": "ada"}},
    {"decision": "deny", "message": "not today"},
    {"decision": "approve", "remember": "session"},
    "approve",
)


async def approved_at_the_root(loop: StatefulAgentLoop) -> None:
    """The questions of the batch get their answers one by one; those that a dead process stored are left out."""
    await open_session(loop)
    result: StatefulResult | None = await loop.send("go", session_id=SESSION, send_id="first")
    for _ in range(8):
        asked = () if result is None else result.pending_interactions
        for question in sorted(asked, key=lambda one: one.metadata["arguments"]["to"]):
            with suppress(InteractionError):
                await loop.submit_input(SESSION, question.id, answer_to(question), by="ada")
        result = await loop.get_result(SESSION)
        if result is not None and result.status != "waiting_for_input":
            break
        await loop.serve(once=True)  # questions of a child may be known there before they are here
    assert (await to_its_end(loop)).ok


def answer_to(question: Interaction) -> Any:
    return ANSWERS[int(question.metadata["arguments"]["to"])]


async def signalled(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    await loop.send("go", session_id=SESSION, send_id="first")
    await loop.signal(SESSION, "go", {"n": 1}, item_id="the-signal")
    assert (await to_its_end(loop)).ok


# --- families ---------------------------------------------------------------------------------------------------------

family(
    "child-with-a-once-tool",
    {ROOT: [calls(spawns("payer")), "done"], "You pay.": [calls(("pay", {}), ("look", {})), "paid"]},
    one_send,
)
family(
    "two-children-and-a-tool",
    {
        ROOT: [calls(spawns("payer"), spawns("brief"), ("put", {})), "done"],
        "You pay.": [calls(("look", {})), "paid"],
        "You are short.": ["short"],
    },
    one_send,
)
family(
    "an-ephemeral-child",
    {ROOT: [calls(spawns("brief")), "done"], "You are short.": [calls(("put", {})), "short"]},
    one_send,
)
ASKING = {
    ROOT: [calls(spawns("chief"), ("look", {})), "done"],
    "You lead.": [calls(spawns("asker"), ("put", {})), "led"],
    "You ask.": [calls(("request_user_input", {"prompt": "Which colour?"})), "it is blue"],
}
family("a-grandchild-asks-and-the-root-is-answered", ASKING, answered_at_the_root)
family("a-grandchild-asks-and-is-answered-itself", ASKING, answered_at_the_child)


def asking(life: Life, loop: Any) -> list[ToolDefinition]:
    """`sure` asks a person twice, one question after the other, and then acts."""

    @tool(effect="idempotent")
    async def sure(n: int, ctx: ToolContext) -> str:
        colour = await ctx.ask(f"Which colour for {n}?")
        if n == 0:
            await ctx.ask(f"{colour}, really?")
        life.effect(ctx)
        return f"{n} is {colour}"

    return [sure]


family(
    "four-handlers-of-a-grandchild-ask-at-once",
    {**ASKING, "You ask.": [calls(*[("sure", {"n": n}) for n in range(4)]), "they are blue"]},
    answered_until_it_ends,
    tools=asking,
)


def background(life: Life, loop: Any) -> list[ToolDefinition]:
    """`team` starts a child, says something to it once it is at work, and waits for it; `hold` is what it is at."""

    @tool(effect="idempotent")
    async def team(ctx: ToolContext) -> str:
        child = await ctx.agents.start(SPECS[0], "begin")
        while not any(
            row.kind == AssistantMessageAdded.__struct_config__.tag for row in await loop().store.read(child)
        ):
            await life.ambient.sleep(0.1)
        await ctx.agents.nudge(child, "hurry")
        return (await ctx.agents.wait(child)).text

    @tool(effect="idempotent")
    async def hold(ctx: ToolContext) -> str:
        while (await loop().store.lookup(ctx.session_id)).head.inbox_seq < 2:
            await life.ambient.sleep(0.1)
        life.effect(ctx)
        return "held"

    return [team, hold]


family(
    "a-background-child-is-nudged-and-waited-for",
    {ROOT: [calls(("team", {})), "done"], "You pay.": [calls(("hold", {})), "paid in a hurry"]},
    one_send,
    tools=background,
)


def waiting(life: Life, loop: Any) -> list[ToolDefinition]:
    @tool(effect="idempotent")
    async def wait_for_go(ctx: ToolContext) -> str | WaitNeeded:
        if ctx.woken is None:
            return WaitNeeded(signal="go")
        life.effect(ctx)
        return f"told {ctx.woken.payload}"

    @tool(effect="pure")
    async def wait_a_while(ctx: ToolContext) -> str | WaitNeeded:
        if ctx.woken is None:
            return WaitNeeded(until=1_800_000_030.0)
        life.effect(ctx)
        return f"woken by {ctx.woken.why}"

    return [wait_for_go, wait_a_while]


family(
    "a-call-waits-for-a-signal", {ROOT: [calls(("wait_for_go", {}), ("look", {})), "done"]}, signalled, tools=waiting
)
family("a-call-waits-for-a-time", {ROOT: [calls(("wait_a_while", {}), ("put", {})), "done"]}, one_send, tools=waiting)


def experts(life: Life, loop: Any) -> list[ToolDefinition]:
    return [hand_off_tool(AgentSpec(name="expert", system_prompt="You know.", tools=("put",)), when="when it is hard")]


family(
    "handed-off",
    {ROOT: [calls(("hand_off_to_expert", {"reason": "hard"}))], "You know.": ["", calls(("put", {})), "it is put"]},
    one_send,
    tools=experts,
)


def guarded(life: Life, loop: Any) -> list[ToolDefinition]:
    """Tools that are asked about: what is given to somebody is done once, or again."""

    @tool(effect="once")
    async def give(to: str, ctx: ToolContext) -> str:
        life.effect(ctx)
        return "give done"

    @tool(effect="once")
    async def post(to: str, ctx: ToolContext) -> str:
        life.effect(ctx)
        return "post done"

    @tool(effect="idempotent")
    async def lend(to: str, ctx: ToolContext) -> str:
        life.effect(ctx)
        return f"lent to {to}"

    return [give, post, lend]


ASKED = PermissionPolicy(rules=(PermissionRule(decision="ask", tool=("give", "post", "lend"), reason="it is ours"),))
FOUR = calls(("give", {"to": "0"}), ("lend", {"to": "1"}), ("lend", {"to": "2"}), ("post", {"to": "3"}))
family(
    "four-calls-need-approval",
    {ROOT: [FOUR, "done"]},
    approved_at_the_root,
    tools=guarded,
    permissions=ASKED,
)
family(
    "four-calls-three-agents-deep-need-approval",
    {
        ROOT: [calls(spawns("chief")), "done"],
        "You lead.": [calls(spawns("asker"), ("look", {})), "led"],
        "You ask.": [FOUR, "asked"],
    },
    approved_at_the_root,
    tools=guarded,
    permissions=ASKED,
)
