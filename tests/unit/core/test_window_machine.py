"""Whatever sequence of records `refusal` lets through, a provider would accept the window."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.core.journals import ANY_RECORD, next_record

from loopwright.core.pairing import problem
from loopwright.core.state import State, apply, fold, refusal
from loopwright.model.codec import decode_record, encode_record
from loopwright.model.messages import AssistantMessage, Message, ToolResultMessage
from loopwright.model.records import Record, SessionCreated, ToolFinished


class WindowMachine(RuleBasedStateMachine):
    """The engine's own moves between records of any kind, of which only the legal ones get in."""

    @initialize()
    def begin(self) -> None:
        self.state = State()
        self.stored: list[tuple[str, int, bytes]] = []
        self.answered: set[tuple[int, str]] = set()
        self.take(SessionCreated("s", "agent"))

    def take(self, record: Record) -> None:
        if isinstance(record, ToolFinished):
            call = self.state.call(record.call_id)
            assert call is not None
            assert (call.position, record.call_id) not in self.answered, "a call was answered twice"
            self.answered.add((call.position, record.call_id))
        apply(self.state, record, 0.0)
        self.stored.append(encode_record(record))

    @rule(data=st.data())
    def an_engine_moves(self, data: st.DataObject) -> None:
        record = next_record(data.draw, self.state)
        assert refusal(self.state, record) is None
        self.take(record)

    @rule(record=ANY_RECORD)
    def anything_is_tried(self, record: Record) -> None:
        if refusal(self.state, record) is None:
            self.take(record)
        elif self.would_break(record):
            return
        else:
            # What is refused although its window were valid must break another promise: one open send at a time.
            assert self.state.batch or "open" in str(refusal(self.state, record))

    def would_break(self, record: Record) -> bool:
        trial: list[Message] = list(self.state.messages)
        message = getattr(record, "message", None)
        if isinstance(message, Message):
            trial.append(message)
        if isinstance(message, AssistantMessage):
            trial += [ToolResultMessage(call.id, call.name, "") for call in message.tool_calls]
        return problem(trial) is not None

    @invariant()
    def the_window_is_valid_up_to_the_calls_that_are_open(self) -> None:
        messages = self.state.messages
        if self.state.batch:
            assert messages[-1].tool_calls == tuple([c.call for c in self.state.batch])  # type: ignore[union-attr]
            assert self.state.open_calls()
            messages = messages[:-1]
        assert problem(messages) is None

    @invariant()
    def nothing_legal_counts_as_damage(self) -> None:
        assert (self.state.lost_answers, self.state.dropped) == ([], [])

    def teardown(self) -> None:
        assert fold([(decode_record(*row), 0.0) for row in self.stored]) == self.state


TestWindowMachine = WindowMachine.TestCase
TestWindowMachine.settings = settings(max_examples=50, stateful_step_count=30)
