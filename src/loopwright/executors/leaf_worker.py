"""The process of one leaf: `python -m loopwright.executors.leaf_worker` with a job on standard input.

Owns: its standard streams, who asks it to stop or to leave, its exit. Must not know: how a loop is made; the job names that.
Standard output is the executor's alone: whatever else writes there, in this process or one that it starts, writes to the error
output instead. Standard input is read by a thread, so that also a process whose event loop stands still notices that its
executor is gone. No parent-death signal is used: it comes when the parent's *thread* ends, and does not pass through launchers.
Read next: `beginning.py`.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
from typing import Final, cast

from ..model.errors import ConfigError, LoopwrightError
from ..ports.cancellation import CancellationToken
from ..ports.executor import LeafEnd
from .beginning import LeafLoop, begin, end_of
from .tagged import end_tagged
from .worker_job import (
    EXIT_LEFT,
    LARGEST_LINE,
    TAG_VARIABLE,
    LeafJob,
    LoopOrder,
    end_line,
    read_job,
    reason_of_stop,
    store_variable,
)

LEAVE_S: Final = 1.0
"""How long a run that is left has to give its lease back; its session is interrupted in any case."""


class _Streams:
    """The two pipes to the executor, taken away from everybody else in this process."""

    def __init__(self) -> None:
        self._lines = os.fdopen(os.dup(0), "rb")
        self._answers = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def line(self) -> bytes:
        """The next line; b"" when the executor is gone."""
        return self._lines.readline(LARGEST_LINE + 1)

    def tell(self, line: bytes) -> None:
        """Writes all of it; an executor that is gone needs no answer."""
        try:
            while line:
                line = line[os.write(self._answers, line) :]
        except BrokenPipeError:
            pass


class _Asked:
    """What the outside wants of this process; set from any thread."""

    def __init__(self) -> None:
        self.stop = CancellationToken()
        self.leave = CancellationToken()

    def read(self, streams: _Streams) -> None:
        """Takes lines until there are no more; runs in a thread of its own."""
        while line := streams.line():
            reason = reason_of_stop(line)
            if reason is not None:
                self.stop.cancel(reason)
        self.leave.cancel("its executor is gone")
        threading.Event().wait(2 * LEAVE_S)
        gone(EXIT_LEFT)  # the event loop, which was asked to do that, stands still


def gone(exit_code: int) -> None:
    """Ends this process now, with everything that it started and that can be found."""
    tag = os.environ.get(TAG_VARIABLE)
    if tag:
        end_tagged(tag)
    logging.shutdown()
    os._exit(exit_code)


def make_loop(job: LeafJob) -> LeafLoop:
    """The loop that the job's factory makes. Raises: `ConfigError`, and whatever the factory raises."""
    variable = store_variable(job.ref.place)
    dsn = os.environ.get(variable)
    if not dsn:
        raise ConfigError(f"{variable} is not set in the environment of the leaf's process; it says where the store is")
    module, _, name = job.bootstrap.factory.partition(":")
    sys.path += [path for path in job.paths if path not in sys.path]
    factory = getattr(importlib.import_module(module), name)
    order = LoopOrder(dsn=dsn, agent_name=job.ref.agent_name, workspace=os.getcwd(), bootstrap=job.bootstrap)
    return cast("LeafLoop", factory(order))


async def work(job: LeafJob, asked: _Asked, streams: _Streams) -> None:
    """Runs the leaf and tells its end; does not return when it is told to leave."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.leave.cancel, "SIGTERM")
    loop = make_loop(job)
    run = asyncio.ensure_future(begin(loop, job.ref.session_id, asked.stop))
    leaving = asyncio.ensure_future(asked.leave.wait())
    await asyncio.wait({run, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if not run.done():
        await asyncio.wait({asyncio.ensure_future(loop.aclose(drain_timeout_s=0))}, timeout=LEAVE_S)
        gone(EXIT_LEFT)
    streams.tell(end_line(job.nonce, end_of(run.result())))
    await loop.aclose(drain_timeout_s=0)


def main() -> None:
    """One job, one answer."""
    streams = _Streams()
    try:
        job = read_job(streams.line())
    except ConfigError as error:
        sys.exit(f"{error}; this program is started by an executor")
    asked = _Asked()
    threading.Thread(target=asked.read, args=(streams,), daemon=True).start()
    try:
        asyncio.run(work(job, asked, streams))
    except LoopwrightError as error:
        told = LeafEnd(status="failed", in_journal=False, error_code=error.code, reason=str(error))
        streams.tell(end_line(job.nonce, told))
    except Exception as error:  # noqa: BLE001 - the top of a run: a factory or a store's driver may raise anything
        traceback.print_exc()
        told = LeafEnd(status="failed", in_journal=False, fault="leaf.crashed", reason=repr(error))
        streams.tell(end_line(job.nonce, told))
    # Not by returning: threads of tools that were left behind would be waited for.
    gone(0)


if __name__ == "__main__":
    main()
