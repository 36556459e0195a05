"""Signals that ask a process to end, as calls on the event loop.

Owns: taking SIGTERM and SIGINT for a while and giving them back. Must not know: what is stopped.
Read next: `worker.py`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals(first: Callable[[str], None], again: Callable[[str], None]) -> Generator[None]:
    """Until the end of the block the first of the signals calls `first` with its name, each further one `again`.

    Afterwards the signals do what they did before. Raises: `RuntimeError` or `ValueError` outside of the main thread.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    heard: list[signal.Signals] = []

    def hear(number: signal.Signals) -> None:
        heard.append(number)
        (first if len(heard) == 1 else again)(number.name)

    try:
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, hear, number)
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)
