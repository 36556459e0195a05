"""The socket of a connection whose event loop is closed.

Owns: closing it, since nobody turns that loop any more. Must not know: any server, any driver.
"""

from __future__ import annotations

from typing import Any


def close_without_loop(transport: Any) -> None:
    """Does what the closed event loop would have done next; without it the server keeps the connection until we end."""
    lost = getattr(transport, "_call_connection_lost", None)  # asyncio's own transports
    if lost is None:
        return
    try:
        lost(None)
    except RuntimeError:
        pass  # the driver's side wanted the loop once more; the socket is closed by then
