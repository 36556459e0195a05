"""The instructions of a prompt epoch that are more than the host's own: tool catalogue, skills, repository context.

Owns: asking the prompt source within its time, and what becomes of its problems. Must not know: when an epoch starts.
Loaded by sessions that have such parts. Read next: `core/prompt_assembly.py`, `ports/prompt_source.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ..core.calls import text_of
from ..core.prompt_assembly import PromptParts, assemble, tool_catalogue
from ..model.event_types import AgentEventType
from ..ports.prompt_source import PromptProblem, PromptSections, PromptSource
from .kernel import Kernel
from .leaving import LEAVING
from .threads import in_thread

if TYPE_CHECKING:
    from .epochs import EpochShape

_log = logging.getLogger("loopwright.epochs")

SOURCE_TIMEOUT_S = 10.0
"""How long a send may be held up by the files of its prompt."""


async def assembled(kernel: Kernel, session_id: str, want: EpochShape) -> str | None:
    """Base, tool catalogue, skills and repository context; the files are read here."""
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
