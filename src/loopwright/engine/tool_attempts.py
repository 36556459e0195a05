"""Further attempts of a call whose handler failed, where its tool declares them.

Owns: whether there is another attempt, and the pause before it. Must not know: what the handler does (`tool_call.py`).
Loaded by the first call of a tool with `retry`. Nothing of it is stored: a call that another process goes on with begins
with its first attempt, under the same key. Read next: `../ports/tool_retry.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.calls import text_of
from ..model.call_errors import OnCommitError, ToolFailure, ToolValidationError
from ..model.event_types import AgentEventType
from .stopping import race

if TYPE_CHECKING:
    from ..ports.tool_retry import ToolRetry
    from .tool_call import ToolRun

LEAST_S = 0.001
"""What an attempt gets at least of a time limit that is over: it is then found to be late in the usual way."""


class Attempts:
    """The attempts of one call, all within `limit_s` from now on."""

    def __init__(self, one: ToolRun, retry: ToolRetry, limit_s: float) -> None:
        self._one = one
        self._retry = retry
        self._clock = one.run_context.kernel.ambient
        self._until = self._clock.monotonic() + limit_s

    def left_s(self) -> float:
        """What the next attempt may take."""
        return max(self._until - self._clock.monotonic(), LEAST_S)

    async def again(self, error: Exception) -> bool:
        """Waits for the next attempt after a failed one; False when there is none. A stop ends the wait: the attempt then
        finds the run stopped."""
        one, retry = self._one, self._retry
        pause_s = retry.backoff_s * 2 ** (one.attempts - 1)
        if one.attempts >= retry.attempts or not self._is_worth_it(error):
            return False
        if self._clock.monotonic() + pause_s >= self._until:
            return False
        run = one.run_context
        run.emit(
            AgentEventType.TOOL_ATTEMPT_FAILED,
            one.call.call.id,
            one.name,
            one.attempts,
            retry.attempts,
            f"{type(error).__name__}: {text_of(error)}",
            pause_s,
        )
        one.attempts += 1
        await race(
            self._clock.sleep(pause_s),
            run.token,
            run.kernel.deadlines,
            timeout_s=None,
            grace_s=run.kernel.config.stop_grace_s,
        )
        await run.assure_lease()
        return True

    def _is_worth_it(self, error: Exception) -> bool:
        if isinstance(error, ToolFailure | ToolValidationError | OnCommitError):
            return False  # said to the model, or as it was before whatever is done again
        on = self._retry.on
        if isinstance(on, tuple):
            return isinstance(error, on)
        try:
            return bool(on(error))
        except Exception as fault:  # noqa: BLE001 - the tool boundary: a predicate that fails asks for nothing
            self._one.run_context.note(f"retry.on of {self._one.name} raised {type(fault).__name__}: {fault}")
            return False
