"""A workflow spec is read strictly: every fault at once with its path, whatever the value, at bounded cost."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.workflow.specs import Json, agent, foreach, loop, sequence, spec, valid_specs

from loopwright.core.workflow_check import parse_workflow_spec, problems_of
from loopwright.model.family_errors import WorkflowSpecError
from loopwright.model.workflow_spec import MAX_LEAVES, MAX_NESTING, MAX_NODES, WorkflowSpec

WAIT: Json = {"type": "wait", "id": "z", "seconds": 1}

TWENTY: Json = {
    "nme": "w",  # 1: a typo in a key
    "max_leaves": 0,  # 2: out of range
    "root": sequence(
        {**agent("a"), "type": "agnt"},  # 3: a typo in a type
        agent("a"),  # 4: an id that is taken
        agent("b", spec={"name": "x y", "max_rounds": 99}),  # 5, 6
        agent("c", retries="two"),  # 7: a wrong type
        agent("d", input="{{later}}"),  # 8: a forward reference
        {"type": "parallel", "max_concurrency": 1000, "branches": [agent("p1"), agent("p2", input="{{p1}}")]},  # 9, 10
        foreach("f", {"type": "tool", "id": "t", "tool": "serch"}, **{"as": "input"}),  # 11: reserved; 12: unknown tool
        agent("e", inputs_from=["t"]),  # 13: inside of the foreach
        {"type": "branch", "on": "nowhere", "cases": {"x": agent("x"), "y": agent("y", input="{{x}}")}},  # 14, 15
        loop("l", {"type": "approve", "id": "q"}, until="l", judge={"spec": {"name": "j"}}),  # 16: no prompt; 17: both
        {"type": "wait", "id": "v", "until": "tomorrow"},  # 18: no time
        foreach("big", foreach("bigger", WAIT, items=[0] * 200), items=[0] * 200),  # 19: 40,000 leaves
        agent("later", when={"ref": "a", "op": "gt"}),  # 20: no value
    ),
}


def said(value: object, **more: Any) -> list[str]:
    return [str(one) for one in problems_of(value, **more)]


def fault(root: Json) -> str:
    (only,) = said(spec(root))
    return only


def test_a_spec_with_twenty_faults_gets_twenty_messages_in_one_answer() -> None:
    found = said(TWENTY, tools=["search"])
    # The last one hides no other: each message is about one planted fault.
    expected = {
        'unknown key "nme"; did you mean "name"?',
        "max_leaves: must be 1 to 10,000, not 0",
        'root.steps[0].type: unknown type "agnt"; did you mean "agent"?',
        'root.steps[1].id: id "a" is used already at root.steps[0]',
        "root.steps[2].spec.name: must be 1 to 64 letters",
        "root.steps[2].spec.max_rounds: must be 1 to 50, not 99",
        'root.steps[3].retries: must be a whole number, not "two"',
        'root.steps[4].input: {{later}}: "later" runs later than this node',
        "root.steps[5].max_concurrency: must be 1 to 64, not 1000",
        'root.steps[5].branches[1].input: {{p1}}: "p1" runs beside this node',
        'root.steps[6].as: "input" is a name that templates know already',
        'root.steps[6].body.tool: unknown tool "serch"; did you mean "search"?',
        'root.steps[7].inputs_from[0]: "t" is inside of foreach "f"; refer to that',
        'root.steps[8].on: unknown reference "nowhere"; known here: ',
        'root.steps[8].cases.y.input: {{x}}: "x" is in another case of the branch',
        'root.steps[9].body: "prompt" is missing',
        "root.steps[9]: needs exactly one of until and judge, has until and judge",
        "root.steps[10].until: must be a time with its offset",
        "root.steps[11]: may start 40,000 leaves",
        'root.steps[12].when: "gt" needs a "value"',
    }
    assert len(found) == len(expected) == 20
    assert [one for one in expected if not any(one in message for message in found)] == []


def test_the_error_lists_the_same_problems_with_path_and_message_apart() -> None:
    with pytest.raises(WorkflowSpecError) as caught:
        parse_workflow_spec(TWENTY)
    assert caught.value.listed[1].path == "max_leaves"
    assert len(caught.value.problems) == 19  # names of tools are not known here


@pytest.mark.parametrize(
    "root, words",
    [
        (sequence(agent("a", input="{{a}}")), '"a" is this node itself'),
        (sequence(agent("a"), agent("b", input="{{a.score}}")), '"a" gives text, which has no "score"'),
        (sequence(foreach("f", WAIT), agent("b", input="{{f_item}}")), 'is the item of foreach "f"'),
        (sequence(agent("a", fallback=agent("b")), agent("c", input="{{b}}")), '"b" is in the fallback of "a"'),
        (sequence(agent("research"), agent("b", input="{{reserch}}")), 'unknown "reserch"; did you mean "research"?'),
        (agent("a", input="{{index}}"), '"index" is known inside of a foreach or loop only'),
        (loop("l", agent("a", input="{{feedback}}"), until="a"), '"feedback" is known inside of a loop with a judge'),
        (foreach("f", agent("f_item")), '"f_item" is the id of a node, too'),
        (foreach("f", foreach("g", WAIT, **{"as": "f_item"})), '"f_item" is the item of a foreach around this one'),
        (foreach("f", agent("a", input="{{f}}")), '"f" is around this node and has no output yet'),
        (
            sequence(agent("a"), {"type": "workflow", "id": "s", "workflow": spec(agent("b", input="{{a}}"))}),
            '"a" belongs to the workflow around this one',
        ),
        ({"type": "branch", "on": "a", "cases": {"x": agent("a")}}, '"a" is inside of this node'),
        (agent("a", when={"any": ["input"], "ref": "input"}), "needs exactly one of ref, all, any and not"),
        (agent("a", retry_delay_s=5), 'needs "retries" of 1 or more'),
        (agent("a", output_schema={"type": "array"}), '"type": "object"'),
        (agent("a", inputs_from=["input", "input"]), "named more than once"),
        (agent("index"), "is a name that templates know already"),
        (agent("a", when="a b"), "must be a reference"),
        (agent("a", input="x" * 100_001), "100,001 characters, 100,000 are allowed"),
        (
            loop("l", WAIT, judge={"spec": {"name": "j", "output_schema": {"type": "object"}}}),
            "is set by the loop",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_each_rule_has_its_own_words(root: Json, words: str) -> None:
    assert words in fault(root)


@pytest.mark.parametrize(
    "root",
    [
        sequence(sequence({"type": "parallel", "branches": [agent("a"), agent("b")]}), agent("c", input="{{a}} {{b}}")),
        sequence({"type": "branch", "on": "input", "cases": {"x": agent("a")}}, agent("c", input="{{a}}")),
        loop("l", agent("a", input="{{l}} {{feedback}} {{index}}"), judge={"spec": {"name": "j"}, "input": "{{a}}"}),
        loop("l", agent("a"), until={"all": ["l", {"ref": "a", "op": "contains", "value": "ok"}]}),
        agent("a", fallback=agent("b", input="{{a}} gave nothing")),
        agent("a", input="Jinja: {{ user.name }} {% if x %} {{}} {{{{"),
        sequence(agent("a", output_schema={"type": "object"}), foreach("f", WAIT, items_from="a.list.0")),
        sequence(foreach("f", agent("a")), agent("b", input="{{f.items.0}}")),
        foreach("f", foreach("g", agent("a", input="{{f_item.x}} {{g_item}} {{index}}"))),
    ],
)  # fmt: skip
def test_what_ended_before_may_be_referred_to(root: Json) -> None:
    assert said(spec(root)) == []


def deep(levels: int) -> Json:
    node = WAIT
    for _ in range(levels - 1):
        node = sequence(node)
    return node


def test_bounds_hold_exactly() -> None:
    assert said(spec(deep(MAX_NESTING))) == []
    assert "nested deeper than 16" in fault(deep(MAX_NESTING + 1))
    assert said(spec(foreach("f", WAIT, items=[0] * MAX_LEAVES))) == []
    assert "10,001 entries, 10,000 are allowed" in said(spec(foreach("f", WAIT, items=[0] * (MAX_LEAVES + 1))))[0]
    many = [{**WAIT, "id": f"w{n}"} for n in range(MAX_NODES)]
    assert said(spec(sequence(*many[:-1]))) == []
    assert "is node 1,001" in fault(sequence(*many))
    assert "may start 3 leaves" in said(spec(loop("l", WAIT, until="z"), max_leaves=2))[0]


def bomb(levels: int) -> list[Any]:
    shared: list[Any] = ["x" * 1000]
    for _ in range(levels):
        shared = [shared] * 10
    return shared


def circular() -> Json:
    own = spec(sequence(WAIT))
    own["root"]["steps"].append(own["root"])
    return own


HOSTILE: dict[str, object] = {
    "thousands of levels": spec(deep(5_000)),
    "a value in itself": circular(),
    "a value shared until it is huge": spec(foreach("f", WAIT, items=bomb(9))),
    "fan-out": spec(foreach("a", foreach("b", foreach("c", WAIT, items=[0] * 9_000), items=[0] * 9_000))),
    "more nodes than there may be": spec(sequence(*({**WAIT, "id": f"w{n}"} for n in range(20_000)))),
    "a template of placeholders": spec(agent("a", input="{{a}}" * 150_000)),
    "thousands of unknown names": spec(agent("a", input=" ".join(f"{{{{name{n:05}}}}}" for n in range(50_000)))),
    "thousands of typos": spec(sequence(*({**WAIT, "id": f"w{n}", "secnds": 1} for n in range(999)))),
    "thousands of keys": {f"key{n}": {} for n in range(60_000)},
    "half braces": spec(agent("a", input="{{ a" * 30_000)),
    "a number without end": spec(agent("a", retries=10**400)),
    "no JSON": spec(agent("a", metadata={1: object()})),
    "half a letter": spec(agent("a", input="\ud800")),
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_spec_is_refused_quickly_in_at_most_100_messages(value: object) -> None:
    started = time.process_time()
    found = said(value)
    assert 1 <= len(found) <= 100
    assert max(map(len, found)) < 2_000
    # Measured: at most two seconds on a slow machine; a rule whose cost grows faster than the spec takes minutes for these.
    assert time.process_time() - started < 8


keys = st.sampled_from(
    ["type", "id", "steps", "body", "spec", "items", "as", "until", "name", "root", "cases", "on", "wen", "input"]
)
words = st.sampled_from(
    ["agent", "sequence", "foreach", "branch", "loop", "workflow", "a", "b", "{{a}}", "a.b", "agnet", ""]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | st.text(max_size=3), inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(anything | anything.map(lambda root: {"name": "w", "root": root}))
def test_any_json_is_either_a_spec_or_refused_with_its_problems(value: object) -> None:
    found = problems_of(value)
    assert len(found) <= 100
    if not found:
        assert isinstance(parse_workflow_spec(value), WorkflowSpec)
    else:
        with pytest.raises(WorkflowSpecError):
            parse_workflow_spec(value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(valid_specs(), st.randoms(use_true_random=False))
def test_a_valid_spec_is_accepted_and_one_broken_part_of_it_is_found(value: Json, random: Any) -> None:
    assert said(value) == []
    parsed = parse_workflow_spec(value)
    assert parse_workflow_spec(msgspec.json.decode(msgspec.json.encode(parsed))) == parsed
    places: list[Json] = []
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            places += [one] if "type" in one else []
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    random.choice(places)["no_such_key"] = 1
    assert any("no_such_key" in one for one in said(value))


python_keys = st.text(max_size=3) | keys | st.integers() | st.booleans() | st.none() | st.binary(max_size=2)
python_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**400), 10**4000, 2**64, float("nan"), float("inf"), -float("inf")])
    | st.floats()
    | words
    | st.text(st.characters(), max_size=3)
    | st.binary(max_size=3)
    | st.frozensets(st.integers(), max_size=2)
    | st.builds(object)
)
python_values = st.recursive(
    python_scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(python_keys, inner, max_size=4)
    ),
    max_leaves=8,
)


def planted(value: Any, odd: object, key: Any, random: Any) -> Any:
    """A copy of a spec with an odd value, under a key that there is or an odd one, somewhere in it."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        where = random.choice(list(value))
        if random.random() < 0.2:
            return {**value, key: value[where]}
        return {**value, where: planted(value[where], odd, key, random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        place = random.randrange(len(value))
        return [*value[:place], planted(value[place], odd, key, random), *value[place + 1 :]]
    return odd


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(valid_specs(), python_values, python_keys, st.randoms(use_true_random=False))
def test_no_python_value_anywhere_in_a_spec_makes_the_check_raise(
    value: Json, odd: object, key: Any, random: Any
) -> None:
    for one in (odd, {"name": "w", "root": odd}, planted(value, odd, key, random)):
        if not problems_of(one):
            assert isinstance(parse_workflow_spec(one), WorkflowSpec)


@pytest.mark.parametrize("huge", [10**400, 10**5000], ids=["400 digits", "5000 digits"])
@pytest.mark.parametrize("root", [{**WAIT, "seconds": 0}, loop("l", WAIT, until="input"), agent("a", timeout_s=0)])
def test_a_number_of_any_size_is_a_fault_like_others(root: Json, huge: int) -> None:
    for name in ("seconds", "max_iterations", "timeout_s", "retries"):
        if name in root:
            assert any(f"root.{name}" in message for message in said(spec({**root, name: huge})))


def test_an_empty_key_is_unknown_like_others() -> None:
    (only,) = said({**spec(WAIT), "": 1})
    assert 'unknown key ""' in only


def test_a_key_that_is_no_text_is_a_fault() -> None:
    (only,) = said(spec({"type": "branch", "id": "b", "on": "input", "cases": {1: WAIT}}))
    assert only == "root.cases: has a key that is no text but a number"
