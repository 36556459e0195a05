"""Prompt epochs: instructions and tools that stay to the byte, so that a provider's prefix cache holds.

Owns: when an epoch starts and what is frozen in it, and which finished sends get a projection. Must not know: the window.
What code gives (base instructions, tool definitions, representation) is compared at the start of each send, and a change
starts an epoch. Read next: `core/context_state.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from ..core.calls import text_of
from ..core.pairing import problem
from ..core.prompt_assembly import PromptParts, assemble, catalogue_header, tool_catalogue
from ..core.state import State
from ..core.window import VERBATIM, send_asides, send_messages, unprojected
from ..model.context_records import PromptEpochStarted, SendProjected
from ..model.errors import ConfigError
from ..model.event_types import AgentEventType
from ..model.records import Record, SendStarted
from ..model.specs import ToolSpec
from ..ports.prompt_source import PromptProblem, PromptSections, PromptSource
from ..ports.representation import FinishedSend, Representation
from ..ports.tool import ToolSource
from .journal import checked_record
from .kernel import Kernel
from .leaving import LEAVING
from .running import base_prompt, specs_of
from .threads import in_thread
from .turn import Turn, pending_error

_log = logging.getLogger("loopwright.epochs")

SOURCE_TIMEOUT_S = 10.0
"""How long a send may be held up by the files of its prompt."""
LONGEST_REASON = 200
"""Characters that a host may give for a new epoch."""


async def opening(turn: Turn, start: SendStarted) -> list[Record]:
    """What goes before `start` in the commit that accepts an input: a new epoch where something changed, projections
    that are missing."""
    kernel, state = turn.kernel, turn.journal.state
    tools = turn.options.registry or kernel.tools
    return [*(await started(kernel, state, start, tools)), *projections(kernel, state, tools)]


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
    parts, header = list[str](), None
    if kernel.config.inject_tool_descriptions and specs:
        parts.append("catalogue")
        header = catalogue_header(kernel.config.tool_catalog_header)
    context = kernel.context
    if context is not None and context.prompt_source is not None:
        parts.append("files")
    representation = None if context is None else context.representation
    shown_as = (VERBATIM, 1) if representation is None else (representation.kind, representation.version)
    return EpochShape(base_prompt(kernel.config, state, start_prompt), specs, tuple(parts), shown_as, header)


async def started(kernel: Kernel, state: State, start: SendStarted, tools: ToolSource) -> list[Record]:
    """The epoch that a send needs; empty when it is the current one, or when there is nothing to freeze."""
    current = current_epoch(state)
    want = wanted(kernel, state, start.system_prompt, specs_of(tools, start.tools))
    if current is None:
        return [] if want.is_nothing else [await _made(kernel, state, want, "first")]
    reason = _change(current, want)
    return [] if reason is None else [await _made(kernel, state, want, reason)]


async def renewed(kernel: Kernel, state: State, reason: str) -> list[Record]:
    """The next epoch with what the host's code gave for the current one and files as they are now; empty without one."""
    current = current_epoch(state)
    if current is None:
        return []
    shown_as = (current.representation, current.representation_version)
    shape = EpochShape(current.base, current.tools, current.parts, shown_as, current.catalogue_header)
    return [await _made(kernel, state, shape, reason)]


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
    want = wanted(kernel, state, None, specs_of(kernel.tools, None))
    if want.is_nothing and current_epoch(state) is None:
        return False
    await turn.journal.commit([await _made(kernel, state, want, reason)], release=True)
    return True


async def preview(kernel: Kernel, state: State) -> str | None:
    """The instructions of the next send, byte for byte, if nothing about it is overridden."""
    want = wanted(kernel, state, None, specs_of(kernel.tools, None))
    current = current_epoch(state)
    if current is not None and _change(current, want) is None:
        return current.instructions
    return await _instructions(kernel, state.facts.session_id, want)


def current_epoch(state: State) -> PromptEpochStarted | None:
    """The newest epoch's record."""
    return None if state.facts.context is None else state.facts.context.epoch


async def _made(kernel: Kernel, state: State, want: EpochShape, reason: str) -> PromptEpochStarted:
    current = current_epoch(state)
    return PromptEpochStarted(
        number=1 if current is None else current.number + 1,
        reason=reason,
        base=want.base,
        instructions=await _instructions(kernel, state.facts.session_id, want),
        parts=want.parts,
        catalogue_header=want.header,
        tools=want.tools,
        representation=want.shown_as[0],
        representation_version=want.shown_as[1],
    )


async def _instructions(kernel: Kernel, session_id: str, want: EpochShape) -> str | None:
    """Base, tool catalogue, skills and repository context; the files are read here."""
    if not want.parts:
        return want.base
    found = await _sections(kernel, session_id) if "files" in want.parts else PromptSections()
    return assemble(
        PromptParts(
            base=want.base,
            catalogue=tool_catalogue(want.tools) if "catalogue" in want.parts else "",
            skills=found.skills,
            repository=found.repository,
            catalogue_header=want.header,
        )
    )


async def _sections(kernel: Kernel, session_id: str) -> PromptSections:
    source = None if kernel.context is None else kernel.context.prompt_source
    if source is None:  # another process had one; what it read is gone with this epoch
        return PromptSections()
    try:
        async with asyncio.timeout(SOURCE_TIMEOUT_S):
            found = await in_thread(lambda: _read(source))
    except TimeoutError:
        left = f"reading the files of the prompt took more than {SOURCE_TIMEOUT_S:g} s"
        found = PromptSections(problems=(PromptProblem("", None, left, "look at the disk they are on"),))
    except Exception as error:  # noqa: BLE001 - host code: a prompt without these parts is better than no answer
        found = PromptSections(problems=(PromptProblem("", None, _told(error), "repair the prompt source"),))
    for problem_found in found.problems:
        told = text_of(problem_found)
        _log.warning("session %s: left out of the prompt: %s", session_id, told)
        kernel.emit(session_id, AgentEventType.STATUS_CHANGED, "prompt_problem", told)
    return found


def _read(source: PromptSource) -> PromptSections:
    """What the source answers. Raises what it raises, with what would end more than this call as a `RuntimeError`."""
    try:
        found: Any = source.sections()
    except (*LEAVING, asyncio.CancelledError) as leaving:
        raise RuntimeError(f"the source tried to end its caller ({type(leaving).__name__})") from leaving
    if not isinstance(found, PromptSections):
        if asyncio.iscoroutine(found):
            found.close()  # it is never awaited: said here, once, and not by a warning of the interpreter
        raise TypeError(f"sections() must answer PromptSections, not {type(found).__name__}")
    texts: tuple[Any, ...] = (found.skills, found.repository)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"skills and repository must be texts, not {' and '.join([type(t).__name__ for t in texts])}")
    problems: Any = found.problems
    if not isinstance(problems, tuple | list) or not all(
        isinstance(one, PromptProblem) for one in cast("Sequence[object]", problems)
    ):
        raise TypeError("problems must be a tuple of PromptProblem")
    return found


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {text_of(error)}"[:500]


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
