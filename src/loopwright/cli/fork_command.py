"""`loopwright fork`: a session that goes on from a round boundary of another one.

Owns: the command. Must not know: where a session can be forked (`core/boundaries.py`).
Read next: `session_commands.py`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..config import AgentLoopConfig
from ..loop import StatefulAgentLoop
from ..ports.store import Head
from ..ports.store_admin import SessionStore
from .agent_setup import NoModel
from .options import AsJson, Db
from .session_commands import SessionId, head_json, with_store
from .session_drive import write_json
from .session_ids import resolved
from .session_table import base_text
from .store_place import DEFAULT_DB, db_option


def fork(
    session_id: SessionId,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="N", help="The position to go on from; by default the newest round boundary."),
    ] = None,
    new_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The fork's id instead of a made one.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="By default the original's.")] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Go on from an earlier place of a session, in a new one.

    Prints the id of the new one. The original stays as it is and may be running. Positions are shown by `loopwright sessions show --journal`.
    """

    async def work(store: SessionStore) -> Head:
        sid = await resolved(store, session_id)
        # Forking needs no code of the agent, only its name.
        config = AgentLoopConfig(agent_name=(await store.lookup(sid)).head.agent_name)
        async with StatefulAgentLoop(llm=NoModel(), store=store, config=config) as loop:
            made = await loop.fork(sid, at=at, new_session_id=new_id, title=title)
        return (await store.lookup(made)).head

    head = with_store(db, work)
    if as_json:
        return write_json(head_json(head))
    sys.stdout.write(f"{head.session_id}\n")
    sys.stderr.write(
        f"loopwright: fork of {base_text(head)}; `loopwright run PROMPT --session {head.session_id}{db_option(db)}` goes on\n"
    )
    return None
