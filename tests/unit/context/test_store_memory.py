"""Memory across sessions on a store: what is kept of a send, what is recalled, and a host's embedding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from loopwright.context import StoreMemory
from loopwright.context.embeddings import nearest, vectors
from loopwright.context.store_memory import exchange_of
from loopwright.model.messages import AssistantMessage, TextPart, UserMessage
from loopwright.ports.ambient import breathe
from loopwright.ports.memory import MemoryProvider, MemorySnapshot
from loopwright.ports.memory_index import MAX_MEMORY_BYTES
from loopwright.stores.memory import MemoryStore
from loopwright.testing.store_memory_promises import memory
from loopwright.testing.virtual import VirtualAmbient

ENOUGH = 1_500


def ended(asked: str = "Where is the cat?", answered: str = "On the mat.", **fields: Any) -> MemorySnapshot:
    given: dict[str, Any] = {
        "session_id": "old",
        "messages": (UserMessage(asked), AssistantMessage((TextPart(answered),)), UserMessage("engine's own words")),
        "final_text": answered,
        "rounds": 1,
        "status": "completed",
    }
    return MemorySnapshot(**(given | fields))


async def recalled(memory: MemoryProvider, asked: str, budget: int = ENOUGH, session_id: str = "new") -> list[str]:
    window = (UserMessage("long ago"), AssistantMessage((TextPart("yes"),)), UserMessage(asked))
    return [one.text for one in await memory.recall(window, session_id, budget)]


async def said(provider: StoreMemory, *texts: str, session_id: str = "old") -> None:
    for text in texts:
        await provider.remember(ended(text), session_id)


def texts_of(snapshot: MemorySnapshot) -> Sequence[str]:
    """Keeps the input as it is."""
    return (str(snapshot.messages[0].content),)  # type: ignore[union-attr]


async def test_what_one_session_learned_another_one_is_told() -> None:
    provider = StoreMemory(MemoryStore())
    await provider.remember(ended(), "old")
    assert await recalled(provider, "have you seen my CAT") == [
        "Asked before: Where is the cat?\nAnswered then: On the mat."
    ]
    assert await recalled(provider, "and a dog?") == []
    assert await recalled(provider, "  ") == []
    assert await recalled(provider, "?!") == []


async def test_a_session_is_not_told_what_it_said_itself() -> None:
    provider = StoreMemory(MemoryStore())
    await provider.remember(ended(), "old")
    assert await recalled(provider, "cat", session_id="old") == []


@pytest.mark.parametrize(
    "snapshot",
    [
        ended(status="cancelled"),
        ended(status="failed"),
        ended(" "),
        ended(answered=" \n"),
        ended(messages=()),
    ],
)
def test_of_a_send_that_came_to_nothing_nothing_is_kept(snapshot: MemorySnapshot) -> None:
    assert exchange_of(snapshot) == ()


def test_long_inputs_and_answers_are_shortened_and_braces_are_text() -> None:
    (text,) = exchange_of(ended("{asked} " * 1_000, "{0} " * 5_000))
    assert text.startswith("Asked before: {asked} {asked}")
    assert "…\nAnswered then: {0} {0}" in text
    assert len(text) < 1_600


async def test_the_same_text_again_is_one_memory_made_new() -> None:
    store, ambient = MemoryStore(), VirtualAmbient()
    provider = StoreMemory(store, ambient=ambient)
    await said(provider, "cat", "dog")
    await ambient.sleep(60.0)
    await said(provider, "cat", session_id="later")
    entries = await store.list_memories("default")
    assert [one.metadata["session_id"] for one in entries] == ["later", "old"]
    assert entries[0].at == ambient.now()


async def test_a_namespace_may_depend_on_the_session() -> None:
    provider = StoreMemory(MemoryStore(), namespace=lambda session_id: session_id.partition("-")[0])
    await said(provider, "Ann's cat", session_id="ann-1")
    assert len(await recalled(provider, "cat", session_id="ann-2")) == 1
    assert await recalled(provider, "cat", session_id="bob-1") == []


async def test_a_host_says_what_is_kept_within_bounds() -> None:
    def lines(snapshot: MemorySnapshot) -> list[str]:
        return [" ", "", "once", "once ", "é" * 50_000, *map(str, range(50))]

    store = MemoryStore()
    await StoreMemory(store, remember=lines).remember(ended(), "old")
    kept = [one.text for one in await store.list_memories("default")]
    assert len(kept) == 20
    assert kept.count("once") == 1
    assert max(len(text.encode()) for text in kept) <= MAX_MEMORY_BYTES


async def test_the_oldest_memories_go_when_there_are_more_than_are_kept() -> None:
    store, ambient = MemoryStore(), VirtualAmbient()
    provider = StoreMemory(store, remember=texts_of, keep=2, ambient=ambient)
    for text in ("first cat", "second cat", "third cat"):
        await ambient.sleep(1.0)
        await said(provider, text)
    assert [one.text for one in await store.list_memories("default")] == ["third cat", "second cat"]


async def test_what_is_recalled_fits_into_the_budget_and_the_limit() -> None:
    provider = StoreMemory(MemoryStore(), remember=texts_of, limit=2)
    await said(provider, "cat " * 400, "cat mat", "cat hat", "cat bat")
    assert len(await recalled(provider, "cat", 10_000)) == 2
    assert await recalled(provider, "mat cat", 8) == ["cat mat"]
    assert await recalled(provider, "cat", 0) == []


async def test_what_shares_only_the_words_that_all_share_is_not_recalled() -> None:
    provider = StoreMemory(MemoryStore(), remember=texts_of)
    await said(provider, *[f"the thing number {n} is on the shelf" for n in range(30)], "the zebra is called Zora")
    assert await recalled(provider, "what is the name of the zebra") == ["the zebra is called Zora"]


MEANINGS = {"cat": (1.0, 0.1), "feline": (0.9, 0.2), "car": (-1.0, 0.5), "tiger": (0.8, 0.6), "": (0.0, 0.0)}


def embed(texts: Sequence[str]) -> list[tuple[float, float]]:
    return [next(vector for word, vector in MEANINGS.items() if word in text) for text in texts]


async def embed_later(texts: Sequence[str]) -> list[tuple[float, float]]:
    await breathe()
    return embed(texts)


@pytest.mark.parametrize("function", [embed, embed_later, partial(embed_later)])
async def test_with_an_embedding_what_means_the_same_is_recalled_without_a_common_word(function: Any) -> None:
    provider = StoreMemory(MemoryStore(), remember=texts_of, embed=function)
    await said(provider, "my feline sleeps", "my tiger sleeps", "my car is red", "nothing of it")
    assert await recalled(provider, "the cat") == ["my feline sleeps", "my tiger sleeps"]


async def test_what_both_words_and_meaning_find_comes_before_what_one_of_them_finds() -> None:
    provider = StoreMemory(MemoryStore(), remember=texts_of, embed=embed)
    await said(provider, "a feline", "a red tiger", "red red red", "something else")
    assert (await recalled(provider, "red cat"))[0] == "a red tiger"


def broken(_: Sequence[str]) -> Any:
    raise RuntimeError("no network")


@pytest.mark.parametrize(
    "function",
    [
        broken,
        lambda texts: [],
        lambda texts: [["x"] for _ in texts],
        lambda texts: [[] for _ in texts],
        lambda texts: [[float("nan")] for _ in texts],
        lambda texts: None,
    ],
)
async def test_an_embedding_that_fails_leaves_the_words(function: Any) -> None:
    provider = StoreMemory(MemoryStore(), remember=texts_of, embed=function)
    await said(provider, "my cat sleeps")
    assert await recalled(provider, "cat") == ["my cat sleeps"]


async def test_vectors_of_another_function_are_passed_over() -> None:
    store = MemoryStore()
    await said(StoreMemory(store, remember=texts_of, embed=lambda texts: [(1.0, 0.0, 0.0) for _ in texts]), "old cat")
    await said(StoreMemory(store, remember=texts_of), "unembedded")
    await said(StoreMemory(store, remember=texts_of, embed=embed), "feline")
    assert await recalled(StoreMemory(store, embed=embed), "tiger") == ["feline"]


async def test_the_nearest_are_ordered_by_direction_and_not_by_length() -> None:
    made = await vectors(lambda texts: [(10.0, 10.0), (0.1, 0.0), (0.0, 5.0), (-1.0, 0.0)], ["a", "b", "c", "d"])
    entries = [memory(name, embedding=vector) for name, vector in zip("abcd", made, strict=True)]
    (asked,) = await vectors(lambda texts: [(3.0, 0.3)], ["x"])
    assert [one.memory_id for one in await nearest(asked, entries, 4)] == ["b", "a", "c"]
    assert [one.memory_id for one in await nearest(asked, entries, 1)] == ["b"]
