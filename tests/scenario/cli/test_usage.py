"""`loopwright usage`: what it adds up, and how it looks in a pipe and on terminals."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import apsw
import pytest
from rich.cells import cell_len
from tests.scenario.cli.command_line import CommandLine

from loopwright import AgentLoopConfig, LLMResponse, LLMRetryPolicy, StatefulAgentLoop, Usage
from loopwright.cli.usage_report import LOOKED_AT, UNDATED, UsageGroup, UsageReport
from loopwright.cli.usage_view import bar, bar_lines, budget_lines, table_lines
from loopwright.model.codec import kind_of
from loopwright.model.context_records import ContextRecord
from loopwright.model.records import SessionRecord
from loopwright.ports.ledger import BudgetAccount
from loopwright.testing import ScriptedLLM
from loopwright.testing.virtual import VirtualAmbient
from loopwright.transports.price_table import PriceTable

PRICES = PriceTable({"dear": {"input": 10, "output": 100}, "cheap": {"input": 1, "output": 10}})
DAY = 86_400.0
MIDDAY = datetime(2026, 11, 2, 12, tzinfo=UTC).timestamp()


def reply(model: str, given: int = 1000, produced: int = 100, **more: Any) -> LLMResponse:
    return LLMResponse(text="ok", finish_reason="stop", usage=Usage(given, produced, calls=1, **more), model=model)


async def talk(path: Path, agent: str, *sends: Any, asked: str = "dear", day: int = 0, prices: Any = PRICES) -> None:
    """One session, with a send for each of `sends`: a step of its model, or a list of them."""
    seed = sum(map(ord, agent + asked))
    ambient, session_id = VirtualAmbient(seed=seed, start_at=MIDDAY + day * DAY), None
    config = AgentLoopConfig(agent_name=agent, retry=LLMRetryPolicy(max_attempts=2))
    for steps in sends:
        model = ScriptedLLM(steps if isinstance(steps, list) else [steps], model=asked)
        async with StatefulAgentLoop(llm=model, dsn=path, config=config, prices=prices, ambient=ambient) as loop:
            session_id = (await loop.send("go", session_id=session_id)).session_id


def fill(path: Path) -> None:
    """Three sessions of two agents, on two days, with a failed attempt, a call without a price and an estimated one."""

    async def all_of_them() -> None:
        empty = LLMResponse(finish_reason="stop", model="dear")
        await talk(path, "writer", reply("dear"), [empty, reply("cheap", cached_tokens=500)])
        await talk(path, "writer", reply("unheard-of"), asked="unheard-of", day=2)
        await talk(path, "judge", reply("dear", reasoning_tokens=50), day=2)

    asyncio.run(all_of_them())


@pytest.fixture
def used(without_model: CommandLine) -> CommandLine:
    """A folder whose default store was used."""
    (without_model.folder / ".loopwright").mkdir()
    fill(without_model.folder / ".loopwright" / "sessions.db")
    return without_model


def groups(command: CommandLine, *words: str) -> dict[str, Any]:
    done = command("usage", "--json", *words)
    assert (done.code, done.err) == (0, "")
    return {group["key"]: group for group in done.json["groups"]}


def test_calls_tokens_and_costs_are_added_up_by_model(used: CommandLine) -> None:
    found = groups(used)
    assert list(found) == ["dear", "cheap", "unheard-of"]
    dear = found["dear"]
    assert (dear["calls"], dear["failed_calls"], dear["estimated"], dear["reasoning_tokens"]) == (3, 1, True, 50)
    assert found["cheap"]["cost_usd"] == 0.002
    assert (found["unheard-of"]["nanodollars"], found["unheard-of"]["unpriced_calls"]) == (0, 1)
    total = used("usage", "--json").json["total"]
    assert total["calls"] == sum(group["calls"] for group in found.values()) == 5
    assert total["nanodollars"] == sum(group["nanodollars"] for group in found.values())


def test_the_same_calls_are_grouped_by_agent_session_and_day(used: CommandLine) -> None:
    assert {name: group["calls"] for name, group in groups(used, "--by", "agent").items()} == {"writer": 4, "judge": 1}
    assert sorted(group["calls"] for group in groups(used, "--by", "session").values()) == [1, 1, 3]
    days = groups(used, "--by", "day")
    assert [group["calls"] for group in days.values()] == [3, 2]
    assert list(days) == sorted(days)


def test_one_session_is_shown_send_by_send(used: CommandLine) -> None:
    session_id = next(name for name, one in groups(used, "--by", "session").items() if one["calls"] == 3)
    sends = groups(used, "--session", session_id)
    assert {name: (one["calls"], one["failed_calls"]) for name, one in sends.items()} == {"1": (1, 0), "2": (2, 1)}
    done = used("usage", "--session", session_id)
    assert "send 2" in done.out
    assert list(groups(used, "--session", session_id, "--by", "model")) == ["dear", "cheap"]


def test_what_was_stored_agrees_with_the_totals_of_the_heads(used: CommandLine) -> None:
    by_session = groups(used, "--by", "session")
    for head in used("sessions", "list", "--json").json:
        stored, counted = head["usage"], by_session[head["session_id"]]
        assert counted["nanodollars"] == stored.get("nanodollars", 0)
        assert counted["unpriced_calls"] == stored.get("unpriced_calls", 0)
        assert counted["input_tokens"] == stored["input_tokens"]


def test_a_fork_counts_its_own_calls_and_not_those_of_its_base(used: CommandLine) -> None:
    before = used("usage", "--json").json["total"]
    assert used("fork", "last").code == 0
    assert used("usage", "--json").json["total"] == before


def test_a_time_leaves_out_what_was_before_it(used: CommandLine) -> None:
    days = list(groups(used, "--by", "day"))
    assert list(groups(used, "--by", "day", "--since", days[1])) == days[1:]
    assert list(groups(used, "--since", "20000d")) == ["dear", "cheap", "unheard-of"]
    done = used("usage", "--since", "2100-01-01")
    assert (done.code, done.out, "no model was called since 2100-01-01" in done.err) == (0, "", True)


def test_prices_of_a_file_say_what_all_calls_would_have_cost(used: CommandLine) -> None:
    (used.folder / "prices.json").write_text(json.dumps({"unheard*": {"input": 1, "output": 10}}))
    found = groups(used, "--prices", "prices.json")
    assert found["unheard-of"]["computed_usd"] == 0.002
    assert (found["dear"]["computed_usd"], found["dear"]["uncomputed_calls"]) == (0, 3)
    assert "by prices" in used("usage", "--prices", "prices.json").out


def test_published_prices_can_be_asked_for(without_model: CommandLine) -> None:
    asyncio.run(talk(without_model.folder / "x.db", "a", reply("gpt-4o-2024-08-06"), prices=None))
    found = groups(without_model, "--db", "x.db", "--prices", "auto")
    assert (found["gpt-4o-2024-08-06"]["computed_usd"], found["gpt-4o-2024-08-06"]["cost_usd"]) == (0.0035, 0)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--by", "week"], "'week' is none of"),
        (["--by", "send"], "--session"),
        (["--since", "long ago"], "neither an age"),
        (["--prices", "nowhere.json"], "cannot read prices"),
        (["--prices", "no.json"], "not JSON"),
        (["--prices", "list.json"], "must be an object"),
        (["--prices", "wrong.json"], "'m'"),
        (["--session", "nobody"], "nobody"),
    ],
)
def test_wrong_words_are_one_message_and_exit_code_2(used: CommandLine, words: list[str], said: str) -> None:
    for name, text in (("no", "{"), ("list", "[]"), ("wrong", '{"m": {"input": 1}}')):
        (used.folder / f"{name}.json").write_text(text)
    done = used("usage", *words)
    assert (done.code, done.out, said in done.err) == (2, "", True), done.err


def test_records_that_cannot_be_read_are_said_and_the_rest_is_counted(used: CommandLine) -> None:
    connection = apsw.Connection(str(used.folder / ".loopwright" / "sessions.db"))
    connection.execute(
        """UPDATE lw_records SET body = CAST('{"usage": ' AS BLOB) WHERE CAST(body AS TEXT) LIKE '%"cheap"%'"""
    )
    connection.close()
    done = used("usage", "--json")
    assert (done.code, done.json["unreadable"], "1 record cannot be read" in done.err) == (0, 1, True)
    assert done.json["total"]["calls"] == 4


def damaged(command: CommandLine, statement: str) -> None:
    connection = apsw.Connection(str(command.folder / ".loopwright" / "sessions.db"))
    connection.execute(statement)
    connection.close()


REPLIES = "WHERE kind = 'assistant_message_added'"


@pytest.mark.parametrize(
    "what, unreadable",
    [
        (f"body = substr(body, 1, 20) {REPLIES}", 4),
        (f"body = '' {REPLIES}", 4),
        (f"body = 7 {REPLIES}", 4),
        (f"body = x'00ff' {REPLIES}", 4),
        (f"version = 'x' {REPLIES}", 4),
        (f"kind = 'x' {REPLIES}", 4),
        ("at = 'x'", 0),
        ("at = x'00'", 0),
        ("at = 9e999", 0),
    ],
)
@pytest.mark.parametrize("words", [["--by", "day"], ["--by", "session", "--since", "9999d"]], ids=" ".join)
def test_damaged_rows_are_counted_and_said_and_never_end_the_report(
    used: CommandLine, what: str, unreadable: int, words: list[str]
) -> None:
    damaged(used, f"UPDATE lw_records SET {what}")
    done = used("usage", "--json", *words)
    assert (done.code, done.json["unreadable"]) == (0, unreadable)
    assert (f"{unreadable} records cannot be read" in done.err) == (unreadable > 0)
    assert done.json["total"]["calls"] == 5 - unreadable
    assert used("usage", *words).code == 0


@pytest.mark.parametrize(
    "what", ["updated_at = 'x'", "agent_name = x'00ff'", "agent_name = 7", "title = 7", "title = x'00ff'"]
)
def test_odd_values_of_a_session_leave_nothing_out(used: CommandLine, what: str) -> None:
    damaged(used, f"UPDATE lw_sessions SET {what}")
    assert used("usage", "--by", "session").code == 0
    done = used("usage", "--by", "agent", "--since", "9999d", "--json")
    assert (done.code, done.json["unreadable"], done.json["total"]["calls"]) == (0, 0, 5)


def test_a_session_with_missing_records_is_said_and_the_others_are_counted(used: CommandLine) -> None:
    damaged(used, "DELETE FROM lw_records WHERE id = (SELECT max(id) - 2 FROM lw_records)")
    done = used("usage", "--json")
    assert (done.code, done.json["unreadable"], done.json["total"]["calls"]) == (0, 1, 4)


def test_accounts_with_odd_values_are_left_out_and_said(used: CommandLine) -> None:
    for key, spent in (("first", 5), ("odd", "'abc'"), ("third", 7)):
        damaged(used, f"INSERT INTO lw_budgets (budget_key, spent, held) VALUES ('{key}', {spent}, 0)")
    done = used("usage", "--json")
    assert (done.code, done.json["unreadable_budgets"], "1 budget cannot be read" in done.err) == (0, 1, True)
    assert [one["key"] for one in done.json["budgets"]] == ["first", "third"]


def test_every_kind_of_record_that_tells_a_usage_is_looked_at() -> None:
    told = {kind_of(one) for one in (*get_args(SessionRecord), *get_args(ContextRecord)) if hasattr(one, "usage")}
    assert told <= LOOKED_AT
    assert "assistant_message_added" in told


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_name_that_the_output_cannot_hold_is_written_with_question_marks(
    without_model: CommandLine, encoding: str
) -> None:
    (without_model.folder / ".loopwright").mkdir()
    path = without_model.folder / ".loopwright" / "sessions.db"
    asyncio.run(talk(path, "writer", reply("m-漢x"), asked="m-漢x"))
    without_model.env["PYTHONIOENCODING"] = encoding
    done = without_model.process("usage")
    assert (done.code, "m-??x" in done.out, "Error" in done.err) == (0, True, False)


def test_a_pipe_gets_whole_names_exact_figures_and_no_colours(used: CommandLine) -> None:
    done = used.process("usage")
    assert "\x1b" not in done.out
    assert "unheard-of" in done.out
    assert "1,000" in done.out
    assert "calls without a known price" in done.out
    assert "█" in done.out
    assert "█" not in used.process("usage", "--no-plot").out


def test_an_output_without_block_characters_gets_others(used: CommandLine) -> None:
    used.env["PYTHONIOENCODING"] = "ascii"
    done = used.process("usage", "--by", "agent")
    assert done.code == 0
    assert "#####" in done.out


def test_a_store_without_calls_says_so(without_model: CommandLine) -> None:
    assert "no store" in without_model("usage").err
    assert without_model("run", "hi", "--model", "echo:", "--system", "x").code == 0
    done = without_model("usage", "--since", "2100-01-01", "--json")
    assert (done.code, done.json["groups"], done.json["total"]["calls"]) == (0, [], 0)


# --- the view alone ---------------------------------------------------------------------------------------------------


def report(count: int, **more: Any) -> UsageReport:
    rows = [
        UsageGroup(
            key=f"a-model-with-quite-a-long-name-{n}",
            usage=Usage(10**n, 10**n, 10**n, 0, 10**n, 10, True, 10**n * 1000, n % 2),
            failed=n,
        )
        for n in range(count)
    ]
    total = UsageGroup(key="total")
    for row in rows:
        total.add(row)
    return UsageReport(**{"by": "model", "groups": rows, "total": total, "with_prices": False, **more})


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for with_prices in (False, True):
        shown = report(9, with_prices=with_prices)
        for line in [*table_lines(shown, width), *bar_lines(shown, width, blocks=True)]:
            assert cell_len(line.plain) <= width, line.plain


def test_a_narrow_terminal_loses_figures_before_names_and_money() -> None:
    assert table_lines(report(9), 200)[0].plain.split() == [
        *("model", "calls", "failed", "input", "cached", "output", "reasoning", "cost")
    ]
    assert "~100,000,000" in table_lines(report(9), 200)[-2].plain
    assert "~100M" in table_lines(report(9), 70)[-2].plain
    assert table_lines(report(9), 20)[0].plain.split() == ["model", "cost"]


NAMES = ["claude-sonnet-4-5-20250929", "gemini-2.5-flash-preview-09-2025"]


@pytest.mark.parametrize("width, left", [(60, set[str]()), (80, {"calls", "input", "output"})])
def test_names_of_models_and_money_stay_whole_and_reasoning_and_cached_go_first(width: int, left: set[str]) -> None:
    used = Usage(123_456, 12_345, 100_000, 0, 10_000, 10, nanodollars=1_234_567_890)
    rows = [UsageGroup(key=name, usage=used, computed=2_345_678_901) for name in NAMES]
    shown = report(0, groups=rows, total=UsageGroup(key="total", usage=used), with_prices=True)
    lines = [line.plain for line in table_lines(shown, width)]
    assert [line.split()[0] for line in lines[1:-1]] == NAMES
    assert all("$1.23" in line and "$2.35" in line for line in lines[1:-1])
    assert "reasoning" not in lines[0].split()
    assert left <= set(lines[0].split())
    bars = [line.plain for line in bar_lines(shown, width, blocks=True)]
    assert [line.split()[0] for line in bars[1:]] == NAMES
    assert max(map(cell_len, lines + bars)) <= width


def test_keys_of_budgets_and_money_stay_whole_before_what_is_held() -> None:
    key = "customers/a-company-with-a-name/2026-11/research"
    lines = [line.plain for line in budget_lines([BudgetAccount(key, 12_340_000_000, 10_000_000, 2)], 60)]
    assert (lines[0].split(), lines[1].split()) == (["budget", "spent"], [key, "$12.3400"])
    assert budget_lines([BudgetAccount(key, 12_340_000_000, 10_000_000, 2)], 80)[1].plain.split()[0] == key


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_titles_of_sessions_stand_at_the_end_where_there_is_room(width: int) -> None:
    used = Usage(123_456, 12_345, 100_000, 0, 10_000, 10, nanodollars=1_234_567_890)
    ids = ["sess_" + letter * 24 for letter in "ab"]
    titles = ["日本語のタイトルはとても長いので切られます" * 3, "a short one"]
    rows = [UsageGroup(key=one, title=title, usage=used, last=MIDDAY) for one, title in zip(ids, titles, strict=True)]
    shown = report(0, by="session", groups=rows, total=UsageGroup(key="total", usage=used))
    lines = [line.plain for line in table_lines(shown, width)]
    assert [line.split()[0] for line in lines[1:-1]] == ids
    assert max(map(cell_len, lines)) <= width
    has_room = width > 60
    assert ("title" in lines[0], "日本語" in lines[1], "a short one" in lines[2]) == (has_room, has_room, has_room)
    assert ("reasoning" in lines[0]) == (width > 100)


def test_a_report_by_session_knows_titles(without_model: CommandLine) -> None:
    assert without_model("run", "hello   there", "--model", "echo:").code == 0
    assert without_model("usage", "--by", "session", "--json").json["groups"][0]["title"] == "hello there"
    assert without_model.process("usage", "--by", "session").out.splitlines()[1].endswith("  hello there")


def test_many_groups_share_a_last_line_and_nothing_is_lost() -> None:
    many = report(9)
    many.groups = [UsageGroup(key=f"m{n}", usage=Usage(1, 1, calls=1)) for n in range(100)]
    lines = table_lines(many, 200)
    assert len(lines) == 32
    assert lines[-2].plain.split()[:3] == ["71", "others", "71"]


@pytest.mark.parametrize("days, bars, first", [(3, 3, "2026-01-31"), (100, 15, "2026-01-26"), (900, 31, "2026-01-01")])
def test_a_plot_over_time_has_every_day_and_is_never_long(days: int, bars: int, first: str) -> None:
    last = (date(2026, 1, 31) + timedelta(days=days - 1)).isoformat()
    ends = [UsageGroup(key="2026-01-31", usage=Usage(5, 5)), UsageGroup(key=last, usage=Usage(1, 0))]
    odd = UsageGroup(key=UNDATED, usage=Usage(1, 0))
    lines = bar_lines(report(0, by="day", groups=[odd, *ends]), 80, blocks=True)[1:]
    assert (len(lines), lines[0].plain[:10]) == (bars, first)


def test_a_bar_is_as_long_as_its_value_and_never_empty_for_something() -> None:
    assert bar(8, 8, 4, blocks=True) == "████"
    assert bar(1, 16, 2, blocks=True) == "▏"
    assert bar(1, 10**9, 4, blocks=True) == "▏"
    assert bar(1, 10**9, 4, blocks=False) == "#"
    assert bar(0, 5, 4, blocks=True) == bar(0, 5, 4, blocks=False) == ""


def test_accounts_of_shared_money_have_a_table_of_their_own() -> None:
    lines = budget_lines([BudgetAccount("customer-7", 1_500_000_000, 20_000_000, 1), BudgetAccount("b\x1b", 1)], 80)
    assert [line.plain.split() for line in lines] == [
        ["budget", "spent", "held", "holds"],
        ["customer-7", "$1.500000", "$0.020000", "1"],
        ["b", "$0.000000", "$0.000000", "0"],
    ]
    assert budget_lines([], 80) == []
