"""The built-in tools, gathered for a purpose.

Owns: which tools a preset holds and where the workspace comes from. Must not know: what the tools do.
Read next: `registry.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..core.recall_rules import RECALL_FOLDED, RECALL_SEND
from ..late import Late
from ..model.errors import ConfigError
from ..ports.shell import ShellBackend
from ..ports.skill_source import SkillSource
from ..ports.tool import ToolDefinition
from .apply_patch import apply_patch_tool
from .ask import request_user_input_tool
from .background_tool import background_tool
from .edit_file import edit_file_tool
from .glob import glob_tool
from .grep import grep_tool
from .load_skill import load_skill_tool
from .note import note_tool
from .read_file import read_file_tool
from .read_output import read_output_tool
from .recall import recall_folded_tool, recall_send_tool
from .registry import ToolRegistry
from .shell import bash_tool
from .timers import cancel_wakeup_tool, current_time_tool, list_wakeups_tool, schedule_wakeup_tool
from .todo import todo_tool
from .workspace import Workspace
from .write_file import write_file_tool

if TYPE_CHECKING:
    from ..ports.search_provider import SearchProvider
    from . import generate_image, view_image, web_fetch, web_search
    from .image_endpoint import ImageEndpoint
    from .web_access import WebAccess
else:
    generate_image = Late("loopwright.tools.generate_image")
    view_image = Late("loopwright.tools.view_image")
    web_fetch = Late("loopwright.tools.web_fetch")
    web_search = Late("loopwright.tools.web_search")

WORKSPACE_VARIABLE = "LOOPWRIGHT_WORKSPACE"

Preset = Literal["core", "explore", "full"]

_EXPLORE = ("read_file", "glob", "grep", "read_output", "request_user_input")
_CORE = (
    "bash",
    "background",
    "read_file",
    "write_file",
    "edit_file",
    "apply_patch",
    "glob",
    "grep",
    "read_output",
    "request_user_input",
)
_WAKEUPS = ("schedule_wakeup", "list_wakeups", "cancel_wakeup", "current_time")
_FULL = (*_CORE, "note", "todo", *_WAKEUPS, RECALL_SEND, RECALL_FOLDED)
_KNOWN = (*_FULL, "load_skill", "view_image", "web_fetch", "web_search", "generate_image")
PRESETS: Mapping[str, tuple[str, ...]] = {"core": _CORE, "explore": _EXPLORE, "full": _FULL}
"""Tools of each preset in the order in which a model sees them. `explore` changes nothing: it has no shell and no writer."""

_IN_WORKSPACE: Mapping[str, Callable[[Workspace], ToolDefinition]] = {
    "read_file": read_file_tool,
    "write_file": write_file_tool,
    "edit_file": edit_file_tool,
    "apply_patch": apply_patch_tool,
    "background": background_tool,
    "glob": glob_tool,
    "grep": grep_tool,
    "view_image": lambda workspace: view_image.view_image_tool(workspace),  # noqa: PLW0108 - loads the module when called
}
_ANYWHERE: Mapping[str, Callable[[], ToolDefinition]] = {
    "read_output": read_output_tool,
    "request_user_input": request_user_input_tool,
    "note": note_tool,
    "todo": todo_tool,
    "schedule_wakeup": schedule_wakeup_tool,
    "list_wakeups": list_wakeups_tool,
    "cancel_wakeup": cancel_wakeup_tool,
    "current_time": current_time_tool,
    RECALL_SEND: recall_send_tool,
    RECALL_FOLDED: recall_folded_tool,
}


def create_default_tool_registry(
    preset: Preset = "core",
    *,
    workspace: Workspace | str | Path | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    allow_bash: bool = True,
    shell_backend: ShellBackend | None = None,
    env: Mapping[str, str] | None = None,
    skills: SkillSource | None = None,
    web: WebAccess | None = None,
    search: SearchProvider | None = None,
    images: ImageEndpoint | None = None,
) -> ToolRegistry:
    """A registry of built-in tools: those of the preset and of `include`, without those of `exclude`.

    `workspace` is the folder that file tools and the shell stay in; without it the one of `LOOPWRIGHT_WORKSPACE` in `env`
    (None: this process's environment). The current folder is taken only when it is given: `workspace="."`.
    `allow_bash=False` leaves the shell out of any preset, and with it `background`. `shell_backend` says where it runs; without
    one it is a sandbox where one can be made (`shell_backend_for_here`). A list of names with `exclude` or `allow_bash` only narrows.
    `skills` adds `load_skill` to any preset, unless it is excluded. `web`, `search` and `images` are for the tools `web_fetch`,
    `web_search` and `generate_image`, which no preset holds: `include` names them.
    Raises: `ConfigError` listing every unknown name, and when a tool needs a workspace and there is none.
    """
    if not (skills is None or _is_source(skills)):
        # Who reads folders stands in a layer beside this one, and the list in the prompt is to be of the same library.
        raise ConfigError(f"skills must be a SkillLibrary: skills=SkillLibrary({_shown(skills)}), not {skills!r}")
    names = _chosen(preset, (*include, *(["load_skill"] if skills is not None else ())), tuple(exclude), allow_bash)
    if "load_skill" in names and skills is None:
        raise ConfigError("load_skill needs skills=, for example skills=SkillLibrary(folder)")
    needs_folder = [name for name in names if name in ("bash", "generate_image") or name in _IN_WORKSPACE]
    place = _workspace(workspace, os.environ if env is None else env, needs_folder) if needs_folder else None
    registry = ToolRegistry()
    for name in names:
        if name == "load_skill" and skills is not None:
            registry.register(load_skill_tool(skills))
        elif name == "web_fetch":
            registry.register(web_fetch.web_fetch_tool(web))
        elif name == "web_search":
            registry.register(web_search.web_search_tool(search))
        elif place is None or name in _ANYWHERE:
            registry.register(_ANYWHERE[name]())
        elif name == "bash":
            registry.register(bash_tool(place, shell_backend))
        elif name == "generate_image":
            registry.register(generate_image.generate_image_tool(place, images))
        else:
            registry.register(_IN_WORKSPACE[name](place))
    return registry


def _is_source(skills: object) -> bool:
    return not isinstance(skills, type) and hasattr(skills, "skills") and hasattr(skills, "load")


def _shown(skills: object) -> str:
    return repr(str(skills)) if isinstance(skills, str | Path) else "folder"


def _chosen(preset: str, include: tuple[str, ...], exclude: tuple[str, ...], allow_bash: bool) -> list[str]:
    problems: list[str] = []
    if preset not in PRESETS:
        problems.append(f"unknown preset {preset!r}; use {', '.join(PRESETS)}")
    for option, given in (("include", include), ("exclude", exclude)):
        unknown = [name for name in given if name not in _KNOWN]
        if unknown:
            problems.append(f"{option}: unknown tools {', '.join(unknown)}; known: {', '.join(_KNOWN)}")
    if "bash" in include and not allow_bash:
        problems.append("bash is included and allow_bash is False; choose one")
    if problems:
        raise ConfigError(problems)
    left_out = {*exclude, *(() if allow_bash else ("bash",))}
    names = [name for name in dict.fromkeys((*PRESETS[preset], *include)) if name not in left_out]
    return [name for name in names if name != "background" or "bash" in names]


def _workspace(given: Workspace | str | Path | None, env: Mapping[str, str], needed_by: list[str]) -> Workspace:
    if isinstance(given, Workspace):
        return given
    folder = given if given is not None else env.get(WORKSPACE_VARIABLE)
    if not folder:
        raise ConfigError(
            f'{", ".join(needed_by)} need a workspace: pass workspace= (workspace="." is the current folder)'
            f" or set {WORKSPACE_VARIABLE}"
        )
    return Workspace(folder)
