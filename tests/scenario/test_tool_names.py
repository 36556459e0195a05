"""The names that narrow the tools of a send: what is no name is refused before anything is stored."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenario.conftest import Stage

from loopwright import tool
from loopwright.model.errors import ConfigError


@tool(effect="pure")
async def look() -> str:
    """Looks."""
    return "seen"


@pytest.mark.parametrize("names", [[1], [look], ["lok"]], ids=["number", "tool", "unknown"])
async def test_what_names_no_tool_is_refused_before_anything_is_stored(stage: Stage, names: Any) -> None:
    loop = stage.loop(tools=[look])
    sid = await loop.new_session()
    before = len(await stage.records(loop, sid))
    with pytest.raises(ConfigError, match=r"no name|this loop has: look"):
        await loop.send("go", session_id=sid, tools=names)
    assert len(await stage.records(loop, sid)) == before


@pytest.mark.parametrize("names, offered", [(["look", "gone"], ["look"]), ([], [])])
async def test_an_unknown_name_among_known_ones_is_passed_over_and_no_names_are_no_tools(
    stage: Stage, names: list[str], offered: list[str]
) -> None:
    model = stage.model("hi")
    loop = stage.loop(llm=model, tools=[look])
    assert (await loop.send("go", tools=names)).ok
    assert [spec.name for spec in model.requests[-1].tools] == offered  # type: ignore[attr-defined]
