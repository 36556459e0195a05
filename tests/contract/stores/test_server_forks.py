"""Database servers have no forks yet: they say so, and store nothing."""

from __future__ import annotations

import pytest
from tests.servers import client

from loopwright import open_store
from loopwright.model.errors import ConfigError, SessionNotFoundError
from loopwright.ports.store import CreateSession
from loopwright.testing.store_fork_promises import fork_of
from loopwright.testing.store_kit import begin, texts

pytestmark = pytest.mark.server


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
async def test_a_server_refuses_a_fork_with_what_to_do_instead(kind: str) -> None:
    with client.shared(kind).database() as dsn:
        store = open_store(dsn)
        writer = await begin(store)
        for attempt in (
            lambda: store.create(fork_of("s", 1)),
            lambda: store.commit(writer.transition(ops=(CreateSession(fork_of("s", 1)),))),
        ):
            with pytest.raises(ConfigError, match="fork in a SQLite file"):
                await attempt()
        with pytest.raises(SessionNotFoundError):
            await store.lookup("f")
        await writer.write()
        assert len(await texts(store)) == 3
        await store.delete("s", copy_to_forks=True)
        await store.aclose()
