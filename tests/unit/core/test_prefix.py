"""What a request has in common with the one before, and why it is not more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from loopwright.core.estimate import message_tokens
from loopwright.core.prefix import INSTRUCTIONS, MESSAGES, SMALLEST, TOOLS, Reuse, Sent, before, judged, reuse
from loopwright.core.state import State, fold
from loopwright.core.window import tokens_of, window, window_tokens
from loopwright.model.context_records import FoldMade, PromptEpochStarted, SendProjected
from loopwright.model.messages import AssistantMessage, Message, TextPart, UserMessage
from loopwright.model.records import (
    AssistantMessageAdded,
    Record,
    SendFinished,
    SendStarted,
    SessionCreated,
    UserMessageAdded,
)
from loopwright.model.specs import ToolSpec
from loopwright.model.usage import Usage

TOOL = ToolSpec("look", "Look.", {})
FIXED = 10


def epoch(number: int, reason: str, representation: str = "verbatim") -> PromptEpochStarted:
    return PromptEpochStarted(
        number=number, reason=reason, base="be", instructions="be", tools=(TOOL,), representation=representation
    )


def send(index: int, *, replied: bool = True) -> list[Record]:
    opened: list[Record] = [
        SendStarted(index=index, max_rounds=3),
        UserMessageAdded(UserMessage(f"ask {index}"), "send"),
    ]
    if not replied:
        return opened
    reply = AssistantMessage((TextPart(f"answer {index}"),))
    return [
        *opened,
        AssistantMessageAdded(message=reply, round=1, finish_reason="stop", usage=Usage(), model="m"),
        SendFinished(outcome="completed", rounds=1),
    ]


def state(*records: Record) -> State:
    return fold([(record, 0.0) for record in (SessionCreated("s", "a", None, {}), *records)])


def sent(of: State, **changes: object) -> Sent:
    facts = of.facts.context
    assert facts is not None
    assert facts.epoch is not None
    projected = facts.epoch.representation != "verbatim"
    plain = Sent(
        model="m",
        epoch=facts.epoch.number,
        folds=facts.folds,
        prompt=facts.epoch.instructions,
        tools=facts.epoch.tools,
        count=len(window(of)),
        tokens=window_tokens(of),
        messages=window(of) if projected else None,
    )
    return replace(plain, **changes)


def two_requests(*between: Record) -> tuple[Sent, Sent, State]:
    """A request, the one after it with `between` before the second send, and the state at that time."""
    first = state(epoch(1, "first"), *send(1, replied=False))
    second = state(epoch(1, "first"), *send(1), *between, *send(2, replied=False))
    return sent(first), sent(second), second


def test_a_request_that_goes_on_from_the_one_before_reuses_all_of_it() -> None:
    then, now, at = two_requests()
    assert reuse(then, now, at, fixed=FIXED) == Reuse(FIXED + message_tokens(UserMessage("ask 1")), None)


def test_the_first_request_has_nothing_to_reuse() -> None:
    _, now, at = two_requests()
    assert reuse(None, now, at, fixed=FIXED) == Reuse(0, "first request")


def test_another_model_has_a_cache_of_its_own() -> None:
    then, now, at = two_requests()
    assert reuse(replace(then, model="n"), now, at, fixed=FIXED) == Reuse(0, "another model: m after n")
    assert reuse(replace(then, model=""), now, at, fixed=FIXED).broke is None


def test_a_new_epoch_says_why_it_began() -> None:
    then, now, at = two_requests(epoch(2, "tools: look changed"))
    now = replace(now, tools=(replace(TOOL, description="Look again."),))
    assert reuse(then, now, at, fixed=FIXED) == Reuse(0, "epoch: tools: look changed")


def test_a_new_epoch_with_the_same_bytes_breaks_nothing() -> None:
    then, now, at = two_requests(epoch(2, "asked"))
    assert reuse(then, now, at, fixed=FIXED).broke is None


@pytest.mark.parametrize(
    "edit, why",
    [
        ({"prompt": "be quick", "edited": frozenset({INSTRUCTIONS})}, "a hook changed the instructions"),
        ({"tools": (), "edited": frozenset({TOOLS})}, "a hook changed the tools"),
    ],
)
def test_a_hook_that_changes_what_comes_first_is_named_in_both_directions(edit: dict[str, object], why: str) -> None:
    then, now, at = two_requests()
    assert reuse(then, replace(now, **edit), at, fixed=FIXED) == Reuse(0, why)  # type: ignore[arg-type]
    assert reuse(replace(then, **edit), now, at, fixed=FIXED) == Reuse(0, why)  # type: ignore[arg-type]


def test_a_hook_that_changes_a_message_leaves_what_stands_before_it() -> None:
    first = state(epoch(1, "first"), *send(1), *send(2, replied=False))
    second = state(epoch(1, "first"), *send(1), *send(2), *send(3, replied=False))
    changed: list[Message] = list(window(second))
    changed[2] = UserMessage("something else")
    now = sent(second, messages=tuple(changed), edited=frozenset({MESSAGES}))
    found = reuse(sent(first), now, second, fixed=FIXED)
    assert found == Reuse(FIXED + tokens_of(changed[:2]), "a hook changed message 3")


def test_a_hook_that_makes_the_same_change_each_time_breaks_nothing() -> None:
    then, now, at = two_requests()
    quiet = UserMessage("quiet")
    edited = frozenset({MESSAGES})
    then, now = (replace(one, messages=(quiet, *window(at)[1 : one.count]), edited=edited) for one in (then, now))
    assert reuse(then, now, at, fixed=FIXED) == Reuse(FIXED + message_tokens(quiet), None)


def test_after_a_fold_instructions_and_tools_are_what_is_left() -> None:
    begun = [epoch(1, "first"), *send(1), *send(2)]
    note = FoldMade(through=6, note="so far", trigger="asked")
    then = sent(state(*begun[:-2]))
    folded = state(*begun, note, epoch(2, "fold"), *send(3, replied=False))
    assert reuse(then, sent(folded), folded, fixed=FIXED) == Reuse(FIXED, "fold")
    assert reuse(before(folded, sent(folded)), sent(folded), folded, fixed=FIXED) == Reuse(0, "epoch: fold")


def test_in_a_projected_window_the_send_that_was_verbatim_ends_what_is_reused() -> None:
    shown = SendProjected(2, "projected", 1, (UserMessage("#2"),))
    first = state(epoch(1, "first", "projected"), *send(1, replied=False))
    second = state(epoch(1, "first", "projected"), *send(1), shown, *send(2, replied=False))
    then, now = sent(first), sent(second)
    assert window(second)[0] == UserMessage("#2")
    assert reuse(then, now, second, fixed=FIXED) == Reuse(FIXED, "representation")
    assert reuse(before(second, now), now, second, fixed=FIXED) == Reuse(FIXED, "representation")


@pytest.mark.parametrize("sends", [1, 2, 5])
def test_a_new_process_knows_from_the_records_where_the_request_before_ended(sends: int) -> None:
    done = [record for index in range(1, sends + 1) for record in send(index)]
    then = sent(state(epoch(1, "first"), *done[:-2]))
    at = state(epoch(1, "first"), *done, *send(sends + 1, replied=False))
    assert reuse(before(at, sent(at)), sent(at), at, fixed=FIXED) == reuse(then, sent(at), at, fixed=FIXED)


def test_a_session_without_a_reply_had_no_request() -> None:
    at = state(epoch(1, "first"), *send(1, replied=False))
    assert before(at, sent(at)) is None


def test_an_epoch_that_began_since_the_newest_reply_is_known_to_a_new_process() -> None:
    at = state(epoch(1, "first"), *send(1), epoch(2, "instructions changed"), *send(2, replied=False))
    assert reuse(before(at, sent(at)), sent(at), at, fixed=FIXED) == Reuse(0, "epoch: instructions changed")


def test_a_provider_that_reused_nothing_of_a_long_prefix_is_named_with_the_age_of_the_prefix() -> None:
    whole, some = Reuse(SMALLEST, None), Usage(cached_tokens=10)
    paid = Usage(input_tokens=2000, calls=1)
    said = judged(whole, paid, some, reusable=SMALLEST, age_s=400.4)
    assert said == "the provider reported nothing reused (expired after 400 s or evicted)"
    assert judged(whole, paid, some, reusable=SMALLEST, age_s=None) is not None
    assert judged(whole, paid, Usage(cache_write_tokens=1), reusable=SMALLEST, age_s=1.0) is not None
    assert judged(whole, paid, Usage(), reusable=SMALLEST, age_s=1.0) is None, "it may have no cache"


def test_nothing_is_said_about_a_provider_that_reused_something_said_nothing_or_had_too_little_to_keep() -> None:
    whole, some = Reuse(SMALLEST, None), Usage(cached_tokens=10)
    assert judged(whole, Usage(2000, 1, cached_tokens=1), some, reusable=SMALLEST, age_s=1.0) is None
    assert judged(whole, Usage(2000, 1, estimated=True), some, reusable=SMALLEST, age_s=1.0) is None
    assert judged(whole, Usage(2000, 1), some, reusable=SMALLEST - 1, age_s=1.0) is None
    assert judged(Reuse(5, "fold"), Usage(2000, 1), some, reusable=SMALLEST, age_s=1.0) == "fold"
