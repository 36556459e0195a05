"""A tool context without a run, for tests of tool handlers.

Owns: `FakeToolContext`. Must not know: the engine.
Read next: `ports/tool.py` (what a context promises).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.text_ranges import encoded, slice_of
from ..model.call_errors import ToolFailure
from ..ports.cancellation import CancellationToken
from ..ports.tool import OutputSlice
from ..ports.transaction_work import OnCommit, TransactionCursor


class FakeToolContext:
    """Everything a handler can ask of a `ToolContext`, with plain values.

    `outputs` are the stored outputs that `read_output` serves, by id. Cancel `cancellation` to stop the handler under test.
    """

    def __init__(
        self,
        *,
        session_id: str = "sess_test",
        call_id: str = "call_test",
        tool_name: str = "tool",
        idempotency_key: str = "0" * 64,
        round_index: int = 1,
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        self.session_id = session_id
        self.call_id = call_id
        self.tool_name = tool_name
        self.idempotency_key = idempotency_key
        self.round_index = round_index
        self.cancellation = CancellationToken()
        self.scratch: dict[str, Any] = {}
        self._outputs = dict(outputs or {})
        self._works: list[OnCommit] = []

    async def read_output(self, artifact_id: str, *, offset: int = 0, limit: int = 20_000) -> OutputSlice:
        """A part of an output given at construction. Raises: `ToolFailure` for an unknown id."""
        if artifact_id not in self._outputs:
            raise ToolFailure(f"no stored output {artifact_id!r}; known: {', '.join(self._outputs) or 'none'}")
        data = encoded(self._outputs[artifact_id])
        return slice_of(data, 0, len(data), offset, limit)

    def on_commit(self, fn: OnCommit) -> None:
        """Keeps the function for `commit`."""
        self._works.append(fn)

    def commit(self, cursor: TransactionCursor) -> None:
        """Calls what was given to `on_commit`, in order and once, as the commit of the result does; any DB-API cursor will do.

        Raises what a function raises; the transaction is yours.
        """
        works, self._works = self._works, []
        for fn in works:
            fn(cursor)
