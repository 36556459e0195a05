"""The seam to tokenizers.

Owns: the Protocol. Must not know: implementers (`transports/tiktoken_counter.py`), when one is asked (`engine/counting.py`).
Read next: `core/calibration.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from .llm import LLMRequest


class TokenCounter(Protocol):
    """Counts the tokens of a request before it is sent.

    Asked only in sessions with a context budget, near the budget, while no provider has said how large requests of the
    session are. One that raises, or does not answer within five seconds, is not asked again by that loop.
    Concurrency: several requests at once. Cancel: at any await.
    """

    def count(self, request: LLMRequest, *, model: str) -> Awaitable[int | None]:
        """Tokens of instructions, tools and messages of `request` for `model`; None when this counter does not know it.

        `request.messages` are typed messages. What takes long belongs into a thread: the event loop waits.
        """
        ...
