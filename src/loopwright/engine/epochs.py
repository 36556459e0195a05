"""Prompt epochs: instructions and tools that stay to the byte, so that a provider's prefix cache holds.

Owns: when an epoch starts and what is frozen in it, and which finished sends get a projection. Must not know: the window.
What code gives (base instructions, tool definitions, representation) is compared at the start of each send, and a change
starts an epoch. Read next: `core/context_state.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..core.calls import text_of
from ..core.pairing import problem
from ..core.state import State
from ..core.window import VERBATIM, send_asides, send_messages, unprojected
from ..model.context_records import PromptEpochStarted, SendProjected
from ..model.records import Record, SendStarted
from ..model.specs import ToolSpec
from ..ports.representation import FinishedSend, Representation
from ..ports.tool import ToolSource
from .journal import checked_record
from .kernel import Kernel
from .running import base_prompt
from .turn import Turn

_log = logging.getLogger("loopwright.epochs")


async def opening(turn: Turn, start: SendStarted) -> list[Record]:
    """What goes before `start` in the commit that accepts an input: a new epoch where something changed, projections
    that are missing."""
    kernel, state = turn.kernel, turn.journal.state
    tools = turn.options.registry or kernel.tools
    return [*(await started(kernel, state, start, tools)), *projections(kernel, state, tools)]


async def started(kernel: Kernel, state: State, start: SendStarted, tools: ToolSource) -> list[Record]:
    """The epoch that a send needs; empty when it is the current one, or when there is nothing to freeze."""
    current = None if state.facts.context is None else state.facts.context.epoch
    base = base_prompt(kernel.config, state, start.system_prompt)
    specs = specs_of(tools, start.tools)
    kind, version = _shown_as(kernel)
    if current is None and base is None and not specs and kind == VERBATIM:
        return []
    reason = "first" if current is None else _change(current, base, specs, (kind, version))
    if reason is None:
        return []
    return [await _made(current, reason, base, specs, (kind, version))]


async def renewed(kernel: Kernel, state: State, reason: str) -> list[Record]:
    """The next epoch with what the host's code gave for the current one and files as they are now; empty without one."""
    current = None if state.facts.context is None else state.facts.context.epoch
    if current is None:
        return []
    shown_as = (current.representation, current.representation_version)
    return [await _made(current, reason, current.base, current.tools, shown_as)]


async def _made(
    current: PromptEpochStarted | None,
    reason: str,
    base: str | None,
    specs: tuple[ToolSpec, ...],
    shown_as: tuple[str, int],
) -> PromptEpochStarted:
    return PromptEpochStarted(
        number=1 if current is None else current.number + 1,
        reason=reason,
        base=base,
        instructions=base,
        tools=specs,
        representation=shown_as[0],
        representation_version=shown_as[1],
    )


def specs_of(tools: ToolSource, allowed: Sequence[str] | None) -> tuple[ToolSpec, ...]:
    """The definitions that a send shows, in the registry's order."""
    found = [(name, tools.get(name)) for name in tools.names() if allowed is None or name in allowed]
    return tuple([tool.spec for _, tool in found if tool is not None])


def _shown_as(kernel: Kernel) -> tuple[str, int]:
    representation = None if kernel.context is None else kernel.context.representation
    return (VERBATIM, 1) if representation is None else (representation.kind, representation.version)


def _change(
    current: PromptEpochStarted, base: str | None, specs: tuple[ToolSpec, ...], shown_as: tuple[str, int]
) -> str | None:
    """Why the current epoch does not fit any more; None when it does."""
    if shown_as != (current.representation, current.representation_version):
        return f"representation: {shown_as[0]} {shown_as[1]}"
    if base != current.base:
        return "instructions changed"
    if specs == current.tools:
        return None
    before, now = {spec.name: spec for spec in current.tools}, {spec.name: spec for spec in specs}
    told = [f"{name} removed" for name in before if name not in now]
    told += [f"{name} added" for name in now if name not in before]
    told += [f"{name} changed" for name in now if name in before and now[name] != before[name]]
    return f"tools: {', '.join(told) or 'another order'}"


def projections(kernel: Kernel, state: State, tools: ToolSource) -> list[Record]:
    """Projections of the finished sends of the window that have none of the representation in use."""
    representation = None if kernel.context is None else kernel.context.representation
    if representation is None or representation.kind == VERBATIM:
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
