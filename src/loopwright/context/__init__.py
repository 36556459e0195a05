"""What stands around the window: representations, folds, skills, files of a repository, memories; loaded when used.

Owns: implementers of the ports that shape what a model sees, and the public names of `loopwright.context`, resolved on
first use, with those of notes. Must not know: the engine, stores, tools.
Read next: `summary_fold.py`, `skills.py`, `prompt_files.py`, `store_memory.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.prompt_assembly import SystemPromptBuilder
    from ..model.notes import Note, NotesPolicy
    from .agentic_fold import AgenticFold
    from .projected import ProjectedRepresentation
    from .prompt_files import PromptFiles
    from .skills import SkillLibrary
    from .store_memory import StoreMemory
    from .summary_fold import LLMSummaryFold
    from .verbatim import VerbatimRepresentation

_HOME = {
    "AgenticFold": ".agentic_fold",
    "LLMSummaryFold": ".summary_fold",
    "Note": "..model.notes",
    "NotesPolicy": "..model.notes",
    "ProjectedRepresentation": ".projected",
    "PromptFiles": ".prompt_files",
    "SkillLibrary": ".skills",
    "StoreMemory": ".store_memory",
    "SystemPromptBuilder": "..core.prompt_assembly",
    "VerbatimRepresentation": ".verbatim",
}

__all__ = [
    "AgenticFold",
    "LLMSummaryFold",
    "Note",
    "NotesPolicy",
    "ProjectedRepresentation",
    "PromptFiles",
    "SkillLibrary",
    "StoreMemory",
    "SystemPromptBuilder",
    "VerbatimRepresentation",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
