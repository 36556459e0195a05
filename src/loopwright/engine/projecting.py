"""Finished sends as the representation in use shows them.

Owns: which sends get a projection, and what becomes of one that cannot be stored. Must not know: when it is asked for.
Loaded by loops with a representation. Read next: `core/window.py`, `ports/representation.py`.
"""

from __future__ import annotations

import logging

from ..core.calls import text_of
from ..core.pairing import problem
from ..core.state import State
from ..core.window import send_asides, send_messages, unprojected
from ..model.context_records import VERBATIM, SendProjected
from ..model.records import Record
from ..ports.representation import FinishedSend, Representation
from ..ports.tool import ToolSource
from .journal import checked_record

_log = logging.getLogger("loopwright.epochs")


def projections(state: State, representation: Representation, tools: ToolSource) -> list[Record]:
    """Projections of the finished sends of the window that have none of this representation, which is in use."""
    if representation.kind == VERBATIM:
        return []
    labels = unprojected(state, representation.kind, representation.version)
    places = {label: place for place, (label, _) in enumerate(state.spans)}
    made = [_projected(state, places[label], representation, tools) for label in labels]
    return [one for one in made if one is not None]


def _projected(state: State, place: int, representation: Representation, tools: ToolSource) -> SendProjected | None:
    label = state.spans[place][0]
    messages = tuple(send_messages(state, place))
    if not messages:
        return None
    made, why = None, None
    try:
        shown = representation.project(FinishedSend(label, messages, tools, send_asides(state, place)))
        if shown is not None and not (why := problem(shown) or (None if shown else "it has no messages")):
            made = SendProjected(label, representation.kind, representation.version, tuple(shown))
            checked_record(made, 0.0)
    except Exception as error:  # noqa: BLE001 - host code: what it raises or answers leaves this send verbatim
        made, why = None, f"{type(error).__name__}: {text_of(error)}"
    if why:
        _log.warning("send #%s stays verbatim: representation %r failed: %s", label, representation.kind, why)
    return made
