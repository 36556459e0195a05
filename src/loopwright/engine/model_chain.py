"""The models of a loop in the order in which they are asked.

Owns: opening a model when it is first wanted, closing those that were opened here. Must not know: when to move on
(`core/fallback.py`), how a model is opened.
Read next: `model_call.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ..core.fallback import MoveOn, after_model
from ..ports.llm import LLMService


class ClosedModel(Struct, frozen=True):
    """A model that nobody has asked yet."""

    name: str
    """As `provider:model`."""
    open: Callable[[], LLMService]


class ModelChain:
    """The first model and those that follow when it gives up.

    Concurrency: any number of calls at once, from any thread; two first wishes may open a model twice, one is kept.
    """

    def __init__(self, first: LLMService, others: Sequence[LLMService | ClosedModel]) -> None:
        self._models: list[LLMService | ClosedModel] = [first, *others]
        self._opened: dict[int, LLMService] = {}

    def service(self, place: int) -> LLMService:
        """The model at `place`, from 0."""
        model = self._models[place]
        if not isinstance(model, ClosedModel):
            return model
        if place not in self._opened:
            self._opened.setdefault(place, model.open())
        return self._opened[place]

    def name(self, place: int) -> str:
        """What the model at `place` is called, for events."""
        model = self._models[place]
        return model.name if isinstance(model, ClosedModel) else name_of(model) or type(model).__name__

    def later(self, place: int) -> list[tuple[str, str | None]]:
        """Name and provider of each model after the one at `place`, none of which is opened for it."""
        found: list[tuple[str, str | None]] = []
        for at in range(place + 1, len(self._models)):
            model = self._opened.get(at, self._models[at])
            if isinstance(model, ClosedModel):
                provider, _, name = model.name.partition(":")
                found.append((name, provider))
            else:
                found.append((name_of(model), provider_of(model)))
        return found

    def after(self, error: BaseException, place: int, tokens: int) -> MoveOn | None:
        """Where a call goes on after the model at `place` gave up; None when nowhere."""
        return after_model(error, place=place, contexts=[_context_of(model) for model in self._models], tokens=tokens)

    async def aclose(self) -> None:
        """Closes the models that were opened here."""
        opened, self._opened = self._opened, {}
        for service in opened.values():
            await service.aclose()


def name_of(service: object) -> str:
    """The name of the model behind a service, as far as it says one."""
    return str(getattr(service, "model", "") or "")


def provider_of(service: object) -> str | None:
    """The tag of a service ("openai", "anthropic" …); None when it does not say."""
    provider = getattr(service, "provider", None)
    return provider if isinstance(provider, str) and provider else None


def _context_of(model: object) -> int | None:
    """Tokens of context that a service declares in its `capabilities`; None when it does not."""
    found = getattr(getattr(model, "capabilities", None), "context_tokens", None)
    return found if isinstance(found, int) else None
