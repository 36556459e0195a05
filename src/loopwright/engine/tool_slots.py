"""How many calls of one tool run at once in one loop object: slots, given out first come first served.

Owns: `ToolSlots`, and the order in which calls get a slot. Must not know: what calls do with it (`tool_call.py`).
Loaded by the first call of a tool with `max_parallel`. A call that waits for children has no slot meanwhile: whatever
they call can have it, so no ring of calls that wait for each other comes about. Read next: `tool_call.py`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from .stopping import Stopped, race

if TYPE_CHECKING:
    from .tool_call import ToolRun

T = TypeVar("T")


async def in_slot(one: ToolRun, most: int) -> None:
    """Executes a call once a slot of its tool is free; one that is stopped before is answered as aborted.

    Its time limit and, of a `once` tool, its intent begin after that: a call that waits has not started.
    """
    run = one.run_context
    if run.kernel.slots is None:
        run.kernel.slots = ToolSlots()
    slots = run.kernel.slots
    slot = slots.ask(one.key, one.name, most)
    try:
        if not slot.held:
            raced = await race(
                slot.granted(),
                run.token,
                run.kernel.deadlines,
                timeout_s=None,
                grace_s=run.kernel.config.stop_grace_s,
            )
            if isinstance(raced, Stopped):
                return await one.answer("aborted", f"<aborted: {raced.reason}>")
        return await one.execute()
    finally:
        slots.leave(one.key)


async def without(slots: ToolSlots, key: str, work: Awaitable[T]) -> T:
    """Awaits a child of a call that gives its slot up meanwhile, and takes one again when the child has ended.

    Cancel: the call has no slot any more.
    """
    slots.step_out(key)
    try:
        value = await work
    except Exception:
        await slots.step_in(key)
        raise
    await slots.step_in(key)
    return value


class ToolSlot:
    """One call's place in line, or its slot."""

    __slots__ = ("_place", "away", "held", "line", "loop")

    def __init__(self, line: _Line) -> None:
        self.line = line
        self.loop = asyncio.get_running_loop()
        self.held = False
        self.away = 0
        """How many children the call waits for; it has no slot as long as there is one."""
        self._place: asyncio.Future[None] | None = None

    async def granted(self) -> None:
        """Waits until the slot is this call's."""
        if not self.held:
            self._place = self.loop.create_future()
            if not self.held:  # another thread may have given it since
                await self._place

    def tell(self) -> None:
        """The slot is this call's: from any thread. Raises `RuntimeError` when the call's event loop is closed."""
        self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._place is not None and not self._place.done():
            self._place.set_result(None)


class _Line:
    """The slots of one tool, and who waits for one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._holding: set[ToolSlot] = set()
        self._waiting: deque[ToolSlot] = deque()

    def ask(self, slot: ToolSlot) -> None:
        """Gives a slot that is free and nobody waits for, else a place at the end of the line."""
        with self._mutex:
            self._waiting.append(slot)
            self._give(asking=slot)

    def leave(self, slot: ToolSlot) -> None:
        """Takes slot or place away; any number of times."""
        with self._mutex:
            if slot.held:
                slot.held = False
                self._holding.discard(slot)
            elif slot in self._waiting:
                self._waiting.remove(slot)
            self._give()

    def _give(self, asking: ToolSlot | None = None) -> None:
        if self._waiting and len(self._holding) >= self._most:
            # Whoever held one in an event loop that is closed went down without giving it back.
            self._holding = {slot for slot in self._holding if not slot.loop.is_closed()}
        while self._waiting and len(self._holding) < self._most:
            slot = self._waiting.popleft()
            slot.held = True
            if slot is not asking:
                try:
                    slot.tell()
                except RuntimeError:
                    slot.held = False
                    continue
            self._holding.add(slot)


class ToolSlots:
    """The lines of a loop object. Concurrency: any event loop and thread."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], _Line] = {}
        self._slots: dict[str, ToolSlot] = {}
        """By the key of the call."""

    def ask(self, key: str, name: str, most: int) -> ToolSlot:
        """The slot of a call: held at once, or a place in line."""
        slot = ToolSlot(self._lines.setdefault((name, most), _Line(most)))
        self._slots[key] = slot
        slot.line.ask(slot)
        return slot

    def leave(self, key: str) -> None:
        """The call is over, or waits no more."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            slot.line.leave(slot)

    def step_out(self, key: str) -> None:
        """The call waits for a child."""
        if (slot := self._slots.get(key)) is not None:
            slot.away += 1
            slot.line.leave(slot)

    async def step_in(self, key: str) -> None:
        """Its child has ended: waits for a slot again. Cancel: the call has none."""
        if (slot := self._slots.get(key)) is None:
            return
        slot.away -= 1
        if slot.away == 0 and not slot.held:
            slot.line.ask(slot)
            await slot.granted()
