"""What a worker does not try again for a while.

Owns: `SetAside`, a bounded memory. Must not know: why something is left alone.
Read next: `worker.py`.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

REMEMBERED = 10_000
"""Names kept at most; beyond that the ones that were set aside first are forgotten and may be tried again."""

LONGEST = 16
"""How many times the first wait the waits of one name grow to."""


class Entry(Struct, frozen=True, gc=False):
    """Until when, and how long it was this time."""

    until: float
    wait_s: float


class SetAside:
    """Names to be left alone, each for a time that doubles whenever it is set aside again."""

    def __init__(self, *, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, name: str, *, now: float, first_s: float) -> None:
        """Leaves the name alone for `first_s`, or for twice as long as the last time."""
        before = self._entries.pop(name, None)
        wait_s = first_s if before is None else min(max(before.wait_s * 2, first_s), first_s * LONGEST)
        self._entries[name] = Entry(now + wait_s, wait_s)
        while len(self._entries) > self._remembered:
            self._entries.popitem(last=False)

    def holds(self, name: str, *, now: float) -> bool:
        """True while the name is to be left alone."""
        entry = self._entries.get(name)
        return entry is not None and now < entry.until

    def forget(self, name: str) -> None:
        """The name is as good as new."""
        self._entries.pop(name, None)
