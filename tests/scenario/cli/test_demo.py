"""The demonstration is right about itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.scenario.cli.command_line import OURS

from loopwright.cli.demo import chosen_model
from loopwright.cli.demo_verdict import Evidence, checks


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
        timeout=50,
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


def test_the_verdict_would_notice_a_second_payment(tmp_path: Path) -> None:
    """The checks are run on a demonstration that went wrong: every one of them can fail."""
    evidence = Evidence(
        rows=(), killed_at=0, first_exit=0, second_exit=1, later_events=(), desk=tmp_path, offline=True
    )  # fmt: skip
    (tmp_path / "ledger.txt").write_text("paid\npaid\n")
    with pytest.raises(IndexError):
        checks(evidence)
    assert msgspec.structs.asdict(evidence)["killed_at"] == 0
