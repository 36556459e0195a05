"""What has to be in the store after a long conversation: everything that was said, once, whole."""

from __future__ import annotations

from collections import Counter

from tests.crash.long_talk import BUDGET, SESSION, answer, asked, has_more, more_words, output, rounds, tokens, words

from loopwright import LLMRequest, SessionStore, Usage, UserMessage
from loopwright.core.pairing import problem
from loopwright.core.state import State
from loopwright.core.window import window
from loopwright.engine.journal import resumed_state
from loopwright.model.codec import decode_record
from loopwright.model.context_records import FoldFailed, FoldMade
from loopwright.model.messages import content_text
from loopwright.model.records import (
    AssistantMessageAdded,
    Record,
    SendFinished,
    SendStarted,
    ToolFinished,
    UserMessageAdded,
)

COLD_ROWS = 1_500
"""Records that a process reads to go on, whatever the length of the conversation."""


class Exam:
    """The journal of a conversation, read once."""

    def __init__(self, store: SessionStore, sends: int) -> None:
        self._store = store
        self._sends = sends
        self.problems: list[str] = []
        self.usage = Usage()
        self.folds = 0
        self.failed_folds = 0
        self.cold_rows = 0

    async def read(self) -> None:
        """Fills `problems`."""
        # The head first: a fold in the background may move it meanwhile, and then the rows hold the fold.
        head = (await self._store.lookup(SESSION)).head
        rows = await self._store.read(SESSION)
        records = [decode_record(row.kind, row.version, row.body) for row in rows]
        self._said(records)
        await self._returned(records)
        self._answered(records)
        self._paid(records)
        start = head.window_start
        whole = await resumed_state(SESSION, rows)
        cold = await resumed_state(SESSION, rows[start:])
        self.cold_rows = len(rows) - start
        self._expect(self.cold_rows <= COLD_ROWS, f"{self.cold_rows} records are read to go on")
        self._expect(window(whole) == window(cold), "the window depends on where reading begins")
        self._window(cold)
        self._expect(whole.facts.usage == self.usage, f"usage {whole.facts.usage}, in the records {self.usage}")
        self.problems += [f"the store is damaged: {one.what}" for one in await self._store.check()]

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.problems.append(what)

    def _window(self, state: State) -> None:
        shown = window(state)
        self._expect(problem(shown) is None, f"the window is invalid: {problem(shown)}")
        self._expect(tokens(LLMRequest(messages=shown)) <= BUDGET, "the window is over the budget")

    def _said(self, records: list[Record]) -> None:
        said = Counter(
            [r.message.text for r in records if isinstance(r, UserMessageAdded) and isinstance(r.message, UserMessage)]
        )
        for send in range(self._sends):
            self._expect(said[words(send)] == 1, f"what was said in send {send} is there {said[words(send)]} times")
            if has_more(send):
                times = said[more_words(send)]
                self._expect(times == 1, f"what was said during send {send} is there {times} times")
        started = sum(isinstance(r, SendStarted) for r in records)
        self._expect(started == self._sends, f"{started} sends were started")

    async def _returned(self, records: list[Record]) -> None:
        found: dict[str, list[str]] = {}
        for record in records:
            if isinstance(record, ToolFinished):
                text = content_text(record.content)
                if record.artifact_id is not None:
                    text = (await self._store.read_artifact(record.artifact_id)).decode()
                found.setdefault(record.call_id, []).append(text)
        wanted = {
            call.id: output(send, round_, index)
            for send in range(self._sends)
            for round_ in range(rounds(send))
            for index, call in enumerate(asked(send, round_))
        }
        for call_id, text in wanted.items():
            self._expect(found.get(call_id) == [text], f"the result of {call_id}: {len(found.get(call_id, []))} found")
        self._expect(set(found) == set(wanted), f"calls that nobody asked for: {set(found) - set(wanted)}")

    def _answered(self, records: list[Record]) -> None:
        ended = [r for r in records if isinstance(r, SendFinished)]
        self._expect([r.outcome for r in ended] == ["completed"] * self._sends, "not all sends are completed once")
        replies = Counter([r.message.text for r in records if isinstance(r, AssistantMessageAdded)])
        for send in range(self._sends):
            times = replies[answer(send)]
            self._expect(times == 1, f"the answer of send {send} is there {times} times")

    def _paid(self, records: list[Record]) -> None:
        for record in records:
            usage = getattr(record, "usage", None)
            if isinstance(usage, Usage):
                self.usage += usage
        self.folds = sum(isinstance(r, FoldMade) for r in records)
        self.failed_folds = sum(isinstance(r, FoldFailed) for r in records)


async def examined(store: SessionStore, sends: int) -> Exam:
    """The exam of the conversation in a store."""
    exam = Exam(store, sends)
    await exam.read()
    return exam
