"""Events: typed, and the same after a trip through JSON."""

from __future__ import annotations

import json
import typing
from typing import Any

import msgspec
import pytest

from loopwright.model import events
from loopwright.model.events import AgentEvent, AgentEventType, EventData
from loopwright.model.records import Interaction
from loopwright.model.usage import Usage

KINDS: tuple[Any, ...] = typing.get_args(EventData)
SAMPLES: dict[Any, Any] = {
    int: 3,
    float: 0.5,
    str: "text",
    bool: True,
    Usage: Usage(1, 2, calls=1),
    Interaction: Interaction("i", "c", "t", "?"),
}


def sample(kind: Any) -> Any:
    """An instance of a payload with every field set."""
    values: list[Any] = []
    for field in msgspec.structs.fields(kind):
        if field.type in SAMPLES:
            values.append(SAMPLES[field.type])
        elif typing.get_origin(field.type) is dict:
            values.append({"k": 3} if typing.get_args(field.type)[1] is int else {"k": [1, None, "x"]})
        elif typing.get_origin(field.type) is tuple:
            one = typing.get_args(field.type)[0]
            values.append((sample(one),) if issubclass(one, msgspec.Struct) else ("a", "b"))
        elif typing.get_origin(field.type) is typing.Literal:
            values.append(typing.get_args(field.type)[0])
        else:
            values.append(next(SAMPLES[a] for a in typing.get_args(field.type) if a in SAMPLES))
    return kind(*values)


def event(data: Any) -> AgentEvent:
    tag = data.__struct_config__.tag
    return AgentEvent(
        type=AgentEventType(tag), session_id="s", data=data, seq=7, at=1.5, mono=2.5, round_index=2, agent=("a", "b")
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_kind_survives_json(kind: Any) -> None:
    made = event(sample(kind))
    assert AgentEvent.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_there_is_one_payload_class_for_each_type() -> None:
    assert {kind.__struct_config__.tag for kind in KINDS} == {t.value for t in AgentEventType}


def test_a_type_is_a_string() -> None:
    assert AgentEventType.RUN_ENDED == "run_ended"
    assert event(sample(events.RunEnded)).to_dict()["type"] == "run_ended"


def test_something_else_is_no_event() -> None:
    with pytest.raises(msgspec.ValidationError):
        AgentEvent.from_dict({"type": "run_ended"})
