"""Prompt epochs: what starts one, and that no prompt source stops a send."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.conftest import Listener, Stage, said
from tests.scenario.folding_stage import LONG, OwnFold

from loopwright import AgentEventBus, StatefulAgentLoop, tool
from loopwright.context import PromptFiles, SkillLibrary
from loopwright.model.context_records import PromptEpochStarted
from loopwright.model.errors import ConfigError
from loopwright.ports.prompt_source import PromptProblem, PromptSections


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "x"


class Source:
    """A prompt source of a host: what it answers is whatever it is given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def sections(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer() if callable(self.answer) else self.answer


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


async def later() -> PromptSections:
    return PromptSections("a")


ANSWERS: list[Any] = [
    ValueError("broken"),
    Unspeakable(),
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError(),
    StopIteration(),
    None,
    "text",
    later,
    PromptSections(None, None),  # type: ignore[arg-type]
    PromptSections("a", b"b"),  # type: ignore[arg-type]
    PromptSections("a", "b", problems=5),  # type: ignore[arg-type]
    PromptSections("a", "b", problems=("left out",)),  # type: ignore[arg-type]
]


async def epochs(stage: Stage, loop: StatefulAgentLoop, session_id: str) -> list[PromptEpochStarted]:
    return [one for one in await stage.records(loop, session_id) if isinstance(one, PromptEpochStarted)]


def problems(listener: Listener) -> list[str]:
    return [
        event.data.detail  # type: ignore[union-attr]
        for event in listener.events
        if event.type.value == "status_changed" and event.data.status == "prompt_problem"  # type: ignore[union-attr]
    ]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: repr(one)[:40] if not callable(one) else "a coroutine")
async def test_a_prompt_source_that_fails_in_any_way_is_announced_and_the_send_goes_on(
    stage: Stage, answer: Any
) -> None:
    listener, bus = Listener(), AgentEventBus()
    bus.subscribe(listener)
    model = stage.model("Fine.")
    loop = stage.loop(llm=model, prompt_source=Source(answer), system_prompt="base", event_bus=bus)
    assert (await loop.send("hi")).final_text == "Fine."
    assert model.requests[0].system_prompt == "base"
    (told,) = problems(listener)
    assert "repair the prompt source" in told


async def test_what_a_source_says_of_its_files_cannot_drive_a_terminal(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    listener, bus = Listener(), AgentEventBus()
    bus.subscribe(listener)
    problem = PromptProblem("/x\x1b]0;t\x07", 1, "is bad\nWARNING forged", "mend \u2028it")
    loop = stage.loop("Fine.", prompt_source=Source(PromptSections("a", "b", (problem,))), event_bus=bus)
    await loop.send("hi")
    (told,) = problems(listener)
    assert told.isprintable()
    assert told.startswith("/x\\x1b]0;t\\x07:1: is bad\\nWARNING")
    logged = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(logged) == 1
    assert logged[0].isprintable()


async def test_another_header_of_the_tool_catalogue_starts_an_epoch_with_its_reason(stage: Stage) -> None:
    session_id, seen = None, list[Any]()
    for header in (None, None, "OWN HEADER", "OWN HEADER"):
        model = stage.model("Fine.")
        loop = stage.loop(llm=model, tools=[look], inject_tool_descriptions=True, tool_catalog_header=header)
        session_id = (await loop.send("hi", session_id=session_id)).session_id
        seen.append(model.requests[0].system_prompt)
        made = await epochs(stage, loop, session_id)
        await loop.aclose()
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert seen[2].startswith("OWN HEADER\n")
    assert [one.reason for one in made] == ["first", "header of the tool catalogue changed"]


async def test_an_epoch_that_a_fold_starts_keeps_the_header_of_the_one_before(stage: Stage) -> None:
    fold = OwnFold(keep=1)
    tools: dict[str, Any] = {"tools": [look], "inject_tool_descriptions": True, "tool_catalog_header": "OWN"}
    loop = stage.loop("One.", "Two.", "Three.", fold=fold, **tools)
    session_id = (await loop.send(LONG)).session_id
    await loop.send(LONG, session_id=session_id)
    assert await loop.fold(session_id)
    first, second = await epochs(stage, loop, session_id)
    assert (second.catalogue_header, second.instructions) == (first.catalogue_header, first.instructions)
    await loop.send("hi", session_id=session_id)
    assert len(await epochs(stage, loop, session_id)) == 2


async def test_a_reason_for_an_epoch_is_bounded_and_a_longer_one_changes_nothing(stage: Stage) -> None:
    loop = stage.loop("Fine.", system_prompt="base")
    session_id = (await loop.send("hi")).session_id
    for bad in ("x" * 201, None):
        with pytest.raises(ConfigError, match="at most 200 characters"):
            await loop.new_epoch(session_id, reason=bad)  # type: ignore[arg-type]
    assert len(await epochs(stage, loop, session_id)) == 1
    assert await loop.new_epoch(session_id, reason="x" * 200)
    assert (await epochs(stage, loop, session_id))[-1].reason == "x" * 200


async def test_the_prompt_that_is_resolved_is_the_next_sends_and_after_a_fold_it_shows_files_as_they_are(
    stage: Stage, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("version A")
    model = stage.model(said("One."), said("Two."), said("Three."))
    loop = stage.loop(llm=model, fold=OwnFold(keep=1), prompt_source=PromptFiles(workspace=work))
    first = await loop.resolve_system_prompt()
    session_id = (await loop.send(LONG)).session_id
    (work / "AGENTS.md").write_text("version B")
    second = await loop.resolve_system_prompt(session_id=session_id)
    await loop.send(LONG, session_id=session_id)
    assert await loop.fold(session_id)
    third = await loop.resolve_system_prompt(session_id=session_id)
    await loop.send("hi", session_id=session_id)
    assert [request.system_prompt for request in model.requests] == [first, second, third]
    assert "version A" in str(second)
    assert "version B" in str(third)


async def test_a_skill_folder_with_an_escape_in_its_name_is_told_in_text_that_prints(
    stage: Stage, tmp_path: Path
) -> None:
    bad = tmp_path / "x\x1b]0;title\x07\nWARNING forged"
    bad.mkdir()
    (bad / "SKILL.md").write_text("---\ndescription: x\n---\n")
    listener, bus = Listener(), AgentEventBus()
    bus.subscribe(listener)
    await stage.loop("Fine.", prompt_source=PromptFiles(skills=SkillLibrary(tmp_path)), event_bus=bus).send("hi")
    (told,) = problems(listener)
    assert told.isprintable()
