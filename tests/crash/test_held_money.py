"""Money that is held when a process stops: settled exactly once, whatever the point, and spent is what journals say."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.agents import SESSION, calls_then_sums_up, tools_of, two_sends
from tests.servers import client
from tests.servers.one_database import emptied

from loopwright import AgentLoopConfig, LLMRequest, LLMResponse, PriceTable, StatefulAgentLoop, Usage
from loopwright.model.codec import decode_record
from loopwright.model.context_records import CostReserved, CostSettled
from loopwright.ports.ledger import BudgetAccount
from loopwright.testing.crash_matrix import CrashReport, CrashScenario, Life, crash_matrix

pytestmark = pytest.mark.crash

CONFIG = AgentLoopConfig(
    model="priced",
    max_output_tokens=100,
    run_cost_budget_usd=1.0,
    session_cost_budget_usd=1.0,
    cost_budgets={"team": 1.0, "month": 2.0},
)
PRICES = PriceTable({"priced": {"input": 1, "output": 10}})


def build(life: Life) -> StatefulAgentLoop:
    answer = calls_then_sums_up("put", "look")

    def costly(request: LLMRequest) -> LLMResponse:
        made = answer(request)
        usage = Usage(20, 50, calls=1)
        if isinstance(made, str):
            return LLMResponse(text=made, finish_reason="stop", usage=usage, model="priced")
        return LLMResponse(tool_calls=made.tool_calls, finish_reason=made.finish_reason, usage=usage, model="priced")

    return StatefulAgentLoop(
        llm=life.model(costly),
        dsn=life.dsn,
        tools=tools_of(life),
        config=CONFIG,
        prices=PRICES,
        ambient=life.ambient,
    )


async def two_sends_and_the_books(loop: StatefulAgentLoop) -> None:
    """A difference fails the life that finds it, which the matrix reports."""
    await two_sends(loop)
    records = [decode_record(row.kind, row.version, row.body) for row in await loop.store.read(SESSION)]
    reserved = [record.hold_id for record in records if isinstance(record, CostReserved)]
    settled = [record for record in records if isinstance(record, CostSettled)]
    assert [record.hold_id for record in settled] == reserved, "each reservation is settled once, in its order"
    assert len(reserved) >= 4
    spent = sum(record.nanodollars for record in settled)
    for key in ("team", "month"):
        assert await loop.store.budget(key) == BudgetAccount(key, spent), f"{key} is what journals say"
    assert (await loop.get_session_stats(SESSION)).usage.nanodollars == spent


SCENARIO = CrashScenario(name="held-money", drive=two_sends_and_the_books)


def stopped_everywhere(
    dsn: str | Callable[[int], str], *, recover: bool = False, twice: bool = False, names_only: bool = False
) -> None:
    report: CrashReport = crash_matrix(build, SCENARIO, dsn=dsn, recover=recover, twice=twice, names_only=names_only)
    points = {row.at.point for row in report.rows}
    assert {"commit.before:cost_reserved", "commit.after:cost_reserved"} <= points


def test_money_is_settled_once_wherever_a_process_stops_on_sqlite(tmp_path: Path) -> None:
    stopped_everywhere(f"{tmp_path}/{{run}}.db")


def test_money_is_settled_once_when_recover_goes_on_in_memory() -> None:
    stopped_everywhere("memory:held-{run}", recover=True)


def test_money_is_settled_once_when_the_restarted_process_stops_too() -> None:
    stopped_everywhere("memory:held-twice-{run}", twice=True)


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_money_is_settled_once_wherever_a_process_stops_on_a_server(kind: str) -> None:
    with client.shared(kind).database() as dsn:
        stopped_everywhere(emptied(dsn), names_only=not os.environ.get("LOOPWRIGHT_FULL"))
