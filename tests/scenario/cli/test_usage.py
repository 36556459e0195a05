"""`loopwright usage`: what it adds up, and how it looks in a pipe and on terminals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from rich.cells import cell_len
from tests.scenario.cli.command_line import CommandLine

from loopwright import AgentLoopConfig, LLMResponse, LLMRetryPolicy, StatefulAgentLoop, Usage
from loopwright.cli.usage_report import UNDATED, UsageGroup, UsageReport
from loopwright.cli.usage_view import bar, bar_lines, table_lines
from loopwright.model.errors import LLMTransientError
from loopwright.testing import ScriptedLLM
from loopwright.testing.virtual import VirtualAmbient
from loopwright.transports.price_table import PriceTable

PRICES = PriceTable({"dear": {"input": 10, "output": 100}, "cheap": {"input": 1, "output": 10}})
DAY = 86_400.0


def reply(model: str, given: int = 1000, produced: int = 100, **more: Any) -> LLMResponse:
    return LLMResponse(
        text="ok", finish_reason="stop", usage=Usage(given, produced, calls=1, **more), model=model
    )


async def talk(path: Path, agent: str, *steps: Any, at: float, prices: Any = PRICES) -> str:
    """One session with a send for each step."""
    ambient, session_id = VirtualAmbient(), None
    await ambient.sleep(max(at - ambient.now(), 0))
    config = AgentLoopConfig(agent_name=agent, retry=LLMRetryPolicy(max_attempts=2, jitter=0))
    for step in steps:
        model = ScriptedLLM(step if isinstance(step, Sequence) else [step])
        async with StatefulAgentLoop(llm=model, dsn=path, config=config, prices=prices, ambient=ambient) as loop:
            session_id = (await loop.send("go", session_id=session_id)).session_id
        await ambient.sleep(60)
    assert session_id is not None
    return session_id
