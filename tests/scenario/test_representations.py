"""Earlier sends as the session represents them: stored once, healed where they are missing, changed on a living session."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.scenario.conftest import Stage, said, texts

from loopwright import ImagePart, Message, TextPart, UserMessage, tool
from loopwright.context.projected import ProjectedRepresentation
from loopwright.context.verbatim import VerbatimRepresentation
from loopwright.model.context_records import SendProjected
from loopwright.model.errors import ConfigError
from loopwright.model.records import SendStarted
from loopwright.ports.representation import FinishedSend
from loopwright.testing import calls

PROJECTED = ProjectedRepresentation()


@tool(effect="pure")
async def look(where: str) -> str:
    """Looks."""
    return f"line one of {where}\n" + "x" * 500


class Own:
    """A host's own way of showing a send."""

    kind = "own"

    def __init__(self, version: int = 1, answer: Any = ...) -> None:
        self.version = version
        self.answer = answer
        self.seen: list[FinishedSend] = []

    def project(self, send: FinishedSend) -> tuple[Message, ...] | None:
        self.seen.append(send)
        if isinstance(self.answer, Exception):
            raise self.answer
        return (UserMessage(f"own {self.version}: #{send.label}"),) if self.answer is ... else self.answer


def shown(model: Any, call: int = -1) -> list[str]:
    return texts(model.requests[call].messages)


async def test_a_finished_send_is_shown_as_an_account_that_names_its_label(stage: Stage) -> None:
    model = stage.model(calls(("look", {"where": "the attic"})), said("A trunk."), said("Yes."))
    loop = stage.loop(llm=model, tools=[look], representation=PROJECTED)
    sid = await loop.new_session()
    await loop.send("What is up there?\nLook well.", session_id=sid)
    assert not shown(model)[0].startswith("user: <"), "the running send is shown as it is"
    await loop.send("Sure?", session_id=sid)
    account, question = shown(model)
    label = next(n for n, record in enumerate(await stage.records(loop, sid)) if isinstance(record, SendStarted))
    assert account.startswith(f'user: <finished_send label="#{label}">')
    assert "<send_asked>\nWhat is up there?\nLook well.\n</send_asked>" in account
    assert 'look({"where": "the attic"}) → ok, 522 characters: line one of the attic\n' in account
    assert "<send_answered>\nA trunk.\n</send_answered>" in account
    assert question == "user: Sure?"


async def test_the_account_is_stored_and_never_made_again(stage: Stage) -> None:
    loop = stage.loop(said("One."), said("Two."), representation=PROJECTED)
    sid = await loop.new_session()
    for text in ("1", "2"):
        await loop.send(text, session_id=sid)
    records = await stage.records(loop, sid)
    stored = [record for record in records if isinstance(record, SendProjected)]
    assert len(stored) == 1
    await loop.aclose()
    model = stage.model(said("Three."))
    own = Own()
    own.kind = "projected"  # other code under the same name and version
    other = stage.loop(llm=model, representation=own)
    await other.send("3", session_id=sid)
    assert model.requests[0].messages[0] == stored[0].messages[0]
    assert [send.messages[0] for send in own.seen] == [UserMessage("2")]


async def test_a_process_that_died_before_the_account_was_made_leaves_it_to_the_next_send(stage: Stage) -> None:
    loop = stage.mortal("commit.after:assistant_message_added+send_finished", said("One."), representation=PROJECTED)
    sid = await loop.new_session()
    await stage.dies(loop, loop.send("1", session_id=sid))
    model = stage.model(said("Two."))
    await stage.loop(llm=model, representation=PROJECTED).send("2", session_id=sid)
    assert shown(model)[0].startswith("user: <finished_send")


async def test_a_living_session_changes_its_representation_and_goes_back(stage: Stage) -> None:
    model = stage.model(*[said(f"answer {n}") for n in range(6)])
    verbatim, projected = (
        stage.loop(llm=model, representation=one, session_cache_size=0) for one in (VerbatimRepresentation(), PROJECTED)
    )
    own = stage.loop(llm=model, representation=Own())
    sid = await verbatim.new_session()
    for loop in (verbatim, verbatim, projected, own, projected, verbatim):
        await loop.send("hello", session_id=sid)
    kinds = [[text.split()[1].strip("<") for text in shown(model, n)] for n in range(6)]
    assert kinds[1] == ["hello", "answer", "hello"]
    assert kinds[2] == ["finished_send", "finished_send", "hello"]
    assert kinds[3] == ["own", "own", "own", "hello"]
    assert kinds[4] == ["finished_send"] * 4 + ["hello"]
    assert kinds[5] == ["hello", "answer"] * 5 + ["hello"]


async def test_another_version_makes_every_account_of_the_window_anew(stage: Stage) -> None:
    model = stage.model(*[said("fine") for _ in range(4)])
    first, second = Own(1), Own(2)
    sid = await (loop := stage.loop(llm=model, representation=first)).new_session()
    for _ in range(3):
        await loop.send("hello", session_id=sid)
    await stage.loop(llm=model, representation=second).send("hello", session_id=sid)
    assert [text.split(":")[1] for text in shown(model)] == [" own 2"] * 3 + [" hello"]


@pytest.mark.parametrize("answer", [None, (), (UserMessage("a"), "b"), "text", RuntimeError("no")], ids=repr)
async def test_a_representation_that_fails_leaves_the_send_as_it_was_said(
    stage: Stage, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = stage.model(said("One."), said("Two."))
    loop = stage.loop(llm=model, representation=Own(answer=answer))
    sid = await loop.new_session()
    await loop.send("1", session_id=sid)
    with caplog.at_level(logging.WARNING):
        result = await loop.send("2", session_id=sid)
    assert result.ok
    assert shown(model) == ["user: 1", "assistant: One.", "user: 2"]
    assert ("stays verbatim" in caplog.text) is (answer is not None)


async def test_pictures_of_people_stay_pictures(stage: Stage) -> None:
    model = stage.model(said("A cat."), said("Yes."))
    loop = stage.loop(llm=model, representation=PROJECTED)
    sid = await loop.new_session()
    picture = ImagePart(data=b"\x89PNG")
    await loop.send(UserMessage((TextPart("What is "), picture, TextPart("this?"))), session_id=sid)
    await loop.send("Sure?", session_id=sid)
    content = model.requests[-1].messages[0].content  # type: ignore[union-attr]
    assert [type(part) for part in content] == [TextPart, ImagePart, TextPart]
    assert content[1] == picture


async def test_a_fork_is_shown_the_same_accounts(stage: Stage) -> None:
    model = stage.model(*[said("fine") for _ in range(4)])
    loop = stage.loop(llm=model, representation=PROJECTED)
    sid = await loop.new_session()
    for text in ("1", "2"):
        await loop.send(text, session_id=sid)
    fork = await loop.fork(sid)
    await loop.send("3", session_id=sid)
    await loop.send("3", session_id=fork)
    assert shown(model, 2) == shown(model, 3)


def test_settings_that_cannot_be_are_refused_together() -> None:
    with pytest.raises(ConfigError, match=r"version must be at least 1(.|\n)*max_chars must be at least 20"):
        ProjectedRepresentation(version=0, max_chars=3)
