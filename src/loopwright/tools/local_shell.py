"""Shell commands on this machine, without this machine's secrets.

Owns: `LocalShellBackend`, which environment a command sees. Must not know: how the process is run (`process.py`).
This is no sandbox: a command can do what this user can do. A host that needs one gives another `ShellBackend`.
What a secret looks like: `core/secret_patterns.py`. Read next: `shell.py`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping

from ..core.secret_patterns import is_secret
from ..ports.shell import ShellLaunch

# Nobody sits at a terminal: pagers, prompts and colours would only hang or litter.
QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"}


class LocalShellBackend:
    """Runs commands with `bash` (or `sh` where there is none) as a child of this process.

    The environment is this process's, read at each launch, without variables whose name or value looks like a secret.
    `keep` names variables to pass on all the same; `env` replaces the environment that is read; `extra` is added as it is.
    """

    def __init__(
        self,
        *,
        keep: Iterable[str] = (),
        extra: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._keep = frozenset(keep)
        self._extra = dict(extra or {})
        self._env = env

    def launch(self, command: str, workspace: str) -> ShellLaunch:
        """How to run `command` in `workspace`; see `ShellBackend`."""
        source = os.environ if self._env is None else self._env
        env = {name: value for name, value in source.items() if name in self._keep or not is_secret(name, value)}
        shell = shutil.which("bash", path=env.get("PATH", os.defpath)) or "/bin/sh"
        return ShellLaunch((shell, "-c", command), workspace, {**env, **QUIET, "PWD": workspace, **self._extra})
