"""The kit itself: it finds what it is made to find, and its time and journals are the same in every run."""

from __future__ import annotations

import asyncio

import pytest
from tests.crash.agents import AGENTS, SESSION, calls_then_sums_up, one_send, open_session

from loopwright import StatefulAgentLoop, ToolCall, ToolContext, UserMessage, tool
from loopwright.model.context_records import FoldFailed, FoldMade, NoteWritten, SendProjected, TokensCalibrated
from loopwright.model.errors import SessionExistsError
from loopwright.model.messages import AssistantMessage
from loopwright.model.records import (
    AssistantMessageAdded,
    Record,
    RunResumed,
    SendStarted,
    SessionCreated,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)
from loopwright.model.usage import Usage
from loopwright.testing.canonical import canonical
from loopwright.testing.crash_matrix import CrashMatrixError, CrashScenario, Life, crash_matrix
from loopwright.testing.crash_points import CrashPoints, EffectLog, ProcessStopped, StopAt
from loopwright.testing.virtual import VirtualAmbient

pytestmark = pytest.mark.crash


# --- the matrix ---------------------------------------------------------------------------------------------------------


def test_the_matrix_finds_an_input_that_is_said_twice() -> None:
    async def forgetful(loop: StatefulAgentLoop) -> None:
        await open_session(loop)
        await loop.send("go", session_id=SESSION)  # without send_id nobody can tell a repetition

    with pytest.raises(CrashMatrixError) as caught:
        crash_matrix(AGENTS["plain"].build, CrashScenario(name="forgetful", drive=forgetful))
    failed = {row.at.point for row in caught.value.report.failed}
    assert "commit.after:prompt_epoch_started+send_started+user_message_added" in failed
    assert "create.before" not in failed
    assert '+user_message_added {"message": {"content": "go", "role": "user"}' in str(caught.value)


def test_the_matrix_finds_a_once_call_in_flight_that_nobody_expects() -> None:
    with pytest.raises(CrashMatrixError) as caught:
        crash_matrix(AGENTS["once-tool"].build, CrashScenario(name="unexpected", drive=one_send))
    assert {row.in_flight for row in caught.value.report.failed} == {("pay",)}


def test_the_matrix_finds_a_once_call_that_is_repeated_by_its_reconciliation() -> None:
    def careless(life: Life) -> StatefulAgentLoop:
        @tool(effect="once", reconcile=lambda call: life.effects.add("pay", call.idempotency_key) or "pay done")
        async def pay(ctx: ToolContext) -> str:
            life.effect(ctx)
            return "pay done"

        model = life.model(calls_then_sums_up("pay"))
        return StatefulAgentLoop(llm=model, dsn=life.dsn, tools=[pay], ambient=life.ambient)

    with pytest.raises(CrashMatrixError, match="pay is a once call of unknown outcome and was repeated"):
        crash_matrix(careless, CrashScenario(name="careless", drive=one_send))


def test_the_matrix_finds_an_agent_that_depends_on_its_process() -> None:
    def forgetful(life: Life) -> StatefulAgentLoop:
        def answer(_: object) -> str:
            return f"call {life.model_calls} of process {life.number}"

        return StatefulAgentLoop(llm=life.model(answer), dsn=life.dsn, ambient=life.ambient)

    with pytest.raises(CrashMatrixError, match="process 2"):
        crash_matrix(forgetful, CrashScenario(name="depends", drive=one_send))


def test_the_matrix_stops_once_at_each_name_where_that_is_asked_and_else_each_time() -> None:
    agent = AGENTS["round-limit-wrap-up"]
    every = [row.at for row in crash_matrix(agent.build, agent.scenario).rows]
    first = [
        row.at for row in crash_matrix(agent.build, agent.scenario, dsn="memory:names-{run}", names_only=True).rows
    ]
    assert first == [at for at in every if at.occurrence == 1]
    assert {at.point for at in every} == {at.point for at in first}
    assert len(first) < len(every)


def test_a_place_for_each_run_may_be_made_by_a_function_of_its_number() -> None:
    agent, runs = AGENTS["plain"], list[int]()

    def place(run: int) -> str:
        runs.append(run)
        return f"memory:placed-{run}"

    report = crash_matrix(agent.build, agent.scenario, dsn=place)
    assert runs == list(range(1, len(report.rows) + 2))


def test_an_error_of_the_undisturbed_run_is_raised_as_it_is() -> None:
    async def wrong(loop: StatefulAgentLoop) -> None:
        await loop.new_session(session_id=SESSION)
        await loop.new_session(session_id=SESSION)

    with pytest.raises(SessionExistsError):
        crash_matrix(AGENTS["plain"].build, CrashScenario(name="wrong", drive=wrong))


def test_the_report_is_a_table_of_all_stops() -> None:
    report = crash_matrix(AGENTS["pure-tool"].build, AGENTS["pure-tool"].scenario)
    assert str(report).splitlines()[0] == f"pure-tool: {len(report.rows)} stops, 0 with problems"
    assert "tool.after:look#1" in str(report)
    assert "effects lookx2" in str(report)


# --- points -------------------------------------------------------------------------------------------------------------


def test_a_stopped_process_cannot_do_anything_any_more() -> None:
    told: list[str] = []
    points = CrashPoints(VirtualAmbient(), stop_at=StopAt("b", 2), on_stop=lambda: told.append("stopped"))
    for point in ("a", "b", "a"):
        points.reach(point)
    with pytest.raises(ProcessStopped, match="b#2"):
        points.reach("b")
    for act in (points.now, points.monotonic, points.random, points.token, lambda: points.reach("a")):
        with pytest.raises(ProcessStopped):
            act()
    assert told == ["stopped"]
    assert [str(at) for at in points.reached] == ["a#1", "b#1", "a#2", "b#2"]


def test_a_stop_is_read_from_the_environment_and_written_as_it_is_read() -> None:
    assert str(StopAt.parse("commit.before:tool_finished#3")) == "commit.before:tool_finished#3"
    assert StopAt.parse("model.after") == StopAt("model.after", 1)
    quiet = CrashPoints.from_environment(environ={})
    quiet.reach("anything")
    assert quiet.stopped is None


def test_effects_in_a_file_are_those_of_all_processes(tmp_path: object) -> None:
    one, other = EffectLog(f"{tmp_path}/effects"), EffectLog(f"{tmp_path}/effects")
    assert one.totals() == {}
    one.add("pay", "k1")
    other.add("pay", "k1")
    other.add("look", "k2")
    assert one.counts() == other.counts() == {("pay", "k1"): 2, ("look", "k2"): 1}
    assert one.totals() == {"pay": 2, "look": 1}


# --- canonical ----------------------------------------------------------------------------------------------------------


def batch(first: str, second: str, *, reverse: bool, noise: bool) -> list[Record]:
    parts = (ToolCall(first, "a", "{}"), ToolCall(second, "b", "{}"))
    results: list[list[Record]] = [
        [
            ToolStarted(call.id, call.name, {}, "pure", f"key of {call.id}"),
            ToolFinished(call.id, call.name, "finished", "ok"),
        ]
        for call in parts
    ]
    reply = AssistantMessageAdded(AssistantMessage(parts), 1, usage=Usage(7 if noise else 1, 2))
    resumed: list[Record] = [RunResumed("again", 1)] if noise else []
    ordered = results[::-1] if reverse else results
    return [UserMessageAdded(UserMessage("go")), reply, *resumed, *[record for pair in ordered for record in pair]]


def test_journals_that_mean_the_same_are_equal_whatever_their_ids_order_and_recoveries() -> None:
    one = batch("x", "y", reverse=False, noise=False)
    other = batch("p", "q", reverse=True, noise=True)
    assert canonical(one) == canonical(other)
    assert [line.split(" {")[0] for line in canonical(one)] == [
        "user_message_added",
        "assistant_message_added",
        "tool_started 1.0",
        "tool_finished 1.0",
        "tool_started 1.1",
        "tool_finished 1.1",
    ]


def noted(keys: tuple[str, str], *, reverse: bool) -> list[Record]:
    parts = tuple([ToolCall(f"c{n}", "note", "{}") for n in range(2)])
    results: list[list[Record]] = [
        [
            NoteWritten(f"n{key[:6]}", f"note {n}"),
            NoteWritten("own", None),
            ToolFinished(f"c{n}", "note", "finished", f"added n{key[:6]}, not nffffff", key=key),
        ]
        for n, key in enumerate(keys)
    ]
    ordered = results[::-1] if reverse else results
    return [AssistantMessageAdded(AssistantMessage(parts), 1), *[record for part in ordered for record in part]]


def test_notes_are_named_by_the_call_that_wrote_them_in_whatever_order_results_came() -> None:
    one = canonical(noted(("0123456789", "abcdef0123"), reverse=False))
    assert one == canonical(noted(("9876543210", "fedcba9876"), reverse=True))
    assert [line.split(" {")[0] for line in one[1:4]] == ["note_written", "note_written", "tool_finished 1.0"]
    assert '"note_id": "note-1.0"' in one[1]
    assert '"note_id": "own"' in one[2]
    assert '"added note-1.0, not nffffff"' in one[3]


def test_journals_that_mean_something_else_differ() -> None:
    one = batch("x", "y", reverse=False, noise=False)
    assert canonical(one) != canonical(one[:-1])
    assert canonical(one) != canonical([*one[:-1], ToolFinished("y", "b", "failed", "ok")])
    assert canonical(one) != canonical([*one[:-1], ToolFinished("y", "b", "finished", "other")])


def folded_journal(*, noise: bool, through: int = 1, said: str = "send") -> list[Record]:
    """Two sends; the second folds the first. With noise their labels are other ones."""
    failed = FoldFailed(error_code="fold.timed_out", message="too slow", trigger="ratio", usage=Usage(5, 1))
    between: list[Record] = [failed, RunResumed("again", 1), TokensCalibrated("m", 2.0, 1)] if noise else []
    starts = (1 if noise else 0) + 1, (4 if noise else 0) + 3
    account = SendProjected(starts[0], "projected", 1, (UserMessage(f"<{said} label=#{starts[0]}>"),))
    note = f"see #{starts[0]} and #{starts[1]}, order #99"
    return [
        SessionCreated("s", "agent"),
        *([RunResumed("x", 1)] if noise else []),
        SendStarted(index=1, max_rounds=3),
        UserMessageAdded(UserMessage("go")),
        *between,
        SendStarted(index=2, max_rounds=3),
        account,
        FoldMade(through=starts[through], note=note, trigger="budget", tokens_before=9 if noise else 8, usage=Usage(1)),
    ]


def test_folds_and_accounts_mean_the_same_whatever_the_labels_of_their_sends() -> None:
    one, other = folded_journal(noise=False), folded_journal(noise=True)
    assert canonical(one) == canonical(other)
    assert "see send-1 and send-2, order #99" in canonical(one)[-1]
    assert canonical(one) != canonical(folded_journal(noise=False, through=0))
    assert canonical(one) != canonical(folded_journal(noise=False, said="other"))


# --- virtual time -------------------------------------------------------------------------------------------------------


async def test_virtual_time_moves_at_once_and_wakes_sleepers_in_order() -> None:
    ambient, woken = VirtualAmbient(), list[tuple[float, float]]()

    async def sleeper(seconds: float) -> None:
        await ambient.sleep(seconds)
        woken.append((seconds, ambient.monotonic()))

    await asyncio.wait_for(asyncio.gather(*[sleeper(s) for s in (3600.0, 5.0, 0.0, 86_400.0)]), 5)
    assert woken == [(0.0, 0.0), (5.0, 5.0), (3600.0, 3600.0), (86_400.0, 86_400.0)]
    assert ambient.now() - VirtualAmbient().now() == 86_400.0


async def test_a_cancelled_sleeper_does_not_move_virtual_time() -> None:
    ambient = VirtualAmbient()
    long = asyncio.ensure_future(ambient.sleep(1000.0))
    await asyncio.sleep(0)
    long.cancel()
    await ambient.sleep(1.0)
    assert ambient.monotonic() == 1.0


def test_equal_seeds_give_equal_ids_and_chances_and_other_seeds_other_ones() -> None:
    def taste(seed: int) -> tuple[object, ...]:
        ambient = VirtualAmbient(seed=seed)
        return ambient.new_id("item"), ambient.new_id("item"), ambient.random(), ambient.token()

    assert taste(1) == taste(1)
    assert not set(taste(1)) & set(taste(2))
