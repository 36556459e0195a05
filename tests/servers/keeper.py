"""The process that keeps the servers of one test run: starts each when it is first asked for, stops all at the end.

`python -m tests.servers.keeper FOLDER CHOICES` listens on FOLDER/socket. Its end is the end of its standard input, so
it also comes when the test run is killed; the servers end with this process, should it be killed itself (on Linux).
Requests are served one after the other in the main thread: the kernel's promise to end a child with its parent is
about the thread that started it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any

from .base import Server, adopt_orphans
from .mariadb import MariaDb
from .postgres import Postgres

KINDS: dict[str, type[Server]] = {"postgres": Postgres, "mariadb": MariaDb}


class Keeper:
    """The servers of one run: one shared by all tests for each kind, and those that a test has for itself."""

    def __init__(self, folder: Path, programs: dict[str, str]) -> None:
        self._folder = folder
        self._programs = programs
        self._servers: dict[str, Server] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carries out one request; every answer tells where the server is."""
        key, kind, wish = request["key"], request["kind"], request["wish"]
        server = self._servers.get(key)
        if server is None:
            place = self._folder / f"{kind}-{len(self._servers)}"
            wishes = {name: request[name] for name in ("durable", "settings") if name in request}
            server = KINDS[kind](Path(self._programs[kind]), place, **wishes)
            if not server.durable and not server.settings:  # both may change how data are made
                server.made = self._folder / f"made-{kind}"
            self._servers[key] = server
        if wish == "start":
            server.start()
        elif wish == "stop":
            server.stop()
        elif wish == "kill":
            server.kill()
        elif wish == "restart":
            server.settings = request.get("settings") or server.settings
            server.restart(abrupt=request.get("abrupt", False))
        elif wish == "drop":
            server.kill()
            shutil.rmtree(server.folder, ignore_errors=True)
        return {"dsn": server.dsn("NAME"), "pid": server.process.pid if server.process else None}

    def close(self) -> None:
        """Ends every server; their data go with the folder, so none is given time."""
        for server in self._servers.values():
            server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:
            return
        try:
            answer = self.server.keeper.answer(json.loads(line))  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            answer = {"error": f"{type(error).__name__}: {error}"}
        self.wfile.write(json.dumps(answer).encode() + b"\n")

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:  # whoever asked is gone
            pass


class _Listener(socketserver.UnixStreamServer):
    request_queue_size = 64
    keeper: Keeper


def _end_with_input(listener: _Listener) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    listener.shutdown()


def main(folder: Path, programs: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    adopt_orphans()
    keeper = Keeper(folder, programs)
    try:
        with _Listener(str(folder / "socket"), _Handler) as listener:
            listener.keeper = keeper
            threading.Thread(target=_end_with_input, args=(listener,), daemon=True).start()
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            listener.serve_forever(poll_interval=0.1)
    finally:
        keeper.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
