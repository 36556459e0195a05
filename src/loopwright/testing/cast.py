"""A model for several agents: each has a script of its own, told apart by its instructions.

Owns: `CastLLM`. Must not know: the engine, any test runner.
Read next: `scripted.py`, whose steps it plays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model.messages import AssistantMessage
from ..ports.llm import LLMRequest, LLMResponse
from .scripted import ScriptedLLM, ScriptError, Step


class CastLLM:
    """An `LLMService` that answers from the script of whoever asks, from the place that the conversation has reached.

    `scripts`: instructions → steps (as of `ScriptedLLM`); "" is the script where no other fits. Instructions fit when they
    begin with the key. The step is the one at the number of replies that the request shows, so a conversation that is
    continued after a crash goes on where it was, in whatever order agents ask: nothing is remembered between calls.
    Concurrency: any number of calls at once.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Step]], *, model: str = "cast") -> None:
        self._scripts = {name: list(steps) for name, steps in scripts.items()}
        self.model = model
        self.requests: list[LLMRequest] = []
        """Every request that arrived, oldest first."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """The step of this agent at this place. Raises `ScriptError` beyond its script."""
        self.requests.append(request)
        prompt = request.system_prompt or ""
        name = max([known for known in self._scripts if prompt.startswith(known)], key=len, default=None)
        if name is None:
            raise ScriptError(f"nobody has the instructions {prompt[:80]!r}; known: {', '.join(self._scripts)}")
        place = sum(isinstance(message, AssistantMessage) for message in request.messages)
        steps = self._scripts[name]
        if place >= len(steps):
            raise ScriptError(f"{name!r} has {len(steps)} steps and asks for step {place + 1}")
        # Ids of calls tell the place, so that they differ within a conversation.
        one = ScriptedLLM([*["" for _ in range(place)], steps[place]], model=self.model)
        one.skip(place)
        return await one.complete(request)

    async def aclose(self) -> None:
        """Nothing is held."""
