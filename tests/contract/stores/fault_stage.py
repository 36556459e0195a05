"""A store on a server that something is wrong with: what its first call raises, and what is left in the database.

Owns: the shapes that tests of faults have. Must not know: any server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.servers.asking import ask

from loopwright import LLMRequest, LLMResponse, StatefulAgentLoop, open_store
from loopwright.model.errors import LoopwrightError
from loopwright.ports.store_admin import SchemaPolicy
from loopwright.testing.store_kit import Writer, new_session, texts

TABLES = {
    "postgresql": "SELECT tablename FROM pg_tables WHERE tablename LIKE 'lw%'",
    "mysql": "SHOW TABLES",
}


async def first_error(
    dsn: str, schema: SchemaPolicy = SchemaPolicy.AUTO_CREATE, *, busy_wait_s: float = 0.3
) -> LoopwrightError:
    """What opening this address, or the first call on it, raises."""
    try:
        store = open_store(dsn, schema=schema, busy_wait_s=busy_wait_s)
    except LoopwrightError as error:
        return error
    try:
        await store.create(new_session())
    except LoopwrightError as error:
        return error
    finally:
        await store.aclose()
    raise AssertionError("nothing was raised")


async def tables(dsn: str) -> list[str]:
    """The names of our tables in a database."""
    return [row[0] for row in await ask(dsn, TABLES[dsn.partition(":")[0]])]


async def busy(writer: Writer, commits: int) -> None:
    """Two records a commit, one commit after the other."""
    for _ in range(commits):
        await writer.write(2, sync=True)


async def are_whole(writers: list[Writer], commits: int) -> None:
    """Each journal holds what its writer was told, once."""
    for writer in writers:
        assert len(await texts(writer.store, writer.session_id)) == writer.position == 2 + 2 * commits


Deed = Callable[[], Awaitable[object]]


class Breaker:
    """A model that breaks something while it is asked, once for each deed."""

    def __init__(self) -> None:
        self.deeds: list[Deed] = []

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """See `LLMService.complete`."""
        while self.deeds:
            await self.deeds.pop()()
        return LLMResponse(text=f"to {request.messages[-1].text}")


async def written(dsn: str) -> tuple[int, int]:
    """How many records there are, and how many the heads speak of, asked over another connection."""
    ((there, spoken_of),) = await ask(
        dsn, "SELECT (SELECT count(*) FROM lw_records), (SELECT coalesce(sum(position), 0) FROM lw_sessions)"
    )
    return there, int(spoken_of)


async def goes_on(
    dsn: str, spoil: Deed, mend: Deed, kind: type[LoopwrightError], *, admin: str = "", words: str = ""
) -> None:
    """A fault between two sends, then one in the middle of a send: the typed error, nothing half-written, and the same
    loop object goes on with the same session when the fault is mended. `admin` is an address that the fault spares.
    """
    admin, model = admin or dsn, Breaker()
    store = open_store(dsn, busy_wait_s=0.5)
    async with StatefulAgentLoop(llm=model, store=store) as loop:
        session_id = (await loop.send("one")).session_id
        before = await written(admin)
        await spoil()
        for send_id in ("two", "another"):
            error = await error_of(loop.send(send_id, session_id=session_id, send_id=send_id))
            assert isinstance(error, kind), repr(error)
            assert words in str(error), error
        await mend()
        assert await written(admin) == before, "nothing of it was written"
        assert (await loop.send("two", session_id=session_id, send_id="two")).final_text == "to two"
        model.deeds.append(spoil)
        error = await error_of(loop.send("three", session_id=session_id, send_id="three"))
        assert isinstance(error, kind), repr(error)
        await mend()
        there, spoken_of = await written(admin)
        assert there == spoken_of
        result = await loop.resume(session_id)
        assert (result.status, result.final_text) == ("completed", "to three")
        texts_seen = [message.text for message in await loop.get_messages(session_id)]
        assert texts_seen == ["one", "to one", "two", "to two", "three", "to three"]
    assert list(await store.check()) == []
    await store.aclose()


async def error_of(call: Awaitable[object]) -> LoopwrightError:
    """What a call raises."""
    try:
        got = await call
    except LoopwrightError as error:
        return error
    raise AssertionError(f"nothing was raised, but {got!r} answered")
