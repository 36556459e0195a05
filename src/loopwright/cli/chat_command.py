"""`loopwright chat`: a conversation at the keyboard.

Owns: reading lines, the words that begin with a slash, handing over what is typed while a run goes on.
Must not know: how a run is shown. Read next: `type_ahead.py`, `session_drive.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from typing import Any, Final

try:
    import readline  # noqa: F401 - being loaded is what makes input() edit lines  # pyright: ignore[reportUnusedImport]
except ImportError:
    pass

from ..core.result import FollowUpQueued, StatefulResult
from ..model.errors import LoopwrightError, RetryLaterError, StoreError
from ..model.records import Interaction
from ..ports.cancellation import CancellationToken
from .agent_options import SETTINGS, takes_agent
from .agent_setup import Agent, AgentSettings, opened_agent
from .exit_codes import words_of
from .journal_lines import counted, one_line, printable, tokens_text
from .keyboard_questions import ask_on_terminal
from .options import (
    Session,
)
from .screen import question_text
from .session_drive import Drive, Work, screen_for
from .type_ahead import TypeAhead

HELP: Final = """\
  /help      this
  /session   id and figures of this session
  /exit      leave (so does Ctrl-D); the session stays
  While the model works: type and press Enter to add something, Ctrl-C stops the run."""


@takes_agent(without=("no_stream",))
def chat(
    session: Session = None,
    settings: AgentSettings = SETTINGS,
) -> None:
    """Talk with an agent; every message is durable."""
    with asyncio.Runner() as runner:
        Conversation(runner, settings).hold(session)


class Conversation:
    """One chat: lines are read between runs, outside of the event loop."""

    def __init__(self, runner: asyncio.Runner, settings: AgentSettings) -> None:
        self._runner = runner
        self._settings = settings
        self._stack = AsyncExitStack()
        self._session_id = ""
        """Empty until the first message: a chat in which nothing is said leaves no session behind."""
        self._waiting = False
        """True while the session waits for an answer."""
        self._at_keyboard = sys.stdin.isatty() and sys.stderr.isatty()

    def hold(self, session_id: str | None) -> None:
        """From the first line to the last."""
        try:
            agent = self._runner.run(self._open(session_id))
            self._greet(agent)
            if session_id is not None:
                self._go_on(agent)
            while (line := self._read()) is not None:
                if not self._command(agent, line):
                    return
        finally:
            self._runner.run(self._stack.aclose())
            if self._session_id:
                more = f"{self._session_id}{self._settings.repeated()}"
                sys.stderr.write(f"loopwright: go on with: loopwright chat --session {more}\n")

    async def _open(self, session_id: str | None) -> Agent:
        agent = await self._stack.enter_async_context(opened_agent(self._settings, session_id, os.environ))
        self._session_id = agent.session_id or ""
        return agent

    def _greet(self, agent: Agent) -> None:
        name = f"{agent.model.vendor} {agent.model.model}".strip()
        session = f"session {self._session_id}" if self._session_id else "a new session with your first message"
        sys.stderr.write(f"loopwright: {name}, {session}; /help lists the commands\n")

    def _go_on(self, agent: Agent) -> None:
        """A session that was interrupted goes on, one that waits is asked about, before anything new is said."""
        stats = self._runner.run(agent.loop.get_session_stats(self._session_id))
        for message in self._runner.run(agent.loop.get_messages(self._session_id, include_compacted=True))[-2:]:
            if text := getattr(message, "text", ""):
                sys.stderr.write(f"  … {one_line(printable(text), 100)}\n")
        if stats.status in ("running", "waiting"):
            self._run(agent, self._resuming(agent))

    def _resuming(self, agent: Agent) -> Work:
        async def work(token: CancellationToken) -> StatefulResult:
            return await agent.loop.resume(self._session_id, stop=token)

        return work

    def _saying(self, agent: Agent, text: str) -> Work:
        async def work(token: CancellationToken) -> StatefulResult | FollowUpQueued:
            if not self._session_id:
                title = " ".join(text.split())[:80]
                self._session_id = await agent.loop.new_session(metadata=agent.metadata, title=title)
            return await agent.loop.send(text, session_id=self._session_id, stop=token)

        return work

    def _read(self) -> str | None:
        """The next line; None at the end."""
        try:
            if self._at_keyboard:
                sys.stderr.flush()
                return input("› " if "utf" in (sys.stdout.encoding or "").lower() else "> ")
            line = sys.stdin.readline()
            return line.rstrip("\n") if line else None
        except EOFError:
            sys.stderr.write("\n")
            return None
        except KeyboardInterrupt:
            sys.stderr.write("\n  /exit or Ctrl-D leaves\n")
            return ""

    def _command(self, agent: Agent, line: str) -> bool:
        """Does what the line says; False to leave."""
        text = line.strip()
        if not text:
            return True
        if text in ("/exit", "/quit"):
            return False
        if text == "/help":
            sys.stderr.write(HELP + "\n")
        elif text == "/session":
            sys.stderr.write(f"  {self._figures(agent)}\n")
        elif text.startswith("/") and " " not in text and "/" not in text[1:]:
            sys.stderr.write(f"  no command {text}; /help lists them\n")
        else:
            if self._waiting:  # what the run asked comes first: nothing can be said to it before
                self._run(agent, self._resuming(agent))
            if self._waiting:
                sys.stderr.write(f"  not sent, the question is still open: {one_line(text, 100)}\n")
            else:
                self._run(agent, self._saying(agent, text))
        return True

    def _figures(self, agent: Agent) -> str:
        if not self._session_id:
            return "no session yet: the first message makes it"
        stats = self._runner.run(agent.loop.get_session_stats(self._session_id))
        figures = f"{counted(stats.sends, 'send')}, {counted(stats.records, 'record')}, {tokens_text(stats.usage)}"
        return f"{self._session_id}: {figures}, {stats.status}"

    def _run(self, agent: Agent, work: Work) -> None:
        drive = Drive(agent, self._settings, screen_for(model=agent.model.model))
        try:
            result = self._runner.run(self._with_typing(drive, work))
        except (RetryLaterError, StoreError):
            raise
        except LoopwrightError as error:
            sys.stderr.write(f"loopwright: {words_of(error, self._settings)}\n")
            return
        self._waiting = result is not None and result.status == "waiting_for_input"
        if result is None:
            return
        if result.status == "waiting_for_input":
            asked = "; ".join(question_text(question) for question in result.pending_interactions)
            sys.stderr.write(f"\n  still open: {asked}; it is asked again before your next message\n")
        elif result.status in ("failed", "degraded") and result.error_message:
            sys.stderr.write(f"  {printable(result.error_message)}\n")

    async def _with_typing(self, drive: Drive, work: Work) -> StatefulResult | None:
        """Runs with what is typed meanwhile handed over as follow-ups."""
        if not self._at_keyboard:
            return await drive.with_questions(work, ask_on_terminal)
        ahead = TypeAhead(sys.stdin.fileno(), drive.screen.typed, lambda text: self._add(drive, text))

        def ask(question: Interaction) -> Any:
            with ahead.paused():
                return ask_on_terminal(question)

        with ahead:
            return await drive.with_questions(work, ask)

    async def _add(self, drive: Drive, text: str) -> None:
        drive.screen.note(f"you: {one_line(text, 200)}")
        try:
            await drive.agent.loop.follow_up(text, session_id=self._session_id)
        except LoopwrightError as error:
            drive.screen.note(words_of(error, self._settings), bad=True)
