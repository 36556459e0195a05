"""Running a workflow in front of a person: the tree while it goes on, questions at the keyboard, leaving it.

Owns: Ctrl-C, which leaves the run where it is, and the lines that say how to go on. Must not know: options.
Read next: `workflow_screen.py`, `../engine/workflows.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..config import AgentLoopConfig
from ..engine.workflow_progress import WorkflowResult
from ..loop import StatefulAgentLoop
from ..model.errors import ConfigError, SessionLeftError
from ..model.records import Interaction, Record
from ..model.workflow_records import StepWaits
from ..ports.cancellation import CancellationToken
from ..workflow import RunMarks
from ..workflow.picture import clean
from .agent_setup import AgentSettings, NoModel, opened_agent
from .answer_fields import answer_from_text
from .exit_codes import ExitCode, code_of_outcome
from .journal_lines import tokens_text
from .keyboard_questions import ask_on_terminal
from .screen import question_text
from .session_drive import ANSWERED_BY, STOP_SIGNALS, write_json
from .store_place import db_option, opened_store, option_of_store
from .worker_command import made_by_host
from .workflow_screen import RunScreen, summary, wait_text
from .workflow_tail import RunTail, resolved_run

LOOK_S: Final = 0.1
"""How often the journal is looked at while a run goes on."""


MOST_LINES: Final = 60
"""Lines of an output that is no text which a terminal gets; a file or a pipe gets all."""

MOST_SAID: Final = 2_000
"""Characters of one line about a run."""


class Opened(Struct, frozen=True):
    """A loop that can run workflows, and the run that was named."""

    loop: StatefulAgentLoop
    run_id: str | None
    metadata: dict[str, Any]
    options: tuple[str, ...]
    """What the next command on the run needs, too, beside the store."""
    db: str = ""
    """The option that names the store, as it is shown."""

    @property
    def more(self) -> str:
        """All of that as it is typed."""
        db = "" if "--agent-module" in self.options else self.db
        return db + "".join([f" {shlex.quote(word)}" for word in self.options])


@asynccontextmanager
async def opened_loop(settings: AgentSettings, agent_module: str | None, run_id: str | None) -> AsyncGenerator[Opened]:
    """A loop of the command's own, or that of a host's function. Raises: `ConfigError` and the errors of stores."""
    if agent_module is not None:
        loop = await made_by_host(settings, agent_module)
        try:
            sid = None if run_id is None else await resolved_run(loop.store, run_id)
            yield Opened(loop, sid, {}, ("--agent-module", agent_module), option_of_store(loop.store))
        finally:
            await loop.aclose(drain_timeout_s=5.0)
        return
    if run_id is not None:
        async with opened_store(settings.db) as store:
            run_id = await resolved_run(store, run_id, db_option(settings.db))
            head = (await store.lookup(run_id)).head
            if head.status == "idle" and head.sends and settings.model is None:  # it ended: no model, no tools
                config = AgentLoopConfig(agent_name=head.agent_name, serve_timers=False)
                async with StatefulAgentLoop(llm=NoModel(), store=store, config=config) as loop:
                    yield Opened(loop, run_id, {}, settings.repeated_words(), db_option(settings.db))
                return
    async with opened_agent(settings, run_id, os.environ) as agent:
        yield Opened(agent.loop, run_id, agent.metadata, settings.repeated_words(), db_option(settings.db))


class DriveOrder(Struct, frozen=True, kw_only=True):
    """How a run is shown and what is said at its end."""

    as_json: bool = False
    answer: str | None = None
    """Answers an open question first."""
    question: str | None = None
    """Which one; None: the only one."""


class RunDrive:
    """One run of a workflow on one screen."""

    def __init__(self, opened: Opened, run_id: str, screen: RunScreen) -> None:
        self.opened = opened
        self.run_id = run_id
        self._screen = screen
        self._tail = RunTail(opened.loop.store, run_id)
        self._leave = CancellationToken()
        self._answering = False
        self._again = False
        """The run was only left to be resumed at once."""
        self._taken: set[str] = set()
        """Inbox items for which that was done."""

    async def carry_out(self, order: DriveOrder) -> int:
        """Runs it until it ended, a person is needed or somebody leaves; answers the exit code."""
        self._screen.begin(self.run_id)
        await self._tail.look()  # what was before is in the tree, and no news
        self._tail.heard = self._heard
        if self._tail.marks is not None:
            for waits in self._tail.marks.waits.values():
                self._waits(waits, said=False)
        try:
            first = None if order.answer is None else await self._answer(order)
            result = await self._watched(self._through(first))
            while self._asks(order) and result.status == "waiting_for_input" and result.pending_interactions:
                self._screen.end(None)
                question = result.pending_interactions[0]
                if (value := ask_on_terminal(question)) is None:
                    break
                result = await self._watched(self._through((question, value)))
        except SessionLeftError:
            self._screen.end(self._tail.marks)
            self._say(f"the run stays where it is; go on: {self._go_on()}; end it: {self._cancel()}")
            return ExitCode.CANCELLED
        self._screen.end(self._tail.marks)
        if self._tail.marks is not None:
            self._screen.note(summary(self._tail.marks, result.failures, tokens_text(result.usage)))
        self._show(result, order)
        return code_of_outcome(result.status)

    async def _watched(self, work: Coroutine[Any, Any, WorkflowResult]) -> WorkflowResult:
        """Awaits `work` while the screen follows the journal; the first signal leaves the run, the second the process."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled)
        task = loop.create_task(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=LOOK_S)
                await self._tail.look()
                self._screen.draw(self._tail.marks)
                await self._look_for_signals()
            return task.result()
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)
            if not task.done() or task.exception() is not None:
                self._screen.end(None)

    def _heard(self, record: Record, marks: RunMarks) -> None:
        self._screen.heard(record, marks)
        if isinstance(record, StepWaits):
            self._waits(record, said=True)

    def _waits(self, waits: StepWaits, *, said: bool) -> None:
        """Says how a run goes on that waits for a signal or a time; `said`: the screen told what it is."""
        if waits.on == "child" or (said and waits.signal is None):
            return
        what = [] if said else [wait_text(waits)]
        if waits.signal is not None:
            name = shlex.quote(clean(waits.signal))
            what.append(f"send it: loopwright workflow signal {self.run_id} {name}{self.opened.db}")
        self._screen.note("; ".join(what))

    def _signalled(self) -> None:
        if self._leave.cancelled or self._answering:
            self._screen.end(None)
            self._say(f"left at once; go on: {self._go_on()}")
            os._exit(ExitCode.CANCELLED)
        self._screen.note("leaving the run … (once more: leave at once)", bad=True)
        self._leave.cancel("the command was stopped")

    async def _look_for_signals(self) -> None:
        """A run that only waits here goes on here when another process puts something into its inbox."""
        marks = self._tail.marks
        if marks is None or marks.status != "waiting" or self._leave.cancelled:
            return
        found = await self.opened.loop.store.lookup(self.run_id)
        new = {item.item_id for item in found.waiting} - self._taken
        if new and found.head.status == "waiting":
            self._taken |= new
            self._again = True
            self._leave.cancel("something came in")

    async def _through(self, answer: tuple[Interaction, Any] | None) -> WorkflowResult:
        """Goes on, and again each time something came in while the run waited."""
        while True:
            try:
                return await self._on(answer)
            except SessionLeftError:
                if not self._again:
                    raise
                self._again, answer, self._leave = False, None, CancellationToken()

    async def _on(self, answer: tuple[Interaction, Any] | None) -> WorkflowResult:
        """Goes on with the run, with an answer first if there is one."""
        loop = self.opened.loop
        if answer is not None:
            self._answering = True
            try:
                await loop.submit_input(self.run_id, answer[0].id, answer[1], by=ANSWERED_BY)
            finally:
                self._answering = False
        return await loop.workflows.resume(self.run_id, leave=self._leave)

    def _asks(self, order: DriveOrder) -> bool:
        return not order.as_json and order.answer is None and sys.stdin.isatty() and sys.stderr.isatty()

    async def _answer(self, order: DriveOrder) -> tuple[Interaction, Any]:
        """The question that the order's answer is for, and the value that it means."""
        questions = (await self.opened.loop.workflows.get(self.run_id, steps=False)).pending_interactions
        open_ids = ", ".join([question.id for question in questions]) or "none"
        fitting = [question for question in questions if order.question in (None, question.id)]
        if not fitting:
            raise ConfigError(f"run {self.run_id} has no such open question; open: {open_ids}")
        if len(fitting) > 1:
            raise ConfigError(f"run {self.run_id} waits for several answers; say which with --question: {open_ids}")
        try:
            return fitting[0], answer_from_text(fitting[0], order.answer or "")
        except ValueError as error:
            raise ConfigError(f"the answer does not fit: {question_text(fitting[0])}: {error}") from error

    # --- the end ----------------------------------------------------------------------------------------------------

    def _show(self, result: WorkflowResult, order: DriveOrder) -> None:
        if order.as_json:
            write_json(run_json(result))
        elif result.status == "completed":
            text = (
                result.final_text if result.output is None else json.dumps(result.output, ensure_ascii=False, indent=2)
            )
            lines = text.splitlines()
            if sys.stdout.isatty() and result.output is not None and len(lines) > MOST_LINES:
                text = "\n".join(lines[:MOST_LINES])
                self._say(f"the output has {len(lines):,} lines; the whole of it: {self._go_on()} > FILE")
            sys.stdout.write(text + "\n" if text else "")
            sys.stdout.flush()
        if result.status == "waiting_for_input":
            several = len(result.pending_interactions) > 1
            for question in result.pending_interactions:
                self._say(f"? {question_text(question)}" + (f" ({question.id})" if several else ""), bare=True)
            which = " --question ID" if several else ""
            self._say(f"the run waits for an answer: {self._go_on()} --answer TEXT{which}")
        elif result.status != "completed":
            why = result.error_message or "; ".join([f"{one.path}: {one.message}" for one in result.errors[:3]])
            code = f" ({result.error_code})" if result.error_code else ""
            self._say(f"the run is {result.status.replace('_', ' ')}{': ' if why else ''}{why}{code}")

    def _go_on(self) -> str:
        return f"loopwright workflow resume {self.run_id}{self.opened.more}"

    def _cancel(self) -> str:
        return f"loopwright workflow cancel {self.run_id}{self.opened.db}"

    def _say(self, text: str, *, bare: bool = False) -> None:
        sys.stderr.write(("  " if bare else "loopwright: ") + clean(text, MOST_SAID) + "\n")
        sys.stderr.flush()


def run_json(result: WorkflowResult) -> dict[str, Any]:
    """The one JSON result of `--json`."""
    return {
        "run_id": result.run_id,
        "name": result.name,
        "status": result.status,
        "exit_code": int(code_of_outcome(result.status)),
        "final_text": result.final_text,
        "output": msgspec.to_builtins(result.output),
        "failures": result.failures,
        "errors": [{"path": one.path, "message": one.message} for one in result.errors],
        "usage": {name: getattr(result.usage, name) for name in result.usage.__struct_fields__},
        "pending_interactions": msgspec.to_builtins(result.pending_interactions),
        "error_code": result.error_code,
        "error_message": result.error_message,
    }
