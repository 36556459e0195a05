"""The seam to a store that can tell a worker that there is something to do.

Owns: the optional Protocol `WakeSource`. Must not know: who waits, or how a store notices.
Read next: `engine/worker.py`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class WakeSource(Protocol):
    """What a store may implement beside `Store`; a worker over a store without it looks at intervals."""

    async def wait_for_work(self, timeout_s: float) -> None:
        """Returns when there may be work, at the latest after about `timeout_s`.

        Work is a new inbox item, a released lease or a due timer, from any process. A wake without work costs a look; a
        wake that is lost costs waiting up to `timeout_s`, so nothing may rely on it. What arrived between two calls
        ends the second one at once. Raises: `RetryLaterError` when it cannot listen now; the worker then waits by the
        clock. Cancel: at any time, nothing is lost.
        """
        ...
