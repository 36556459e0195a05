"""What the host gave for the model's context.

Owns: the value. Must not know: implementers. Loaded by loops that were given any part.
Read next: `epochs.py`, `folding.py`, `tail.py`.
"""

from __future__ import annotations

from msgspec import Struct

from ..ports.fold import FoldStrategy
from ..ports.memory import MemoryProvider
from ..ports.prompt_source import PromptSource
from ..ports.representation import Representation
from ..ports.token_counter import TokenCounter


class ContextParts(Struct, frozen=True, kw_only=True):
    """Implementers of the seams around the window; None leaves a part out."""

    representation: Representation | None = None
    fold: FoldStrategy | None = None
    token_counter: TokenCounter | None = None
    prompt_source: PromptSource | None = None
    memory: tuple[MemoryProvider, ...] = ()
    """All are asked, and all are told."""
