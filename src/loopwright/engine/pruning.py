"""Deleting old sessions: which ones, how much that is, and deleting none that came alive meanwhile.

Owns: the plan and carrying it out. Must not know: terminals, SQL.
Read next: `ports/store_admin.py` (`delete`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from ..model.archive_errors import SessionReferencedError
from ..model.errors import ConfigError, RetryLaterError, SessionGoneError, SessionNotFoundError
from ..ports.store import Acquire, Committed, Head, HeadChange, Lease, SessionQuery, Transition
from ..ports.store_admin import SessionStore
from .diagnosis import EVERY_SESSION

HELD_S: Final = 60.0
"""How long a session is held while it is deleted."""


class PruneRules(Struct, frozen=True, kw_only=True):
    """What may go. A session and its descendants that are not detached count as one family and go together."""

    older_than_s: float | None = None
    """Families without a change for longer than this go."""
    max_bytes: int | None = None
    """Then the oldest go until what is left holds no more than this."""
    keep: int = 0
    """So many of the newest families stay in any case."""
    idle_only: bool = True
    """Families with a session that runs, waits or was interrupted, or with something in its inbox, stay. A session that a
    living process runs stays in any case."""
    copy_to_forks: bool = False
    """Forks that stay get what they read of a family that goes; otherwise such a family stays."""


class Family(Struct, frozen=True):
    """A session with its descendants that go when it goes."""

    members: tuple[Head, ...]
    """Each before its children."""
    bytes: int
    forks: tuple[str, ...] = ()
    """Sessions of other families that read one of these."""

    @property
    def root(self) -> Head:
        """The session that all others descend from."""
        return self.members[0]

    @property
    def updated_at(self) -> float:
        """When any of them changed last."""
        return max(head.updated_at for head in self.members)


class PrunePlan(Struct, frozen=True):
    """What would be deleted."""

    going: tuple[Family, ...]
    """Oldest first."""
    unfinished: int
    """Families that would go if they had nothing open."""
    bytes_before: int
    referenced: int = 0
    """Families that would go if forks which stay did not read them."""
    copy_to_forks: bool = False

    @property
    def sessions(self) -> int:
        """How many."""
        return sum(len(family.members) for family in self.going)

    @property
    def bytes(self) -> int:
        """What they hold, that which forks get of it included."""
        return sum(family.bytes for family in self.going)


class Pruned(Struct):
    """What was deleted."""

    sessions: int = 0
    bytes: int = 0
    stayed: list[str] = field(default_factory=list[str])
    """Sessions that came alive, or were forked, between plan and deletion."""


async def plan_prune(store: SessionStore, rules: PruneRules, now: float) -> PrunePlan:
    """What the rules mean for this store at `now` (UTC epoch seconds). Cost: reads all heads and the size of everything.

    Raises `ConfigError` when the rules name no reason to delete anything.
    """
    if rules.older_than_s is None and rules.max_bytes is None and not rules.keep:
        raise ConfigError("nothing says what to delete; give an age, a size or a number of sessions to keep")
    families = families_of(await store.list(SessionQuery(limit=EVERY_SESSION)), sizes := await store.session_sizes())
    families = in_order(families)
    total = left = sum(sizes.values())
    going: list[Family] = []
    unfinished = referenced = 0
    staying = {head.session_id for family in families for head in family.members}
    for family in families[: max(len(families) - rules.keep, 0)]:
        by_number = rules.older_than_s is None and rules.max_bytes is None
        old = rules.older_than_s is not None and now - family.updated_at > rules.older_than_s
        large = rules.max_bytes is not None and left > rules.max_bytes
        if not (by_number or old or large):
            continue
        if any(head.expires_in_s > 0 for head in family.members) or (
            rules.idle_only and await _has_open_work(store, family)
        ):
            unfinished += 1
        elif not rules.copy_to_forks and any(fork in staying for fork in family.forks):
            referenced += 1
        else:
            going.append(family)
            left -= family.bytes
            staying -= {head.session_id for head in family.members}
    return PrunePlan(tuple(going), unfinished, total, referenced, rules.copy_to_forks)


async def carry_out_prune(store: SessionStore, plan: PrunePlan, token: bytes) -> Pruned:
    """Deletes what the plan says, except families of which anything changed since: each member is held first, at
    exactly the place where the plan saw it, so that nobody can begin a run in it."""
    done = Pruned()
    for family in plan.going:
        held: list[tuple[Head, Committed]] = []
        try:
            for head in family.members:
                held.append((head, await store.commit(_hold(head, token))))  # noqa: PERF401 - known when a later one fails
            done.sessions += await store.delete(family.root.session_id, copy_to_forks=plan.copy_to_forks)
            done.bytes += family.bytes
        except (RetryLaterError, SessionGoneError, SessionNotFoundError, SessionReferencedError):
            done.stayed.append(family.root.session_id)
            for head, committed in held:
                await _let_go(store, head, committed, token)
    return done


def families_of(heads: Sequence[Head], sizes: dict[str, int]) -> list[Family]:
    """Sessions with those that are deleted with them."""
    known = {head.session_id for head in heads}
    children: dict[str, list[Head]] = {}
    forks: dict[str, list[str]] = {}
    roots: list[Head] = []
    for head in heads:
        if head.base is not None:
            forks.setdefault(head.base.session_id, []).append(head.session_id)
        if head.parent_id in known and head.lifecycle != "detached":
            children.setdefault(str(head.parent_id), []).append(head)
        else:
            roots.append(head)
    families: list[Family] = []
    for root in roots:
        members = [root]
        for member in members:  # grows while it is gone through
            members += children.get(member.session_id, [])
        ids = {member.session_id for member in members}
        readers = [fork for member in members for fork in forks.get(member.session_id, []) if fork not in ids]
        held = sum(sizes.get(member.session_id, 0) for member in members)
        families.append(Family(tuple(members), held, tuple(readers)))
    return families


def in_order(families: Sequence[Family]) -> list[Family]:
    """Oldest first; a family that others read is as young as they are and comes behind them."""
    of = {head.session_id: family.root.session_id for family in families for head in family.members}
    places = {family.root.session_id: (family.updated_at, 0) for family in families}
    read = [family for family in families if family.forks]
    # Once for each session of the longest line; families that read each other, by a child that is a fork, have no end.
    for _ in read:
        before = dict(places)
        for family in read:
            root = family.root.session_id
            at, depth = max(places[of[fork]] for fork in family.forks)
            places[root] = max(places[root], (at, depth + 1))
        if places == before:
            break
    return sorted(families, key=lambda family: places[family.root.session_id])


async def _has_open_work(store: SessionStore, family: Family) -> bool:
    for head in family.members:
        if head.status != "idle":
            return True
        try:
            if (await store.lookup(head.session_id)).waiting:
                return True
        except (SessionGoneError, SessionNotFoundError):
            return True
    return False


def _hold(head: Head, token: bytes) -> Transition:
    return Transition(
        session_id=head.session_id,
        expect=head.position,
        lease=Acquire(token, HELD_S),
        head=HeadChange(progress=False),
        if_inbox=head.inbox_seq,
    )


async def _let_go(store: SessionStore, head: Head, committed: Committed, token: bytes) -> None:
    lease = Lease(committed.epoch, token)
    try:
        await store.commit(
            Transition(
                session_id=head.session_id,
                expect=committed.position,
                lease=lease,
                head=HeadChange(progress=False),
                release=True,
            )
        )
    except (RetryLaterError, SessionGoneError, SessionNotFoundError):
        pass  # it went, or is somebody else's by now
