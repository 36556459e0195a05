"""What a store waits for outside of this process, counted where it happens.

Owns: a relay that counts round trips to a server, a file system that counts syncs. Must not know: what a commit is.
Both cost time of their own: nothing is timed through them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw

_numbers = itertools.count()
_PIECE = 1 << 16


class RoundTrips:
    """How often a client spoke after it had listened, on all connections through one relay.

    Whatever is sent before an answer is one trip, so a pipeline counts as one, as it does on a real network.
    """

    def __init__(self, host: str, port: int) -> None:
        self.count = 0
        self._server = (host, port)
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def relayed(self) -> AsyncIterator[int]:
        """The port of the relay; at the end it waits until everybody has hung up."""
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
            # Its client has hung up by now, so each connection is at its end.
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        from_server, to_server = await asyncio.open_connection(*self._server)
        listened = True

        async def ask() -> None:
            nonlocal listened
            while data := await from_client.read(_PIECE):
                self.count += listened
                listened = False
                to_server.write(data)
            to_server.close()

        async def answer() -> None:
            nonlocal listened
            while data := await from_server.read(_PIECE):
                listened = True
                to_client.write(data)
            to_client.close()

        await asyncio.gather(ask(), answer())


class CountingVfs(apsw.VFS):
    """The system's own file system; syncs happen, and are counted."""

    def __init__(self) -> None:
        self.vfs_name = f"counting-{next(_numbers)}"
        self.count = 0
        super().__init__(self.vfs_name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _CountingFile:  # noqa: N802 - the name SQLite calls
        return _CountingFile(self, name, flags)


class _CountingFile(apsw.VFSFile):
    def __init__(self, vfs: CountingVfs, name: Any, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802 - the name SQLite calls
        self._vfs.count += 1
        super().xSync(flags)
