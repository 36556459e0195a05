"""The DSN of a database server, taken apart.

Owns: what a server's DSN may look like. No text of a DSN stands in an error here: any part of it may be a password with a
character that should have been escaped. Must not know: any server, any driver.
Read next: `postgres.py`, `mysql.py`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from ..model.errors import ConfigError

_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\]]*)(?::(\d{1,5}))?")
_ODD: Final = re.compile(r"[\x00-\x20\x7f]")
_LAST_PORT: Final = 65535


class ServerAddress(Struct, frozen=True, kw_only=True):
    """`scheme://user:password@host:port/database?query`, unquoted."""

    places: tuple[tuple[str, int], ...]
    """Host ("" where none is named, no brackets) and port of each server, in order; several stand with commas."""
    user: str
    password: str
    database: str
    query: dict[str, str]

    def shown(self, default_host: str, default_port: int) -> str:
        """Hosts and ports as a person writes them."""
        return ",".join(
            f"{f'[{host}]' if ':' in host else host or default_host}:{port or default_port}"
            for host, port in self.places
        )


def server_address(dsn: str) -> ServerAddress:
    """The parts of a DSN; the port is 0 where none is named. Raises `ConfigError` that says which part is wrong."""
    scheme = dsn.partition(":")[0].lower()
    like = f"{scheme}://user:password@host:port/database"
    escape = f"percent-encode / ? # @ : and spaces in user and password: {like}"
    if not dsn[len(scheme) :].startswith("://"):
        raise ConfigError(f"a {scheme} DSN has two slashes after its scheme: {like}")
    if _ODD.search(dsn):
        raise ConfigError(f"the {scheme} DSN has spaces or control characters; {escape}")
    try:
        parts = urlsplit(dsn)
    except ValueError:
        raise ConfigError(
            f"the host of the {scheme} DSN cannot be read; an IPv6 address stands in []: {like}"
        ) from None
    access, at, where = parts.netloc.rpartition("@")
    if parts.fragment or "@" in parts.path or (not at and "@" in parts.query):
        raise ConfigError(f"the {scheme} DSN has / ? or # before its host; {escape}")
    user, _, password = access.partition(":")
    database = unquote(parts.path.strip("/"))
    if not database:
        raise ConfigError(f"the {scheme} DSN names no database: {like}")
    if "/" in parts.path.strip("/"):
        raise ConfigError(f"the {scheme} DSN has more than a database after its host: {like}")
    return ServerAddress(
        places=tuple(_place(scheme, one) for one in where.split(",")),
        user=unquote(user),
        password=unquote(password),
        database=database,
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
    )


def _place(scheme: str, text: str) -> tuple[str, int]:
    found = _PLACE.fullmatch(text)
    port = int(found[2] or 0) if found else 0
    if found is None or port > _LAST_PORT or (found[2] and not port):
        raise ConfigError(f"the {scheme} DSN needs host or host:port after the @, with a port from 1 to {_LAST_PORT}")
    return found[1].strip("[]"), port
