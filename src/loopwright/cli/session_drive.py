"""Running a session in front of a person: events to the screen, signals to the run, questions to the keyboard.

Owns: Ctrl-C, questions between runs, the lines that say how to go on. Must not know: options, how anything is drawn.
Read next: `screen.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from ..core.result import FollowUpQueued, StatefulResult
from ..model.events import AgentEvent, RunStarted
from ..model.records import Interaction
from ..ports.cancellation import CancellationToken
from .agent_setup import Agent, AgentSettings
from .exit_codes import code_of_outcome
from .live_screen import LiveScreen, terminal_console
from .screen import PlainScreen, Screen, is_terminal, question_text

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ANSWERED_BY: Final = "loopwright command"
"""Who answered, as the journal says it."""

Work = Callable[[CancellationToken], Awaitable[StatefulResult | FollowUpQueued]]
"""Something that runs a session until it ends, pauses or is stopped by the token."""


class JsonLines:
    """Every event as one JSON object on a line of standard output."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.gone = False

    def event(self, event: AgentEvent) -> None:
        """Writes the event."""
        try:
            write_json(event.to_dict())
        except BrokenPipeError:
            self.gone = True

    def note(self, text: str, *, bad: bool = False) -> None:
        """See `Screen.note`."""
        self._screen.note(text, bad=bad)

    def typed(self, text: str) -> None:
        """There is no place for it."""

    def end(self, result: StatefulResult | None) -> None:
        """The last event said it all."""


def write_json(value: Any) -> None:
    """One JSON value on a line of standard output, in ASCII, so that any encoding carries it."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True) + "\n")
    sys.stdout.flush()


def screen_for(*, answer: bool = True, streaming: bool = True, model: str = "") -> Screen:
    """The screen that fits where standard output and standard error go."""
    out, err = sys.stdout, sys.stderr
    if is_terminal(err):
        aside = None if out.isatty() or not answer else out
        return LiveScreen(terminal_console(err), out=aside, answer=answer, streaming=streaming, model=model)
    return PlainScreen(out=out if answer else None, err=err, streaming=streaming)


def result_json(result: StatefulResult) -> dict[str, Any]:
    """The one JSON result of `--json`."""
    return {
        "session_id": result.session_id,
        "status": result.status,
        "exit_code": int(code_of_outcome(result.status)),
        "final_text": result.final_text,
        "rounds": result.rounds,
        "usage": {name: getattr(result.usage, name) for name in result.usage.__struct_fields__},
        "output": result.output,
        "pending_tool_calls": msgspec.to_builtins(result.pending_tool_calls),
        "pending_interactions": msgspec.to_builtins(result.pending_interactions),
        "error_code": result.error_code,
        "error_message": result.error_message,
    }


class Drive:
    """Runs sessions of one agent on one screen."""

    def __init__(self, agent: Agent, settings: AgentSettings, screen: Screen) -> None:
        self.agent = agent
        self.settings = settings
        self.screen = screen
        self.stopped = False
        """True once a signal stopped a run."""
        self.began = False
        """True once a run began or went on; what is stored already is answered without one."""

    async def run(self, work: Work) -> StatefulResult | None:
        """Does `work` with its events on the screen; the first signal stops it, the second ends the process.

        None: the input was only queued, because another process runs the session.
        """
        token = CancellationToken()
        loop = asyncio.get_running_loop()
        unsubscribe = self.agent.loop.event_bus.subscribe(self._event_taker(token))
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop, token, number)
        result: StatefulResult | None = None
        try:
            done = await work(token)
            result = done if isinstance(done, StatefulResult) else None
            return result
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)
            unsubscribe()
            self.screen.end(result)

    def _event_taker(self, token: CancellationToken) -> Callable[[AgentEvent], None]:
        def take(event: AgentEvent) -> None:
            self.began = self.began or isinstance(event.data, RunStarted)
            self.screen.event(event)
            if self.screen.gone:
                token.cancel("standard output was closed")

        return take

    def _stop(self, token: CancellationToken, number: signal.Signals) -> None:
        if self.stopped:
            self.screen.end(None)
            sys.stderr.write("loopwright: left at once; the session goes on from its journal when it is resumed\n")
            sys.stderr.flush()
            os._exit(130)
        self.stopped = True
        self.screen.note("stopping … (once more: leave at once)", bad=True)
        token.cancel("stopped by Ctrl-C" if number == signal.SIGINT else f"stopped by {number.name}")

    async def with_questions(self, work: Work, ask: Callable[[Interaction], Any]) -> StatefulResult | None:
        """Like `run`, and answers what the run asks meanwhile with `ask`; where that gives None, the question stays open."""
        result, left = await self.run(work), set[str]()
        while result is not None and result.status == "waiting_for_input":
            question = next((one for one in result.pending_interactions if one.id not in left), None)
            if question is None:
                return result
            value = ask(question)
            if value is None:
                left.add(question.id)
            else:
                result = await self.run(self.answering(result.session_id, question, value))
        return result

    def answering(self, session_id: str, question: Interaction, value: Any) -> Work:
        """The work of handing in an answer and going on."""

        async def work(_: CancellationToken) -> StatefulResult:
            return await self.agent.loop.submit_input(session_id, question.id, value, by=ANSWERED_BY)

        return work


def how_to_go_on(result: StatefulResult, settings: AgentSettings) -> str | None:
    """What to type next after a send that did not complete; None after one that did."""
    more = f"{result.session_id}{settings.repeated()}"
    match result.status:
        case "completed":
            return None
        case "waiting_for_input":
            questions = result.pending_interactions
            if not questions:
                return f"the session waits for a time, a signal or another session: loopwright sessions resume {more}"
            several = len(questions) > 1
            asked = "\n".join([f"  ? {question_text(q)}" + (f" ({q.id})" if several else "") for q in questions])
            which = ("ID" if several else "".join([q.id for q in questions])) + settings.repeated()
            return f"the session waits for an answer:\n{asked}\nanswer: loopwright inbox answer {which}"
        case "pending_tools":
            names = ", ".join(f"{call.name} ({call.id})" for call in result.pending_tool_calls)
            return f"the session waits for results of a host's tools: {names}"
        case _:
            return f"go on: loopwright sessions resume {more}"
