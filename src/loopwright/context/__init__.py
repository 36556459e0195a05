"""What a model is shown beside the conversation: skills, files of a repository, and the prompt around them.

Owns: the public names of `loopwright.context`, resolved on first use. Must not know: the engine, stores, tools.
Read next: `skills.py`, `agents_md.py`, `prompt_files.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.prompt_assembly import SystemPromptBuilder
    from .prompt_files import PromptFiles
    from .skills import SkillLibrary

_HOME = {
    "PromptFiles": ".prompt_files",
    "SkillLibrary": ".skills",
    "SystemPromptBuilder": "..core.prompt_assembly",
}

__all__ = ["PromptFiles", "SkillLibrary", "SystemPromptBuilder"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)
