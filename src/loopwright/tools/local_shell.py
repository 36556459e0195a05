"""Shell commands on this machine, without this machine's secrets.

Owns: `LocalShellBackend`, which environment a command sees. Must not know: how the process is run (`process.py`).
This is no sandbox: a command can do what this user can do. A host that needs one gives another `ShellBackend`.
Read next: `shell.py`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping

from ..ports.shell import ShellLaunch

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?key|\w*key|keys|token|tokens|\w*token|secret|secrets|passwd|password|passphrase|pass|pwd|auth|credential"
    r"|credentials|creds|cookie|private|dsn|pat)(?:_|$)"
    r"|CRED|PGPASS|STRIPE|DSN|WEBHOOK",
    re.IGNORECASE,
)
# Names that the pattern above takes for secrets and that are none.
_HARMLESS = frozenset({"PWD", "OLDPWD"})
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@"  # an address with a password
    r"|-----BEGIN "
    r"|\b(?:sk-[\w-]{16,}|[srp]k_(?:live|test)_\w{8,}|whsec_\w{8,}|hooks\.slack\.com/|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]+\.eyJ[\w-]+\.)"
)
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


def is_secret(name: str, value: str) -> bool:
    """True when an environment variable looks like a key, a token or a password, by its name or by its value."""
    if name.upper() in _HARMLESS:
        return False
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))
