"""What stands around the window: folds, skills, files of a repository, memories. Loaded by loops that use them.

Owns: implementers of the ports that shape what a model sees, and the public names of `loopwright.context`, resolved on
first use. Must not know: the engine, stores, tools.
Read next: `summary_fold.py`, `skills.py`, `prompt_files.py`, `store_memory.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.prompt_assembly import SystemPromptBuilder
    from .prompt_files import PromptFiles
    from .skills import SkillLibrary
    from .store_memory import StoreMemory

_HOME = {
    "PromptFiles": ".prompt_files",
    "SkillLibrary": ".skills",
    "StoreMemory": ".store_memory",
    "SystemPromptBuilder": "..core.prompt_assembly",
}

__all__ = ["PromptFiles", "SkillLibrary", "StoreMemory", "SystemPromptBuilder"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)
