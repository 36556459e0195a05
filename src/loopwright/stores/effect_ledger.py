"""The effect ledger as a reading of the journal: started `once` calls whose outcome nobody knows.

Owns: the rule, once for all stores. Must not know: where records are kept.
Read next: `ports/store_admin.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ..model.errors import StoreCorruptError
from ..ports.store import StoredRecord
from ..ports.store_admin import UncertainCall

STARTED: Final = "tool_started"
FINISHED: Final = "tool_finished"
ASKED: Final = "handler_asked"
LEDGER_KINDS: Final = (STARTED, FINISHED, ASKED)
"""The only kinds that `uncertain_calls` reads."""


class _AskedOf(msgspec.Struct):
    call_id: str = ""


class _Call(msgspec.Struct):
    """The fields of all kinds that matter here; others are skipped by the decoder."""

    call_id: str = ""
    name: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    effect: str = ""
    key: str = ""
    status: str = ""
    interaction: _AskedOf | None = None


_decoder = msgspec.json.Decoder(_Call)


def uncertain_calls(records: Iterable[tuple[str, StoredRecord]]) -> list[UncertainCall]:
    """Calls left open by `records`: (session id, record) of `LEDGER_KINDS`, in order within each session.

    A call is open when it was started with effect "once" and has no finish, or only one of status "uncertain" (then the
    model was told). A handler that asked a person has ended in a known place: it runs again with the answer. Providers may repeat call ids within a session, so the idempotency key, where the finish has one,
    is part of a call's identity.
    """
    found: dict[tuple[str, str, str], UncertainCall] = {}
    for session_id, record in records:
        try:
            call = _decoder.decode(record.body)
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(
                f"record {record.position} of session {session_id!r} ({record.kind}) cannot be read: {error}"
            ) from error
        if record.kind == STARTED:
            if call.effect == "once":
                found[session_id, call.call_id, call.key] = UncertainCall(
                    session_id=session_id,
                    position=record.position,
                    call_id=call.call_id,
                    name=call.name,
                    arguments=call.arguments,
                    idempotency_key=call.key,
                    started_at=record.at,
                    told=False,
                )
            continue
        if record.kind == ASKED:
            asked = "" if call.interaction is None else call.interaction.call_id
            newest = [known for known, one in found.items() if known[:2] == (session_id, asked) and not one.told]
            if newest:
                del found[newest[-1]]
            continue
        for identity in [known for known in found if known[:2] == (session_id, call.call_id)]:
            if call.key and call.key != identity[2]:
                continue
            if call.status == "uncertain":
                found[identity] = msgspec.structs.replace(found[identity], told=True)
            else:
                del found[identity]
    return sorted(found.values(), key=lambda call: (call.started_at, call.session_id, call.position))
