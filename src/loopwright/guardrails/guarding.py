"""Guardrails as hooks: who asks them, in which order, and what becomes of their verdicts.

Owns: `Guardrails`, what each verdict does at each stage. Must not know: the engine; it registers at the points of hooks.
Read next: `verdicts.py`, `checking.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from msgspec import json
from msgspec.structs import replace

from ..model.call_errors import GuardrailBlockedError
from ..model.errors import ConfigError
from ..model.messages import Content, TextPart, ToolCall, UserMessage, content_text
from ..ports.hook import (
    HookContext,
    LLMAfterContext,
    MemoryContext,
    MessageContext,
    ToolAfterContext,
    ToolBeforeContext,
)
from ..ports.hook_points import HookDirective, HookHandler, HookPoint
from .checking import Asked, Blocked, GuardrailChain, Passed
from .delta_screen import DeltaScreen, ScreenedBus
from .redaction import SecretRedaction
from .verdicts import Checked, Guardrail, Stage

ORDER = 1_000_000
"""Guardrails come after hooks of any usual order, so that they see what the others made of it."""

_MOST_NOTES = 1000
"""Calls whose notes wait for their result."""


class HookRegistry(Protocol):
    """What guardrails need of `AgentHooks`."""

    def register(
        self,
        point: HookPoint | str,
        handler: HookHandler,
        *,
        order: int = 0,
        name: str | None = None,
        replace: bool = False,
        always: bool = False,
    ) -> str:
        """Adds a hook; see `AgentHooks.register`."""
        ...


class Guardrails:
    """Checks on what goes in, what comes out, and what tools are given and give.

    They are asked in the order given, each about what the one before it left; a block ends the chain. Put what rewrites
    (`SecretRedaction`) before what reports, frames (`InjectionMarking`) behind it, and bounds (`SizeLimit`) last.
    `streams`: text of replies is screened on its way to subscribers too, for known values and shapes of secrets. It comes up to a
    word later then.
    Raises: `ConfigError` for two guardrails of one name.
    """

    def __init__(self, guardrails: Sequence[Guardrail], *, streams: bool = True) -> None:
        names = [guardrail.name for guardrail in guardrails]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError([f"two guardrails are named {name!r}; give one of them another name" for name in twice])
        self._chain = GuardrailChain(tuple(guardrails))
        self._finders = [g.finder for g in guardrails if isinstance(g, SecretRedaction)] if streams else []
        self._notes: dict[tuple[str, str], list[str]] = {}

    def install(self, hooks: HookRegistry, events: ScreenedBus | None = None) -> None:
        """Registers at every point that a guardrail is for, under the name "guardrails"; a second time replaces the first.

        `events`: the loop's bus, where streamed text is to be screened.
        """
        points: list[tuple[HookPoint, Stage, Any]] = [
            (HookPoint.MESSAGE_APPEND, Stage.INPUT, self._input),
            (HookPoint.LLM_AFTER, Stage.OUTPUT, self._output),
            (HookPoint.TOOL_BEFORE, Stage.ARGUMENTS, self._arguments),
            (HookPoint.TOOL_AFTER, Stage.RESULT, self._result),
            (HookPoint.MEMORY_RECALLED, Stage.RECALLED, self._recalled),
        ]
        for point, stage, handler in points:
            # A note about arguments is told with the result.
            notes = point is HookPoint.TOOL_AFTER and self._chain.has(Stage.ARGUMENTS)
            if self._chain.has(stage) or notes:
                hooks.register(point, handler, order=ORDER, name="guardrails", replace=True, always=True)
        if events is not None and self._finders:
            screen = DeltaScreen(self._finders)
            events.screen_with(screen.screened, screen.NEEDS)

    async def _input(self, context: MessageContext) -> None:
        message = context.message
        if not isinstance(message, UserMessage):  # the engine would go on with the one that nobody checked
            raise TypeError(f"a hook replaced the message by one of type {type(message).__name__}")
        about = Checked(stage=Stage.INPUT, text="", session_id=context.session_id)
        asked = await self._checked(context, about, message.content)
        if isinstance(asked, Blocked):
            if context.source != "inbox":
                raise GuardrailBlockedError(asked.guardrail, context.session_id, asked.reason, input_refused=True)
            # It was accepted long ago, and whoever wrote it is gone: the model learns that something is missing.
            asked = Asked(f"[A message was withheld by guardrail {asked.guardrail!r}: {asked.reason}]")
        content = _with_notes(asked.content, asked.notes)
        if content is not message.content:
            context.message = replace(message, content=content)

    async def _output(self, context: LLMAfterContext) -> None:
        response = context.response
        about = Checked(stage=Stage.OUTPUT, text="", session_id=context.session_id)
        text = await self._text(context, replace(about, text=response.text))
        reasoning = await self._text(context, replace(about, text=response.reasoning, place="reasoning"))
        calls: list[ToolCall] = []
        notes = [*text.notes, *reasoning.notes]
        for call in response.tool_calls:
            new, said = await self._call(context, call, about)
            calls.append(new)
            notes += said
        answer = text.text
        if notes:
            answer = f"{answer}\n\n{_noted(notes)}" if answer.strip() else _noted(notes)
        same = all(new is old for new, old in zip(calls, response.tool_calls, strict=True))
        if (answer, reasoning.text) == (response.text, response.reasoning) and same:
            return
        # What the provider wants back holds the same texts as they were.
        context.response = replace(
            response, text=answer, reasoning=reasoning.text, tool_calls=tuple(calls), provider_state=None
        )

    async def _call(self, context: LLMAfterContext, call: ToolCall, about: Checked) -> tuple[ToolCall, list[str]]:
        about = replace(about, text=call.arguments, place="arguments", tool_name=call.name, call_id=call.id)
        try:
            about = replace(about, value=call.parsed(), structured=True)
        except (ValueError, RecursionError):
            pass  # it will not run like this; its text is checked all the same
        asked = await self._passed(context, about)
        if about.structured:
            same = asked.value == about.value
            arguments = call.arguments if same else json.encode(asked.value).decode()
        else:
            arguments = asked.text
        return (call if arguments == call.arguments else replace(call, arguments=arguments)), list(asked.notes)

    async def _arguments(self, context: ToolBeforeContext) -> HookDirective | None:
        if context.directive in (HookDirective.SKIP, HookDirective.BREAK):
            return None  # another hook refused it; nothing will run
        about = Checked(
            stage=Stage.ARGUMENTS,
            text=_as_json(context.arguments),
            value=context.arguments,
            structured=True,
            place="arguments",
            session_id=context.session_id,
            tool_name=context.tool_name,
            call_id=context.tool_call.id,
        )
        passed = await self._asked(context, about)
        value: object = None if isinstance(passed, Blocked) else passed.value
        if not isinstance(passed, Blocked) and not isinstance(value, dict):
            passed = Blocked(passed.last, "it made arguments that are no object")
        if isinstance(passed, Blocked):
            context.question = None  # nobody is asked about what will not run
            context.output = f"guardrail {passed.guardrail!r} refused this call of {context.tool_name}: {passed.reason}"
            return HookDirective.SKIP
        if passed.notes:
            self._notes[context.session_id, context.tool_call.id] = list(passed.notes)
            if len(self._notes) > _MOST_NOTES:
                del self._notes[next(iter(self._notes))]
        context.arguments = cast("dict[str, Any]", passed.value)
        return None

    async def _result(self, context: ToolAfterContext) -> None:
        notes = self._notes.pop((context.session_id, context.tool_call.id), [])
        about = Checked(
            stage=Stage.RESULT,
            text="",
            session_id=context.session_id,
            tool_name=context.tool_name,
            call_id=context.tool_call.id,
            source=context.source,
        )
        content: Content = context.content
        if content_text(content) != context.output:
            content = context.output  # another hook wrote it anew
        asked = await self._checked(context, about, content)
        data = context.data
        if not isinstance(asked, Blocked) and data is not None:
            value = _plain(data)
            inner = replace(about, text=_as_json(value), value=value, structured=True, place="data")
            passed = await self._asked(context, inner)
            if isinstance(passed, Blocked):
                asked = passed
            else:
                data = data if passed.value == value else passed.value
                notes += passed.notes
        if isinstance(asked, Blocked):
            # Whatever the tool did, it has done; that must not look like a call that can be made again.
            asked = Asked(
                f"[The call of {context.tool_name} has ended. Guardrail {asked.guardrail!r} withheld what it answered: {asked.reason}]"
            )
            data = None
        content = _with_notes(asked.content, [*notes, *asked.notes])
        context.content, context.output, context.data = content, content_text(content), data

    async def _recalled(self, context: MemoryContext) -> None:
        kept: list[str] = []
        for text in context.recalled:
            about = Checked(stage=Stage.RECALLED, text=str(text), session_id=context.session_id)
            passed = await self._asked(context, about)
            if not isinstance(passed, Blocked):  # a memory that is blocked is not shown
                kept.append(content_text(_with_notes(passed.text, passed.notes)))
        context.recalled = kept

    async def _text(self, context: LLMAfterContext, about: Checked) -> Passed:
        return await self._passed(context, about) if about.text else Passed("", None, ())

    async def _passed(self, context: LLMAfterContext, about: Checked) -> Passed:
        asked = await self._asked(context, about)
        if isinstance(asked, Blocked):
            raise GuardrailBlockedError(asked.guardrail, context.session_id, asked.reason, input_refused=False)
        return asked

    async def _asked(self, context: HookContext, about: Checked) -> Passed | Blocked:
        return await self._chain.ask(about, context.decisions)

    async def _checked(self, context: HookContext, about: Checked, content: Content) -> Asked | Blocked:
        return await self._chain.ask_parts(about, content, context.decisions)


def install_guardrails(
    hooks: HookRegistry, guardrails: Sequence[Guardrail], events: ScreenedBus | None = None
) -> Guardrails:
    """`Guardrails(guardrails).install(hooks, events)` in one call; answers what was installed."""
    made = Guardrails(guardrails)
    made.install(hooks, events)
    return made


def _noted(notes: Sequence[str]) -> str:
    return "\n".join([f"[note of a guardrail: {note}]" for note in notes])


def _with_notes(content: Content, notes: Sequence[str]) -> Content:
    if not notes:
        return content
    said = _noted(notes)
    if isinstance(content, str):
        return f"{said}\n{content}" if content else said
    return (TextPart(f"{said}\n"), *content)


def _as_json(value: Any) -> str:
    return json.encode(value).decode()


def _plain(data: Any) -> Any:
    """Data as the JSON value that the record will hold."""
    try:
        return json.decode(json.encode(data))
    except (TypeError, ValueError, RecursionError):
        return str(data)
