"""A private PostgreSQL server. Read next: `base.py`."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from .asking import ask
from .base import Server

FAST = ["fsync=off", "full_page_writes=off", "autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "jit=off"]
TIDY = "dynamic_shared_memory_type=mmap"  # in the data folder: elsewhere a killed server would leave it behind


class Postgres(Server):
    """PostgreSQL on 127.0.0.1, with an order of text that is not that of the bytes."""

    kind = "postgres"
    accounts = ("postgres", "nobody")
    stop_signal = signal.SIGINT  # ends open connections; SIGTERM would wait for them

    def prepare(self) -> None:
        made = [str(self.programs / "initdb"), "-D", str(self.data), "-A", "trust", "-U", "loopwright", "-E", "UTF8"]
        order = ["--locale=C", "--locale-provider=icu", "--icu-locale=en-US"]
        self.run(*made, *order, "--no-instructions", *([] if self.durable else ["--no-sync"]))

    def command(self) -> Sequence[str]:
        settings = ["unix_socket_directories=", "listen_addresses=127.0.0.1", "max_connections=200", TIDY]
        settings += [] if self.durable else FAST
        words = [str(self.programs / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        return [*words, *(word for setting in settings for word in ("-c", setting))]

    def dsn(self, database: str | None = None) -> str:
        return f"postgresql://loopwright@127.0.0.1:{self.port}/{database or 'postgres'}"

    async def ping(self) -> None:
        await ask(self.dsn(), "SELECT 1")


class Standby(Postgres):
    """A hot standby of another server that was started with `durable=True`: it follows, and only reads."""

    def __init__(self, programs: Path, folder: Path, primary: str) -> None:
        super().__init__(programs, folder, durable=True)
        self.primary = primary

    def prepare(self) -> None:
        copy = [str(self.programs / "pg_basebackup"), "-d", self.primary, "-D", str(self.data)]
        self.run(*copy, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        self.data.chmod(0o700)
