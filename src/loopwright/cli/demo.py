"""`./dev demo`: an agent works on a real folder, its process is killed with SIGKILL in mid-tool, another one goes on.

Owns: the processes, the story that is told, and the verdict. Must not know: how recovery works; it only looks at what
is on the disk afterwards. Needs neither network nor typer nor rich.
Read next: `demo_worker.py`, `demo_desk.py`, `demo_verdict.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from msgspec import Struct

from ..ports.store import StoredRecord
from ..stores.dsn import open_store
from .demo_desk import LEDGER, OUTBOX, SUMMARY, make_desk
from .demo_verdict import Evidence, checks
from .demo_worker import SESSION
from .journal_lines import call_text, one_line, record_of, record_text, tokens_text

PATIENCE_S: Final = 180.0
"""For one process, with a real model behind it."""


class ModelChoice(Struct, frozen=True):
    """Which model does the work."""

    model: str
    base_url: str | None
    words: str


class Story:
    """Lines for a person; coloured on a terminal, plain elsewhere."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._colour = out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.width = min(shutil.get_terminal_size((110, 24)).columns, 130) if out.isatty() else 130

    def paint(self, text: str, code: str) -> str:
        """`text` in a colour, where there are colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def say(self, text: str = "", code: str = "") -> None:
        """One line."""
        self._out.write((self.paint(text, code) if code else text) + "\n")
        self._out.flush()

    def stage(self, number: int, text: str) -> None:
        """A heading."""
        self.say()
        self.say(f"{number}. {text}", "1")


def chosen_model(env: Mapping[str, str], *, offline: bool) -> ModelChoice | None:
    """A real model when a key is set; None means the offline one."""
    if offline:
        return None
    if env.get("OPENAI_API_KEY"):
        name = env.get("OPENAI_MODEL") or "gpt-5-mini"
        return ModelChoice(f"openai:{name}", None, f"{name} (OPENAI_API_KEY is set; --offline does without)")
    if env.get("ANTHROPIC_API_KEY"):
        name = env.get("ANTHROPIC_MODEL") or "claude-sonnet-4-5"
        return ModelChoice(f"anthropic:{name}", None, f"{name} (ANTHROPIC_API_KEY is set; --offline does without)")
    return None


@contextmanager
def model_process(choice: ModelChoice | None) -> Generator[ModelChoice]:
    """The model that is to be used; the offline one is a server process of its own for as long as it is needed."""
    if choice is not None:
        yield choice
        return
    program = "from loopwright.testing.model_server import main; main()"
    command = [sys.executable, "-c", program, "--model", "loopwright.cli.demo_desk:desk_clerk"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        yield ModelChoice("openai:offline-clerk", url, f"offline, deterministic; process {server.pid} at {url}")
    finally:
        server.terminate()
        server.communicate(timeout=10)


class Worker:
    """One process of the agent and the events that it says."""

    def __init__(self, place: Path, choice: ModelChoice, *, resume: bool) -> None:
        command = [sys.executable, "-m", "loopwright.cli.demo_worker", str(place / "desk")]
        command += ["--db", str(place / "sessions.db"), "--model", choice.model]
        command += ["--base-url", choice.base_url] if choice.base_url else []
        command += ["--resume"] if resume else []
        local = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"} if choice.base_url else {}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **local})
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def events(self) -> Iterator[dict[str, Any]]:
        """Events in order until the process is gone. Raises: `TimeoutError` when it takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                self.process.kill()
                raise TimeoutError(f"process {self.process.pid} did not end within {PATIENCE_S:g} s") from None
            if line is None:
                return
            yield json.loads(line)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)


def tell(story: Story, event: dict[str, Any]) -> None:
    """What an event means, for those that mean something to a person."""
    data, width = event["data"], story.width - 12
    match event["type"]:
        case "run_started":
            story.say("   goes on with the open send" if data["resumed"] else "   begins", "2")
        case "tool_call_started":
            story.say(f"   → {call_text(data['name'], data['arguments'], width)}", "36")
        case "tool_call_completed":
            unknown = data["status"] == "uncertain"
            mark, colour = ("?" if unknown else "✗", "33") if data["failed"] else ("✓", "32")
            story.say(f"   {mark} {data['name']}: {one_line(data['output'], width - len(data['name']))}", colour)
        case "run_ended":
            story.say(f"   ends: {data['outcome']}, {data['rounds']} rounds", "2")
            story.say(f"   says: {one_line(data['final_text'], width)}")
        case "agent_error" | "llm_degraded" | "llm_retry_attempted":
            story.say(f"   {one_line(str(data.get('message') or data.get('error_message')), width)}", "33")
        case _:
            pass


def until_killed(story: Story, worker: Worker, outbox: Path) -> bool:
    """Follows the first process and kills it while `post_letter` runs and its neighbour is done; False when that never came."""
    started: set[str] = set()
    done: set[str] = set()
    for event in worker.events():
        tell(story, event)
        if event["type"] == "tool_call_started":
            started.add(event["data"]["name"])
        elif event["type"] == "tool_call_completed":
            done.add(event["data"]["name"])
        if "post_letter" in started - done and "pay_invoice" in done and has_line(outbox):
            worker.process.send_signal(signal.SIGKILL)
            worker.process.wait(10)
            return True
    worker.process.wait(10)
    return False


def has_line(path: Path) -> bool:
    """Waits a moment for the first line of a file."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        if path.exists() and path.read_text(encoding="utf-8").endswith("\n"):
            return True
        time.sleep(0.01)
    return False


def read_journal(place: Path) -> list[StoredRecord]:
    """The journal as it is on the disk."""

    async def read() -> list[StoredRecord]:
        store = open_store(place / "sessions.db")
        try:
            return list(await store.read(SESSION))
        finally:
            await store.aclose()

    return asyncio.run(read())


def show_journal(story: Story, rows: Sequence[StoredRecord], killed_at: int) -> None:
    """The journal as a table, with a line where the first process died."""
    story.say(f"   {'pos':>3}  {'record':<24}what", "2")
    for row in rows:
        if row.position == killed_at:
            story.say("   " + " killed with SIGKILL; from here on another process ".center(story.width - 6, "─"), "31")
        kind = story.paint(f"{row.kind:<24}", "36")
        story.say(f"   {row.position:>3}  {kind}{record_text(record_of(row), story.width - 34)}")


def show_file(story: Story, path: Path) -> None:
    """A file of the desk, as it is at the end."""
    text = path.read_text(encoding="utf-8").rstrip() if path.exists() else "(missing)"
    story.say(f"   {path.name}", "36")
    for line in text.splitlines():
        story.say(f"     {one_line(line, story.width - 6)}")


def show(story: Story, place: Path, choice: ModelChoice) -> int:
    """The whole demonstration; answers the exit code."""
    desk = place / "desk"
    make_desk(desk)
    story.say("Loopwright: an agent is killed in the middle of a tool call and goes on", "1")
    story.say(f"   folder {desk}", "2")
    story.say(f"   model  {choice.words}", "2")
    story.stage(1, "A process works: it reads notes, pays an invoice, posts a letter")
    first = Worker(place, choice, resume=False)
    if not until_killed(story, first, desk / OUTBOX):
        story.say("   the model did not call both tools, so there was nothing to kill; try again, or --offline", "31")
        return 1
    killed = read_journal(place)
    story.stage(2, f"kill -9 {first.process.pid}: it is gone, in the middle of post_letter")
    story.say("   pay_invoice has its result in the journal, post_letter only its start:")
    story.say("   did the letter go out? Nobody knows.")
    story.say(f"   What is left: {len(killed)} records on the disk.")
    story.stage(3, "A new process reads the journal and goes on")
    began = time.monotonic()
    second = Worker(place, choice, resume=True)
    later: list[dict[str, Any]] = []
    for event in second.events():
        later.append(event)
        tell(story, event)
    code = second.process.wait(10)
    story.say(f"   process {second.process.pid} took {time.monotonic() - began:.1f} s, start of Python included", "2")
    rows = read_journal(place)
    story.stage(4, "The journal, the only truth")
    show_journal(story, rows, len(killed))
    story.stage(5, "What is in the folder")
    for name in (LEDGER, OUTBOX, SUMMARY):
        show_file(story, desk / name)
    evidence = Evidence(
        rows=tuple(rows), killed_at=len(killed), first_exit=first.process.returncode, second_exit=code,
        later_events=tuple(later), desk=desk, offline=choice.base_url is not None,
    )  # fmt: skip
    return verdict(story, evidence)


def verdict(story: Story, evidence: Evidence) -> int:
    """Says tokens and cost, and what was checked."""
    usage = evidence.usage
    story.stage(6, "Tokens and cost")
    cached = f", {usage.cached_tokens:,} of them cached" if usage.cached_tokens else ""
    story.say(
        f"   {usage.calls} model calls, {usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out = {tokens_text(usage)}"
    )
    story.say(
        f"   money: {'none, the model is offline' if evidence.offline else 'the price of this model is not known here'}"
    )
    story.stage(7, "Verdict")
    results = checks(evidence)
    for good, words in results:
        story.say(f"   {'✓' if good else '✗'} {words}", "32" if good else "31")
    wrong = sum(1 for good, _ in results if not good)
    story.say()
    if wrong:
        story.say(f"WRONG: {wrong} of {len(results)} checks failed", "1;31")
        return 1
    story.say(f"RIGHT: all {len(results)} checks passed; nothing was lost and nothing was done twice", "1;32")
    return 0


def main() -> None:
    """Runs the demonstration and exits with 0 when everything came out right."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=main.__doc__)
    parser.add_argument("--offline", action="store_true", help="use the offline model although a key is set")
    parser.add_argument("--keep", action="store_true", help="leave the folder for looking at")
    given = parser.parse_args()
    out = open(sys.stdout.fileno(), "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - lives as long as we
    place = Path(tempfile.mkdtemp(prefix="loopwright-demo-"))
    story = Story(out)
    try:
        with model_process(chosen_model(os.environ, offline=given.offline)) as choice:
            code = show(story, place, choice)
    except (KeyboardInterrupt, TimeoutError) as error:
        story.say(f"stopped: {str(error) or 'Ctrl-C'}", "31")
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        if not given.keep:
            shutil.rmtree(place, ignore_errors=True)
    if given.keep:
        story.say(f"look on: loopwright sessions show {SESSION} --db {place / 'sessions.db'}", "2")
    sys.exit(code)


if __name__ == "__main__":
    main()
