"""Journals as the engine could write them, for properties: at each state the records that may follow."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from loopwright.core.state import State, apply, checkpoint_of
from loopwright.model.messages import AssistantMessage, ImagePart, ReasoningPart, TextPart, ToolCall, UserMessage
from loopwright.model.records import (
    AssistantMessageAdded,
    AttemptFailed,
    ChainLinked,
    HistoryRepaired,
    Interaction,
    QuestionAnswered,
    QuestionAsked,
    Record,
    RunResumed,
    SendFinished,
    SendPaused,
    SendStarted,
    SessionCreated,
    ToolAbandoned,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)
from loopwright.model.usage import Usage

TEXT = st.sampled_from(["", "x", "two words", "\x00", "\ud800", "日本語 😀"])
"""Few texts, so that journals are long rather than odd; the codec's own tests try all code points."""

JSON: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 2**80, 0.5, "\udfff", [1, {"k": []}], {"": {"n": None}}]
)
CALL_IDS = ("a", "b", "c", "")
USAGE = st.sampled_from([Usage(), Usage(3, 4, calls=1), Usage(5, 0, 2, calls=1, estimated=True)])
CONTENT = st.sampled_from(["", "said", (TextPart("\ud800"), ImagePart(data=b"\x00\xff")), ()])
REPLIES = st.sampled_from(
    [
        AssistantMessage((ReasoningPart("hm"), TextPart("text"), *[ToolCall(i, "tool", "{}") for i in ids]))
        for ids in ("", "", "", "a", "ab", "bca", "aa", ("", "a"))
    ]
)
REPLY_RECORDS = st.builds(
    AssistantMessageAdded,
    REPLIES,
    st.integers(1, 5),
    st.sampled_from(["stop", "tool_calls", "length"]),
    USAGE,
    wrap_up=st.booleans(),
)
LINKS = st.builds(ChainLinked, st.sampled_from(["", "ab", "cd"]), st.integers(0, 9), st.just("0" * 16))
INTERACTIONS = st.sampled_from([Interaction("q1", "a", "tool", "?"), Interaction("q2", "b", "tool", "?")])
ANY_RECORD: st.SearchStrategy[Record] = st.one_of(
    st.builds(SessionCreated, st.just("s"), st.just("agent"), metadata=st.just({"k": [1]})),
    st.builds(SendStarted, index=st.integers(1, 9), max_rounds=st.integers(1, 5), send_id=TEXT),
    st.builds(
        UserMessageAdded, st.builds(UserMessage, CONTENT), st.sampled_from(["send", "inbox", "continue", "wrap_up"])
    ),
    REPLY_RECORDS,
    st.builds(AttemptFailed, st.integers(1, 5), st.integers(1, 3), st.just("llm.transient"), TEXT, USAGE),
    st.builds(
        ToolStarted,
        st.sampled_from(CALL_IDS),
        st.just("tool"),
        st.just({}),
        st.sampled_from(["pure", "once"]),
        st.just("k"),
    ),
    st.builds(
        ToolFinished, st.sampled_from(CALL_IDS), st.just("tool"), st.sampled_from(["finished", "failed"]), CONTENT, JSON
    ),
    st.builds(ToolAbandoned, st.sampled_from(CALL_IDS), st.just("tool"), TEXT),
    st.builds(QuestionAsked, INTERACTIONS),
    st.builds(QuestionAnswered, st.sampled_from(["q1", "q2"]), JSON),
    st.builds(SendPaused, st.sampled_from(["waiting_for_input", "pending_tools"])),
    st.builds(RunResumed, TEXT),
    st.builds(SendFinished, outcome=st.sampled_from(["completed", "failed"]), output=JSON, final_text=st.none() | TEXT),
    st.builds(HistoryRepaired),
    LINKS,
)
"""A record of any kind but checkpoints, wherever it stands; call ids are few, so that records meet."""


UNIQUE_REPLIES = REPLY_RECORDS.filter(lambda r: len({c.id for c in r.message.tool_calls}) == len(r.message.tool_calls))
SPEECH = st.one_of(
    UNIQUE_REPLIES,
    UNIQUE_REPLIES,
    st.builds(UserMessageAdded, st.builds(UserMessage, CONTENT), st.sampled_from(["inbox", "continue", "correct"])),
    st.builds(AttemptFailed, st.integers(1, 5), st.integers(1, 3), st.just("llm.transient"), TEXT, USAGE),
    st.builds(SendFinished, outcome=st.just("completed"), output=JSON),
    LINKS,
    st.none(),  # a checkpoint, which depends on the state
)
DEEDS = st.one_of(
    st.builds(ToolFinished, st.just(""), st.just("tool"), st.sampled_from(["finished", "failed"]), CONTENT, JSON),
    st.just(ToolStarted("", "tool", {}, "once", "k")),
    st.builds(QuestionAsked, INTERACTIONS),
    st.just(SendPaused("waiting_for_input")),
    LINKS,
)


def next_record(draw: st.DrawFn, state: State) -> Record:
    """What an engine could write next."""
    if state.position == 0:
        return SessionCreated("s", "agent", metadata={"k": [1]})
    if state.active is None:
        return SendStarted(index=state.facts.sends + 1, max_rounds=3)
    if not state.batch:
        return draw(SPEECH) or checkpoint_of(state)
    deed = draw(DEEDS)
    call_id = draw(st.sampled_from([c.call.id for c in state.open_calls()]))
    if isinstance(deed, ToolFinished | ToolStarted):
        return msgspec.structs.replace(deed, call_id=call_id)
    if isinstance(deed, QuestionAsked):
        return QuestionAsked(msgspec.structs.replace(deed.interaction, call_id=call_id))
    return deed


@st.composite
def legal_journals(draw: st.DrawFn, *, max_size: int = 25) -> list[tuple[Record, float]]:
    """Records an engine could have written, with their times."""
    state = State()
    journal: list[tuple[Record, float]] = []
    for at in range(draw(st.integers(1, max_size))):
        record = next_record(draw, state)
        apply(state, record, float(at))
        journal.append((record, float(at)))
    return journal
