"""Records to bytes and back, lossless, for every version ever written.

Owns: the JSON form, record versions, journal formats and upgrade steps. Must not know: what records mean.
The form is JSON text. Lone surrogates, which UTF-8 cannot hold, are written as `\\ud800`-style escapes: still JSON to
the standard library, and read back to the same string.
Read next: `records.py`.
"""

from __future__ import annotations

import json as _json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_args

import msgspec

from ..late import Late
from .errors import StoreCorruptError
from .records import Record, SessionRecord

if TYPE_CHECKING:
    from . import context_records, control_records, family_records, workflow_records
else:
    context_records = Late("loopwright.model.context_records")
    control_records = Late("loopwright.model.control_records")
    family_records = Late("loopwright.model.family_records")
    workflow_records = Late("loopwright.model.workflow_records")

T = TypeVar("T")

VERSIONS: dict[str, int] = {}
"""Current version of each kind that is not at version 1."""

CONTEXT_KINDS: Final = (
    "prompt_epoch_started",
    "send_projected",
    "fold_made",
    "fold_failed",
    "note_written",
    "todo_written",
    "tokens_calibrated",
    "cost_reserved",
    "cost_settled",
)
"""The kinds of `context_records.py`, whose classes are made with the first of them."""

FAMILY_KINDS: Final = (
    "session_spawned",
    "child_started",
    "child_finished",
    "call_waits",
    "call_woken",
    "signal_received",
    "signal_taken",
    "handed_off",
)
"""Those of `family_records.py`, likewise."""

WORKFLOW_KINDS: Final = (
    "workflow_started",
    "step_started",
    "step_waits",
    "step_woken",
    "step_finished",
    "node_decided",
)
"""Those of `workflow_records.py`, likewise."""

CONTROL_KINDS: Final = (
    "permission_decided",
    "permission_granted",
    "permission_mode_set",
    "tools_revealed",
    "handler_asked",
)
"""Those of `control_records.py`, likewise."""

FORMATS: dict[tuple[str, int], int] = {
    ("chain_linked", 1): 2,
    ("session_forked", 1): 2,
    **{(kind, 1): 3 for kind in CONTEXT_KINDS},
    **{(kind, 1): 4 for kind in (*FAMILY_KINDS, *WORKFLOW_KINDS)},
    **{(kind, 1): 5 for kind in CONTROL_KINDS},
}
"""Journal format that a (kind, version) needs, where it is not 1."""

CURRENT_FORMAT = max(FORMATS.values(), default=1)
"""The newest journal format that this version reads and writes."""

KINDS: dict[type[Record], str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(SessionRecord)}
"""The name of each kind of record that every conversation has, as it is stored; `kind_of` knows the others."""

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]

UPGRADES: dict[tuple[str, int], Upgrade] = {}
"""(kind, version) → the pure step that makes the JSON object of the next version."""

SEALED: Final = b"\x8fLWS"
"""What the body of an encrypted record begins with; no JSON and no text does."""

SEALED_TITLE: Final = "sealed:"
"""What an encrypted title begins with."""

_SEALED_TITLE_START: Final = SEALED_TITLE + "j0xX"
"""And the first bytes of `SEALED` as base64: people begin titles with that word, too."""

_encoder = msgspec.json.Encoder()
_classes: dict[str, type[Record]] = {name: kind for kind, name in KINDS.items()}
_decoders: dict[str, msgspec.json.Decoder[Record]] = {}
"""By kind, each made for the first record of its kind: a new process reads a few kinds, and making one takes its time."""


def encode(value: Any) -> bytes:
    """JSON bytes of a struct or JSON value; strings survive whatever code points they hold."""
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return _json.dumps(msgspec.to_builtins(value), ensure_ascii=True, separators=(",", ":")).encode("ascii")


def decode(body: bytes, as_type: type[T]) -> T:
    """The value that `encode` wrote. Raises `StoreCorruptError` when the bytes are not that."""
    try:
        return msgspec.json.decode(body, type=as_type)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return cast("T", _decode_slowly(body, as_type))


def encode_record(record: Record) -> tuple[str, int, bytes]:
    """(kind, version, body) of a record."""
    kind = KINDS.get(type(record)) or kind_of(type(record))
    return kind, VERSIONS.get(kind, 1), encode(record)


def checked(record: Record) -> tuple[str, int, bytes]:
    """(kind, version, body) of a record that can be read again.

    Raises: `StoreCorruptError`, `TypeError`, `ValueError` or `RecursionError` for one that cannot.
    """
    kind = KINDS.get(type(record)) or kind_of(type(record))
    try:
        body = _encoder.encode(record)
        (_decoders.get(kind) or _decoder(kind)).decode(body)
    except (UnicodeEncodeError, OverflowError, msgspec.DecodeError, UnicodeDecodeError, TypeError):
        body = encode(record)
        _decode_slowly(body, _class_of(kind))
    return kind, VERSIONS.get(kind, 1), body


def decode_record(kind: str, version: int, body: bytes) -> Record:
    """The record in today's shape, upgraded step by step when it was written by an older version.

    Raises: `StoreCorruptError` when the bytes are not a record of that kind.
    """
    if version == VERSIONS.get(kind, 1):
        try:
            return (_decoders.get(kind) or _decoder(kind)).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            return cast("Record", _decode_slowly(body, _class_of(kind)))
    try:
        value = _json.loads(body)
    except (ValueError, TypeError) as error:
        raise StoreCorruptError(f"a {kind} record is not JSON: {error}") from error
    if type(version) is not int:
        raise StoreCorruptError(f"a {kind} record has version {version!r}")
    for step in range(version, VERSIONS.get(kind, 1)):
        upgrade = UPGRADES.get((kind, step))
        if upgrade is None:
            raise StoreCorruptError(f"no way to read version {step} of a {kind} record")
        value = upgrade(value)
    return cast("Record", _convert(value, _class_of(kind)))


def kind_of(cls: type[Record]) -> str:
    """The name under which records of this class are stored."""
    return KINDS.get(cls) or str(cls.__struct_config__.tag)


def is_sealed(body: object) -> bool:
    """True for the body of an encrypted record; damaged rows may hold no bytes at all."""
    return isinstance(body, bytes) and body.startswith(SEALED)


def is_sealed_title(title: object) -> bool:
    """True for an encrypted title, also a damaged one; damaged rows may hold no text at all."""
    return isinstance(title, str) and title.startswith(_SEALED_TITLE_START)


def format_of(kind: str, version: int) -> int:
    """The journal format that a reader needs for this kind and version."""
    return FORMATS.get((kind, version), 1)


def _decoder(kind: str) -> msgspec.json.Decoder[Record]:
    decoder = _decoders[kind] = msgspec.json.Decoder(_class_of(kind))
    return decoder


def _class_of(kind: str) -> type[Record]:
    """The class of a kind. Raises `StoreCorruptError` for one that this version does not know."""
    if kind not in _classes:
        for cls in _later_classes(kind):
            _classes[str(cls.__struct_config__.tag)] = cls
    if kind not in _classes:
        raise StoreCorruptError(f"a record of unknown kind {kind!r}")
    return _classes[kind]


def _later_classes(kind: str) -> tuple[type[Record], ...]:
    """The classes that are made with the first record of such a kind."""
    if kind in CONTEXT_KINDS:
        return get_args(context_records.ContextRecord)
    if kind in FAMILY_KINDS:
        return get_args(family_records.FamilyRecord)
    if kind in WORKFLOW_KINDS:
        return get_args(workflow_records.WorkflowRecord)
    return get_args(control_records.ControlRecord) if kind in CONTROL_KINDS else ()


def _decode_slowly(body: bytes, as_type: Any) -> Any:
    try:
        value = _json.loads(body)
    except (ValueError, TypeError) as error:
        if is_sealed(body):
            raise StoreCorruptError(
                "it is encrypted: open the store with its keys (`EncryptedStore`, LOOPWRIGHT_KEY_FILE)"
            ) from None
        raise StoreCorruptError(f"stored bytes are not JSON: {error}") from error
    return _convert(value, as_type)


def _convert(value: Any, as_type: Any) -> Any:
    try:
        return msgspec.convert(value, as_type)
    except msgspec.ValidationError as error:
        raise StoreCorruptError(f"stored bytes are not of the expected shape: {error}") from error
