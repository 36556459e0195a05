"""The demonstration is right about itself."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.scenario.cli.command_line import OURS

from loopwright.cli.demo import ModelChoice, Story, Worker, chosen_model, read_journal, until_killed
from loopwright.cli.demo_desk import desk_clerk, make_desk
from loopwright.cli.demo_verdict import Evidence, checks
from loopwright.testing.model_server import ModelServer


@pytest.mark.kill
def test_the_demonstration_kills_a_process_goes_on_and_comes_out_right(tmp_path: Path) -> None:
    """Without network, without typer and rich, in a pipe."""
    for name in ("typer", "rich"):
        (tmp_path / f"{name}.py").write_text("raise ModuleNotFoundError('hidden')\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    done = subprocess.run(
        [sys.executable, "-m", "loopwright.cli.demo"],
        env={**env, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path), "HTTP_PROXY": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "RIGHT: all 9 checks passed" in done.stdout
    assert "killed with SIGKILL" in done.stdout
    assert "\x1b" not in done.stdout
    assert list(tmp_path.glob("loopwright-demo-*")) == []


def test_a_real_model_is_used_when_a_key_is_set_and_said_so() -> None:
    assert chosen_model({}, offline=False) is None
    assert chosen_model({"OPENAI_API_KEY": "k"}, offline=True) is None
    openai = chosen_model({"OPENAI_API_KEY": "k"}, offline=False)
    claude = chosen_model({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "claude-x"}, offline=False)
    assert openai is not None
    assert openai.model.startswith("openai:")
    assert claude is not None
    assert claude.model == "anthropic:claude-x"


@pytest.mark.kill
def test_the_verdict_notices_what_went_wrong(tmp_path: Path) -> None:
    desk = tmp_path / "desk"
    make_desk(desk)
    with ModelServer(desk_clerk) as server:
        choice = ModelChoice("openai:clerk", server.base_url, "")
        first = Worker(tmp_path, choice, resume=False)
        assert until_killed(Story(io.StringIO()), first, desk / "outbox.txt")
        killed = read_journal(tmp_path)
        second = Worker(tmp_path, choice, resume=True)
        later = tuple(second.events())
        code = second.process.wait(60)
    evidence = Evidence(
        rows=tuple(read_journal(tmp_path)),
        killed_at=len(killed),
        first_exit=first.process.returncode,
        second_exit=code,
        later_events=later,
        desk=desk,
        offline=True,
    )
    assert [words for good, words in checks(evidence) if not good] == []
    for name in ("ledger.txt", "outbox.txt"):
        path = desk / name
        path.write_text(path.read_text() * 2)
    (desk / "summary.md").write_text("Total: 1.00 EUR")
    again = msgspec.structs.replace(evidence, rows=evidence.rows[:-1], first_exit=0)
    wrong = [number for number, (good, _) in enumerate(checks(again)) if not good]
    assert wrong == [0, 2, 4, 7, 8]
