"""The agents that are stopped: each a loop, what its host does with it, and what may come out after a stop.

A model here is a function of the window it is shown, so that a restarted process gets the same replies. What a host does
can be repeated as a whole: fixed session id, sends with a `send_id`, questions answered while they are open.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from loopwright import (
    AgentHooks,
    AgentLoopConfig,
    HookDirective,
    HookPoint,
    LLMRequest,
    LLMResponse,
    LLMRetryPolicy,
    LLMService,
    StatefulAgentLoop,
    ToolCall,
    ToolContext,
    ToolDefinition,
    UserMessage,
    tool,
)
from loopwright.context.projected import ProjectedRepresentation
from loopwright.context.summary_fold import LLMSummaryFold
from loopwright.model.errors import LLMTransientError, SessionExistsError
from loopwright.model.messages import ToolResultMessage, as_messages
from loopwright.model.notes import NotesPolicy
from loopwright.ports.hook import CompletionContext, ToolBeforeContext
from loopwright.ports.tool import UnknownOutcome
from loopwright.prompts import prompt
from loopwright.testing.crash_matrix import CrashScenario, Interrupted, Life
from loopwright.tools.ask import request_user_input_tool
from loopwright.tools.note import note_tool
from loopwright.tools.todo import todo_tool

Drive = Callable[[StatefulAgentLoop], Awaitable[object]]

SESSION = "s"


class Agent(Struct, frozen=True):
    """One scenario with the loop it is played on."""

    build: Callable[[Life], StatefulAgentLoop]
    scenario: CrashScenario


AGENTS: dict[str, Agent] = {}


Expected = Callable[[Interrupted], Sequence[str] | None]


def agent(
    name: str, drive: Drive, *, expected: Expected | None = None
) -> Callable[[Callable[[Life], StatefulAgentLoop]], Agent]:
    """Registers a scenario by the function that builds its loop."""

    def register(build: Callable[[Life], StatefulAgentLoop]) -> Agent:
        scenario = CrashScenario(name=name, drive=drive, expected=expected or told_of_uncertain_calls)
        made = AGENTS[name] = Agent(build, scenario)
        return made

    return register


def settled(stop: Interrupted) -> None:
    """No call stays uncertain: the undisturbed journal."""


def settled_after_a_pause(stop: Interrupted) -> Sequence[str] | None:
    """The undisturbed journal with a pause after the batch, in which the host says what became of the call."""
    if not stop.in_flight:
        return None
    lines = list(stop.undisturbed)
    batch_end = max(n for n, line in enumerate(lines) if line.startswith("tool_finished"))
    return [*lines[: batch_end + 1], 'send_paused {"outcome": "pending_tools"}', *lines[batch_end + 1 :]]


def told_of_uncertain_calls(stop: Interrupted) -> Sequence[str] | None:
    """The undisturbed journal in which each `once` call in flight is answered as uncertain, and the model says so."""
    lines: list[str] = []
    for line in stop.undisturbed:
        for name in stop.in_flight:
            done = f'"content": "{name} done", "name": "{name}", "status": "finished"'
            doubt = f'"content": "{prompt("uncertain")}", "name": "{name}", "status": "uncertain"'
            line = line.replace(done, doubt).replace(f"{name} ok", f"{name} not ok")
        lines.append(line)
    return lines


def earlier_follow_up(stop: Interrupted) -> Sequence[str] | None:
    """The reply was lost, so that the model is asked again, now with the follow-up that had come during its reply."""
    replies = [n for n, line in enumerate(stop.undisturbed) if line.startswith("assistant_message_added")]
    if stop.at.occurrence > 1 or stop.at.point not in (
        "inbox.after",
        "model.after",
        "commit.before:assistant_message_added",
    ):
        return None
    lines = [line for n, line in enumerate(stop.undisturbed) if n != replies[0]]
    return [
        line.replace("3 messages", "2 messages")
        .replace('"round": 2', '"round": 1')
        .replace('"rounds": 2', '"rounds": 1')
        for line in lines
    ]


# --- models -----------------------------------------------------------------------------------------------------------


def asks_for(*names: str) -> LLMResponse:
    made = tuple(ToolCall(f"c{index}", name, "{}") for index, name in enumerate(names))
    return LLMResponse(tool_calls=made, finish_reason="tool_calls")


def summary(request: LLMRequest) -> str:
    """What the model says of the results it sees: "pay ok, look not ok"."""
    results = [m for m in request.messages if isinstance(m, ToolResultMessage)]
    return ", ".join(f"{m.name} {'ok' if m.ok else 'not ok'}" for m in results)


def calls_then_sums_up(*names: str) -> Callable[[LLMRequest], LLMResponse | str]:
    def answer(request: LLMRequest) -> LLMResponse | str:
        return asks_for(*names) if isinstance(request.messages[-1], UserMessage) else summary(request)

    return answer


# --- tools ------------------------------------------------------------------------------------------------------------


def tools_of(life: Life) -> list[ToolDefinition]:
    """pay and mail happen once, put is idempotent and blocks, look is pure."""

    @tool(effect="once")
    async def pay(ctx: ToolContext) -> str:
        life.effect(ctx)
        return "pay done"

    @tool(effect="once")
    async def mail(ctx: ToolContext) -> str:
        life.effect(ctx)
        return "mail done"

    @tool(effect="idempotent")
    def put(ctx: ToolContext) -> str:
        life.effect(ctx)
        return "put done"

    @tool(effect="pure")
    async def look(ctx: ToolContext) -> str:
        life.effect(ctx)
        return "look done"

    return [pay, mail, put, look]


# --- hosts ------------------------------------------------------------------------------------------------------------


async def open_session(loop: StatefulAgentLoop) -> None:
    try:
        await loop.new_session(session_id=SESSION, system_prompt="Be brief.")
    except SessionExistsError:
        pass


async def one_send(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    await loop.send("go", session_id=SESSION, send_id="first")


async def two_sends(loop: StatefulAgentLoop) -> None:
    await one_send(loop)
    await loop.send("and again", session_id=SESSION, send_id="second")


async def forked(loop: StatefulAgentLoop) -> None:
    """Forks while the first send waits, answers it, and goes on in the fork."""
    await open_session(loop)
    result = await loop.send("go", session_id=SESSION, send_id="first")
    try:
        await loop.fork(SESSION, new_session_id="fork")
    except SessionExistsError:
        pass
    if result.pending_tool_calls:
        await loop.submit_tool_results(SESSION, {call.id: "fetched by the host" for call in result.pending_tool_calls})
    await loop.send("another way", session_id="fork", send_id="second")


async def answered(loop: StatefulAgentLoop, value: str) -> None:
    await open_session(loop)
    result = await loop.send("go", session_id=SESSION, send_id="first")
    for question in result.pending_interactions:
        await loop.submit_input(SESSION, question.id, value, by="ada")


async def answered_with_a_colour(loop: StatefulAgentLoop) -> None:
    await answered(loop, "blue")


async def approved(loop: StatefulAgentLoop) -> None:
    await answered(loop, "approve")


async def executed_by_host(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    result = await loop.send("go", session_id=SESSION, send_id="first")
    if result.pending_tool_calls:
        await loop.submit_tool_results(SESSION, {call.id: "fetched by the host" for call in result.pending_tool_calls})


async def structured(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    await loop.send("go", session_id=SESSION, send_id="first", output_schema=schema)


async def followed_up(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    await loop.follow_up("go", session_id=SESSION, item_id="item")
    await loop.recover()


async def aborted(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    if (await loop.send("go", session_id=SESSION, send_id="first")).status == "pending_tools":
        await loop.abort_pending(SESSION, reason="no longer wanted")
    await loop.send("and again", session_id=SESSION, send_id="second")


async def both_answered(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    result = await loop.send("go", session_id=SESSION, send_id="first")
    while result.pending_interactions:
        result = await loop.submit_input(SESSION, result.pending_interactions[0].id, "blue")


async def settled_by_host(loop: StatefulAgentLoop) -> None:
    """The host is asked about calls of unknown outcome, looks at its books and answers."""
    await open_session(loop)
    result = await loop.send("go", session_id=SESSION, send_id="first")
    if result.pending_tool_calls:
        await loop.submit_tool_results(SESSION, {call.id: f"{call.name} done" for call in result.pending_tool_calls})


# --- agents -----------------------------------------------------------------------------------------------------------


@agent("plain", two_sends)
def plain(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> str:
        return f"reply to {len(request.messages)} messages"

    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, ambient=life.ambient)


@agent("pure-tool", one_send)
def pure_tool(life: Life) -> StatefulAgentLoop:
    model = life.model(calls_then_sums_up("look"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), ambient=life.ambient)


@agent("once-tool", one_send)
def once_tool(life: Life) -> StatefulAgentLoop:
    model = life.model(calls_then_sums_up("pay"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), ambient=life.ambient)


@agent("four-parallel-tools", one_send)
def four_parallel_tools(life: Life) -> StatefulAgentLoop:
    model = life.model(calls_then_sums_up("pay", "look", "put", "mail"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), ambient=life.ambient)


@agent("reconciled-tool", one_send, expected=settled)
def reconciled_tool(life: Life) -> StatefulAgentLoop:
    """The outside world knows whether the payment was made, and makes it up if not: nothing stays uncertain."""

    def ask_the_bank(call: UnknownOutcome) -> str:
        if ("pay", call.idempotency_key) not in life.effects.counts():
            life.effects.add("pay", call.idempotency_key)
        return "pay done"

    @tool(effect="once", reconcile=ask_the_bank)
    async def pay(ctx: ToolContext) -> str:
        life.effect(ctx)
        return "pay done"

    model = life.model(calls_then_sums_up("pay"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=[pay], ambient=life.ambient)


@agent("follow-up-during-a-tool", one_send)
def follow_up_during_a_tool(life: Life) -> StatefulAgentLoop:
    @tool(effect="pure")
    async def look(ctx: ToolContext) -> str:
        life.effect(ctx)
        await loop.follow_up("and be quick", session_id=SESSION, item_id="hurry")
        return "look done"

    def answer(request: LLMRequest) -> LLMResponse | str:
        last = request.messages[-1]
        if isinstance(last, UserMessage) and last.text == "go":
            return asks_for("look")
        return summary(request)

    loop = StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, tools=[look], ambient=life.ambient)
    return loop


@agent("follow-up-to-an-idle-session", followed_up)
def follow_up_to_an_idle_session(life: Life) -> StatefulAgentLoop:
    return pure_tool.build(life)


@agent("structured-output-corrected", structured)
def structured_output(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> str:
        return '{"n": "three"}' if len(request.messages) == 1 else '{"n": 3}'

    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, ambient=life.ambient)


@agent("human-pause", answered_with_a_colour)
def human_pause(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> LLMResponse | str:
        if not isinstance(request.messages[-1], UserMessage):
            return summary(request)
        question = ToolCall("c1", "request_user_input", '{"prompt": "Which colour?"}')
        return LLMResponse(tool_calls=(ToolCall("c0", "look", "{}"), question), finish_reason="tool_calls")

    tools = [*tools_of(life), request_user_input_tool()]
    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, tools=tools, ambient=life.ambient)


@agent("approval", approved)
def approval(life: Life) -> StatefulAgentLoop:
    hooks = AgentHooks()

    def guard(context: ToolBeforeContext) -> HookDirective | None:
        if not context.answered:
            context.ask(f"May I {context.tool_name}?")
        return None if context.answer == "approve" else HookDirective.SKIP

    hooks.register(HookPoint.TOOL_BEFORE, guard)
    model = life.model(calls_then_sums_up("pay"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), hooks=hooks, ambient=life.ambient)


BEFORE_IT_ASKED = ("commit.after:tool_started", "tool.before:paint", "tool.after:paint", "commit.before:handler_asked")


def in_doubt_before_or_after_it_asked(stop: Interrupted) -> Sequence[str] | None:
    """A process that died in the handler leaves a call of unknown outcome, also where the handler would have asked next."""
    lines = told_of_uncertain_calls(stop)
    if lines is None or not stop.in_flight or stop.at.point not in BEFORE_IT_ASKED or stop.at.occurrence > 1:
        return lines
    return [line for line in lines if line.split(" ")[0] not in ("handler_asked", "question_answered", "send_paused")]


@agent("once-handler-that-asks", both_answered, expected=in_doubt_before_or_after_it_asked)
def once_handler_that_asks(life: Life) -> StatefulAgentLoop:
    """The handler runs twice, its effect happens once: it asks first."""

    @tool(effect="once")
    async def paint(ctx: ToolContext) -> str:
        await ctx.ask("Which colour?")
        life.effect(ctx)
        return "paint done"

    model = life.model(calls_then_sums_up("paint"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=[*tools_of(life), paint], ambient=life.ambient)


@agent("host-executed-tool", executed_by_host)
def host_executed_tool(life: Life) -> StatefulAgentLoop:
    fetch = ToolDefinition(name="fetch", description="Fetch.", parameters={"type": "object"}, effect="idempotent")
    model = life.model(calls_then_sums_up("look", "fetch"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=[*tools_of(life), fetch], ambient=life.ambient)


@agent("retry-after-503", one_send)
def retry_after_503(life: Life) -> StatefulAgentLoop:
    """Each process meets the overloaded server once."""

    def answer(request: LLMRequest) -> LLMResponse | str:
        if life.model_calls == 1:
            raise LLMTransientError("overloaded", status=503, retry_after_s=5.0)
        return calls_then_sums_up("look")(request)

    config = AgentLoopConfig(retry=LLMRetryPolicy(max_attempts=2))
    model = life.model(answer)
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), config=config, ambient=life.ambient)


@agent("truncated-reply-continued", one_send)
def truncated_reply(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> LLMResponse | str:
        if len(request.messages) == 1:
            return LLMResponse(text="the first half, ", finish_reason="length")
        return "the second half"

    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, ambient=life.ambient)


@agent("round-limit-wrap-up", one_send)
def round_limit(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> LLMResponse | str:
        return "that is all I found" if request.tool_choice == "none" else asks_for("look")

    model, config = life.model(answer), AgentLoopConfig(max_rounds=2)
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), config=config, ambient=life.ambient)


@agent("big-output", one_send)
def big_output(life: Life) -> StatefulAgentLoop:
    @tool(effect="pure", output_limit=200)
    async def look(ctx: ToolContext) -> str:
        life.effect(ctx)
        return "0123456789" * 60_000

    model = life.model(calls_then_sums_up("look"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=[look], ambient=life.ambient)


@agent("follow-up-during-the-last-reply", one_send, expected=earlier_follow_up)
def follow_up_during_the_last_reply(life: Life) -> StatefulAgentLoop:
    """The send is extended instead of completed, although the reply was the last word."""

    class Model:
        async def complete(self, request: LLMRequest) -> LLMResponse:
            if len(request.messages) == 1:
                await loop.follow_up("and be quick", session_id=SESSION, item_id="hurry")
            return LLMResponse(text=f"reply to {len(request.messages)} messages", finish_reason="stop")

    model = life.model(Model())  # type: ignore[arg-type]  # a service without `stream`
    loop = StatefulAgentLoop(llm=model, dsn=life.dsn, ambient=life.ambient)
    return loop


@agent("aborted-while-it-waits", aborted)
def aborted_while_it_waits(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> LLMResponse | str:
        return asks_for("look", "fetch") if len(request.messages) == 1 else summary(request)

    fetch = ToolDefinition(name="fetch", description="Fetch.", parameters={"type": "object"}, effect="idempotent")
    tools = [*tools_of(life), fetch]
    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, tools=tools, ambient=life.ambient)


@agent("forked-while-it-waits", forked)
def forked_while_it_waits(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> LLMResponse | str:
        return asks_for("look", "fetch") if len(request.messages) == 1 else summary(request)

    fetch = ToolDefinition(name="fetch", description="Fetch.", parameters={"type": "object"}, effect="idempotent")
    tools = [*tools_of(life), fetch]
    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, tools=tools, ambient=life.ambient)


@agent("two-questions", both_answered)
def two_questions(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> LLMResponse | str:
        if not isinstance(request.messages[-1], UserMessage):
            return summary(request)
        calls = [ToolCall(f"c{n}", "request_user_input", f'{{"prompt": "Colour {n}?"}}') for n in (1, 2)]
        return LLMResponse(tool_calls=tuple(calls), finish_reason="tool_calls")

    tools = [request_user_input_tool()]
    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, tools=tools, ambient=life.ambient)


@agent("host-asked-about-uncertain-calls", settled_by_host, expected=settled_after_a_pause)
def host_asked(life: Life) -> StatefulAgentLoop:
    model = life.model(calls_then_sums_up("pay", "look"))
    config = AgentLoopConfig(on_uncertain="ask_host")
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), config=config, ambient=life.ambient)


@agent("sent-back-by-a-completion-hook", one_send)
def sent_back(life: Life) -> StatefulAgentLoop:
    hooks = AgentHooks()

    def not_yet(context: CompletionContext) -> HookDirective | None:
        context.message = "Say it nicer."
        return HookDirective.SKIP if "nicer" not in context.final_text else None

    def answer(request: LLMRequest) -> str:
        return "done" if len(request.messages) == 1 else "done, but nicer"

    hooks.register(HookPoint.COMPLETION, not_yet)
    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, hooks=hooks, ambient=life.ambient)


async def one_send_intact(loop: StatefulAgentLoop) -> None:
    await one_send(loop)
    report = await loop.verify(SESSION)
    assert (report.intact, report.unlinked) == (True, ()), report


@agent("notes-and-todo", two_sends)
def notes_and_todo(life: Life) -> StatefulAgentLoop:
    """Two notes and a list in one batch; the answer repeats what stands behind the window."""

    def answer(request: LLMRequest) -> LLMResponse | str:
        window, tail = request.messages[: request.stable], request.messages[len(request.messages[: request.stable]) :]
        if not isinstance(window[-1], UserMessage):
            return " | ".join([str(message.content) for message in tail])
        wanted = (
            ("note", '{"action": "add", "content": "the first", "pinned": true}'),
            ("note", '{"action": "add", "content": "the second"}'),
            ("todo", '{"items": [{"id": "1", "text": "go on", "status": "in_progress"}]}'),
        )
        made = [ToolCall(f"c{number}", name, given) for number, (name, given) in enumerate(wanted)]
        return LLMResponse(tool_calls=tuple(made), finish_reason="tool_calls")

    tools = [note_tool(), todo_tool()]
    config = AgentLoopConfig(notes=NotesPolicy(max_notes=3, eviction="fifo"))
    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, tools=tools, config=config, ambient=life.ambient)


@agent("linked", one_send_intact)
def linked(life: Life) -> StatefulAgentLoop:
    """Every record is linked, whichever process wrote it and wherever that was stopped; checkpoints stand in between."""
    config = AgentLoopConfig(hash_chain=True, hash_chain_key=b"k" * 32, checkpoint_every=5)
    model = life.model(calls_then_sums_up("pay", "look"))
    return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=tools_of(life), config=config, ambient=life.ambient)


async def long_sends(loop: StatefulAgentLoop) -> None:
    await open_session(loop)
    for number in ("first", "second", "third"):
        await loop.send(f"the {number}: {'word ' * 300}", session_id=SESSION, send_id=number)


def folds_and_looks(life: Life) -> LLMService:
    """The conversation and the note of it, by one model; the note names what it was made of."""

    def answer(request: LLMRequest) -> LLMResponse | str:
        if not request.tools:
            shown = as_messages(request.messages)[-1].text
            return f"note of {', '.join(dict.fromkeys(re.findall(r'#[0-9]+', shown)))}"
        if isinstance(request.messages[-1], UserMessage):
            return asks_for("put", "look")
        return summary(LLMRequest(messages=request.messages[-2:]))

    return life.model(answer)


@agent("folded", long_sends)
def folded(life: Life) -> StatefulAgentLoop:
    """What a person says takes the window over its budget, so that it is folded before the model is asked."""
    config = AgentLoopConfig(context_budget_tokens=850)
    fold, tools = LLMSummaryFold(keep_last_sends=1, trigger_ratio=1.0), tools_of(life)
    return StatefulAgentLoop(
        llm=folds_and_looks(life), dsn=life.dsn, tools=tools, ambient=life.ambient, fold=fold, config=config
    )


@agent("folded-accounts", long_sends)
def folded_accounts(life: Life) -> StatefulAgentLoop:
    """The same, with earlier sends as accounts."""
    config = AgentLoopConfig(context_budget_tokens=950)
    return StatefulAgentLoop(
        llm=folds_and_looks(life), dsn=life.dsn, tools=tools_of(life), ambient=life.ambient, config=config,
        fold=LLMSummaryFold(keep_last_sends=1, trigger_ratio=1.0), representation=ProjectedRepresentation(),
    )  # fmt: skip


@agent("folded-in-mid-send", one_send)
def folded_in_mid_send(life: Life) -> StatefulAgentLoop:
    """One send outgrows the budget: its older rounds are folded, as often as needed."""

    @tool(effect="pure")
    async def dig(ctx: ToolContext, depth: int) -> str:
        life.effect(ctx)
        return f"{depth}: " + "earth " * 120

    def answer(request: LLMRequest) -> LLMResponse | str:
        if not request.tools:
            return "note: it is deep"
        depths = [int(m.text.partition(":")[0]) for m in request.messages if isinstance(m, ToolResultMessage)]
        if depths and depths[-1] >= 7:
            return "deep enough"
        depth = depths[-1] + 1 if depths else 1
        return LLMResponse(tool_calls=(ToolCall(f"c{depth}", "dig", f'{{"depth": {depth}}}'),))

    config = AgentLoopConfig(context_budget_tokens=800)
    fold = LLMSummaryFold(trigger_ratio=1.0)
    return StatefulAgentLoop(
        llm=life.model(answer), dsn=life.dsn, tools=[dig], ambient=life.ambient, fold=fold, config=config
    )


@agent("degraded", two_sends)
def degraded(life: Life) -> StatefulAgentLoop:
    def answer(request: LLMRequest) -> str:
        raise LLMTransientError("overloaded", status=503)

    config = AgentLoopConfig(retry=LLMRetryPolicy(max_attempts=2))
    return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, config=config, ambient=life.ambient)
