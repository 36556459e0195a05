"""Promises of a store about boards: bounded, shared, and no change is lost unseen.

Owns: tests of `Board` and of `put_if`. Must not know: any store.
Read next: `store_suite.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ..model.errors import ConfigError
from ..model.family_errors import BoardEntryError, BoardFullError
from ..ports.board import LONGEST_ENTRY, MOST_ENTRIES, BoardChange, BoardEntry, BoardPolicy, BoardPost, put_if
from ..ports.store_admin import SessionStore
from .store_kit import StoreKit, StoreMaker, new_session, promise, raises

SMALL: Final = BoardPolicy(max_entries=3)
ROLLING: Final = BoardPolicy(max_entries=3, when_full="drop_oldest")
ODD: Final = "tabs\tNUL \x00 half \ud800 mark \x1a0041 ' \\ 😀 end "


def said(text: str = "hello", *, board_id: str = "b", **fields: Any) -> BoardPost:
    """Something to post at time 10."""
    given: dict[str, Any] = {"at": 10.0}
    return BoardPost(board_id=board_id, text=text, **(given | fields))


def changed(entry: BoardEntry, text: str, **fields: Any) -> BoardChange:
    """A change of an entry as it was seen, at time 20."""
    given: dict[str, Any] = {
        "board_id": entry.board_id,
        "entry_id": entry.entry_id,
        "version": entry.version,
        "text": text,
        "at": 20.0,
    }
    return BoardChange(**(given | fields))


async def texts_on(store: SessionStore, board_id: str = "b", **asked: Any) -> list[str]:
    """What stands on a board, in order."""
    return [entry.text for entry in await store.read_board(board_id, **asked)]


class BoardPromises(StoreMaker):
    """A board is what all who share it see."""

    @promise
    async def test_what_is_posted_is_read_by_everybody_in_order(self, kit: StoreKit) -> None:
        """Whole, with odd text, and after everything was closed; other boards are others."""
        store, other = kit.open(), kit.open()
        first = await store.post_entry(said(ODD, kind="finding", author="ann", key="k"))
        second = await other.post_entry(said("second", at=5.0))
        await other.post_entry(said("elsewhere", board_id="B"))
        assert (first.entry_id, first.text, first.kind, first.author, first.key) == (1, ODD, "finding", "ann", "k")
        assert (first.posted_at, first.updated_at, second.key) == (10.0, 10.0, "")
        assert list(await store.read_board("b")) == list(await other.read_board("b")) == [first, second]
        assert await texts_on(store, "B") == ["elsewhere"]
        assert await texts_on(store, kind="finding") == [ODD]
        assert await texts_on(store, after=first.version) == ["second"]
        assert await texts_on(store, "never") == []
        await store.aclose()
        assert list(await kit.open().read_board("b")) == [first, second]

    @promise
    async def test_a_change_counts_only_for_what_was_seen(self, kit: StoreKit) -> None:
        """Who comes too late is told, and may read again."""
        store, other = kit.open(), kit.open()
        entry = await store.post_entry(said("one", kind="task", author="ann"))
        mine = await store.update_entry(changed(entry, "two", author="bob"))
        assert (mine.text, mine.author, mine.kind) == ("two", "bob", "task")
        assert (mine.entry_id, mine.posted_at, mine.updated_at) == (1, 10.0, 20.0)
        assert mine.version > entry.version
        with raises(BoardEntryError) as late:
            await other.update_entry(changed(entry, "three"))
        assert (late.error.entry_id, late.error.current) == (1, mine.version)
        with raises(BoardEntryError):
            await other.remove_entry("b", 1, version=entry.version)
        assert list(await other.read_board("b")) == [mine]
        assert await other.remove_entry("b", 1, version=mine.version)
        with raises(BoardEntryError) as gone:
            await store.update_entry(changed(mine, "four"))
        assert gone.error.current is None

    @promise
    async def test_of_many_who_saw_one_version_one_changes_it(self, kit: StoreKit) -> None:
        """From two clients at once."""
        clients = [kit.open(), kit.open()]
        entry = await clients[0].post_entry(said())
        answers = await asyncio.gather(
            *(clients[n % 2].update_entry(changed(entry, f"by {n}")) for n in range(8)), return_exceptions=True
        )
        done = [one for one in answers if not isinstance(one, BaseException)]
        assert [type(one) for one in answers if isinstance(one, BaseException)] == [BoardEntryError] * 7
        assert list(await clients[1].read_board("b")) == done

    @promise
    async def test_what_is_tried_again_is_done_once(self, kit: StoreKit) -> None:
        """A post with a key, a change that was made, an entry that is gone."""
        store, other = kit.open(), kit.open()
        first = await store.post_entry(said("one", key="k"))
        assert await other.post_entry(said("other words", key="k")) == first
        change = changed(first, "two", author="ann")
        assert await other.update_entry(change) == await store.update_entry(change)
        assert await texts_on(store) == ["two"]
        assert await store.remove_entry("b", 1)
        assert not await other.remove_entry("b", 1)
        assert not await other.remove_entry("never", 1, version=3)
        again = await store.post_entry(said("three", key="k"))
        assert (again.entry_id, again.text) != (1, "two")

    @promise
    async def test_a_board_never_holds_more_than_its_bound(self, kit: StoreKit) -> None:
        """Also when many post at once; what is refused leaves nothing."""
        clients = [kit.open(), kit.open()]
        answers = await asyncio.gather(
            *(clients[n % 2].post_entry(said(f"t{n}"), SMALL) for n in range(8)), return_exceptions=True
        )
        refused = [one for one in answers if isinstance(one, BaseException)]
        assert [type(one) for one in refused] == [BoardFullError] * 5
        assert len(await clients[0].read_board("b")) == 3
        with raises(BoardFullError) as full:
            await clients[1].post_entry(said("more"), SMALL)
        assert (full.error.board_id, full.error.count, full.error.limit) == ("b", 3, 3)
        oldest = (await clients[0].read_board("b"))[0]
        await clients[1].update_entry(changed(oldest, "room is not needed for this"), SMALL)
        await clients[1].remove_entry("b", oldest.entry_id)
        assert (await clients[0].post_entry(said("fits now"), SMALL)).text == "fits now"

    @promise
    async def test_where_the_oldest_make_room_the_newest_stay(self, kit: StoreKit) -> None:
        """Oldest as they were posted, whatever was changed since."""
        store = kit.open()
        entries = [await store.post_entry(said(f"t{n}")) for n in range(5)]
        await store.update_entry(changed(entries[0], "t0 again"))
        last = await store.post_entry(said("t5"), ROLLING)
        assert await texts_on(store) == ["t3", "t4", "t5"]
        assert last.entry_id > entries[-1].entry_id

    @promise
    async def test_ids_and_versions_are_never_seen_twice(self, kit: StoreKit) -> None:
        """Not after entries went, and not after all of them went."""
        store = kit.open()
        seen: set[int] = set()
        for n in range(3):
            entry = await store.post_entry(said(f"t{n}"))
            entry = await store.update_entry(changed(entry, f"u{n}"))
            assert not seen & {entry.entry_id, entry.version}
            seen |= {entry.entry_id, entry.version}
            if n == 1:
                assert await store.drop_board("b") == 1
            else:
                await store.remove_entry("b", entry.entry_id)
        assert await store.drop_board("b") == await store.drop_board("never") == 0

    @promise
    async def test_what_cannot_be_kept_is_refused_and_said(self, kit: StoreKit) -> None:
        """Bounds of text, names and policies; the longest that is allowed is kept."""
        store = kit.open()
        longest = "\ud800" * LONGEST_ENTRY
        wide = BoardPolicy(max_chars=LONGEST_ENTRY, max_entries=MOST_ENTRIES)
        entry = await store.post_entry(said(longest, author="x" * 255), wide)
        assert await texts_on(store) == [longest]
        odd_posts = (
            said(""),
            said(" \n"),
            said("x" * 2_001),
            said(board_id=""),
            said(board_id=" b"),
            said(board_id="x" * 256),
            said(kind=""),
            said(author="a\nb"),
            said(key="\ud800"),
            said(key="~"),
            said(at=float("nan")),
        )
        for post in odd_posts:
            with raises(BoardEntryError):
                await store.post_entry(post)
        for text in ("", "x" * 2_001):
            with raises(BoardEntryError):
                await store.update_entry(changed(entry, text))
        for policy in (BoardPolicy(max_entries=0), BoardPolicy(max_entries=501), BoardPolicy(max_chars=20_001)):
            with raises(ConfigError):
                await store.post_entry(said(), policy)
        assert await texts_on(store) == [longest]

    @promise
    async def test_a_register_is_written_by_who_saw_what_it_was(self, kit: StoreKit) -> None:
        """Of many who saw one value, one writes; a removed one is not what it was."""
        clients = [kit.open(), kit.open()]
        answers = await asyncio.gather(
            *(put_if(clients[n % 2], said(f"by {n}", key="leader"), 0) for n in range(6)), return_exceptions=True
        )
        (first,) = [one for one in answers if not isinstance(one, BaseException)]
        second = await put_if(clients[1], said("next", key="leader"), first.version)
        for version in (0, first.version):
            with raises(BoardEntryError) as moved:
                await put_if(clients[0], said("too late", key="leader"), version)
            assert moved.error.current == second.version
        await clients[0].remove_entry("b", second.entry_id)
        with raises(BoardEntryError):
            await put_if(clients[0], said("gone", key="leader"), second.version)
        with raises(BoardEntryError):
            await put_if(clients[0], said("no key"), 0)
        assert (await put_if(clients[0], said("anew", key="leader"), 0)).version > second.version

    @promise
    async def test_boards_outlive_the_sessions_that_wrote_on_them(self, kit: StoreKit) -> None:
        """And are no damage."""
        store = kit.open()
        await store.create(new_session("b"))
        await store.post_entry(said(author="b"))
        await store.delete("b")
        assert await texts_on(store) == ["hello"]
        assert list(await store.check()) == []
