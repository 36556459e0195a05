"""Whole sessions of every kind, and their way out of a store and into one."""

from __future__ import annotations

import hashlib
import io
from typing import Any

from hypothesis import strategies as st

from loopwright.engine.exporting import Exporter
from loopwright.engine.importing import Importer, ImportReport
from loopwright.model.codec import encode, encode_record
from loopwright.model.messages import UserMessage
from loopwright.model.records import SessionCreated, UserMessageAdded
from loopwright.model.usage import Usage
from loopwright.ports.artifact import Artifact
from loopwright.ports.store import EncodedRecord, Head, InboxItem
from loopwright.ports.store_admin import SessionStore
from loopwright.ports.store_transfer import Inventory, KnownItem, SessionImage, StoredTimer

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
said = st.text(st.characters(), max_size=20)  # surrogates and NUL included
bodies = st.one_of(
    st.binary(max_size=30), st.sampled_from([b'{"a": 1.50}', b" {}", b"1,2", b'"\\ud800"', b"NaN", b"\n"])
)
times = st.floats(0, 4e9)
messages = said.map(lambda text: encode(UserMessage(text)))
items = st.tuples(st.sampled_from(["message", "timer", "wake"]), messages) | st.tuples(st.just("stop"), bodies)
counts = st.integers(0, 2**40)


@st.composite
def images(draw: Any, session_id: str) -> SessionImage:
    first = SessionCreated(session_id, draw(names), draw(st.none() | said), {draw(names): draw(said)})
    later = [UserMessageAdded(UserMessage(text)) for text in draw(st.lists(said, max_size=4))]
    records = tuple(EncodedRecord(*parts(record, draw(times))) for record in [first, *later])
    waiting = draw(st.lists(st.tuples(names, items, times), max_size=3, unique_by=lambda one: one[0]))
    known = sorted(set(draw(st.lists(names, max_size=3))) - {one[0] for one in waiting})
    due = draw(st.dictionaries(names, st.tuples(times, messages), max_size=2))
    blobs = [*dict.fromkeys(draw(st.lists(st.binary(max_size=40), max_size=2))), *draw(_LARGE)]
    artifacts = [_artifact(session_id, data) for data in blobs]
    order = sorted(range(len(blobs)), key=lambda n: artifacts[n].artifact_id)
    head = Head(
        session_id=session_id,
        position=len(records),
        window_start=0,  # where a fold put it: `test_folded_sessions.py`
        checkpoint=draw(st.none() | st.integers(0, len(records) - 1)),
        epoch=draw(counts),
        owner=None,
        expires_in_s=0.0,
        inbox_seq=len(waiting) + draw(counts),
        takeovers=draw(st.integers(0, 2**31 - 1)),
        agent_name=draw(names),
        kind=draw(names),
        parent_id=draw(st.none() | names),
        lifecycle=draw(st.sampled_from(["ephemeral", "linked", "detached"])),
        title=draw(names),
        min_format=1,
        status=draw(st.sampled_from(["idle", "running", "waiting"])),
        created_at=draw(times),
        updated_at=draw(times),
        sends=draw(counts),
        usage=Usage(draw(counts), draw(counts), calls=draw(counts), estimated=draw(st.booleans())),
    )
    return SessionImage(
        Inventory(
            head,
            tuple(InboxItem(one, kind, body, at, n) for n, (one, (kind, body), at) in enumerate(waiting, 1)),
            tuple(KnownItem(one, draw(st.integers(0, len(records)))) for one in known),
            tuple(StoredTimer(timer_id, at, body, draw(st.booleans())) for timer_id, (at, body) in sorted(due.items())),
            tuple(artifacts[n] for n in order),
        ),
        records,
        tuple(blobs[n] for n in order),
    )


_LARGE = st.sampled_from([[], [b"large \xff" * 60_000]])


def parts(record: Any, at: float) -> tuple[str, int, float, bytes]:
    kind, version, body = encode_record(record)
    return kind, version, at, body


def _artifact(session_id: str, data: bytes) -> Artifact:
    digest = hashlib.sha256(data).hexdigest()
    name = hashlib.sha256(f"{session_id} {digest}".encode()).hexdigest()[:32]
    return Artifact(f"art_{name}", session_id, "text/plain", len(data), digest)


async def exported(store: SessionStore, *session_ids: str) -> bytes:
    out = io.BytesIO()
    await Exporter(store, out.write).run(session_ids or None, library="test", at=1.0)
    return out.getvalue()


async def imported(store: SessionStore, data: bytes, **options: bool) -> ImportReport:
    return await Importer(store, **options).run(io.BytesIO(data))
