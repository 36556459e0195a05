"""Sessions leave an encrypted store sealed, or plain when that is asked for, and come in with the keys."""

from __future__ import annotations

import asyncio
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.contract.stores.sealing import NEW, ROTATED, SPOKEN, data_of, sealed
from tests.scenario.upkeep.any_session import images

from loopwright import StatefulAgentLoop
from loopwright.engine.exporting import Exporter
from loopwright.engine.importing import Importer, ImportReport
from loopwright.model.archive_errors import ExportFileError, SealBrokenError, SealKeyError
from loopwright.ports.store import SessionQuery
from loopwright.ports.store_admin import SessionStore
from loopwright.ports.store_transfer import SessionImage
from loopwright.stores.memory import MemoryStore
from loopwright.stores.static_keys import StaticKeys


async def exported(store: SessionStore, *, plain: bool = False) -> bytes:
    out = io.BytesIO()
    await Exporter(store, out.write, plain=plain).run(None, library="test", at=1.0)
    return out.getvalue()


async def imported(store: SessionStore, data: bytes) -> ImportReport:
    return await Importer(store, arm_timers=True).run(io.BytesIO(data))


async def talked() -> tuple[MemoryStore, str]:
    """A store in which an agent ran, and the session."""
    inner = MemoryStore()
    async with StatefulAgentLoop(llm="echo:", store=sealed(inner)) as loop:
        session_id = await loop.new_session(title=SPOKEN)
        await loop.send(SPOKEN, session_id=session_id)
        await loop.follow_up(f"{SPOKEN}?", session_id=session_id, item_id="later")
    return inner, session_id


async def test_an_export_is_sealed_unless_plain_lines_are_asked_for() -> None:
    inner, _ = await talked()
    hidden, shown = await exported(sealed(inner)), await exported(sealed(inner), plain=True)
    assert b"swordfish" not in hidden
    assert shown.count(b"swordfish") >= 4
    assert b'"format":2' in hidden.splitlines()[0]
    assert b'"format":1' in shown.splitlines()[0], "older versions read what is plain"


async def test_a_sealed_export_comes_in_with_the_keys_and_goes_on() -> None:
    inner, session_id = await talked()
    target = sealed(MemoryStore(), ROTATED)
    assert (await imported(target, await exported(sealed(inner)))).sessions == [session_id]
    async with StatefulAgentLoop(llm="echo:", store=target) as loop:
        result = await loop.send("go on", session_id=session_id)
        assert result.status == "completed"
        texts = [message.text for message in await loop.get_messages(session_id) if hasattr(message, "text")]
    assert SPOKEN in " ".join(map(str, texts))


async def test_an_import_is_sealed_anew_with_the_current_key() -> None:
    """So that an old key can be given up."""
    inner, session_id = await talked()
    moved = MemoryStore()
    await imported(sealed(moved, ROTATED), await exported(sealed(inner)))
    only_new = sealed(moved, StaticKeys({"2026-12": NEW}))
    assert await only_new.read(session_id) == await sealed(inner).read(session_id)
    assert list(await only_new.check()) == []


@pytest.mark.parametrize("keys", [None, StaticKeys({"other": NEW})])
async def test_without_the_keys_a_sealed_export_is_refused_and_nothing_is_stored(keys: StaticKeys | None) -> None:
    inner, _ = await talked()
    data, empty = await exported(sealed(inner)), MemoryStore()
    target: SessionStore = empty if keys is None else sealed(empty, keys)
    with pytest.raises(ExportFileError if keys is None else SealKeyError):
        await imported(target, data)
    assert list(await empty.list(SessionQuery())) == []


async def test_a_session_that_was_renamed_in_a_sealed_export_does_not_come_in() -> None:
    inner, session_id = await talked()
    data, empty = await exported(sealed(inner)), MemoryStore()
    with pytest.raises(SealBrokenError):
        await imported(sealed(empty), data.replace(session_id.encode(), session_id[::-1].encode()))
    assert list(await empty.list(SessionQuery())) == []


async def test_plain_sessions_are_encrypted_by_an_export_without_keys_and_an_import_with_them() -> None:
    plain, inner = MemoryStore(), MemoryStore()
    async with StatefulAgentLoop(llm="echo:", store=plain) as loop:
        kept = await loop.new_session()
        await loop.send(SPOKEN, session_id=kept)
    await imported(sealed(inner), await exported(plain))
    assert await sealed(inner).read(kept) == list(await plain.read(kept))
    assert not any(b"swordfish" in row.body for row in data_of(inner).sessions[kept].records)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=images("s"), second=images("t"), plain=st.booleans())
def test_any_session_comes_in_as_it_was(first: SessionImage, second: SessionImage, plain: bool) -> None:
    async def there_and_back() -> None:
        source, target = sealed(MemoryStore()), sealed(MemoryStore())
        for image in (first, second):
            await source.restore(image)
        await imported(target, await exported(source, plain=plain))
        for image in (first, second):
            whole = image.inventory
            session_id, armed = whole.head.session_id, [structs.replace(one, paused=False) for one in whole.timers]
            assert list(await target.read(session_id)) == list(await source.read(session_id))
            assert await target.inventory(session_id) == structs.replace(whole, timers=tuple(armed))
            for artifact, data in zip(whole.artifacts, image.artifact_data, strict=True):
                assert await target.read_artifact(artifact.artifact_id) == data

    asyncio.run(there_and_back())
