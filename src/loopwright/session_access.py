"""The part of the public handle that reaches sessions without having their turn.

Owns: the words of these methods. Must not know: turns, any rule.
Read next: `loop.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .late import Late

if TYPE_CHECKING:
    from .core import state as states
    from .core.chain import ChainReport
    from .core.result import StatefulResult
    from .engine import epochs, inspection, signals, spec_runs, verifying
    from .engine.draining import InFlight
    from .engine.inspection import SessionStats
    from .engine.kernel import Kernel
    from .model.agent_spec import AgentSpec
    from .model.messages import Message, MessageLike
    from .model.records import Interaction
    from .ports.cancellation import Stop
else:
    signals = Late("loopwright.engine.signals")
    spec_runs = Late("loopwright.engine.spec_runs")
    states = Late("loopwright.core.state")
    epochs = Late("loopwright.engine.epochs")
    inspection = Late("loopwright.engine.inspection")
    verifying = Late("loopwright.engine.verifying")


class SessionAccess:
    """Methods of `StatefulAgentLoop` that need no turn."""

    _kernel: Kernel

    def _check_open(self) -> None:
        raise NotImplementedError

    def _counted(self) -> InFlight:
        raise NotImplementedError

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
        Raises: `InvalidMessageError`.
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
