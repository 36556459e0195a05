"""Following a workflow run by its journal, of whatever process.

Owns: `RunTail`, which reads what is new and tells marks of it; which run was meant. Must not know: terminals.
Read next: `../workflow/picture_marks.py`, `workflow_tree.py`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from typing import Final

import msgspec

from ..model.errors import ConfigError, SessionNotFoundError
from ..model.records import Record
from ..model.workflow_records import WorkflowStarted
from ..model.workflow_spec import WorkflowSpec
from ..ports.store import Head, SessionQuery
from ..ports.store_admin import SessionStore
from ..workflow import RunMarks
from .journal_lines import record_of
from .session_ids import resolved

PAGE: Final = 500
"""Records read at once."""

Heard = Callable[[Record, RunMarks], None]


class RunTail:
    """A run as far as its journal was read. Cost of a look: what is new."""

    def __init__(self, store: SessionStore, run_id: str, heard: Heard | None = None) -> None:
        self.run_id = run_id
        self.marks: RunMarks | None = None
        """None until the first record was read."""
        self.heard = heard
        """Is told of each record, when the marks were."""
        self._store = store
        self._next = 0
        self._below: dict[str, RunTail] = {}

    async def look(self) -> bool:
        """Reads what is new, of sub-workflows too; True when there was anything."""
        news = False
        while rows := await self._store.read(self.run_id, after=self._next, limit=PAGE):
            news, self._next = True, rows[-1].position + 1
            for row in rows:
                if (record := record_of(row)) is None:
                    continue
                if isinstance(record, WorkflowStarted):
                    self.marks = RunMarks(msgspec.convert(record.spec, WorkflowSpec))
                if self.marks is not None:
                    self.marks.hear(record, row.at)
                    if self.heard is not None:
                        self.heard(record, self.marks)
        return await self._look_below() or news

    async def _look_below(self) -> bool:
        news = False
        marks = self.marks
        if marks is None:
            return False
        for key, child_id in marks.children.items():
            if marks.nodes[key].shape != "workflow":
                continue
            if (tail := self._below.get(key)) is None or tail.run_id != child_id:
                tail = self._below[key] = RunTail(self._store, child_id)
            try:
                news = await tail.look() or news
            except SessionNotFoundError:  # it was deleted
                continue
            if tail.marks is not None:
                marks.inside[key] = tail.marks
        return news


async def runs_of(store: SessionStore) -> AsyncGenerator[Head]:
    """Runs that are no steps of other runs, newest first."""
    heads = await store.list(SessionQuery(kind="workflow", limit=sys.maxsize))
    steps = {head.session_id for head in heads}
    for head in heads:
        if head.parent_id not in steps:
            yield head


async def resolved_run(store: SessionStore, run_id: str, more: str = "") -> str:
    """The id of the run that was meant; `last` is the newest, and a unique beginning will do.

    `more`: the option that names the store. Raises: `ConfigError` when it is none.
    """
    if run_id == "last":
        async for head in runs_of(store):
            return head.session_id
    try:
        sid = await resolved(store, run_id)
    except SessionNotFoundError:
        raise ConfigError(f"no run {run_id!r} in this store; `loopwright workflow list{more}` shows them") from None
    if (await store.lookup(sid)).head.kind != "workflow":
        raise ConfigError(f"{sid} is no workflow run; `loopwright workflow list{more}` shows them")
    return sid
