"""A conversation of thousands of sends under a small budget: what is said, who answers, what has to hold at every request.

Everything is a function of the number of the send, and the model one of its request, so that a process that was killed
can be followed by another. Each thing that is said or returned holds a mark of its own, so that nothing can be lost unseen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct, field

from loopwright import (
    AgentLoopConfig,
    AssistantMessage,
    LLMRequest,
    LLMResponse,
    Message,
    StatefulAgentLoop,
    TextPart,
    ToolCall,
    ToolContext,
    Usage,
    UserMessage,
    tool,
)
from loopwright.context.agentic_fold import AgenticFold
from loopwright.context.projected import ProjectedRepresentation
from loopwright.context.summary_fold import LLMSummaryFold
from loopwright.context.verbatim import VerbatimRepresentation
from loopwright.core.pairing import problem
from loopwright.model.codec import encode
from loopwright.model.errors import SessionExistsError
from loopwright.model.messages import ToolResultMessage, as_messages, content_text
from loopwright.ports.ambient import Ambient, breathe
from loopwright.ports.fold import FoldDesk, FoldResult, FoldStrategy, FoldTask
from loopwright.ports.representation import FinishedSend, Representation

SESSION = "long"
BUDGET = 16_000
SYSTEM = "You help with a very long piece of work. " * 20
NOTE = "<conversation_so_far>"


def mark(*what: object) -> str:
    """A word that stands nowhere else."""
    return "m" + hashlib.sha256(repr(what).encode()).hexdigest()[:10]


def chance(*what: object) -> int:
    """A number that looks like one by chance."""
    return int(hashlib.sha256(repr(what).encode()).hexdigest()[:8], 16)


# --- the script -------------------------------------------------------------------------------------------------------


def words(send: int) -> str:
    """What the person says."""
    return f"[send {send}] keep {mark('said', send)} in mind. " + "So it goes on. " * (chance("said", send) % 60)


def more_words(send: int) -> str:
    """What the person says while the send runs."""
    return f"[more {send}] and {mark('more', send)} too"


def has_more(send: int) -> bool:
    """True when the person says something while the send runs."""
    return send % 11 == 3


def rounds(send: int) -> int:
    """Replies with calls in a send."""
    if send % 97 == 50:
        return 20
    if has_more(send) or send % 29 == 7:
        return 1
    return chance("rounds", send) % 3


def batch(send: int, round_: int) -> int:
    """Calls of one reply."""
    if send % 29 == 7:
        return 8
    return 1 + chance("batch", send, round_) % 2


def output(send: int, round_: int, index: int) -> str:
    """What a call returns."""
    size = 50_000 if send % 29 == 7 and index % 3 == 0 else 3_000 if send % 97 == 50 else 40
    size = size or chance("size", send, round_, index) % 2_500
    if send % 13 == 5:
        size = 6_000
    first = f"{mark('result', send, round_, index)} is the result."
    return f"{first}\n" + f"line of {send}\n" * (size // 10)


NAMES = ("look", "put")


def asked(send: int, round_: int) -> tuple[ToolCall, ...]:
    """The calls of a round."""
    return tuple(
        ToolCall(
            f"c{send}_{round_}_{index}",
            NAMES[chance("name", send, round_, index) % 2],
            json.dumps({"send": send, "round": round_, "index": index}),
        )
        for index in range(batch(send, round_))
    )


def answer(send: int) -> str:
    """The last reply of a send."""
    return f"answer {send}: {mark('answer', send)} " + "and so on " * (chance("answer", send) % 80)


# --- what has to hold -------------------------------------------------------------------------------------------------


class Watch(Struct):
    """What was seen of all requests of one conversation, over all its processes."""

    density: float = 1.0
    """Of the model's tokens: one that has more of them for the same text shows whether sizes are learned."""
    no_notes: range = range(0)
    """Sends in which the model writes no note."""
    current: int = 0
    """The send that runs."""
    ended: int = 0
    """Sends that were seen to end."""
    requests: int = 0
    notes: int = 0
    """Requests with a note."""
    folds: int = 0
    """Requests about folds."""
    largest: int = 0
    largest_fold: int = 0
    paid: int = 0
    """Tokens that the model reported."""
    shown: dict[int, int] = field(default_factory=lambda: {})
    """Of them, what requests held, by send."""
    problems: list[str] = field(default_factory=lambda: [])

    def judge(self, request: LLMRequest) -> None:
        """Notes what is wrong with a request of the conversation."""
        messages = as_messages(request.messages)
        size = tokens(request, self.density)
        self.requests += 1
        self.largest = max(self.largest, size)
        self.shown[self.current] = self.shown.get(self.current, 0) + size
        wrong: list[str] = []
        if (why := problem(messages)) is not None:
            wrong.append(why)
        if size > BUDGET:
            wrong.append(f"{size} tokens")
        notes = [place for place, message in enumerate(messages) if shows(message, NOTE)]
        self.notes += bool(notes)
        if notes not in ([], [0]):
            wrong.append(f"notes at {notes}")
        said = [m.text for m in messages if isinstance(m, UserMessage)]
        if words(self.current) not in said:
            wrong.append("the person's last words are missing")
        calls = [m for m in messages if isinstance(m, AssistantMessage) and m.tool_calls]
        heard = not calls or place_of(calls[-1])[0] < self.current or not has_more(self.current)
        if not heard and more_words(self.current) not in said:
            wrong.append("what the person said meanwhile is missing")
        self.problems += [f"send {self.current}, request {self.requests}: {one}" for one in wrong]

    def judge_fold(self, request: LLMRequest) -> None:
        """Notes what is wrong with a request about a fold."""
        size = tokens(request, self.density)
        self.folds += 1
        self.largest_fold = max(self.largest_fold, size)
        if (why := problem(as_messages(request.messages))) is not None:
            self.problems.append(f"fold in send {self.current}: {why}")
        if size > BUDGET:
            self.problems.append(f"fold in send {self.current}: {size} tokens")


def shows(message: Message, text: str) -> bool:
    """True for a message of a person that begins with this."""
    return isinstance(message, UserMessage) and message.text.startswith(text)


def tokens(request: LLMRequest, density: float = 1.0) -> int:
    """Size of a whole request, counted without the library: what a model of this density reports."""
    characters = len(request.system_prompt or "") + sum(len(encode(spec)) for spec in request.tools)
    messages = as_messages(request.messages)
    for message in messages:
        if isinstance(message, AssistantMessage):
            characters += len(message.text) + sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
        else:
            characters += len(content_text(message.content))
    return int((characters // 4 + 3 * len(messages)) * density)


class Model:
    """Answers the conversation and writes notes."""

    def __init__(self, watch: Watch, alive: Callable[[], None] = lambda: None) -> None:
        self._watch = watch
        self._alive = alive

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """A function of the request; other work goes on meanwhile."""
        self._alive()
        if request.system_prompt == SYSTEM:
            self._watch.judge(request)
            reply = replied(as_messages(request.messages))
        else:
            self._watch.judge_fold(request)
            await breathe()
            is_down = self._watch.current in self._watch.no_notes
            reply = noted(request) if self._watch.folds % 9 and not is_down else ""
        await breathe()
        self._alive()
        usage = Usage(tokens(request, self._watch.density), 20, calls=1)
        self._watch.paid += usage.total_tokens
        return LLMResponse(
            text=reply if isinstance(reply, str) else "",
            tool_calls=() if isinstance(reply, str) else reply,
            finish_reason="stop" if isinstance(reply, str) else "tool_calls",
            usage=usage,
            model="long",
        )

    async def aclose(self) -> None:
        """Nothing to release."""


def replied(messages: Sequence[Message]) -> str | tuple[ToolCall, ...]:
    """What comes next in the newest send: the round behind the newest one, or the answer."""
    said = [m.text for m in messages if isinstance(m, UserMessage) and m.text.startswith("[send ")]
    send = int(said[-1].partition("]")[0].removeprefix("[send "))
    calls = [m for m in messages if isinstance(m, AssistantMessage) and m.tool_calls]
    before = place_of(calls[-1]) if calls else (-1, 0)
    next_ = before[1] + 1 if before[0] == send else 0
    return asked(send, next_) if next_ < rounds(send) else answer(send)


def place_of(message: AssistantMessage) -> tuple[int, int]:
    """(send, round) of a reply with calls."""
    given = message.tool_calls[0].parsed()
    return given["send"], given["round"]


def noted(request: LLMRequest) -> str | tuple[ToolCall, ...]:
    """A note of some length, after a look around where there are tools."""
    messages = as_messages(request.messages)
    size = chance("note", len(messages[0].text if isinstance(messages[0], UserMessage) else ""))
    text = f"It was about {mark('note', size)}. " + "Much was said. " * (size % 1_500)
    names = [spec.name for spec in request.tools]
    if not names:
        return text
    results = [m for m in messages if isinstance(m, ToolResultMessage)]
    if len(names) > 1 and len(results) < size % 3:
        label = int(content_of(messages[0]).partition('label="#')[2].partition('"')[0])
        return (ToolCall(f"f{len(results)}", "read_send", json.dumps({"label": label, "offset": 0})),)
    return (ToolCall(f"f{len(results)}", "finish", json.dumps({"note": text})),)


def content_of(message: Message) -> str:
    """The text of any message."""
    return message.text if isinstance(message, AssistantMessage) else content_text(message.content)


# --- representations and folds ----------------------------------------------------------------------------------------


class OwnRepresentation:
    """A host's own: question and answer as two messages; some sends it leaves as they are, at some it breaks."""

    kind = "pair"
    version = 3

    def project(self, send: FinishedSend) -> tuple[Message, ...] | None:
        """See `Representation`."""
        if send.label % 7 == 0:
            return None
        if send.label % 11 == 0:
            raise ValueError("no idea")
        first, last = send.messages[0], send.messages[-1]
        return (UserMessage(content_of(first)[:200]), AssistantMessage((TextPart(f"(done) {content_of(last)[:100]}"),)))


class OwnFold(Struct, frozen=True):
    """A host's own: no model, the names of what is gone."""

    fold_id: str = "own"
    keep_last_sends: int = 2
    trigger_ratio: float = 0.6
    summary_max_tokens: int = 800

    async def fold(self, task: FoldTask, desk: FoldDesk) -> FoldResult | None:
        """See `FoldStrategy`."""
        await breathe()
        return FoldResult(
            note=f"Gone: {', '.join(f'#{part.label}' for part in task.parts)}. {(task.prior or '')}"[:3_000]
        )


REPRESENTATIONS: Mapping[str, Callable[[], Representation]] = {
    "verbatim": VerbatimRepresentation,
    "projected": ProjectedRepresentation,
    "own": OwnRepresentation,
}
FOLDS: Mapping[str, Callable[[], FoldStrategy]] = {
    "summary": LLMSummaryFold,
    "agentic": AgenticFold,
    "own": OwnFold,
}


# --- the loop and its host --------------------------------------------------------------------------------------------


def tools_of(effect: Callable[[ToolContext], None], speak: Callable[[int], Awaitable[object]]) -> list[object]:
    """`look` reads, `put` changes something and may do so again."""

    @tool(effect="pure")
    async def look(send: int, round: int, index: int) -> str:  # noqa: A002 - the name that the model sees
        if has_more(send) and round == 0 and index == 0:
            await speak(send)
        return output(send, round, index)

    @tool(effect="idempotent")
    async def put(send: int, round: int, index: int, ctx: ToolContext) -> str:  # noqa: A002 - as above
        effect(ctx)
        if has_more(send) and round == 0 and index == 0:
            await speak(send)
        return output(send, round, index)

    return [look, put]


class Plan(Struct, frozen=True):
    """One combination."""

    representation: str
    fold: str


def loop_of(
    plan: Plan,
    dsn: str,
    ambient: Ambient,
    model: Model,
    effect: Callable[[ToolContext], None] = lambda context: None,
) -> StatefulAgentLoop:
    """A loop of this combination."""
    holder: list[StatefulAgentLoop] = []

    async def speak(send: int) -> None:
        await holder[0].follow_up(more_words(send), session_id=SESSION, item_id=f"more-{send}")

    loop = StatefulAgentLoop(
        llm=model,
        dsn=dsn,
        tools=tools_of(effect, speak),  # type: ignore[arg-type]
        config=AgentLoopConfig(system_prompt=SYSTEM, context_budget_tokens=BUDGET),
        representation=REPRESENTATIONS[plan.representation](),
        fold=FOLDS[plan.fold](),
        ambient=ambient,
    )
    holder.append(loop)
    return loop


async def talk(loop: StatefulAgentLoop, watch: Watch, sends: int, *, recover: bool = False) -> None:
    """Goes on with the conversation up to so many sends; what was interrupted is continued by asking again, or before."""
    try:
        await loop.new_session(session_id=SESSION)
    except SessionExistsError:
        pass
    if recover:
        watch.problems += [str(one.error) for one in await loop.recover() if one.error is not None]
    for send in range(watch.current, sends):
        watch.current = send
        result = await loop.send(words(send), session_id=SESSION, send_id=f"send-{send}")
        if result.status != "completed" or result.final_text != answer(send):
            watch.problems.append(
                f"send {send} ended as {result.status}: {result.error_message or result.final_text[:80]}"
            )
        watch.ended = send + 1
