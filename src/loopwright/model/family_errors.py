"""Errors of what several sessions do together: agents that are spawned, workflows, boards.

Owns: these branches of the tree in `errors.py`. Must not know: who raises them. Read next: `errors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .call_errors import SpecValidationError

if TYPE_CHECKING:
    from .spec_shape import Problem


class AgentSpecError(SpecValidationError):
    """An agent spec is not valid; every problem is listed with its path, and nothing was started."""

    code = "spec.agent"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.listed = tuple(problems)
        """The problems with path and message apart, in the order of the spec."""
        super().__init__("agent spec", [str(one) for one in problems])


class WorkflowSpecError(SpecValidationError):
    """A workflow spec is not valid; every problem is listed with its path, and nothing was started."""

    code = "spec.workflow"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.listed = tuple(problems)
        """The problems with path and message apart, in the order of the spec."""
        super().__init__("workflow spec", [str(one) for one in problems])
