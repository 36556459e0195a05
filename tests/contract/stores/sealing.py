"""Encrypted stores as tests open them, and what a thief or forger does to the data below one."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from loopwright.model.archive_errors import SealBrokenError, SealKeyError, UnsealedError
from loopwright.ports.artifact import Artifact
from loopwright.ports.store import Acquire, HeadChange, PutTimer, Transition
from loopwright.ports.store_admin import SessionStore
from loopwright.stores.encrypted import EncryptedStore
from loopwright.stores.encrypted_envelope import PlainPolicy
from loopwright.stores.memory import MemoryStore
from loopwright.stores.memory_rules import SharedData
from loopwright.stores.static_keys import StaticKeys
from loopwright.testing.store_kit import TOKEN, item, new_session, record

OLD = bytes(range(32))
NEW = bytes(range(100, 132))
KEYS = StaticKeys({"2026-01": OLD})
ROTATED = StaticKeys({"2026-01": OLD, "2026-12": NEW})

REFUSALS = (SealBrokenError, SealKeyError, UnsealedError)

SPOKEN = "the password is swordfish"


def sealed(inner: SessionStore, keys: StaticKeys = KEYS, *, plain: PlainPolicy = "refuse") -> EncryptedStore:
    return EncryptedStore(inner, keys, plain=plain)


def data_of(store: MemoryStore) -> SharedData:
    """What is below a store in memory, to be changed by hand."""
    return store._data


async def speak(store: SessionStore, session_id: str, word: str = SPOKEN) -> Artifact:
    """A session that has something of everything, all of it saying `word`."""
    said = word.encode()
    await store.create(new_session(session_id, title=word, records=(record(word),)))
    await store.enqueue(session_id, item("i", body=said))
    ops = (PutTimer("t", 5.0, said),)
    head = HeadChange(title=f"{word}!")
    lease = Acquire(TOKEN, 30.0)
    await store.commit(
        Transition(
            session_id=session_id,
            expect=1,
            lease=lease,
            records=(record(f"{word} again"),),
            head=head,
            ops=ops,
            release=True,
        )
    )
    return await store.put_artifact(session_id, said * 5000, "text/plain")


async def everything(store: SessionStore, session_id: str, artifact_id: str) -> list[Any]:
    """All that was said in a session, as the store gives it back."""
    whole = await store.inventory(session_id)
    rows = await store.read(session_id)
    data = await store.read_artifact(artifact_id)
    head = structs.replace(whole.head, owner=None, expires_in_s=0.0)
    return [list(rows), head, whole.waiting, whole.timers, whole.artifacts, data]
