"""Promises of a store about memories: what is kept, and what a query finds.

Owns: tests of `MemoryIndex`. Must not know: any store.
Read next: `store_suite.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ..model.archive_errors import MemoryRefusedError
from ..ports.memory_index import MAX_MEMORIES, MAX_MEMORY_BYTES, MemoryEntry
from ..ports.store_admin import SessionStore
from .store_kit import StoreKit, StoreMaker, new_session, promise, raises

ODD: Final = (
    "",
    " ",
    "'",
    '"',
    '"unbalanced',
    "*",
    "NEAR(a b)",
    "NOT",
    "a AND",
    "AND OR",
    "-cat",
    "+cat -dog",
    "text:cat",
    "{text} : cat",
    "cat*",
    "^cat",
    "(cat",
    "cat)",
    "~cat",
    "<cat >dog",
    "cat @3",
    "cat & !",
    "cat <-> dog",
    "cat:*",
    "%_\\",
    "\x00",
    "\ud800",
    "\x1a0041",
    "$1 ? :a",
    "'; DROP TABLE lw_memories; --",
    "x" * 20_000,
    "word " * 5_000,
    "🐱 👩‍👩‍👧",
)
"""Queries that mean something to some database, or that some database cannot take."""


def memory(text: str, memory_id: str = "", *, at: float = 10.0, namespace: str = "n", **fields: Any) -> MemoryEntry:
    """An entry; its id is its text when none is given."""
    return MemoryEntry(namespace=namespace, memory_id=memory_id or text, text=text, at=at, **fields)


async def found(store: SessionStore, query: str, *, namespace: str = "n", limit: int = 10) -> list[str]:
    """The ids of what a search finds, in its order."""
    return [hit.entry.memory_id for hit in await store.search_memories(namespace, query, limit)]


async def listed(store: SessionStore, *, namespace: str = "n", **fields: Any) -> list[str]:
    """The ids of a listing, in its order."""
    return [one.memory_id for one in await store.list_memories(namespace, **fields)]


class MemoryPromises(StoreMaker):
    """Entries are kept whole, each once, as many as wanted, and listed in order."""

    @promise
    async def test_a_memory_comes_back_as_it_was_put(self, kit: StoreKit) -> None:
        """With odd text, metadata and vector; from another client, and after a kill."""
        store = kit.open()
        entry = memory(
            "tabs\tNUL \x00 half \ud800 mark \x1a0041 end ",
            "odd",
            at=1_800_000_000.123456,
            metadata={"session_id": "s", "deep": [{"ü": None}, 1.5, True]},
            embedding=bytes(range(256)),
        )
        await store.put_memory(entry)
        assert list(await kit.open().list_memories("n")) == [entry]
        assert [hit.entry for hit in await kit.open().search_memories("n", "tabs")] == [entry]
        store.abandon()
        assert list(await kit.open().list_memories("n")) == [entry]

    @promise
    async def test_a_memory_put_again_is_in_the_place_of_the_old_one(self, kit: StoreKit) -> None:
        """Nothing of the old text is found any more."""
        store = kit.open()
        await store.put_memory(memory("the cat sleeps", "a", embedding=b"1234", metadata={"old": 1}))
        await store.put_memory(memory("the dog barks", "a", at=11.0))
        assert await found(store, "cat") == []
        assert list(await store.list_memories("n")) == [memory("the dog barks", "a", at=11.0)]
        assert await found(store, "dog") == ["a"]

    @promise
    async def test_a_dropped_memory_is_gone_and_dropping_says_whether_it_was_there(self, kit: StoreKit) -> None:
        """From listing and search, for everybody."""
        store, other = kit.open(), kit.open()
        await store.put_memory(memory("the cat sleeps", "a"))
        assert [await other.drop_memory("m", "a"), await other.drop_memory("n", "b")] == [False, False]
        assert await other.drop_memory("n", "a")
        assert not await store.drop_memory("n", "a")
        assert (await found(store, "cat"), await listed(store)) == ([], [])
        await store.put_memory(memory("the cat is back", "a"))
        assert await found(other, "cat") == ["a"]

    @promise
    async def test_a_listing_is_newest_first_and_goes_on_behind_an_entry(self, kit: StoreKit) -> None:
        """Each entry once, those of one time too."""
        store = kit.open()
        times = {f"m{n:03}": float(n // 3) for n in range(MAX_MEMORIES + 7)}
        await asyncio.gather(*[store.put_memory(memory("x", name, at=at)) for name, at in times.items()])
        order = sorted(times, key=lambda name: (times[name], name), reverse=True)
        assert await listed(store, limit=MAX_MEMORIES * 2) == order[:MAX_MEMORIES]
        seen: list[MemoryEntry] = []
        while page := await store.list_memories("n", limit=10, behind=seen[-1] if seen else None):
            seen += page
        assert [one.memory_id for one in seen] == order
        assert len(await store.search_memories("n", "x", MAX_MEMORIES * 2)) == MAX_MEMORIES

    @promise
    async def test_a_namespace_keeps_as_many_entries_as_it_is_told(self, kit: StoreKit) -> None:
        """The newest ones; others' stay as they are."""
        store = kit.open()
        await store.put_memory(memory("other", namespace="m", at=1.0))
        for n in range(6):
            await store.put_memory(memory(f"word{n} shared", f"m{n}", at=float(n)), keep=3)
        assert await listed(store) == ["m5", "m4", "m3"]
        assert await found(store, "shared") == ["m5", "m4", "m3"]
        assert await found(store, "word1") == []
        await store.put_memory(memory("older than all", "old", at=0.5), keep=3)
        assert await listed(store) == ["m5", "m4", "m3"]
        assert await listed(store, namespace="m") == ["other"]

    @promise
    async def test_what_is_over_its_bounds_is_refused_and_nothing_stored(self, kit: StoreKit) -> None:
        """Text, names, metadata, vector and time."""
        store = kit.open()
        await store.put_memory(memory("ü" * (MAX_MEMORY_BYTES // 2), "fits"))
        fine: dict[str, Any] = {"namespace": "n", "memory_id": "a", "text": "x", "at": 1.0}
        bad: Sequence[dict[str, Any]] = (
            {"text": "ü" * (MAX_MEMORY_BYTES // 2) + "x"},
            {"namespace": ""},
            {"namespace": None},
            {"memory_id": 5},
            {"namespace": "n" * 256},
            {"memory_id": ""},
            {"memory_id": "a\x00"},
            {"memory_id": "a\ud800"},
            {"memory_id": "a "},
            {"metadata": {"a": "x" * 5_000}},
            {"metadata": {"a": object()}},
            {"embedding": b"x" * 20_000},
            {"at": float("nan")},
        )
        for change in bad:
            with raises(MemoryRefusedError):
                await store.put_memory(MemoryEntry(**(fine | change)))
        assert await listed(store) == ["fits"]

    @promise
    async def test_memories_stay_when_sessions_go(self, kit: StoreKit) -> None:
        """They belong to no session; and a closed store has kept them."""
        store = kit.open()
        await store.create(new_session("s"))
        await store.put_memory(memory("the cat sleeps", "a", metadata={"session_id": "s"}))
        await store.delete("s")
        await store.aclose()
        later = kit.open()
        assert await found(later, "cat") == ["a"]
        assert list(await later.check()) == []


class MemorySearchPromises(StoreMaker):
    """Entries are found by their words, whatever a query says, and by nobody else's."""

    @promise
    async def test_any_word_is_enough_and_more_of_them_come_first(self, kit: StoreKit) -> None:
        """Rare words count more than frequent ones; case and accents count nothing."""
        store = kit.open()
        for text in ("red car", "red house", "red boat", "a Café on the red boat", "nothing of it"):
            await store.put_memory(memory(text))
        assert await found(store, "CAFE boat?") == ["a Café on the red boat", "red boat"]
        assert await found(store, "red HOUSE") == ["red house", "red car", "red boat", "a Café on the red boat"]
        assert await found(store, "red house", limit=1) == ["red house"]
        assert await found(store, "hous") == [], "a part of a word is none"
        hits = await store.search_memories("n", "red house")
        assert [hit.score for hit in hits] == sorted([hit.score for hit in hits], reverse=True)
        assert all(hit.score > 0 for hit in hits)

    @promise
    async def test_among_equals_the_newest_comes_first(self, kit: StoreKit) -> None:
        """And a query without words answers the newest entries."""
        store = kit.open()
        for n in (3, 1, 5, 2, 4):
            await store.put_memory(memory("the same words", f"m{n}", at=float(n)))
        newest = ["m5", "m4", "m3", "m2", "m1"]
        assert await found(store, "words") == newest
        for query in ("", "  ", "?!", "***"):
            assert await found(store, query, limit=3) == newest[:3]
        assert await found(store, "words", limit=0) == []
        assert await found(store, "words", limit=-1) == []

    @promise
    async def test_among_very_many_matches_the_rare_word_and_the_newest_entries_are_found(self, kit: StoreKit) -> None:
        """Also where the database chooses which matches are ranked, and another namespace has as many."""
        store = kit.open()
        many = [memory("what is the thing", f"m{n:03}", at=float(n)) for n in range(120)]
        others = [memory("what thing", f"m{n:03}", at=float(n + 1_000), namespace="m") for n in range(120)]
        await asyncio.gather(*[store.put_memory(one) for one in (memory("zebra", at=-1.0), *many, *others)])
        assert (await found(store, "what is the zebra", limit=3))[0] == "zebra"
        assert await found(store, "a thing", limit=3) == ["m119", "m118", "m117"]

    @promise
    async def test_short_words_and_words_that_everybody_uses_are_found(self, kit: StoreKit) -> None:
        """No list of words to pass over, no shortest word, whatever the database has of its own."""
        store = kit.open()
        for text in ("to be or not to be", "go 1.22", "c", "about the who"):
            await store.put_memory(memory(text))
        for query, one in (("be", "to be or not to be"), ("22", "go 1.22"), ("C", "c"), ("who", "about the who")):
            assert await found(store, query) == [one]

    @promise
    async def test_scripts_without_spaces_are_found(self, kit: StoreKit) -> None:
        """By any two letters in a row, or by one alone."""
        store = kit.open()
        texts = (
            "我喜欢红色的汽车",
            "東京タワーは赤い",
            "부산에서는 회를 먹는다",
            "ฉันชอบแมวสีดำ",
            "Ελληνικά και Русский",
            "हिन्दी भाषा",
        )
        for text in texts:
            await store.put_memory(memory(text, f"m{texts.index(text)}"))
        asked = ("红色", "タワー", "부산", "แมว", "РУССКИЙ", "हिन्दी", "喜", "ελληνικα")
        assert [(await found(store, query))[:1] for query in asked] == [[f"m{n}"] for n in (0, 1, 2, 3, 4, 5, 0, 4)]

    @promise
    async def test_no_query_raises_or_means_anything_but_its_words(self, kit: StoreKit) -> None:
        """Whatever it says to a database."""
        store = kit.open()
        await store.put_memory(memory("the cat sleeps", "cat"))
        await store.put_memory(memory("the dog barks", "dog"))
        for query in ODD:
            hits = await found(store, query)
            if "cat" in query and "dog" not in query:
                assert hits == ["cat"], query
        assert sorted(await found(store, "+cat -dog")) == ["cat", "dog"]
        assert sorted(await listed(store)) == ["cat", "dog"]

    @promise
    async def test_nothing_is_found_from_another_namespace(self, kit: StoreKit) -> None:
        """Namespaces that differ in case, an accent or a prefix only are different ones, and so are ids."""
        store = kit.open()
        names = ("ann", "Ann", "änn", "ann/1", "an", "%", "_nn", "n" * 255)
        for name in names:
            await store.put_memory(memory("the cat of " + name, "a", namespace=name))
            await store.put_memory(memory("the dog of " + name, "A", namespace=name))
        for name in names:
            assert [hit.entry.text for hit in await store.search_memories(name, "cat")] == ["the cat of " + name]
            assert sorted(await listed(store, namespace=name)) == ["A", "a"]
        assert await found(store, "cat", namespace="nobody") == []

    @promise
    async def test_many_clients_put_and_search_at_once(self, kit: StoreKit) -> None:
        """Each entry is there once, whoever put it and however often."""
        stores = [kit.open() for _ in range(3)]

        async def work(store: SessionStore) -> None:
            for n in range(8):
                await store.put_memory(memory(f"shared number{n}", f"m{n}"))
                assert f"m{n}" in await found(store, f"number{n}")

        await asyncio.gather(*[work(store) for store in stores])
        assert await listed(stores[0]) == [f"m{n}" for n in reversed(range(8))]
        assert [await found(store, "number5") for store in stores] == [["m5"]] * 3
