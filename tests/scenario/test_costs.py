"""What calls cost: known prices, unknown ones, failing lists, and the budget of a run."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from loopwright import AgentLoopConfig, LLMResponse, StatefulAgentLoop, Usage
from loopwright.model.errors import ConfigError, LLMTransientError
from loopwright.model.events import StatusChanged, UsageUpdated
from loopwright.testing import ScriptedLLM
from loopwright.testing.scripted import calling
from loopwright.transports.price_table import PriceTable

PRICES = PriceTable({"scripted": {"input": 1, "output": 10, "cached": 0.1}})


def reply(text: str = "done", model: str = "scripted", **usage: Any) -> LLMResponse:
    used = Usage(**{"input_tokens": 1000, "output_tokens": 100, "calls": 1, **usage})
    return LLMResponse(text=text, finish_reason="stop", usage=used, model=model)
