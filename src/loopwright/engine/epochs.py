"""Prompt epochs: instructions and tools that stay to the byte, so that a provider's prefix cache holds.

Owns: when an epoch starts and what is frozen in it. Must not know: the window, how instructions are put together
(`instructions.py`). What code gives (base instructions, tool definitions, representation) is compared at the start of each
send, and a change starts an epoch. Read next: `core/context_state.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ..core.state import State
from ..late import Late
from ..model.context_records import VERBATIM, PromptEpochStarted
from ..model.errors import ConfigError
from ..model.records import Record, SendStarted
from ..model.specs import ToolSpec
from .kernel import Kernel
from .running import base_prompt, found_by, specs_of
from .turn import Turn, pending_error

if TYPE_CHECKING:
    from ..core import prompt_assembly
    from ..ports.tool import ToolSource
    from . import instructions, projecting
else:
    prompt_assembly = Late("loopwright.core.prompt_assembly")
    instructions = Late("loopwright.engine.instructions")
    projecting = Late("loopwright.engine.projecting")

LONGEST_REASON = 200
"""Characters that a host may give for a new epoch."""


async def opening(turn: Turn, start: SendStarted) -> list[Record]:
    """What goes before `start` in the commit that accepts an input: a new epoch where something changed, projections
    that are missing."""
    kernel, state = turn.kernel, turn.journal.state
    tools = turn.options.registry or kernel.tools
    records = await started(kernel, state, start, tools)
    if kernel.context is not None and kernel.context.representation is not None:
        records += projecting.projections(state, kernel.context.representation, tools)
    return records


async def started(kernel: Kernel, state: State, start: SendStarted, tools: ToolSource) -> list[Record]:
    """The epoch that a send needs; empty when it is the current one, or when there is nothing to freeze."""
    want = wanted(kernel, state, start.system_prompt, specs_of(tools, start.tools, found_by(state)))
    reason = _reason(current_epoch(state), want)
    return [] if reason is None else [await _made(kernel, state, want, reason)]


class EpochShape(Struct, frozen=True):
    """What code gives for requests, as it is now."""

    base: str | None
    tools: tuple[ToolSpec, ...]
    parts: tuple[str, ...]
    shown_as: tuple[str, int]
    header: str | None = None
    """Above the catalogue; None without one."""

    @property
    def is_nothing(self) -> bool:
        """True when there is nothing to freeze."""
        return self == _NOTHING


_NOTHING = EpochShape(None, (), (), (VERBATIM, 1))


def wanted(kernel: Kernel, state: State, start_prompt: str | None, specs: tuple[ToolSpec, ...]) -> EpochShape:
    """What the epoch of a send should hold."""
    parts: tuple[str, ...] = ()
    header = None
    if kernel.config.inject_tool_descriptions and specs:
        parts += ("catalogue",)
        header = prompt_assembly.catalogue_header(kernel.config.tool_catalog_header)
    context = kernel.context
    if context is not None and context.prompt_source is not None:
        parts += ("files",)
    representation = None if context is None else context.representation
    shown_as = (VERBATIM, 1) if representation is None else (representation.kind, representation.version)
    return EpochShape(base_prompt(kernel.config, state, start_prompt), specs, parts, shown_as, header)


def _reason(current: PromptEpochStarted | None, want: EpochShape) -> str | None:
    """Why a send needs a new epoch; None when the current one fits, or when there is nothing to freeze."""
    if current is None:
        return None if want.is_nothing else "first"
    return _change(current, want)


async def renewed(kernel: Kernel, state: State, reason: str) -> list[Record]:
    """The next epoch with what the host's code gave for the current one and files as they are now; empty without one."""
    current = current_epoch(state)
    if current is None:
        return []
    shown_as = (current.representation, current.representation_version)
    shape = EpochShape(current.base, current.tools, current.parts, shown_as, current.catalogue_header)
    return [await _made(kernel, state, shape, reason)]


async def with_tools(kernel: Kernel, state: State, tools: tuple[ToolSpec, ...], reason: str) -> PromptEpochStarted:
    """The next epoch with other tools. Files are read again only where the instructions list the tools."""
    current = current_epoch(state)
    assert current is not None
    if "catalogue" not in current.parts:
        return replace(current, number=current.number + 1, reason=reason, tools=tools)
    shown_as = (current.representation, current.representation_version)
    shape = EpochShape(current.base, tools, current.parts, shown_as, current.catalogue_header)
    return await _made(kernel, state, shape, reason)


async def asked_for(turn: Turn, reason: str) -> bool:
    """Starts an epoch with code and files as they are now; False when there is nothing to freeze.

    Raises: `SessionPendingError` while a send is open, `ConfigError` for a reason that is too long.
    """
    host: Any = reason
    if type(host) is not str or len(host) > LONGEST_REASON:
        given = f"{len(host)} characters" if type(host) is str else type(host).__name__
        raise ConfigError(f"reason must be a text of at most {LONGEST_REASON} characters, not {given}")
    kernel = turn.kernel
    await turn.journal.load()
    state = turn.journal.state
    if state.active is not None:
        raise pending_error(turn.actor.session_id, state)
    want = wanted(kernel, state, None, specs_of(kernel.tools, None, found_by(state)))
    if want.is_nothing and current_epoch(state) is None:
        return False
    await turn.journal.commit([await _made(kernel, state, want, reason)], release=True)
    return True


async def preview(kernel: Kernel, state: State) -> str | None:
    """The instructions of the next send, byte for byte, if nothing about it is overridden."""
    want = wanted(kernel, state, None, specs_of(kernel.tools, None, found_by(state)))
    current = current_epoch(state)
    if current is not None and _change(current, want) is None:
        return current.instructions
    return await _instructions_of(kernel, state.facts.session_id, want)


def current_epoch(state: State) -> PromptEpochStarted | None:
    """The newest epoch's record."""
    return None if state.facts.context is None else state.facts.context.epoch


async def _made(kernel: Kernel, state: State, want: EpochShape, reason: str) -> PromptEpochStarted:
    current = current_epoch(state)
    return PromptEpochStarted(
        number=1 if current is None else current.number + 1,
        reason=reason,
        base=want.base,
        instructions=await _instructions_of(kernel, state.facts.session_id, want),
        parts=want.parts,
        catalogue_header=want.header,
        tools=want.tools,
        representation=want.shown_as[0],
        representation_version=want.shown_as[1],
    )


async def _instructions_of(kernel: Kernel, session_id: str, want: EpochShape) -> str | None:
    """What is sent: the base, and whatever else belongs to it as it is now."""
    return await instructions.assembled(kernel, session_id, want) if want.parts else want.base


def _change(current: PromptEpochStarted, want: EpochShape) -> str | None:
    """Why the current epoch does not fit any more; None when it does."""
    if want.shown_as != (current.representation, current.representation_version):
        return f"representation: {want.shown_as[0]} {want.shown_as[1]}"
    if want.base != current.base:
        return "instructions changed"
    if want.parts != current.parts:
        return f"parts of the prompt: {', '.join(want.parts) or 'none'}"
    if want.header != current.catalogue_header:
        return "header of the tool catalogue changed"
    if want.tools == current.tools:
        return None
    before, now = {spec.name: spec for spec in current.tools}, {spec.name: spec for spec in want.tools}
    told = [f"{name} removed" for name in before if name not in now]
    told += [f"{name} added" for name in now if name not in before]
    told += [f"{name} changed" for name in now if name in before and now[name] != before[name]]
    return f"tools: {', '.join(told) or 'another order'}"
