"""Words of texts and queries: whatever they are made of, and whatever a database would read in them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.core.words import MAX_QUERY_TERMS, query_terms, terms_of
from loopwright.ports.memory_index import MAX_MEMORIES, MemoryEntry
from loopwright.stores.memory import MemoryStore
from loopwright.stores.search_terms import index_text, ranked, word_name
from loopwright.stores.sqlite import SqliteStore
from loopwright.testing.store_memory_promises import memory

TEXT = st.text(st.characters(codec=None), max_size=200)
WORDS = st.lists(st.sampled_from(["cat", "dog", "Äpfel", "red", "東京", "x1"]), max_size=6).map(" ".join)
ENTRIES = st.lists(st.tuples(WORDS, st.integers(0, 3)), max_size=12)


@given(TEXT)
def test_no_text_raises_and_what_a_database_gets_is_never_more_than_plain_names(text: str) -> None:
    assert all(re.fullmatch("[a-z2-7]{9}", name) for name in index_text("n", text).split(" "))
    assert len(query_terms(text)) <= MAX_QUERY_TERMS


@given(TEXT, TEXT)
def test_a_text_has_every_word_of_a_query_made_of_a_part_of_it(before: str, after: str) -> None:
    assert set(query_terms(before)) <= set(terms_of(f"{before} {after}"))


@given(TEXT)
def test_words_do_not_depend_on_case_or_on_how_letters_are_composed(text: str) -> None:
    assert terms_of(text) == terms_of(text.casefold())
    assert set(query_terms(text)) <= set(terms_of(text))


@pytest.mark.parametrize(
    "text, terms",
    [
        ("It's 3.14, CAFÉ!", ["it", "s", "3", "14", "cafe"]),
        ("snake_case kebab-case", ["snake", "case", "kebab", "case"]),
        ("Straße ﬁne Ⅳ", ["strasse", "fine", "iv"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー", "東京", "京タ", "タワ", "ワー"]),
        ("v2東京x", ["v2", "東", "京", "東京", "x"]),
        ("שָׁלוֹם مُحَمَّد", ["שלום", "محمد"]),
        ("हिन्दी", ["हिन्दी"]),
        ("… — ?!", []),
        ("", []),
    ],
)
def test_a_text_is_cut_into_words(text: str, terms: list[str]) -> None:
    assert terms_of(text) == terms


@pytest.mark.parametrize(
    "query, terms",
    [("東京タワー", ("東京", "京タ", "タワ", "ワー")), ("東", ("東",)), ("the The THE cat", ("the", "cat"))],
)
def test_a_query_asks_for_each_word_once_and_for_pairs_where_there_are_some(query: str, terms: tuple[str, ...]) -> None:
    assert query_terms(query) == terms


def test_names_of_words_differ_as_words_do() -> None:
    words = [f"word{n}" for n in range(20_000)]
    assert len({word_name(word) for word in words}) == len(words)


@given(ENTRIES, WORDS, st.integers(-2, 120))
def test_a_ranking_has_each_entry_with_a_word_of_the_query_in_one_order(
    given_entries: list[tuple[str, int]], query: str, limit: int
) -> None:
    entries = [memory(text, f"m{n}", at=float(at)) for n, (text, at) in enumerate(given_entries)]
    terms = query_terms(query)
    hits = ranked(terms, entries, MAX_MEMORIES)
    having = {one.memory_id for one in entries if set(terms) & set(terms_of(one.text))}
    assert {hit.entry.memory_id for hit in hits} == having
    places = [(-hit.score, -hit.entry.at) for hit in hits]
    assert places == sorted(places)
    assert all(hit.score > 0 for hit in hits)
    assert ranked(terms, reversed(entries), limit) == hits[: max(limit, 0)]


async def test_a_file_and_memory_answer_alike(tmp_path: object) -> None:
    """The same entries in the same order with the same scores."""
    plain, file = MemoryStore(), SqliteStore(f"{tmp_path}/store.db")
    texts = ["red car", "a red house by the sea", "sea of red, red, red cars", "東京 is red", "the sea", "car car car"]
    entries: list[MemoryEntry] = [memory(text, f"m{n}", at=float(n % 3)) for n, text in enumerate(texts)]
    for entry in entries:
        await plain.put_memory(entry)
        await file.put_memory(entry)
    for query in ("red", "sea car", "the 東京 sea", "nothing", ""):
        assert list(await plain.search_memories("n", query)) == list(await file.search_memories("n", query))
    await plain.aclose()
    await file.aclose()
