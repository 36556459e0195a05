"""The seam to rules that are kept somewhere: a file of the project, a host's own settings.

Owns: `PermissionSource`, and `FixedPermissions` for rules that stand in code. Must not know: files, how rules are applied.
Read next: `../engine/permits.py`, `../context/permission_file.py`.
"""

from __future__ import annotations

from typing import Protocol

from ..model.errors import ConfigError
from ..model.permission_spec import PermissionPolicy, PermissionRule


class PermissionSource(Protocol):
    """Where a loop's rules come from. Safe to use from several threads."""

    @property
    def keeps(self) -> bool:
        """Whether standing answers for the project can be kept here."""
        ...

    def policy(self) -> PermissionPolicy:
        """The rules as they are now, asked for before each call: quick.

        Raises: `ConfigError` when they cannot be had; then nothing that may change the world is run.
        """
        ...

    def remember(self, rule: PermissionRule) -> None:
        """Keeps a standing answer; one that is kept already changes nothing. May block.

        Raises: `ConfigError` when it cannot be kept.
        """
        ...


class FixedPermissions:
    """Rules that stand in code."""

    keeps = False

    def __init__(self, policy: PermissionPolicy) -> None:
        self._policy = policy

    def policy(self) -> PermissionPolicy:
        """The rules."""
        return self._policy

    def remember(self, rule: PermissionRule) -> None:
        """Raises: `ConfigError`: code cannot be written to."""
        raise ConfigError("these permissions stand in code; load_permissions() of a file keeps answers for the project")
