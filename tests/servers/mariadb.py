"""A private MariaDB server. Read next: `base.py`."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from .asking import ask
from .base import Server


class MariaDb(Server):
    """MariaDB on 127.0.0.1 with the server's own defaults: latin1, REPEATABLE READ."""

    kind = "mariadb"
    accounts = ("mysql", "nobody")
    stop_signal = signal.SIGTERM

    def prepare(self) -> None:
        install = self.programs / "mariadb-install-db"
        words = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        self.run(str(install), "--no-defaults", f"--datadir={self.data}", *words, *self._speed())

    def command(self) -> Sequence[str]:
        server = next(
            path for path in (self.programs / "mariadbd", self.programs.parent / "sbin/mariadbd") if path.exists()
        )
        return [
            str(server),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--tmpdir={self.folder}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--max-connections=200",
            *self._speed(),
        ]

    def _speed(self) -> list[str]:
        small = ["--innodb-log-file-size=16M", "--innodb-buffer-pool-size=64M"]
        return [*small, *self.settings, *([] if self.durable else ["--innodb-flush-method=nosync"])]

    def dsn(self, database: str | None = None) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/{database or ''}"

    async def ping(self) -> None:
        await ask(self.dsn(), "SELECT 1")
