"""What an executor and the process of a leaf say to each other, and who makes the loop over there.

Owns: `WorkerBootstrap`, `LoopOrder`, `WorkerLauncher`; the job, the line of the result, names of environment variables.
Must not know: how a process is started, how a leaf is run.
The job is one line of JSON on standard input, which stays open: more lines ask the leaf to stop, its end says that the executor
is gone. Addresses and keys of stores and models travel in the environment, never in the job and never in arguments.
Read next: `subprocess.py`, `leaf_worker.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec
from msgspec import Struct

from ..model.errors import ConfigError
from ..ports.executor import LeafEnd, LeafRef

STORE_VARIABLE: Final = "LOOPWRIGHT_DB"
"""Where the store is; for a place with a name, followed by `_` and that name."""

TAG_VARIABLE: Final = "LOOPWRIGHT_LEAF_TAG"
"""Random text of one attempt, which everything that the leaf starts inherits: so it is found when it is to end."""

EXIT_LEFT: Final = 75
"""Exit code of a worker that was told to leave; its session is interrupted."""

LARGEST_LINE: Final = 65_536
"""Bytes of a job and of a result."""

DEFAULT_FACTORY: Final = "loopwright.cli.leaf_setup:open_loop"

_IMPORT_STRING: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class WorkerBootstrap(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How the process of a leaf makes its loop; JSON, without secrets. Raises: `ConfigError` that lists all problems."""

    factory: str = DEFAULT_FACTORY
    """"package.module:function", called there with a `LoopOrder`; returns a `StatefulAgentLoop` for the order's store and
    agent name. By default a loop made of what stands below."""
    llm: str | None = None
    """"provider:model"; the key comes from the environment. None: everything does (`LOOPWRIGHT_MODEL` …)."""
    provider_prefix: str = "LOOPWRIGHT_"
    """What the variables of the model begin with, where `llm` is None."""
    preset: Literal["core", "explore", "full"] | None = None
    """Built-in tools of the leaf, in `workspace_dir`; None: no tools."""
    workspace_dir: str | None = None
    """The folder that the process starts in; None: that of the executor's process."""

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not _IMPORT_STRING.fullmatch(self.factory):
            problems.append(f"factory is {self.factory!r}; write 'package.module:function'")
        if self.llm is not None and ":" not in self.llm:
            problems.append(f"llm is {self.llm!r}; write 'provider:model'")
        if self.preset not in (None, "core", "explore", "full"):
            problems.append(f"preset is {self.preset!r}; use core, explore, full or None")
        if self.factory != DEFAULT_FACTORY and (self.llm is not None or self.preset is not None):
            problems.append("llm and preset are for the built-in factory; a factory of one's own chooses them itself")
        if problems:
            raise ConfigError(problems)


class LoopOrder(Struct, frozen=True, kw_only=True):
    """What a factory is told: the loop that is wanted."""

    dsn: str
    """The store that holds the session; may hold a password."""
    agent_name: str
    workspace: str
    """The current folder of the process."""
    bootstrap: WorkerBootstrap


class WorkerLauncher(Protocol):
    """Wraps the command of a leaf's process: in a sandbox, in a container, as another user."""

    def build(
        self, base_argv: Sequence[str], base_env: Mapping[str, str], ref: LeafRef, workspace: str
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        """The command that is started instead of `base_argv`, and its whole environment.

        Asked of an implementer: standard input and output are passed through to `base_argv` as they are; when the started
        process is killed, or its process group gets SIGKILL, everything that it started ends (`TAG_VARIABLE` stays in the
        environment, so that what does not can be found); no effect of its own before. It is called once for each start.
        What it raises ends the leaf as `leaf.launch_failed`.
        """
        ...


class LeafJob(Struct, frozen=True, kw_only=True):
    """One line to the process of a leaf."""

    ref: LeafRef
    bootstrap: WorkerBootstrap
    nonce: str
    """Stands in the line of the result, which nobody who has not read the job can make."""
    paths: tuple[str, ...] = ()
    """Where the factory's module may be, behind the process's own places."""


class StopLine(Struct, frozen=True):
    """A later line: the send is to end as cancelled."""

    cancel: str


def store_variable(place: str) -> str:
    """The variable that says where the store of this place is."""
    return f"{STORE_VARIABLE}_{re.sub('[^A-Z0-9]', '_', place.upper())}" if place else STORE_VARIABLE


def job_line(job: LeafJob) -> bytes:
    """The job as it is sent. Raises: `ConfigError` when it is too long."""
    line = msgspec.json.encode(job) + b"\n"
    if len(line) > LARGEST_LINE:
        raise ConfigError(f"the job of a leaf takes {len(line)} bytes, at most {LARGEST_LINE}; shorten the bootstrap")
    return line


def read_job(line: bytes) -> LeafJob:
    """Raises: `ConfigError`."""
    try:
        return msgspec.json.decode(line, type=LeafJob)
    except msgspec.DecodeError as error:
        raise ConfigError(f"standard input holds no job of a leaf: {error}") from error


def stop_line(reason: str) -> bytes:
    """Asks the leaf to stop."""
    return msgspec.json.encode(StopLine(reason[:500])) + b"\n"


def reason_of_stop(line: bytes) -> str | None:
    """Why the leaf is to stop; None for a line of another meaning, of a later version perhaps."""
    try:
        return msgspec.json.decode(line, type=StopLine).cancel
    except msgspec.DecodeError:
        return None


def _mark(nonce: str) -> bytes:
    return f"\nLOOPWRIGHT-LEAF-END {nonce} ".encode("ascii")


def end_line(nonce: str, end: LeafEnd) -> bytes:
    """The end as it is sent: ASCII, a line of its own whatever was written before it."""
    # ASCII, so that nothing on the way can take the bytes for an encoding of its own.
    return _mark(nonce) + json.dumps(msgspec.to_builtins(end)).encode("ascii") + b"\n"


class EndScanner:
    """Finds the line of the result in an output of any length, keeping no more than one line of it."""

    def __init__(self, nonce: str) -> None:
        self._mark = _mark(nonce)
        self._kept = bytearray(b"\n")
        self._in_line = False
        self.seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the line was seen, whole or broken."""
        self.line: bytes | None = None
        """What stands behind the mark; None until it was seen whole."""
        self.broken = False
        """The mark was seen, and its line was too long or the output ended within it."""

    def __call__(self, data: bytes) -> None:
        """Takes output as it comes."""
        if self.line is not None or self.broken:
            return
        self._kept += data
        if not self._in_line:
            at = self._kept.find(self._mark)
            if at < 0:
                del self._kept[: max(0, len(self._kept) - len(self._mark))]
                return
            del self._kept[: at + len(self._mark)]
            self._in_line = True
        end = self._kept.find(b"\n")
        if end > LARGEST_LINE or (end < 0 and len(self._kept) > LARGEST_LINE):
            self.broken = True
            self._over()
        elif end >= 0:
            self.line = bytes(self._kept[:end])
            self._over()

    def _over(self) -> None:
        self._kept.clear()
        if not self.seen.done():
            self.seen.set_result(None)

    def ended(self) -> None:
        """The output is over."""
        self.broken = self.broken or (self._in_line and self.line is None)

    def end(self) -> LeafEnd | None:
        """The end that was told; None when there is none, or what stands there is none, which sets `broken`."""
        if self.line is None:
            return None
        try:
            return msgspec.json.decode(self.line, type=LeafEnd)
        except msgspec.DecodeError:
            self.broken = True
            return None
