"""The bus: everybody hears what they asked for, and nobody can hurt anybody."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.waiting import until

from loopwright.engine.bus import AgentEventBus
from loopwright.model.errors import ConfigError
from loopwright.model.events import AgentEvent, AgentEventType, StatusChanged, StreamDelta


def event(seq: int = 1, data: Any = None) -> AgentEvent:
    data = data or StatusChanged(str(seq))
    return AgentEvent(
        type=AgentEventType(data.__struct_config__.tag), session_id="s", data=data, seq=seq, at=0.0, mono=0.0
    )


def test_events_are_heard_in_order_by_all_and_by_kind() -> None:
    bus, everything, deltas = AgentEventBus(), list[int](), list[int]()
    bus.subscribe(lambda e: everything.append(e.seq))
    bus.subscribe(lambda e: deltas.append(e.seq), AgentEventType.STREAM_DELTA)
    for number in range(4):
        bus.publish(event(number, StreamDelta("c", "x") if number % 2 else None))
    assert (everything, deltas) == ([0, 1, 2, 3], [1, 3])


def test_what_nobody_wants_need_not_be_made() -> None:
    bus = AgentEventBus()
    assert bus.wanted == frozenset()
    leave = bus.subscribe(lambda e: None, "stream_delta")
    assert bus.wanted == {AgentEventType.STREAM_DELTA}
    leave_all = bus.subscribe(lambda e: None)
    assert bus.wanted == frozenset(AgentEventType)
    leave()
    leave_all()
    leave_all()
    assert bus.wanted == frozenset()


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ConfigError, match="nonsense"):
        AgentEventBus().subscribe(lambda e: None, "nonsense")


def test_a_raising_subscriber_is_logged_and_the_next_one_hears_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    bus, heard = AgentEventBus(), list[int]()

    def broken(e: AgentEvent) -> None:
        raise RuntimeError("observer")

    bus.subscribe(broken)
    bus.subscribe(lambda e: heard.append(e.seq))
    with caplog.at_level(logging.ERROR):
        bus.publish(event())
    assert heard == [1]
    assert "not affected" in caplog.text


async def test_an_async_subscriber_gets_all_in_order_one_at_a_time() -> None:
    bus, heard, inside = AgentEventBus(), list[int](), list[int]()

    async def slow(e: AgentEvent) -> None:
        inside.append(1)
        assert len(inside) == 1
        await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.001)
        inside.pop()
        heard.append(e.seq)

    bus.subscribe(slow)
    for number in range(10):
        bus.publish(event(number))
    await bus.drain()
    assert heard == list(range(10))
    bus.publish(event(10))
    await until(lambda: len(heard) == 11)


async def test_a_subscriber_that_cannot_follow_loses_its_oldest_events_and_that_is_counted() -> None:
    bus, gate, heard = AgentEventBus(queue_size=3), asyncio.Event(), list[int]()

    async def stuck(e: AgentEvent) -> None:
        await gate.wait()
        heard.append(e.seq)

    bus.subscribe(stuck)
    for number in range(10):
        bus.publish(event(number))
    await bus.drain(0.01)
    assert bus.dropped == 6
    gate.set()
    await bus.drain()
    assert heard == [0, 7, 8, 9]


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_subscriber_that_fails_on_one_event_hears_the_next(
    at_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bus, heard = AgentEventBus(), list[int]()

    async def listen(e: AgentEvent) -> None:
        if e.seq == 2 and not at_once:
            raise RuntimeError("later")
        heard.append(e.seq)

    def handler(e: AgentEvent) -> Any:
        if e.seq == 2 and at_once:
            raise RuntimeError("at once")
        return listen(e)

    bus.subscribe(handler)
    with caplog.at_level(logging.ERROR):
        for number in range(1, 5):
            bus.publish(event(number))
        await bus.drain()
    assert heard == [1, 3, 4]
    assert "not affected" in caplog.text
