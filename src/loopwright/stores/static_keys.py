"""Keys that a program holds from its start: from a mapping, a text, a file, the environment.

Owns: `StaticKeys` and the form of a key file. Must not know: ciphers. A key never appears in an error or a `repr`.
Read next: `ports/sealing.py`.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Final

from ..model.errors import ConfigError

KEY_FILE: Final = "LOOPWRIGHT_KEY_FILE"
KEYS: Final = "LOOPWRIGHT_KEYS"
PLAIN: Final = "LOOPWRIGHT_PLAIN_RECORDS"

_KEY_BYTES: Final = 32


class StaticKeys:
    """Some keys of 32 bytes by id; the last one is current unless another is named."""

    def __init__(self, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        """Raises `ConfigError` when there is no key, one has another length, or the current one is not among them."""
        self._keys = {key_id: bytes(key) for key_id, key in keys.items()}
        problems = [
            f"key {key_id!r} has {len(key)} bytes; it needs {_KEY_BYTES}"
            for key_id, key in self._keys.items()
            if len(key) != _KEY_BYTES
        ]
        if not self._keys:
            problems.append("there is no key")
        elif current is not None and current not in self._keys:
            problems.append(f"the current key {current!r} is not among {', '.join(map(repr, self._keys))}")
        if problems:
            raise ConfigError(problems)
        self._current = next(reversed(self._keys)) if current is None else current

    def __repr__(self) -> str:
        return f"StaticKeys({', '.join(self._keys)}; current {self._current})"

    @property
    def current(self) -> str:
        """See `SealingKeys.current`."""
        return self._current

    def key(self, key_id: str) -> bytes | None:
        """See `SealingKeys.key`."""
        return self._keys.get(key_id)

    @classmethod
    def from_text(cls, text: str, *, source: str = "the keys") -> StaticKeys:
        """Keys from lines `ID BASE64`; the last line is the current key, so a key is added by appending a line.

        Empty lines and those that begin with # say nothing. Raises `ConfigError` with the numbers of bad lines.
        """
        keys: dict[str, bytes] = {}
        problems: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            key = _decoded(words[1]) if len(words) == 2 else None
            if key is None or len(key) != _KEY_BYTES:
                problems.append(f"{source}, line {number}: it is no `ID BASE64` with {_KEY_BYTES} bytes")
            elif words[0] in keys:
                problems.append(f"{source}, line {number}: key {words[0]!r} is there twice")
            else:
                keys[words[0]] = key
        if not keys and not problems:
            problems.append(f"{source}: there is no key in it")
        if problems:
            raise ConfigError(problems)
        return cls(keys)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> StaticKeys:
        """Keys from a file of such lines. Raises `ConfigError`."""
        name = os.fspath(path)
        try:
            with open(name, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ConfigError(f"the key file {name} cannot be read: {why}") from error
        return cls.from_text(text, source=f"the key file {name}")

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> StaticKeys | None:
        """Keys that LOOPWRIGHT_KEY_FILE (a path) or LOOPWRIGHT_KEYS (lines) gives; None without either.

        Raises `ConfigError`, also when both are set.
        """
        path, text = env.get(KEY_FILE), env.get(KEYS)
        if path and text:
            raise ConfigError(f"{KEY_FILE} and {KEYS} are both set; keep one")
        if path:
            return cls.from_file(path)
        return cls.from_text(text, source=KEYS) if text else None


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
