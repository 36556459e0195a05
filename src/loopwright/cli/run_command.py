"""`loopwright run`.

Owns: one send, from prompt to exit code. Must not know: how a run is shown.
Read next: `session_drive.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated, Any

import typer
from msgspec import Struct

from ..core.result import FollowUpQueued, StatefulResult
from ..model.errors import ConfigError, LoopwrightError
from ..ports.cancellation import CancellationToken
from .agent_options import SETTINGS, takes_agent
from .agent_setup import Agent, AgentSettings, opened_agent
from .answer_fields import answer_from_text
from .exit_codes import ExitCode, code_of_error, code_of_outcome, words_of
from .keyboard_questions import ask_on_terminal
from .options import (
    AsEvents,
    AsJson,
    Session,
)
from .screen import Screen, question_text
from .session_drive import (
    ANSWERED_BY,
    Drive,
    JsonLines,
    how_to_go_on,
    result_json,
    screen_for,
    write_json,
)
from .session_ids import left_open, resolved
from .standard_streams import text_of_argument
from .store_place import opened_store


class RunOrder(Struct, frozen=True, kw_only=True):
    """What one run is to do and how its end is said."""

    prompt: str | None
    """None: go on without new input."""
    session_id: str | None
    send_id: str | None = None
    as_json: bool = False
    as_events: bool = False
    answer: str | None = None
    """Answers an open question instead of saying something."""
    question: str | None = None
    """Which one; None: the only one."""
    again: bool = False
    """Ask the model once more where nothing is open."""


@takes_agent()
def run(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="What to do; - reads it from standard input.")
    ] = None,
    session: Session = None,
    settings: AgentSettings = SETTINGS,
    as_json: AsJson = False,
    as_events: AsEvents = False,
    send_id: Annotated[
        str | None,
        typer.Option("--send-id", metavar="ID", help="With --session: the same id again returns the stored result."),
    ] = None,
) -> None:
    """Run an agent on PROMPT until it is done.

    The answer goes to standard output, everything else to standard error. Without PROMPT a named session goes on where it was interrupted.
    """
    if as_json and as_events:
        raise ConfigError("--json and --events exclude each other")
    if prompt is None and session is None:
        raise ConfigError('nothing to do: give a prompt, for example loopwright run "list the files here"')
    if send_id is not None and (session is None or prompt is None):
        raise ConfigError(
            "--send-id belongs to a prompt in a session: give both, the session with --session; in a new one no id is known"
        )
    text = sys.stdin.read() if prompt == "-" else None if prompt is None else text_of_argument(prompt)
    order = RunOrder(prompt=text, session_id=session, send_id=send_id, as_json=as_json, as_events=as_events)
    raise typer.Exit(asyncio.run(carry_out(settings, order)))


async def carry_out(settings: AgentSettings, order: RunOrder) -> int:
    """Runs the order and says how it ended; answers the exit code."""
    shown: list[str] = []
    try:
        if order.prompt is None and order.answer is None and not order.again:
            async with opened_store(settings.db) as store:
                named = await resolved(store, order.session_id or "")
                if not await left_open(store, named):
                    return _nothing_open(named, settings, as_json=order.as_json)
        async with opened_agent(settings, order.session_id, os.environ) as agent:
            await _refuse_run(agent, settings)
            session_id = agent.session_id or await _new_session(agent, order.prompt or "")
            shown.append(session_id)
            screen = _screen(agent, settings, order)
            screen.note(f"session {session_id}")
            drive = Drive(agent, settings, screen)
            result = await _drive(drive, session_id, order)
    except LoopwrightError as error:
        if order.as_json:
            write_json(error_json(error, shown[0] if shown else order.session_id, settings))
        raise
    if result is None:
        return ExitCode.UNAVAILABLE
    if order.as_json:
        write_json(result_json(result))
    if (words := how_to_go_on(result, settings)) is not None:
        sys.stderr.write(f"loopwright: {words}\n")
    return code_of_outcome(result.status)


async def _refuse_run(agent: Agent, settings: AgentSettings) -> None:
    """Raises `ConfigError` for a run of a workflow, which another command goes on with."""
    sid = agent.session_id
    if sid is not None and (await agent.loop.store.lookup(sid)).head.kind == "workflow":
        more = f"{sid}{settings.repeated()}"
        raise ConfigError(f"{sid} is a run of a workflow; go on with it: `loopwright workflow resume {more}`")


def error_json(error: LoopwrightError, session_id: str | None, settings: AgentSettings) -> dict[str, object]:
    """What `--json` says when there is no result."""
    return {
        "session_id": session_id,
        "status": "error",
        "exit_code": int(code_of_error(error)),
        "error_code": error.code,
        "error_message": words_of(error, settings),
    }


def _nothing_open(session_id: str, settings: AgentSettings, *, as_json: bool) -> int:
    if as_json:
        write_json({"session_id": session_id, "status": "idle", "exit_code": int(ExitCode.COMPLETED)})
    more = f"loopwright sessions resume {session_id}{settings.repeated()} --again"
    sys.stderr.write(f"loopwright: session {session_id}: nothing was open; to ask the model once more: {more}\n")
    return ExitCode.COMPLETED


async def _new_session(agent: Agent, prompt: str) -> str:
    if not prompt.strip():
        raise ConfigError("the prompt is empty; say what to do")
    return await agent.loop.new_session(metadata=agent.metadata, title=" ".join(prompt.split())[:80])


def _screen(agent: Agent, settings: AgentSettings, order: RunOrder) -> Screen:
    answer = not (order.as_json or order.as_events)
    screen = screen_for(answer=answer, streaming=settings.stream, model=agent.model.model)
    return JsonLines(screen) if order.as_events else screen


async def _drive(drive: Drive, session_id: str, order: RunOrder) -> StatefulResult | None:
    loop, prompt = drive.agent.loop, order.prompt
    chosen, value = ("", None) if order.answer is None else await _answer(drive.agent, session_id, order)

    async def work(token: CancellationToken) -> StatefulResult | FollowUpQueued:
        if order.answer is not None:
            return await loop.submit_input(session_id, chosen, value, by=ANSWERED_BY)
        if prompt is None:
            return await loop.resume(session_id, stop=token)
        result = await loop.send(prompt, session_id=session_id, send_id=order.send_id, stop=token)
        if order.send_id is not None and not drive.began and not token.cancelled:
            drive.screen.note(f"send id {order.send_id} is known: its stored result is shown, nothing was run")
        return result

    if order.as_json or order.as_events or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return await drive.run(work)
    return await drive.with_questions(work, ask_on_terminal)


async def _answer(agent: Agent, session_id: str, order: RunOrder) -> tuple[str, Any]:
    """(id of the question, value) that the order's answer means."""
    _, questions = await agent.loop.get_pending(session_id)
    open_ids = ", ".join(question.id for question in questions)
    fitting = [q for q in questions if order.question in (None, q.id)]
    if not fitting:
        raise ConfigError(f"session {session_id!r} has no such open question; open: {open_ids or 'none'}")
    if len(fitting) > 1:
        raise ConfigError(f"session {session_id!r} waits for several answers; say which with --question: {open_ids}")
    try:
        return fitting[0].id, answer_from_text(fitting[0], order.answer or "")
    except ValueError as error:
        raise ConfigError(f"the answer does not fit: {question_text(fitting[0])}: {error}") from error
