"""Leaves in processes of their own: one that crashes, hangs or floods its output takes nobody along.

Owns: `SubprocessExecutor`: settings, one attempt from start to verdict. Must not know: the loop over there; how a process is
read and killed (`leaf_process.py`); how a journal travels (`own_file.py`).
Read next: `leaf_worker.py`, the other side.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import structs

from ..model.errors import ConfigError, LoopwrightError
from ..ports.ambient import RealAmbient
from ..ports.executor import LeafEnd, LeafRef, gave_up
from ..ports.sealing import SealedStore
from ..ports.store_admin import SessionStore
from . import own_file, run_files
from .leaf_process import LeafProcess
from .leaf_table import LeafTable, RunningLeaf
from .worker_job import (
    EXIT_LEFT,
    TAG_VARIABLE,
    EndScanner,
    LeafJob,
    WorkerBootstrap,
    WorkerLauncher,
    job_line,
    stop_line,
    store_variable,
)

TIMEOUT_S: Final = 3600.0

ASKED_SHARE: Final = 0.7
"""Of the grace: how long a leaf that was asked to stop has before SIGTERM; after the rest comes SIGKILL."""


class SubprocessExecutor:
    """An `Executor` that gives each attempt of a leaf a Python process.

    The process opens the store and runs the session by its id. Without `runs_dir` that is the shared store: its address
    stands in the environment of the process as `LOOPWRIGHT_DB` (of a place with a name, `LOOPWRIGHT_DB_<NAME>`). With
    `runs_dir` it is an SQLite file of the leaf's own there, made before and brought home after the attempt; `attach` says
    where home is. `env` is the whole environment of the process; None: this process's. `python_executable`: None: the one
    that runs here. `timeout_s`: for references that name none; None: for ever. `term_grace_s`: how long a leaf that is to
    stop has until it is killed; from then on it takes two seconds at most until its end is told. `launcher` wraps the
    command. `delete_on_success`: remove the file of a leaf that completed and is home.
    """

    def __init__(
        self,
        bootstrap: WorkerBootstrap,
        *,
        runs_dir: str | os.PathLike[str] | None = None,
        python_executable: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = TIMEOUT_S,
        term_grace_s: float = 3.0,
        launcher: WorkerLauncher | None = None,
        delete_on_success: bool = False,
    ) -> None:
        problems = [
            f"{name} must be a finite number, {least}"
            for name, value, least, fits in (
                ("timeout_s", timeout_s, "over 0, or None", timeout_s is None or timeout_s > 0),
                ("term_grace_s", term_grace_s, "0 or more", term_grace_s >= 0),
            )
            if not fits or not math.isfinite(value or 0)
        ]
        if delete_on_success and runs_dir is None:
            problems.append("delete_on_success is for the files in runs_dir, and there is none")
        if problems:
            raise ConfigError(problems)
        self._bootstrap = bootstrap
        self._runs_dir = None if runs_dir is None else Path(runs_dir).absolute()
        self._python = python_executable or sys.executable
        self._env = None if env is None else dict(env)
        self._timeout_s = timeout_s
        self._grace_s = term_grace_s
        self._launcher = launcher
        self._delete = delete_on_success
        self._workspace = os.path.abspath(bootstrap.workspace_dir or os.curdir)
        self._home: own_file.Home | None = None
        self._lent: set[Path] = set()
        self._leaves = LeafTable(self._run)

    def attach(self, home: SessionStore, open_file: Callable[[str], SessionStore]) -> None:
        """Says where sessions belong, and how a file of one's own is opened; needed with `runs_dir`, before the first leaf.

        Raises: `ConfigError` for a store that encrypts, as a file of a leaf would hold its words in plain.
        """
        if self._runs_dir is not None and isinstance(home, SealedStore):
            raise ConfigError(
                "the store encrypts, and files of leaves would be plain; leave runs_dir out, so that leaves use the store"
            )
        self._home = own_file.Home(home, open_file)

    @property
    def place(self) -> str:
        """See `Executor.place`: "" on the shared store, else `files:` and the absolute path of `runs_dir`."""
        return "" if self._runs_dir is None else f"files:{self._runs_dir}"

    async def submit(self, ref: LeafRef) -> None:
        """See `Executor.submit`."""
        await self._leaves.submit(ref)

    async def nudge(self, ref: LeafRef) -> None:
        """See `Executor.nudge`."""
        if self._home is not None and self._runs_dir is not None:
            file = run_files.file_of(self._runs_dir, ref)
            if file in self._lent:
                await own_file.refresh(self._home, file, ref.session_id)
        await self._leaves.nudge(ref)

    async def cancel(self, ref: LeafRef, reason: str) -> None:
        """See `Executor.cancel`."""
        await self._leaves.cancel(ref, reason)

    async def observe(self, ref: LeafRef) -> LeafEnd:
        """See `Executor.observe`."""
        return await self._leaves.observe(ref)

    async def aclose(self) -> None:
        """See `Executor.aclose`."""
        await self._leaves.aclose()

    def cleanup_run(self, run_id: str) -> bool:
        """Removes the files of a run's leaves; False when there are none. Raises: `ConfigError` while one of them runs."""
        if self._runs_dir is None:
            return False
        if run_files.folder_of(self._runs_dir, run_id) in {file.parent for file in self._lent}:
            raise ConfigError(f"leaves of run {run_id!r} are running; cancel them first")
        return run_files.remove_run(self._runs_dir, run_id)

    def reap_runs(self, older_than_s: float) -> int:
        """Removes the files of runs in which nothing was written for so long; how many runs. None that has a leaf running here."""
        if self._runs_dir is None:
            return 0
        running = {file.parent for file in self._lent}
        return run_files.reap(self._runs_dir, older_than_s=older_than_s, now=RealAmbient().now(), running=running)

    async def _run(self, leaf: RunningLeaf) -> LeafEnd:
        env = dict(os.environ if self._env is None else self._env)
        if self._runs_dir is None:
            return await self._attempt(leaf, env)
        if self._home is None:
            raise ConfigError(
                "with runs_dir the executor has to be told where sessions belong: attach(store, open_file)"
            )
        file = run_files.file_of(self._runs_dir, leaf.ref)
        env[store_variable(leaf.ref.place)] = str(file)
        self._lent.add(file)
        try:
            await own_file.prepare(self._home, file, leaf.ref.session_id)
            end = await self._attempt(leaf, env)
            try:
                await own_file.collect(self._home, file, leaf.ref.session_id)
            except LoopwrightError as error:
                return _not_stored(f"what the leaf wrote stays in {file} and is not home: {error}", error)
            if self._delete and end.ok:
                run_files.remove_file(file)
            return end
        except LoopwrightError as error:
            return _not_stored(f"{file} cannot be made ready for the leaf: {error}", error)
        except OSError as error:
            return gave_up("leaf.store", f"{file}: {error}")
        finally:
            self._lent.discard(file)

    async def _attempt(self, leaf: RunningLeaf, env: dict[str, str]) -> LeafEnd:
        nonce, tag = secrets.token_hex(16), secrets.token_hex(16)
        scanner = EndScanner(nonce)
        job = job_line(LeafJob(ref=leaf.ref, bootstrap=self._bootstrap, nonce=nonce, paths=self._paths()))
        # -P: the folder that it starts in is where the leaf works, and a file there must not pass for a module.
        argv = [self._python, "-P", "-m", "loopwright.executors.leaf_worker"]
        try:
            if self._launcher is not None:
                built, wrapped = self._launcher.build(argv, {**env, TAG_VARIABLE: tag}, leaf.ref, self._workspace)
                argv, env = list(built), dict(wrapped)
            env[TAG_VARIABLE] = tag
            process = LeafProcess(argv, env, self._workspace, tag=tag, take=scanner)
        except Exception as error:  # noqa: BLE001 - a launcher is a host's code; whatever it does ends this leaf alone
            return gave_up("leaf.launch_failed", f"the process of the leaf was not started with {argv[0]}: {error!r}")
        try:
            process.say(job)
            timed_out = await self._supervised(process, leaf, scanner)
            await process.end()
        finally:
            process.kill()
        scanner.ended()
        return _verdict(process, scanner, leaf, timed_out)

    def _paths(self) -> tuple[str, ...]:
        """Where this process finds modules; another interpreter has its own places."""
        return tuple([os.path.abspath(path) for path in sys.path]) if self._python == sys.executable else ()

    async def _supervised(self, process: LeafProcess, leaf: RunningLeaf, scanner: EndScanner) -> bool:
        """Waits until the process has ended, or is not to be waited for any longer; True when its time was over."""
        limit_s = leaf.ref.timeout_s or self._timeout_s
        asked = asyncio.ensure_future(leaf.asked_to_end())
        try:
            await asyncio.wait(
                {process.exited, scanner.seen, asked}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            asked.cancel()
        told = process.exited.done() or scanner.seen.done()
        timed_out = not told and leaf.asked is None
        if leaf.asked == "cancel" or timed_out:
            process.say(stop_line("its time was over" if timed_out else leaf.reason))
        else:
            process.hang_up()
        if not process.exited.done():
            await asyncio.wait({process.exited}, timeout=self._grace_s * ASKED_SHARE)
        if not process.exited.done():
            process.terminate()
            await asyncio.wait({process.exited}, timeout=self._grace_s * (1 - ASKED_SHARE))
        return timed_out


def _verdict(process: LeafProcess, scanner: EndScanner, leaf: RunningLeaf, timed_out: bool) -> LeafEnd:
    """What became of an attempt whose process is gone."""
    end = scanner.end()
    if end is not None:
        return structs.replace(end, fault="leaf.timed_out") if timed_out and end.status == "cancelled" else end
    words = f"; its last words: {process.tail}" if process.tail else ""
    if timed_out:
        return gave_up("leaf.timed_out", f"its time was over, it did not stop and was killed{words}")
    if leaf.asked == "cancel":
        return gave_up("leaf.cancelled", f"{leaf.reason}; it could not note that in its journal{words}")
    if leaf.asked == "leave" or process.exit_code == EXIT_LEFT:
        return gave_up("leaf.left", leaf.reason or "its process was told to leave")
    if scanner.broken or process.exit_code == 0:
        return gave_up("leaf.result_broken", f"its process ended with {process.exit_code} and told no end{words}")
    return gave_up("leaf.crashed", f"its process ended {_how(process.exit_code)} before its end was told{words}")


def _not_stored(reason: str, error: LoopwrightError) -> LeafEnd:
    return structs.replace(gave_up("leaf.store", reason), error_code=error.code)


def _how(exit_code: int) -> str:
    if exit_code >= 0:
        return f"with exit code {exit_code}"
    try:
        return f"by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"by signal {-exit_code}"
