"""A hash chain over a session's records: how a link is made, and what the links say of a journal.

Owns: the bytes that are hashed, the rule of a link, the judgement over stored rows. Must not know: stores, settings.
A link covers the records of its own transition and the link before it. What nobody linked stays visibly unlinked: a later
link does not vouch for it. A link is made for the session that writes it: in a fork those of the prefix are the base's, and
the fork's go on from them.
Read next: `engine/verifying.py`, `docs/tamper-evidence.md`.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from ..model.codec import KINDS, decode_record, encode_record
from ..model.errors import StoreCorruptError
from ..model.records import ChainLinked, SessionCreated, SessionForked
from ..ports.store import EncodedRecord, StoredRecord

Why = Literal[
    "missing",
    "unopened",
    "inserted",
    "reordered",
    "changed_body",
    "changed_kind_or_time",
    "changed",
    "changed_link",
    "other_key",
    "unlinked",
    "truncated",
]
"""What was found; `unopened` is an encrypted record that does not open where it stands, `changed` is body and kind or time, `changed_link` a link that does not fit what stands before it."""

_LINK: Final = KINDS[ChainLinked]
_BEGINNINGS: Final = (KINDS[SessionCreated], KINDS[SessionForked])
_TAG: Final = b"loopwright chain 1"
_MARK: Final = 16
"""Characters of `ChainLinked.marks` for one record: 8 of kind, version and time, 8 of the body."""


class ChainProblem(Struct, frozen=True):
    """One place where journal and links do not fit."""

    position: int
    """Of the first record concerned; for what is missing, where it should be."""
    why: Why
    detail: str


class ChainReport(Struct, frozen=True, kw_only=True):
    """What the links of a session say about its records."""

    session_id: str
    records: int
    linked: int
    """Records that are vouched for, links included."""
    digest: str | None
    """Of the newest link, 64 hexadecimal digits: keep it elsewhere, and give it as `expected` later. None: no link."""
    digest_position: int | None
    """Where that link stands."""
    expected_position: int | None
    """Where the expected digest was found; None when none was given or it is not there."""
    unlinked: tuple[tuple[int, int], ...]
    """(first, last) positions that no link vouches for. Those before a link are no problem by themselves."""
    problems: tuple[ChainProblem, ...]
    """In order of discovery, which is the order of positions."""

    @property
    def intact(self) -> bool:
        """True when nothing contradicts the links and the last record is linked."""
        return not self.problems


class _Row(Struct, frozen=True, gc=False):
    """A record as the chain sees it."""

    position: int
    content: bytes
    mark: str
    was_link: bool
    """It says that it is a link, and cannot be one."""


def fingerprint(key: bytes | None) -> str:
    """What a link says of the key it was made with: 16 hexadecimal digits; "" without a key."""
    return hmac.digest(key, b"loopwright chain key", "sha256").hex()[:16] if key is not None else ""


def link_for(
    session_id: str,
    before: str,
    since: int,
    at: float,
    rows: Sequence[EncodedRecord | StoredRecord],
    key: bytes | None,
) -> ChainLinked:
    """The link that stands right behind `rows`, the first of which is at position `since`.

    `before`: the digest of the newest link, "" when there is none. `at`: the time of the link's own record.
    """
    parts = [_content_and_mark(row) for row in rows]
    digest = _digest(session_id, before, since, at, [content for content, _ in parts], key)
    return ChainLinked(digest, since, "".join([mark for _, mark in parts]), fingerprint(key))


def vouched_from(session_id: str, before: str, rows: Sequence[StoredRecord], position: int, key: bytes | None) -> int:
    """From where on the records right before `position` are covered by a link that stands behind it; `position` when there
    are none, or that link does not hold with this key.

    `rows`: the session's journal from 0 on. `before`: the digest of the newest link before `position`. So a fork that leaves
    in the middle of a transition covers what it has of that one itself, and nothing that was never linked.
    """
    row = next((one for one in rows[position:] if one.kind == _LINK), None)
    link = None if row is None else _link_in(row)
    if row is None or link is None or link.since > position or link.key != fingerprint(key):
        return position
    contents = [_content_and_mark(one)[0] for one in rows[link.since : row.position]]
    right = _digest(session_id, before, link.since, row.at, contents, key) == link.digest
    return link.since if right else position


def _content_and_mark(row: EncodedRecord | StoredRecord) -> tuple[bytes, str]:
    head = struct.pack(">Qd", row.version, row.at) + row.kind.encode("utf-8", "surrogatepass")
    body = hashlib.sha256(row.body)
    content = struct.pack(">I", len(head)) + head + body.digest()
    return content, f"{zlib.crc32(head):08x}{body.hexdigest()[:8]}"


def _digest(session_id: str, before: str, since: int, at: float, contents: Sequence[bytes], key: bytes | None) -> str:
    """Every part says its length, so that no two different journals give the same bytes."""
    said = [text.encode("utf-8", "surrogatepass") for text in (session_id, before)]
    named = b"".join([struct.pack(">I", len(text)) + text for text in said])
    data = b"".join((_TAG, named, struct.pack(">QQd", since, len(contents), at), *contents))
    return hmac.digest(key, data, "sha256").hex() if key is not None else hashlib.sha256(data).hexdigest()


class ChainAudit:
    """Judges a journal, row by row. Holds some 200 bytes for each record since the last link."""

    def __init__(self, session_id: str, *, key: bytes | None = None, expected: str | None = None) -> None:
        """`key`: only links made with it vouch for anything; None: only those made without one. `expected`: the digest of
        some link, kept elsewhere."""
        self._session_id = session_id
        self._writer = session_id
        """Whose records these are: of a fork first its base, as the records say."""
        self._proved = session_id
        """For whom the newest link that fits was made."""
        self._key = key
        self._expected = expected
        self._next = 0
        self._shift = 0
        """By how much rows stand behind the place that the links know, after insertions and removals."""
        self._gap = False
        self._rows: list[_Row] = []
        """Since the last link."""
        self._before = [""]
        """What the next link may continue: the last digest as it is stored and, if that one is wrong, as it should be."""
        self._digest: str | None = None
        self._digest_position: int | None = None
        self._expected_position: int | None = None
        self._vouched = 0
        self._linked = 0
        self._unlinked: list[tuple[int, int]] = []
        self._other_keys: set[str] = set()
        self._problems: list[ChainProblem] = []

    def take(self, row: StoredRecord) -> None:
        """The next row of the journal, from position 0; a position may be left out, which is then missing."""
        if row.position != self._next:
            self._missing(self._next, row.position)
        self._next = row.position + 1
        link = _link_in(row)
        if link is None:
            self._writer = _writer_in(row) or self._writer
            self._rows.append(_row(row))
        else:
            self._judge(row, link)
            self._rows = []
            self._gap = False

    def take_unopened(self, position: int, detail: str) -> None:
        """Instead of the next row: something stands there that cannot be read."""
        if position != self._next:
            self._missing(self._next, position)
        self._next = position + 1
        self._gap = True
        self._problem(position, "unopened", detail)

    def report(self, length: int) -> ChainReport:
        """The judgement over a journal that should have `length` records."""
        if self._next < length:
            self._missing(self._next, length)
        end = max(self._next, length)
        if self._writer == self._proved != self._session_id:
            detail = f"the journal is that of session {self._writer!r}"
            self._problems.insert(0, ChainProblem(0, "changed_link", detail))
        if self._vouched < end:
            last = "there is no link" if self._digest is None else "they stand behind the last link that counts"
            detail = f"nothing vouches for records {self._vouched} to {end - 1}: {last}"
            self._problem(self._vouched, "unlinked", detail)
            self._leave_unlinked(self._vouched, end - 1)
        if self._expected is not None and self._expected_position is None:
            detail = "no link has the expected digest: the newest records were cut off, or the chain was made anew"
            self._problem(end, "truncated", detail)
        return ChainReport(
            session_id=self._session_id,
            records=length,
            linked=self._linked,
            digest=self._digest,
            digest_position=self._digest_position,
            expected_position=self._expected_position,
            unlinked=tuple(self._unlinked),
            problems=tuple(self._problems),
        )

    def _judge(self, row: StoredRecord, link: ChainLinked) -> None:
        marks = [link.marks[start : start + _MARK] for start in range(0, len(link.marks), _MARK)]
        covered = [one for one in self._rows if one.position >= link.since + self._shift]
        free = self._rows[: len(self._rows) - len(covered)]
        self._shift = row.position - link.since - len(marks)
        contents = [one.content for one in covered]
        fits = [one.mark for one in covered] == marks
        key = self._key if link.key else None
        known = link.key in ("", fingerprint(self._key))
        right, made = self._try(self._writer, link, row.at, contents, key)
        if not right and self._writer != self._session_id:  # the record that says whose it is may be the changed one
            right, _ = self._try(self._session_id, link, row.at, contents, key)
        right = right and known
        if not fits and not right:
            self._difference(covered, marks, row.position)
        elif not known:
            self._other_key(row.position, link.key)
        elif not (fits and right) and not self._gap:
            where = next((one.position for one in free if one.was_link), free[0].position if free else row.position)
            detail = f"the link at {row.position} does not fit: it or one before it was changed or removed"
            self._problem(where, "changed_link", detail)
        self._before = [link.digest] if right or not known else [link.digest, *made]
        self._digest, self._digest_position = link.digest, row.position
        if link.digest == self._expected:
            self._expected_position = row.position
        if free:
            self._leave_unlinked(free[0].position, free[-1].position)
        if link.key != fingerprint(self._key):
            self._leave_unlinked(covered[0].position if covered else row.position, row.position)
            return
        self._vouched = row.position + 1
        if fits and right:
            self._linked += len(covered) + 1

    def _try(
        self, writer: str, link: ChainLinked, at: float, contents: Sequence[bytes], key: bytes | None
    ) -> tuple[bool, list[str]]:
        """(whether the link is this session's, the digests that it could have)."""
        made = [_digest(writer, before, link.since, at, contents, key) for before in self._before]
        right = link.digest in made
        if right:
            self._writer = self._proved = writer
        return right, made

    def _difference(self, rows: list[_Row], marks: list[str], end: int) -> None:
        """Says where and how rows differ from the marks that their link has of them."""
        found = [one.mark for one in rows]
        first = next(
            (n for n, (a, b) in enumerate(zip(found, marks, strict=False)) if a != b), min(len(found), len(marks))
        )
        where = rows[first].position if first < len(rows) else end
        if len(found) > len(marks):
            self._problem(where, "inserted", f"{len(found) - len(marks)} more than were linked by {end}")
        elif len(found) < len(marks):
            if not self._gap:
                self._problem(where, "missing", f"{len(marks) - len(found)} of those that were linked by {end}")
        elif sorted(found) == sorted(marks):
            self._problem(where, "reordered", f"the records linked by {end} stood in another order")
        else:
            head, body = found[first][:8] != marks[first][:8], found[first][8:] != marks[first][8:]
            why: Why = "changed" if head and body else "changed_body" if body else "changed_kind_or_time"
            self._problem(where, why, f"it is not what the link at {end} was made of")

    def _other_key(self, position: int, name: str) -> None:
        if name not in self._other_keys:
            self._other_keys.add(name)
            given = f"key {fingerprint(self._key)} was given" if self._key is not None else "none was given"
            self._problem(position, "other_key", f"linked with key {name}, {given}: nothing can be said of it")

    def _missing(self, first: int, end: int) -> None:
        self._gap = True
        self._problem(first, "missing", f"there is nothing at positions {first} to {end - 1}")

    def _leave_unlinked(self, first: int, last: int) -> None:
        if self._unlinked and self._unlinked[-1][1] >= first - 1:
            first = self._unlinked.pop()[0]
        self._unlinked.append((first, last))

    def _problem(self, position: int, why: Why, detail: str) -> None:
        self._problems.append(ChainProblem(position, why, detail))


def _row(row: StoredRecord) -> _Row:
    try:
        content, mark = _content_and_mark(row)
    except (struct.error, TypeError, AttributeError, ValueError):  # a value of another type, put in by hand
        content, mark = b"", ""
    return _Row(row.position, content, mark, row.kind == _LINK)


def _writer_in(row: StoredRecord) -> str | None:
    """The session that a journal, or a fork's own part of it, is said to be of; None when the row does not say."""
    if row.kind not in _BEGINNINGS:
        return None
    try:
        record = decode_record(row.kind, row.version, row.body)
    except (StoreCorruptError, TypeError):
        return None
    return record.session_id if isinstance(record, SessionCreated | SessionForked) else None


def _link_in(row: StoredRecord) -> ChainLinked | None:
    """The link in this row, if it is one, byte for byte as it was written."""
    if row.kind != _LINK or type(row.version) is not int:
        return None
    try:
        record = decode_record(row.kind, row.version, row.body)
        struct.pack(">d", row.at)
        same = encode_record(record) == (row.kind, row.version, row.body)
    except (StoreCorruptError, struct.error, TypeError):
        return None
    return record if same and isinstance(record, ChainLinked) and record.since >= 0 else None
