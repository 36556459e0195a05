"""Whatever is asked of an executor in whatever order, a leaf runs once at a time and its observers hear an end."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import next_turn

from loopwright.executors.leaf_table import REMEMBERED, LeafTable, RunningLeaf
from loopwright.ports.executor import LeafEnd, LeafRef

DONE = LeafEnd(status="completed", in_journal=True)


class Works:
    """Leaves that run until they are let go."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}
        self.begun = 0
        self.gate = asyncio.Event()

    async def run(self, leaf: RunningLeaf) -> LeafEnd:
        sid = leaf.ref.session_id
        self.begun += 1
        self.running[sid] = self.running.get(sid, 0) + 1
        assert self.running[sid] == 1, "two attempts of a session at once"
        gate = asyncio.ensure_future(self.gate.wait())
        asked = asyncio.ensure_future(leaf.asked_to_end())
        await asyncio.wait({gate, asked}, return_when=asyncio.FIRST_COMPLETED)
        gate.cancel()
        asked.cancel()
        self.running[sid] -= 1
        return DONE if leaf.asked is None else LeafEnd(status="cancelled", in_journal=True)


def ref(session: int, attempt: int = 1) -> LeafRef:
    return LeafRef(session_id=f"s{session}", agent_name="a", attempt=attempt)


VERBS = st.sampled_from(["submit", "nudge", "cancel", "observe", "let go", "wait"])


@given(st.lists(st.tuples(VERBS, st.integers(0, 1), st.integers(1, 2)), max_size=30))
def test_any_order_of_verbs_leaves_no_leaf_running_and_no_observer_waiting(
    steps: list[tuple[str, int, int]],
) -> None:
    async def play() -> None:
        works = Works()
        table = LeafTable(works.run)
        observers: list[asyncio.Task[LeafEnd]] = []
        for verb, session, attempt in steps:
            one = ref(session, attempt)
            match verb:
                case "submit":
                    await table.submit(one)
                case "nudge":
                    await table.nudge(one)
                case "cancel":
                    await table.cancel(one, "enough")
                case "observe":
                    observers.append(asyncio.ensure_future(table.observe(one)))
                case "let go":
                    works.gate.set()
                case _:
                    await next_turn()
        await asyncio.wait_for(table.aclose(), 5)
        ends = await asyncio.wait_for(asyncio.gather(*observers), 5)
        assert all(isinstance(end, LeafEnd) for end in ends)
        assert set(works.running.values()) <= {0}

    asyncio.run(play())


async def test_an_observer_that_is_cancelled_does_not_stop_the_leaf() -> None:
    works = Works()
    table = LeafTable(works.run)
    await table.submit(ref(1))
    observer = asyncio.ensure_future(table.observe(ref(1)))
    await next_turn()
    observer.cancel()
    works.gate.set()
    assert await table.observe(ref(1)) == DONE


async def test_a_nudge_during_the_run_makes_it_look_once_more_and_only_once() -> None:
    works = Works()
    table = LeafTable(works.run)
    await table.submit(ref(1))
    await next_turn()
    for _ in range(3):
        await table.nudge(ref(1))
    works.gate.set()
    assert await table.observe(ref(1)) == DONE
    assert works.begun == 2


async def test_a_fault_of_the_executor_itself_is_an_end_too() -> None:
    async def run(leaf: RunningLeaf) -> LeafEnd:
        raise ZeroDivisionError("ours")

    table = LeafTable(run)
    await table.submit(ref(1))
    end = await table.observe(ref(1))
    assert (end.in_journal, end.fault, "ours" in end.reason) == (False, "leaf.crashed", True)


async def test_old_ends_are_forgotten() -> None:
    async def run(leaf: RunningLeaf) -> LeafEnd:
        return DONE

    table = LeafTable(run)
    for number in range(REMEMBERED + 10):
        await table.submit(ref(number))
        await table.observe(ref(number))
    assert (await table.observe(ref(0))).fault == "leaf.unknown"
    assert await table.observe(ref(REMEMBERED)) == DONE
