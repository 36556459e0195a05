"""Finished sends shown as they were said.

Owns: `VerbatimRepresentation`, the default. Must not know: folds.
Read next: `projected.py`.
"""

from __future__ import annotations

from ..model.context_records import VERBATIM
from ..model.messages import Message
from ..ports.representation import FinishedSend


class VerbatimRepresentation:
    """Shows every send word for word, so that each request begins with the one before."""

    @property
    def kind(self) -> str:
        """ "verbatim"."""
        return VERBATIM

    @property
    def version(self) -> int:
        """1."""
        return 1

    def project(self, send: FinishedSend) -> tuple[Message, ...] | None:
        """None: it stays as it is."""
        return None
