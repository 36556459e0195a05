"""One sealed value: bytes that open with their key at their place, and nowhere else.

Owns: the envelope, what is bound to it, keys made from keys. Must not know: records, stores.
The form, version 1: `\\x8fLWS`, 1, length and UTF-8 of the key's id, number (4 bytes) and ids of artifacts that the value
names, nonce (12 bytes), AES-256-GCM of the value with its tag. Authenticated beside it: all before the nonce, and the
place as JSON. Each session and each artifact has a key of its own, HMAC-SHA256 of the given key over a label and its id; so
nonces may be random however much is written, and those of artifacts are made from what they hold (HMAC-SHA256).
Read next: `encrypted_values.py`.
"""

from __future__ import annotations

import functools
import hmac
import os
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from ..model.archive_errors import SealBrokenError, SealKeyError, UnsealedError
from ..model.codec import SEALED, encode, is_sealed
from ..model.errors import ConfigError
from ..ports.sealing import SealingKeys

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ModuleNotFoundError as error:
    raise ConfigError(
        "encryption needs cryptography; pip install 'loopwright[crypto]' (from a clone: pip install '.[crypto]')"
    ) from error

PlainPolicy = Literal["refuse", "read"]
"""What becomes of a value that is not sealed: an error, or it is taken as it is."""

KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 64

_MAGIC: Final = SEALED + b"\x01"
_NONCE: Final = 12
_TAG: Final = 16
_ID: Final = 36
"""Bytes of an artifact's id."""
_CIPHERS: Final = 1024
"""Sessions and artifacts whose key is remembered; making one takes some microseconds."""


class SealedPlace(Struct, frozen=True, gc=False):
    """Where a value stands; it opens at no other place."""

    session_id: str
    what: str
    """record, inbox item, timer, title, artifact."""
    where: tuple[str | int, ...] = ()
    """Position, kind and version, and whether it is the first of a fork; or id and kind; or id and slice."""

    @property
    def scope(self) -> str:
        """The id that the value is bound to. Of an artifact its own: it goes from session to session when forks hold it, and
        the id is made from the session that put it."""
        first = self.where[0] if self.what == "artifact" else None
        return first if isinstance(first, str) else self.session_id

    @property
    def position(self) -> int | None:
        """That of a record."""
        first = self.where[0] if self.what == "record" else None
        return first if isinstance(first, int) else None

    @property
    def words(self) -> str:
        """For errors."""
        if self.what == "record":
            return f"position {self.where[0]} ({self.where[1]})"
        return f"{self.what} {self.where[0]!r}" if self.where else self.what

    def broken(self) -> SealBrokenError:
        """The error of a value that is not what was stored here."""
        return SealBrokenError(self.session_id, self.words, self.position)


class Sealer:
    """Seals and opens single values with the keys given. Any thread may use it."""

    def __init__(self, keys: SealingKeys, plain: PlainPolicy) -> None:
        if plain not in ("refuse", "read"):
            raise ConfigError(f"plain is {plain!r}; it is refuse or read")
        self._keys = keys
        self._plain = plain
        self._cipher = functools.lru_cache(_CIPHERS)(self._new_cipher)
        self.current()

    def current(self) -> str:
        """The id of the key for what is written now. Raises `ConfigError` when it is not usable."""
        key_id = self._keys.current
        if not 1 <= len(key_id.encode()) <= KEY_ID_BYTES:
            raise ConfigError(f"the key id {key_id!r} has to have 1 to {KEY_ID_BYTES} bytes")
        if self._key(key_id) is None:
            raise ConfigError(f"the current key {key_id!r} is not among the keys given")
        return key_id

    def seal(self, place: SealedPlace, value: bytes, *, names: Iterable[str] = ()) -> bytes:
        """The envelope of `value`, under the current key.

        `names`: ids of artifacts that the value names; they stay readable, since stores keep what is named.
        """
        return self._sealed(self.current(), place, value, ids=sorted(names))

    def seal_alike(self, key_id: str, place: SealedPlace, value: bytes) -> bytes:
        """The envelope of `value` under this key: the same one each time, since its nonce is made from place and value."""
        return self._sealed(key_id, place, value, alike=True)

    def open(self, place: SealedPlace, sealed: bytes) -> bytes:
        """The value. Raises `SealBrokenError`, `SealKeyError`, and `UnsealedError` unless plain ones are read."""
        if not is_sealed(sealed):
            return self._plain_value(place, sealed)
        key_id, start = _parsed(place, sealed)
        if self._key(key_id) is None:
            raise SealKeyError(place.session_id, place.words, key_id, place.position)
        nonce, rest = sealed[start : start + _NONCE], sealed[start + _NONCE :]
        try:
            return self._cipher(key_id, place.scope).decrypt(nonce, rest, sealed[:start] + _bound(place))
        except (InvalidTag, ValueError) as error:
            raise place.broken() from error

    def content_name(self, key_id: str, session_id: str, digest: str) -> str:
        """What stands for the digest of content where it can be read: 64 hex digits that say nothing without the key."""
        return self._made(key_id, b"content", session_id, digest.encode()).hex()

    def is_plain(self, place: SealedPlace, stored: bytes) -> bool:
        """True when a value is not sealed and may be read. Raises `UnsealedError` when it may not."""
        if is_sealed(stored):
            return False
        self._plain_value(place, stored)
        return True

    def _sealed(
        self, key_id: str, place: SealedPlace, value: bytes, *, ids: Sequence[str] = (), alike: bool = False
    ) -> bytes:
        said = key_id.encode()
        start = b"".join((_MAGIC, bytes([len(said)]), said, len(ids).to_bytes(4, "big"), "".join(ids).encode()))
        bound = start + _bound(place)
        if alike:
            nonce = self._made(key_id, b"nonce", place.scope, bound + value)[:_NONCE]
        else:
            nonce = os.urandom(_NONCE)
        return b"".join((start, nonce, self._cipher(key_id, place.scope).encrypt(nonce, value, bound)))

    def _plain_value(self, place: SealedPlace, value: object) -> bytes:
        if not isinstance(value, bytes):  # a value of another type, put in by hand
            raise place.broken()
        if self._plain == "refuse":
            raise UnsealedError(place.session_id, place.words, place.position)
        return value

    def _key(self, key_id: str) -> bytes | None:
        key = self._keys.key(key_id)
        if key is not None and len(key) != KEY_BYTES:
            raise ConfigError(f"key {key_id!r} has {len(key)} bytes; a key has {KEY_BYTES}")
        return key

    def _made(self, key_id: str, label: bytes, scope: str, of: bytes = b"") -> bytes:
        """Another key, or a number that nobody can guess without one."""
        key = self._key(key_id)
        assert key is not None
        one = hmac.digest(key, b"loopwright 1 " + label + b" " + scope.encode(errors="surrogatepass"), "sha256")
        return hmac.digest(one, of, "sha256") if of else one

    def _new_cipher(self, key_id: str, scope: str) -> AESGCM:
        return AESGCM(self._made(key_id, b"cipher", scope))


def overhead_of(place: SealedPlace, sealed: bytes) -> int:
    """How many bytes longer than its value an envelope is that begins like this."""
    return _parsed(place, sealed)[1] + _NONCE + _TAG


def _bound(place: SealedPlace) -> bytes:
    return encode((place.what, place.scope, *place.where))


def _parsed(place: SealedPlace, sealed: bytes) -> tuple[str, int]:
    """(id of the key, where the nonce begins)."""
    at = len(_MAGIC) + 1
    if len(sealed) < at or not sealed.startswith(_MAGIC):
        raise place.broken()
    end = at + sealed[at - 1]
    start = end + 4 + _ID * int.from_bytes(sealed[end : end + 4], "big")
    try:
        key_id = sealed[at:end].decode()
    except UnicodeDecodeError as error:
        raise place.broken() from error
    if start > len(sealed):
        raise place.broken()
    return key_id, start
