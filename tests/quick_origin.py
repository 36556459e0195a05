"""The process that is copied: has imported what most processes of the tests need, and has no threads and open stores.

`python -m tests.quick_origin FD` answers the requests that come over the socket FD, one after the other: to start a copy
(its streams come with the request), and how a copy ended. It ends when the other side is gone; its copies go on.
Read next: `quick_processes.py`, which asks.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import io
import json
import os
import random
import runpy
import signal
import socket
import sys
import termios
import warnings
from collections.abc import Mapping
from typing import Any, TextIO

NEEDED = (
    "asyncio",
    "asyncmy",
    "asyncpg",
    "loopwright.cli.application",
    "loopwright.stores.mysql",
    "loopwright.stores.postgres",
    "loopwright.stores.sqlite",
    "loopwright.testing",
    "loopwright.testing.crash_matrix",
    "loopwright.transports.service_factory",
    "tests.crash.family_agents",
    "tests.crash.long_talk",
    "tests.crash.process_agents",
)
ROOM = 1 << 20


def answered(asked: socket.socket) -> Mapping[str, Any] | None:
    """Answers requests until the other side is gone; in a copy, what it is to do."""
    while True:
        data, files, _, _ = socket.recv_fds(asked, ROOM, 3)
        if not data:
            return None
        request = json.loads(data)
        if "ended" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        else:
            answer = os.fork()
            if not answer:
                asked.close()
                _take(files)
                return dict(request)
        for file in files:
            os.close(file)
        asked.send(json.dumps([answer]).encode())


def _take(files: list[int]) -> None:
    """Makes these files the three streams, and a terminal among them that of this process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    own_terminal()
    reading = io.BufferedReader(io.FileIO(0, "r", closefd=False))
    kept = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(reading, encoding=kept[0].encoding, errors=kept[0].errors)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _output(1, kept[1])  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _output(2, kept[2])  # type: ignore[misc]


def own_terminal() -> None:
    """A session of its own with the terminal that it reads from, if that is one."""
    if os.isatty(0):
        if os.getsid(0) != os.getpid():
            os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _output(number: int, kept: TextIO) -> io.TextIOWrapper:
    """A stream like the one that the interpreter made for the origin."""
    file = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    by_line = number == 2 or os.isatty(number)
    return io.TextIOWrapper(file, encoding=kept.encoding, errors=kept.errors, line_buffering=by_line)


def become(request: Mapping[str, Any]) -> None:
    """Runs the module in its folder and environment, as the interpreter would have begun it."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    is_file = request["module"].endswith(".py")
    sys.path[0] = os.path.dirname(request["module"]) if is_file else request["cwd"]
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = [request["module"], *request["words"]]
    if action := os.environ.get("PYTHONWARNINGS"):
        warnings.resetwarnings()
        warnings.simplefilter(action)  # type: ignore[arg-type]
    random.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ending = Ending()
    atexit.register(ending.leave)  # the first to be registered is the last to run, after threads have ended
    try:
        if is_file:
            runpy.run_path(request["module"], run_name="__main__")
        else:
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        ending.code = 0
    except SystemExit as leaving:
        ending.code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        raise
    except KeyboardInterrupt:
        ending.by_interrupt = True
        raise


class Ending:
    """Leaves without taking the interpreter apart: to free what is shared with the origin would copy it first."""

    code = 1
    by_interrupt = False

    def leave(self) -> None:
        """Says what is not yet said, and ends."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                self.code = self.code or 120  # as the interpreter says it
        if self.by_interrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(self.code)


def main(words: list[str]) -> None:
    if words[0] == "terminal":
        own_terminal()
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    for name in NEEDED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else the first collection of each copy would touch, and so copy, all of it
    request = answered(socket.socket(fileno=int(words[0])))
    if request is not None:
        become(request)


if __name__ == "__main__":
    main(sys.argv[1:])
