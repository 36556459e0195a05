"""Calls under permissions: judged before they run on every path, recorded, asked about, and answered in every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.scenario.conftest import Stage
from tests.scenario.crew import SPECS, cast, children_of, spawn
from tests.waiting import next_turn

from loopwright import (
    AgentHooks,
    ApprovalAnswer,
    HookPoint,
    PermissionPolicy,
    PermissionRule,
    StatefulAgentLoop,
    StatefulResult,
    ToolDefinition,
    load_permissions,
    tool,
)
from loopwright.model.call_errors import InteractionError
from loopwright.model.control_records import PermissionDecided, PermissionGranted, PermissionModeSet
from loopwright.model.errors import ConfigError, InvalidMessageError
from loopwright.model.records import QuestionAnswered, ToolFinished, ToolStarted
from loopwright.testing import calls
from loopwright.tools.agents import spawn_agent_tool

T = TypeVar("T")
PUSH = ("run", {"command": "git push origin"})
ASK_PUSH = PermissionRule(decision="ask", tool="run", command="git push *", reason="others see it")
POLICY = PermissionPolicy(
    rules=(
        PermissionRule(decision="allow", tool="run", command=["git status *", "git diff *"]),
        ASK_PUSH,
        PermissionRule(decision="deny", tool="run", command="rm *", reason="nothing is deleted here"),
    )
)


class Doing:
    """Tools that note what they did."""

    def __init__(self, effect: Any = "once") -> None:
        self.done: list[Any] = []

        @tool(effect=effect, subjects={"command": "command"})
        async def run(command: str) -> str:
            """Run."""
            self.done.append(command)
            return f"ran {command}"

        @tool(effect="pure")
        async def look() -> str:
            """Look."""
            self.done.append("look")
            return "saw"

        @tool(effect="idempotent", subjects={"path": "path"})
        async def put(path: str, text: str = "") -> str:
            """Put."""
            self.done.append((path, text))
            return "put"

        self.tools: list[ToolDefinition] = [run, look, put]

    def on(self, stage: Stage, *steps: Any, permissions: Any = POLICY, **options: Any) -> StatefulAgentLoop:
        """A loop with these tools under these permissions."""
        return stage.loop(*steps, tools=[*self.tools, *options.pop("also", ())], permissions=permissions, **options)


def of(kind: type[T], records: list[Any]) -> list[T]:
    return [record for record in records if isinstance(record, kind)]


async def results(stage: Stage, loop: StatefulAgentLoop, session_id: str) -> list[tuple[str, str]]:
    return [(one.status, str(one.content)) for one in of(ToolFinished, await stage.records(loop, session_id))]


async def asked(
    stage: Stage, doing: Doing, *steps: Any, **options: Any
) -> tuple[StatefulAgentLoop, StatefulResult, str]:
    """A loop whose push waits for an approval, its result, and the question's id."""
    loop = doing.on(stage, calls(PUSH), *steps, **options)
    waiting = await loop.send("go")
    assert waiting.status == "waiting_for_input"
    assert doing.done == []
    return loop, waiting, waiting.pending_interactions[0].id


# --- verdicts ---------------------------------------------------------------------------------------------------------


async def test_allowed_calls_run_and_denied_ones_tell_the_model_why_and_what_would_be_allowed(stage: Stage) -> None:
    doing = Doing()
    wanted = [("run", {"command": "git status"}), ("run", {"command": "ls; rm -rf x"}), ("look", {})]
    loop = doing.on(stage, calls(*wanted), "done")
    result = await loop.send("go")
    assert result.ok
    assert sorted(doing.done) == ["git status", "look"]
    [refused] = [text for status, text in await results(stage, loop, result.session_id) if status == "refused"]
    for part in ("nothing is deleted here", "deny run, command rm *", "git status *", "git diff *"):
        assert part in refused


async def test_every_denial_question_and_rule_that_allows_is_a_record_with_its_call_and_plain_calls_are_none(
    stage: Stage,
) -> None:
    doing = Doing()
    wanted = [("run", {"command": "git status"}), ("run", {"command": "rm x"}), PUSH, ("look", {})]
    loop = doing.on(stage, calls(*wanted))
    waiting = await loop.send("go")
    records = await stage.records(loop, waiting.session_id)
    decided = of(PermissionDecided, records)
    assert sorted((one.decision, one.rule) for one in decided) == [
        ("allow", "allow run, command git status *, git diff *".replace(", git diff", " or git diff")),
        ("ask", "ask run, command git push *"),
        ("deny", "deny run, command rm *"),
    ]
    kinds = [type(record).__name__ for record in records]
    for one in decided:
        follows = kinds[records.index(one) + 1]
        assert follows == {"allow": "ToolStarted", "ask": "QuestionAsked", "deny": "ToolFinished"}[one.decision]


async def test_what_hooks_made_of_the_arguments_is_judged(stage: Stage) -> None:
    doing, hooks = Doing(), AgentHooks()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def worse(context: Any) -> None:
        context.arguments = {"command": "rm x"}

    loop = doing.on(stage, calls(("run", {"command": "git status"})), "done", hooks=hooks)
    await loop.send("go")
    assert doing.done == []


async def test_without_permissions_nothing_is_judged_and_nothing_recorded(stage: Stage) -> None:
    doing = Doing()
    loop = doing.on(stage, calls(("run", {"command": "rm x"})), "done", permissions=None)
    result = await loop.send("go")
    assert doing.done == ["rm x"]
    assert of(PermissionDecided, await stage.records(loop, result.session_id)) == []


async def test_calls_for_the_host_are_judged_before_it_gets_them(stage: Stage) -> None:
    ship = ToolDefinition(name="ship", description="", parameters={"type": "object"})
    bill = ToolDefinition(name="bill", description="", parameters={"type": "object"})
    policy = PermissionPolicy(rules=(PermissionRule(decision="deny", tool="ship"),), otherwise="allow")
    loop = Doing().on(stage, calls(("ship", {}), ("bill", {})), permissions=policy, also=(ship, bill))
    result = await loop.send("go")
    assert result.status == "pending_tools"
    assert [call.name for call in result.pending_tool_calls] == ["bill"]


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_a_question_shows_the_arguments_the_reason_and_the_answer_that_would_stand(stage: Stage) -> None:
    _, waiting, _ = await asked(stage, Doing())
    question = waiting.pending_interactions[0]
    assert (question.kind, question.options) == ("approval", ("approve", "deny"))
    assert "git push origin" in question.prompt
    assert "others see it" in question.prompt
    assert question.metadata["arguments"] == PUSH[1]
    assert question.metadata["suggested"]["command"] == ["git push *"]


@pytest.mark.parametrize("yes", ["approve", True, ApprovalAnswer(decision="approve"), {"decision": "approve"}])
async def test_an_approval_runs_the_call_once_in_any_process(stage: Stage, yes: Any) -> None:
    doing = Doing()
    loop, waiting, question = await asked(stage, doing)
    await stage.bury(loop)
    later = doing.on(stage, "done")
    result = await later.submit_input(waiting.session_id, question, yes, by="ada")
    assert (result.ok, doing.done) == (True, ["git push origin"])
    [stored] = of(QuestionAnswered, await stage.records(later, waiting.session_id))
    assert (stored.value, stored.by) == ("approve", "ada")
    with pytest.raises(InteractionError):
        await later.submit_input(waiting.session_id, question, yes)


@pytest.mark.parametrize("no", ["deny", False, {"decision": "deny", "message": "not on a friday"}])
async def test_a_denial_is_told_to_the_model_with_the_persons_words(stage: Stage, no: Any) -> None:
    doing = Doing()
    loop, waiting, question = await asked(stage, doing, "well")
    await loop.submit_input(waiting.session_id, question, no)
    [(status, text)] = await results(stage, loop, waiting.session_id)
    assert (status, doing.done) == ("refused", [])
    assert text.startswith("a person denied the call of run")
    assert ("not on a friday" in text) == isinstance(no, dict)


async def test_an_approval_may_change_the_arguments_and_the_journal_has_both(stage: Stage) -> None:
    doing = Doing()
    loop, waiting, question = await asked(stage, doing)
    await stage.bury(loop)
    later = doing.on(stage, "done")
    changed = {"command": "git push --dry-run"}
    await later.submit_input(waiting.session_id, question, ApprovalAnswer(decision="approve", arguments=changed))
    assert doing.done == ["git push --dry-run"]
    records = await stage.records(later, waiting.session_id)
    assert of(ToolStarted, records)[0].arguments == changed
    assert of(QuestionAnswered, records)[0].value == {"decision": "approve", "arguments": changed}


@pytest.mark.parametrize(
    "answer",
    [
        "maybe", 3, None, {"decision": "perhaps"}, {"decision": "approve", "extra": 1}, {"decision": "approve", "arguments": {"command": 3}},
        {"decision": "approve", "arguments": {"command": "rm x"}}, {"decision": "approve", "arguments": []}, {"decision": "deny", "arguments": {}},
        {"decision": "approve", "message": "fine"}, {"decision": "approve", "remember": "ever"}, {"decision": "deny", "remember": "session"},
        {"decision": "approve", "remember": "project"}, {"decision": "approve", "arguments": {"command": "x"}, "remember": "session"},
        {"decision": "deny", "message": "x" * 20_001}, ApprovalAnswer(decision="approve", remember="x"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
async def test_an_answer_that_cannot_be_done_is_refused_and_the_question_stays_open(stage: Stage, answer: Any) -> None:
    doing = Doing()
    loop, waiting, question = await asked(stage, doing, "done")
    before = len(await stage.records(loop, waiting.session_id))
    with pytest.raises(InvalidMessageError, match=question):
        await loop.submit_input(waiting.session_id, question, answer)
    assert len(await stage.records(loop, waiting.session_id)) == before
    assert (await loop.submit_input(waiting.session_id, question, "approve")).ok


async def test_rules_that_deny_hold_against_an_approval(stage: Stage) -> None:
    doing = Doing()
    loop, waiting, question = await asked(stage, doing)
    await stage.bury(loop)
    plan = PermissionPolicy(rules=POLICY.rules, mode="plan")
    later = doing.on(stage, "well", permissions=plan)
    await later.submit_input(waiting.session_id, question, "approve")
    assert doing.done == []
    assert [status for status, _ in await results(stage, later, waiting.session_id)] == ["refused"]


async def test_a_hook_that_changes_what_was_approved_of_is_refused(stage: Stage) -> None:
    doing, hooks, seen = Doing(), AgentHooks(), list[Any]()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def other(context: Any) -> None:
        seen.append(context.answer)
        context.arguments = {"command": f"git push {len(seen)}"}

    loop, waiting, question = await asked(stage, doing, "well", hooks=hooks)
    await loop.submit_input(
        waiting.session_id, question, {"decision": "approve", "arguments": {"command": "git push x"}}
    )
    assert (doing.done, seen) == ([], [None, "approve"])
    [(status, text)] = await results(stage, loop, waiting.session_id)
    assert status == "refused"
    assert "did not approve of the call with these arguments" in text


async def test_a_hooks_own_approval_takes_changed_arguments_and_counts_for_the_rules(stage: Stage) -> None:
    doing, hooks, answers = Doing(), AgentHooks(), list[Any]()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def ask(context: Any) -> None:
        answers.append(context.answer)
        if not context.answered:
            context.ask("really?")

    loop, waiting, question = await asked(stage, doing, hooks=hooks)
    await stage.bury(loop)
    later = doing.on(stage, "done", hooks=hooks)
    answer = {"decision": "approve", "arguments": {"command": "git push there"}}
    assert (await later.submit_input(waiting.session_id, question, answer)).ok
    assert (doing.done, answers) == (["git push there"], [None, "approve"])


async def test_a_hook_is_told_a_plain_denial_and_the_model_its_message(stage: Stage) -> None:
    doing, hooks, answers = Doing(), AgentHooks(), list[Any]()

    @hooks.on(HookPoint.TOOL_BEFORE)
    def ask(context: Any) -> Any:
        answers.append(context.answer)
        if not context.answered:
            context.ask("really?")
            return None
        context.output = "the hook says no"
        return "skip" if context.answer == "approve" else None

    loop, waiting, question = await asked(stage, doing, "well", hooks=hooks)
    await loop.submit_input(waiting.session_id, question, {"decision": "deny", "message": "never"})
    [(_, text)] = await results(stage, loop, waiting.session_id)
    assert answers == [None, "deny"]
    assert "never" in text


# --- answers that stand -----------------------------------------------------------------------------------------------


async def test_an_answer_remembered_for_the_session_is_stored_with_it_and_asks_no_more(stage: Stage) -> None:
    doing = Doing()
    loop, waiting, question = await asked(stage, doing, calls(PUSH, ("run", {"command": "git push --tags"})), "done")
    result = await loop.submit_input(
        waiting.session_id, question, {"decision": "approve", "remember": "session"}, by="ada"
    )
    assert result.ok
    assert len(doing.done) == 3
    records = await stage.records(loop, waiting.session_id)
    [grant] = of(PermissionGranted, records)
    assert (grant.standing, grant.by, grant.interaction_id) == ("session", "ada", question)
    assert type(records[records.index(grant) - 1]) is QuestionAnswered
    await stage.bury(loop)
    later = doing.on(stage, calls(PUSH), "done", calls(PUSH))
    assert (await later.send("again", session_id=waiting.session_id)).ok
    assert (await later.send("elsewhere")).status == "waiting_for_input"


async def test_an_answer_remembered_for_the_project_is_in_its_file_and_holds_in_other_sessions(
    stage: Stage, tmp_path: Path
) -> None:
    path = tmp_path / "permissions.toml"
    path.write_text('[[rules]]\ndecision = "ask"\ntool = "run"\ncommand = "git push *"\n')
    doing = Doing()
    loop, waiting, question = await asked(stage, doing, permissions=load_permissions(path))
    await stage.bury(loop)
    later = doing.on(stage, "done", calls(PUSH), "done", permissions=load_permissions(path))
    assert (await later.submit_input(waiting.session_id, question, {"decision": "approve", "remember": "project"})).ok
    assert "[[granted]]" in path.read_text()
    assert (await later.send("elsewhere")).ok
    assert len(doing.done) == 2


async def test_a_file_that_breaks_while_runs_go_on_lets_nothing_change_the_world_and_says_where(
    stage: Stage, tmp_path: Path
) -> None:
    path = tmp_path / "permissions.toml"
    path.write_text('mode = "trusted"\n')
    doing = Doing()
    loop = doing.on(stage, calls(PUSH, ("look", {})), "done", permissions=load_permissions(path))
    path.write_text('mode = "trusted"\nrules = 3\n')
    result = await loop.send("go")
    assert (result.ok, doing.done) == (True, ["look"])
    texts = [text for status, text in await results(stage, loop, result.session_id) if status == "refused"]
    assert "permissions.toml:2: must be a list" in texts[0]


async def test_paths_are_judged_where_links_lead(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "docs").symlink_to("secrets")
    rules = (PermissionRule(decision="deny", path="secrets"), PermissionRule(decision="allow", tool="put"))
    policy = PermissionPolicy(rules=rules, workspace=str(tmp_path))
    doing = Doing()
    wanted = [("put", {"path": path}) for path in ("docs/x", "@workspace/docs/x", "notes/../docs/x", "fine")]
    await doing.on(stage, calls(*wanted), "done", permissions=policy).send("go")
    assert doing.done == [("fine", "")]


# --- modes ------------------------------------------------------------------------------------------------------------


async def test_a_sessions_mode_narrows_the_loops_and_is_widened_by_the_hosts_word_alone(stage: Stage) -> None:
    doing = Doing()
    open_policy = PermissionPolicy(otherwise="allow")
    loop = doing.on(stage, calls(PUSH), "no", calls(PUSH), "yes", permissions=open_policy)
    session = await loop.new_session()
    assert await loop.set_permission_mode(session, "plan", by="ada")
    assert not await loop.set_permission_mode(session, "plan")
    await loop.send("go", session_id=session)
    assert doing.done == []
    with pytest.raises(ConfigError, match="widen"):
        await loop.set_permission_mode(session, "trusted")
    assert await loop.set_permission_mode(session, "trusted", widen=True)
    await loop.send("go", session_id=session)
    assert doing.done == ["git push origin"]
    assert [one.mode for one in of(PermissionModeSet, await stage.records(loop, session))] == ["plan", "trusted"]
    await stage.bury(loop)
    plan = PermissionPolicy(mode="plan")
    narrow = doing.on(stage, calls(PUSH), "no", permissions=plan)
    other = await narrow.new_session()
    await narrow.set_permission_mode(other, "plan")
    await narrow.send("go", session_id=other)
    assert len(doing.done) == 1


async def test_a_mode_that_is_none_and_a_loop_without_permissions_are_errors(stage: Stage) -> None:
    loop = Doing().on(stage, permissions=None)
    session = await loop.new_session()
    for mode in ("plan", "open"):
        with pytest.raises(ConfigError):
            await loop.set_permission_mode(session, mode)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        stage.loop(permissions="plan")


# --- children, batches, runs ------------------------------------------------------------------------------------------


def crew(stage: Stage, doing: Doing, permissions: Any = POLICY, **scripts: list[Any]) -> StatefulAgentLoop:
    given = [spawn_agent_tool(list(SPECS.values())), *doing.tools]
    return stage.loop(llm=cast(**scripts), tools=given, permissions=permissions)


async def test_children_inherit_the_mode_and_the_standing_answers_of_their_parent(stage: Stage) -> None:
    doing = Doing()
    loop = crew(stage, doing, root=[calls(PUSH), calls(spawn("scout")), "done"], scout=[calls(PUSH), "scouted"])
    waiting = await loop.send("go")
    question = waiting.pending_interactions[0].id
    result = await loop.submit_input(waiting.session_id, question, {"decision": "approve", "remember": "session"})
    assert (result.ok, len(doing.done)) == (True, 2)
    child = (await children_of(stage, loop, waiting.session_id))[0]
    assert len(of(PermissionGranted, await stage.records(loop, child))) == 1
    await stage.bury(loop)
    planning = crew(stage, doing, root=[calls(spawn("scout")), "done"], scout=[calls(PUSH, ("look", {})), "scouted"])
    session = await planning.new_session()
    await planning.set_permission_mode(session, "plan")
    assert (await planning.send("go", session_id=session)).ok
    assert doing.done[2:] == ["look"]


async def test_four_calls_of_a_batch_and_of_a_grandchild_are_answered_one_by_one_at_the_root(stage: Stage) -> None:
    doing = Doing()
    four = [("run", {"command": f"git push {name}"}) for name in "abcd"]
    loop = crew(
        stage,
        doing,
        root=[calls(spawn("chief"), PUSH), "done"],
        chief=[calls(spawn("scout"), ("look", {})), "led"],
        scout=[calls(*four), "scouted"],
    )
    waiting = await loop.send("go")
    answers = {
        "a": "approve",
        "b": {"decision": "deny", "message": "no"},
        "c": {"decision": "approve", "arguments": {"command": "git push e"}},
    }
    assert len(waiting.pending_interactions) == 5
    result = waiting
    for question in waiting.pending_interactions:
        name = question.metadata["arguments"]["command"].rpartition(" ")[2]
        result = await loop.submit_input(waiting.session_id, question.id, answers.get(name, True))
        with pytest.raises(InteractionError):
            await loop.submit_input(waiting.session_id, question.id, "approve")
    assert (result.ok, result.final_text) == (True, "done")
    assert sorted(doing.done) == ["git push a", "git push d", "git push e", "git push origin", "look"]


async def test_tools_of_workflows_are_judged_and_asked_about_too(stage: Stage) -> None:
    doing = Doing()
    steps = [
        {"type": "tool", "id": "bad", "tool": "run", "arguments": {"command": "rm x"}},
        {"type": "tool", "id": "push", "tool": "run", "arguments": {"command": "git push origin"}},
    ]
    loop = doing.on(stage)
    run = await loop.workflows.start(
        {"name": "flow", "root": {"type": "parallel", "branches": steps, "on_error": "continue"}}
    )
    waiting = await loop.workflows.resume(run)
    assert (waiting.status, doing.done) == ("waiting_for_input", [])
    [question] = waiting.pending_interactions
    await loop.submit_input(run, question.id, {"decision": "approve", "arguments": {"command": "git push there"}})
    assert doing.done == ["git push there"]


async def test_a_refused_call_of_a_session_that_is_resumed_is_judged_by_the_rules_of_now(stage: Stage) -> None:
    doing = Doing(effect="idempotent")
    mortal = stage.mortal(
        "tool.before:run", calls(("run", {"command": "git status"})), tools=doing.tools, permissions=POLICY
    )
    session = await mortal.new_session()
    await stage.dies(mortal, mortal.send("go", session_id=session))
    strict = PermissionPolicy(rules=(PermissionRule(decision="deny", tool="run"),))
    later = doing.on(stage, "well", permissions=strict)
    assert (await later.resume(session)).ok
    assert doing.done == []


async def test_a_background_tool_is_asked_about_once_and_then_done_beside(stage: Stage) -> None:
    done: list[str] = []

    @tool(effect="once", background=True)
    async def build(what: str) -> str:
        """Build."""
        done.append(what)
        return "built"

    loop = stage.loop(calls(("build", {"what": "it"})), "begun", "heard", tools=[build], permissions=PermissionPolicy())
    waiting = await loop.send("go")
    assert (waiting.status, done) == ("waiting_for_input", [])
    await loop.submit_input(waiting.session_id, waiting.pending_interactions[0].id, "approve")
    for _ in range(2000):
        if done and len(await loop.get_messages(waiting.session_id)) >= 6:
            break
        await next_turn(0.002)
    assert done == ["it"]
