"""What operators cannot do yet with a store on a server: each call says so, and what to use instead.

Owns: these errors. Must not know: any server. Nothing is read or written here.
Read next: `ports/store_upkeep.py`, `ports/store_transfer.py`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any

from ..model.errors import ConfigError
from ..ports.store import Head
from ..ports.store_transfer import Inventory, SessionImage
from ..ports.store_upkeep import Reclaimed, StoreFigures


class ServerUpkeep:
    """The parts of upkeep and transfer that this version has for files and memory only."""

    def figures(self) -> Awaitable[StoreFigures]:
        """Raises `ConfigError`."""
        raise _not_yet("figures", "ask the server for the sizes of our tables")

    def session_sizes(self) -> Awaitable[dict[str, int]]:
        """Raises `ConfigError`."""
        raise _not_yet("sizes of sessions", "ask the server for the sizes of our tables")

    def sweep_artifacts(self, older_than: float) -> Awaitable[int]:
        """Raises `ConfigError`."""
        raise _not_yet("sweeping artifacts", "they go with their sessions")

    def vacuum(self) -> Awaitable[Reclaimed]:
        """Raises `ConfigError`."""
        raise _not_yet("vacuum", "the server does that by itself, or by its own command")

    def checkpoint(self) -> Awaitable[Reclaimed]:
        """Raises `ConfigError`."""
        raise _not_yet("checkpoint", "the server does that by itself")

    def backup(self, target: str | os.PathLike[str], *, replace: bool = False) -> Awaitable[int]:
        """Raises `ConfigError`."""
        raise _not_yet("backup", "use the server's own, for example pg_dump or mariadb-dump")

    def inventory(self, session_id: str) -> Awaitable[Inventory]:
        """Raises `ConfigError`."""
        raise _not_yet("export", "use the server's own backup")

    def restore(self, image: SessionImage) -> Awaitable[Head]:
        """Raises `ConfigError`."""
        raise _not_yet("import", "import into a file and serve it from there")


def _not_yet(what: str, instead: str) -> Any:
    return ConfigError(f"{what}: not for database servers in this version; {instead}")
