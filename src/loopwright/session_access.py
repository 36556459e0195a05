"""The part of the public handle that reaches sessions without having their turn.

Owns: the words of these methods. Must not know: turns, any rule.
Read next: `loop.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .late import Late

if TYPE_CHECKING:
    from .core import state as states
    from .core import timer_rules
    from .core.chain import ChainReport
    from .core.result import StatefulResult
    from .engine import (
        arming,
        epochs,
        inspection,
        permits,
        question_list,
        signals,
        spec_runs,
        timer_service,
        verifying,
        workflows,
    )
    from .engine.answers import Answers
    from .engine.draining import InFlight
    from .engine.inspection import SessionStats
    from .engine.kernel import Kernel
    from .engine.question_list import OpenQuestions
    from .engine.workflows import Workflows
    from .model.agent_spec import AgentSpec
    from .model.control_records import PermissionMode
    from .model.messages import Message, MessageLike
    from .model.records import Interaction
    from .model.timer_spec import Timer
    from .ports.cancellation import Stop
else:
    signals = Late("loopwright.engine.signals")
    spec_runs = Late("loopwright.engine.spec_runs")
    arming = Late("loopwright.engine.arming")
    timer_rules = Late("loopwright.core.timer_rules")
    timer_service = Late("loopwright.engine.timer_service")
    states = Late("loopwright.core.state")
    epochs = Late("loopwright.engine.epochs")
    inspection = Late("loopwright.engine.inspection")
    permits = Late("loopwright.engine.permits")
    question_list = Late("loopwright.engine.question_list")
    verifying = Late("loopwright.engine.verifying")
    workflows = Late("loopwright.engine.workflows")


FIRST_LOOK_S = 1.0
"""From the first use of a loop until it first looks for due timers: a short-lived process never does."""


class SessionAccess:
    """Methods of `StatefulAgentLoop` that need no turn."""

    _kernel: Kernel
    _timed = False
    """True once it is settled whether and how this loop fires timers."""

    def _check_open(self) -> None:
        raise NotImplementedError

    def _counted(self) -> InFlight:
        raise NotImplementedError

    @property
    def _answers(self) -> Answers:
        raise NotImplementedError

    @property
    def workflows(self) -> Workflows:
        """Workflow runs of this agent: starting, resuming, stopping, looking."""
        self._check_open()
        return workflows.Workflows(self._kernel, self._counted)

    async def get_messages(self, session_id: str, *, include_compacted: bool = False) -> tuple[Message, ...]:
        """The conversation as the model sees it, oldest first: what was folded is one note, earlier sends as they are shown.

        Calls still open stand in the last reply. `include_compacted`: everything as it was said instead, without notes;
        the two are the same where nothing was folded or projected. Cost: the window; with `include_compacted` the journal.
        """
        self._check_open()
        return await inspection.read_messages(self._kernel.store, session_id, whole=include_compacted)

    async def get_pending(self, session_id: str) -> tuple[tuple[Any, ...], tuple[Interaction, ...]]:
        """(open tool calls, open questions) of a session."""
        self._check_open()
        return await inspection.pending_of(self._kernel.store, session_id)

    async def open_questions(self, session_id: str | None = None) -> OpenQuestions:
        """The open questions of the store, of any agent, with the session, the agents and the time of each; oldest first.

        `session_id`: only those that it or its children ask. What cannot be read here is named, not left out in silence.
        Needs no turn and changes nothing. Cost: every session that waits is read, as far as its window goes.
        """
        self._check_open()
        return await question_list.open_questions(self._kernel.store, session_id)

    async def answer_input(self, session_id: str, interaction_id: str, value: Any, *, by: str = "") -> str:
        """Answers a question like `submit_input`, and runs nothing; returns the session that asked.

        Durable when this returns. A worker of the agent (`serve`, in any process) goes on with it, or the next `resume`
        or `recover`; so the tools of the agent need not be here. Raises what `submit_input` raises for the answer.
        """
        with self._counted():
            return await self._answers.answer_input(session_id, interaction_id, value, by)

    async def get_session_stats(self, session_id: str) -> SessionStats:
        """Counts, usage, status and times of a session."""
        self._check_open()
        return await inspection.stats_of(self._kernel.store, session_id)

    async def get_result(self, session_id: str) -> StatefulResult | None:
        """How the newest send of a session ended, or what it waits for; None before the first, and while one is under way.

        Of any process, from the journal alone. Cost: what has to be read to continue the session.
        """
        self._check_open()
        return await inspection.newest_result(self._kernel.store, session_id)

    async def verify(self, session_id: str, *, expected: str | None = None) -> ChainReport:
        """What the links of `hash_chain` say about a session's records: whether any was changed, removed or put in.

        Made with this loop's `hash_chain_key`; needs no turn and changes nothing. `expected`: the digest of an earlier
        report, kept elsewhere. Raises: `ConfigError` when that is no digest. Cost: the whole journal, in pages.
        """
        self._check_open()
        return await verifying.verify(
            self._kernel.store, session_id, key=self._kernel.config.hash_chain_key, expected=expected
        )

    async def resolve_system_prompt(self, *, session_id: str | None = None) -> str | None:
        """The instructions that the next send begins with, byte for byte, if it overrides nothing; None when there are none.

        Without `session_id`: those of a new session. Files are read as the send would read them; nothing is stored.
        A fold is not foreseen: one that is committed after this call starts an epoch, for which the files are read anew, so
        from then on the model sees them as they are by that time.
        """
        self._check_open()
        state = states.State() if session_id is None else await inspection.read_state(self._kernel.store, session_id)
        return await epochs.preview(self._kernel, state)

    async def signal(self, session_id: str, name: str, payload: Any = None, *, item_id: str | None = None) -> bool:
        """Says to a session that something happened, and wakes what waits for it (`WaitNeeded`, `wait` of a workflow).

        Durable when this returns, of any process and any agent name. Without anything that waits for it the signal is kept
        (the newest 100 of a session) for the next that does. `name`: 1 to 200 characters; `payload`: a JSON value of at most
        64 KiB. `item_id` is deduplicated for the life of the session; False when it was known.
        Raises: `InvalidMessageError`; `WorkflowRunError` for a workflow run that has ended.
        """
        self._check_open()
        return await signals.signal(self._kernel, session_id, name, payload, item_id)

    async def run_agent_spec(
        self,
        spec: AgentSpec | dict[str, Any],
        message: MessageLike | str,
        *,
        session_id: str | None = None,
        stop: Stop = None,
    ) -> StatefulResult:
        """Runs an agent that a spec describes, in a session of its own, to the end or a pause of one send.

        The spec goes into the session's journal: later sends, resumes and workers answer as this agent, too.
        `session_id`: for a new session. Raises: `AgentSpecError` listing every problem, and what `send` raises.
        """
        with self._counted():
            return await spec_runs.run_spec(self._kernel, spec, message, session_id, stop)

    async def set_permission_mode(
        self, session_id: str, mode: PermissionMode, *, widen: bool = False, by: str = ""
    ) -> bool:
        """From here on the session's calls are judged in this mode (`plan`, `default`, `trusted`); False when they are already.

        A record of the session: it holds in every process, and for children that it starts from now on. `widen`: it may be
        wider than the mode of the loop's permissions. It is set with the session's turn, so after a send that runs.
        Raises: `ConfigError` for a wider mode without `widen`, and on a loop without permissions; nothing is stored then.
        """
        with self._counted():
            admission = self._kernel.admission
            assert admission is not None
            return await admission.in_turn(session_id, lambda turn: permits.set_mode(turn, mode, widen=widen, by=by))

    async def schedule_timer(
        self,
        session_id: str,
        *,
        note: str,
        delay_s: float | None = None,
        due_at: float | None = None,
        cron: str | None = None,
        every_s: float | None = None,
        tz: str | None = None,
        timer_id: str | None = None,
    ) -> Timer:
        """Arms a durable timer that says `note` to the session when it is due, whatever process is alive then.

        One of `delay_s` (0 to 366 days), `due_at` (UTC epoch seconds; one that has passed fires at once) and `cron` (five
        fields, in time zone `tz`, by default UTC; extra `cron`) says when. `every_s` (1 or more) arms it again that long
        after each firing, and alone is the first delay, too. `note`: 1 to 2,000 characters. `timer_id`: arming one that is
        armed moves it; the same id and time never fire twice.
        It is fired by open loops and workers of this agent. Where this process has none, `timer_unserved` is emitted.
        Raises: `SpecValidationError` with everything that is wrong, `ImportError` without the extra; nothing is stored then.
        """
        wish = timer_rules.TimerWish(
            note=note, delay_s=delay_s, due_at=due_at, cron=cron, every_s=every_s, tz=tz, timer_id=timer_id
        )
        with self._counted():
            return await arming.schedule(self._kernel, session_id, wish)

    async def cancel_timer(self, session_id: str, timer_id: str) -> bool:
        """Takes an armed timer away; False when there is none. One that is being fired does not reach the session any more.

        What it has put into the inbox stays. The wake of a call that waits is no timer of the host: it stays, too.
        """
        with self._counted():
            return await arming.cancel(self._kernel, session_id, timer_id)

    async def list_timers(self, session_id: str) -> list[Timer]:
        """The armed timers of a session by due time, those that are being fired included; paused ones of imports not."""
        with self._counted():
            return await arming.armed_timers(self._kernel, session_id)

    def _watch_timers(self) -> None:
        """With the first use of a loop: timers are looked for a little later."""
        self._timed = True
        # Where points have names a test counts them and moves the clock: there the first timer that is armed begins it.
        if self._kernel.config.serve_timers and self._kernel.ambient.quiet:
            asyncio.get_running_loop().call_later(FIRST_LOOK_S, self._begin_timers)

    def _begin_timers(self) -> None:
        timer_service.begun(self._kernel)
