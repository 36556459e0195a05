"""What can be recalled of a journal, and what a query finds in it."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.recall_rules import HiddenPart, RecallSearch, SendTelling, first_place
from loopwright.core.words import plain, terms_of
from loopwright.model.messages import AssistantMessage, ToolCall, UserMessage
from loopwright.model.records import AssistantMessageAdded, Record, ToolFinished, UserMessageAdded
from loopwright.ports.history import HistoryPiece
from loopwright.tools.recall import quoted

TEXT = st.text(st.characters(codec=None), max_size=60)


def reply(*ids: str) -> AssistantMessageAdded:
    return AssistantMessageAdded(AssistantMessage(tuple([ToolCall(one, "look", "{}") for one in ids])), 1)


def result(call_id: str) -> ToolFinished:
    return ToolFinished(call_id, "look", "finished", f"result {call_id}")


def all_of(records: list[Record]) -> list[HistoryPiece]:
    telling = SendTelling()
    made = telling.begin(7)
    for record in records:
        made += telling.told(record)
    return [*made, *telling.rest()]


@given(st.permutations(["a", "b", "c"]), st.integers(0, 3))
def test_results_stand_behind_their_calls_in_whatever_order_they_came(order: list[str], answered: int) -> None:
    pieces = all_of([UserMessageAdded(UserMessage("go"), "send"), reply("a", "b", "c"), *map(result, order[:answered])])
    told = [piece.text for piece in pieces if piece.who.startswith("result")]
    assert told == [f"result {one}" for one in "abc" if one in order[:answered]]
    assert [piece.part for piece in pieces] == list(range(1, len(pieces) + 1))
    for piece, behind in itertools.pairwise(pieces):
        assert not (behind.who.startswith("result") and not piece.who.startswith("call"))


def test_an_id_that_comes_again_has_the_result_of_its_own_reply() -> None:
    first = ToolFinished("a", "look", "finished", "first")
    second = ToolFinished("a", "look", "failed", "second")
    pieces = all_of([reply("a"), first, reply("a"), second])
    assert [(piece.reply, piece.who, piece.text) for piece in pieces if piece.text != "{}"] == [
        (1, "result of look", "first"),
        (2, "result of look (failed)", "second"),
    ]


@given(st.integers(0, 3), st.integers(0, 4), st.booleans())
def test_of_a_send_whose_replies_are_folded_only_those_and_never_what_people_said_are_hidden(
    rounds: int, number: int, is_own: bool
) -> None:
    hidden = HiddenPart(through=7, rounds=rounds, projected=False, newest=7)
    piece = HistoryPiece(7, 1, "x", "text", None, number, is_own)
    assert hidden.covers(piece) is (is_own and 1 <= number <= rounds)


@given(st.lists(TEXT, max_size=6), TEXT)
def test_a_piece_is_found_exactly_when_it_has_a_word_of_the_query(texts: list[str], query: str) -> None:
    search = RecallSearch(query)
    for part, text in enumerate(texts, 1):
        search.look(HistoryPiece(1, part, "person", text))
    found = {part for _, part in search.best(50)}
    wanted = set(terms_of(query))
    for part, text in enumerate(texts, 1):
        if part in found and wanted:
            assert wanted & set(terms_of(text))
        elif wanted and wanted <= set(terms_of(text)):
            raise AssertionError("it has every word of the query and was not found")


@given(TEXT, TEXT)
def test_the_place_of_a_word_is_in_the_text(text: str, query: str) -> None:
    assert 0 <= first_place(text, query) <= max(len(text) - 1, 0)
    if query.strip().isascii() and text.isascii() and query.strip() and query.strip().lower() in text.lower():
        assert text.lower()[first_place(text, query) :].startswith(query.strip().lower())


@given(TEXT)
def test_the_terms_of_a_text_stand_in_its_plain_form(text: str) -> None:
    assert all(term in plain(text) for term in terms_of(text))


@given(TEXT)
def test_every_line_of_a_quotation_is_marked_and_nothing_is_lost(text: str) -> None:
    lines = quoted(text).splitlines()
    assert all(line.startswith("| ") for line in lines)
    assert [line[2:] for line in lines] == (text.splitlines() or [""])
