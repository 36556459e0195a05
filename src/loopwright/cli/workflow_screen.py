"""What a workflow run looks like while it goes on: a tree that moves on a terminal, lines in a pipe.

Owns: drawing it, and which steps are worth a line. Must not know: runs (`workflow_drive.py`), how a tree is made.
Read next: `workflow_tree.py`, `workflow_drive.py`.
"""

from __future__ import annotations

import sys
import time
from typing import Final, Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ..model.records import QuestionAsked, Record, ToolFinished
from ..model.workflow_records import NodeDecided, StepFinished, StepStarted, StepWaits
from ..workflow import RunMarks
from ..workflow.picture import clean, span_text
from ..workflow.picture_marks import Mark
from ..workflow.picture_words import progress
from .journal_lines import counted, parts_text
from .live_bottom import LiveBottom
from .live_screen import terminal_console
from .screen import is_terminal
from .workflow_tree import STYLES, tree_lines, without_signs

WORTH_LINES: Final = 20
"""Items of a foreach up to which each step of each is worth a line in a pipe; of more only how far it is, and failures."""

MOST_FAILURES: Final = 20
"""Failures within one foreach that are worth a line."""

_STEPS_IN_ALL: Final = 10
"""Lines on how far a long foreach is."""


class RunScreen(Protocol):
    """Shows one run."""

    def begin(self, run_id: str) -> None:
        """Says which run it is."""
        ...

    def heard(self, record: Record, marks: RunMarks) -> None:
        """A record was read, and the marks were told of it."""
        ...

    def draw(self, marks: RunMarks | None) -> None:
        """The run as of now."""
        ...

    def note(self, text: str, *, bad: bool = False) -> None:
        """A line about the run."""
        ...

    def end(self, marks: RunMarks | None) -> None:
        """Nothing moves any more: the run ended, waits or is left; the terminal is as it was."""
        ...


def screen_of_run(hint: str) -> RunScreen:
    """The screen that fits where standard error goes; `hint`: what can be done meanwhile."""
    return TreeScreen(terminal_console(sys.stderr), hint) if is_terminal(sys.stderr) else LineScreen(sys.stderr)


def headline(marks: RunMarks, now: float) -> Text:
    """Name, state and age of a run."""
    status = marks.status or "not begun"
    style = STYLES.get(status, "magenta" if status == "waiting_for_input" else "dim" if marks.live else "red")
    line = Text(no_wrap=True).append(clean(marks.spec.name, 60), style="bold").append("  ")
    line.append(status.replace("_", " "), style=style)
    end = marks.finished_at or now
    if marks.started_at is not None:
        line.append(f" · {span_text(end - marks.started_at)}", style="dim")
    return line


def tree_of(console: Console, marks: RunMarks, *, now: float, room: int | None = None) -> list[Text]:
    """Headline and tree for a console; in a pipe lines are as long as they are."""
    width = console.width if console.is_terminal else 10_000
    lines = [headline(marks, now), *tree_lines(marks, width=width, now=now, room=room)]
    lines[0].truncate(width, overflow="ellipsis")
    for line in lines:
        line.plain = without_signs(line.plain, console.encoding) if not _utf(console) else line.plain
    return lines


def _utf(console: Console) -> bool:
    return "utf" in (console.encoding or "").lower()


class TreeScreen:
    """A tree that moves, as high as the terminal at most; the whole of it stays at the end."""

    def __init__(self, console: Console, hint: str) -> None:
        self._console = console
        self._hint = hint
        self._marks: RunMarks | None = None
        self._live: LiveBottom | None = None

    def begin(self, run_id: str) -> None:
        """See `RunScreen.begin`."""
        self.note(f"run {run_id}")

    def heard(self, record: Record, marks: RunMarks) -> None:
        """The tree says it; a line of its own is what a step waits for."""
        if isinstance(record, StepWaits) and record.on != "child" and "[" not in record.path:
            self.note(f"~ {wait_text(record)}")

    def draw(self, marks: RunMarks | None) -> None:
        """See `RunScreen.draw`."""
        self._marks = marks
        if self._live is None and marks is not None:
            self._live = LiveBottom(self._console, self._shown)

    def note(self, text: str, *, bad: bool = False) -> None:
        """See `RunScreen.note`."""
        self._console.print(Text(clean(text, 1_000), style="yellow" if bad else "dim"))

    def end(self, marks: RunMarks | None) -> None:
        """See `RunScreen.end`."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if marks is not None:
            for line in tree_of(self._console, marks, now=time.time(), room=max(self._console.height * 3, 60)):
                self._console.print(line)

    def _shown(self) -> RenderableType:
        if self._marks is None:
            return Text("")
        room = max(self._console.height - 4, 4)
        lines = tree_of(self._console, self._marks, now=time.time(), room=room)
        return Group(*lines, Text(self._hint, style="dim", no_wrap=True, overflow="ellipsis"))


class LineScreen:
    """A line for what happened; what a pipe or a log gets."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._marks: RunMarks | None = None
        self._failures: dict[str, int] = {}
        self._told: dict[str, int] = {}

    def begin(self, run_id: str) -> None:
        """See `RunScreen.begin`."""
        self.note(f"run {run_id}")

    def heard(self, record: Record, marks: RunMarks) -> None:
        """See `RunScreen.heard`."""
        self._marks = marks
        match record:
            case StepStarted(path=path):
                if self._is_worth(path):
                    again = f" (attempt {record.attempt})" if record.attempt > 1 else ""
                    child = f" in {record.child_id}" if record.child_id else ""
                    self._line(f"  > {path}{again}{child}")
            case StepWaits(path=path):
                if record.on != "child" and self._is_worth(path):
                    self._line(f"  ~ {wait_text(record)}")
            case QuestionAsked(interaction=asked):
                self._line(f"  ? {asked.call_id.rpartition('#')[0]}: {asked.prompt}")
            case StepFinished():
                failed = record.outcome == "failed"
                said = record.error_message if failed else record.text
                self._ended(record.path, record.outcome, said or "", failed=failed)
            case NodeDecided(value={"error": str(error)}):
                self._ended(record.path, "failed", error, failed=True)
            case ToolFinished():
                failed = record.status not in ("finished", "answered", "aborted")
                self._ended(record.call_id.rpartition("#")[0], record.status, parts_text(record.content), failed=failed)
            case _:
                pass

    def draw(self, marks: RunMarks | None) -> None:
        """See `RunScreen.draw`."""
        self._marks = marks
        if marks is None:
            return
        for node in marks.picture.walk():
            if node.shape == "foreach" and not node.inside:
                self._far(node.title, marks.mark(node))

    def note(self, text: str, *, bad: bool = False) -> None:
        """See `RunScreen.note`."""
        self._line(f"loopwright: {text}")

    def end(self, marks: RunMarks | None) -> None:
        """See `RunScreen.end`."""
        self.draw(marks)

    def _ended(self, path: str, outcome: str, said: str, *, failed: bool) -> None:
        if not self._is_worth(path):
            around = path.partition("[")[0]
            self._failures[around] = self._failures.get(around, 0) + failed
            if not failed or self._failures[around] > MOST_FAILURES:
                return
        shown = clean(said, 110)
        self._line(f"  {'x' if failed else '<'} {path} {outcome}{': ' if shown else ''}{shown}")

    def _far(self, name: str, mark: Mark) -> None:
        """How far a long foreach is, now and then."""
        total = mark.total or 0
        share = mark.done * _STEPS_IN_ALL // total if total > WORTH_LINES else 0
        if share > self._told.get(name, 0):
            self._told[name] = share
            self._line(f"  = {name} {progress(mark)}")

    def _is_worth(self, path: str) -> bool:
        if self._marks is None or "[" not in path:
            return True
        node = self._marks.nodes.get(path.partition("[")[0])
        return node is None or node.shape != "foreach" or (self._marks.mark(node).total or 0) <= WORTH_LINES

    def _line(self, text: str) -> None:
        try:
            margin = "  " if text.startswith("  ") else ""
            self._err.write(without_signs(margin + clean(text, 1_000), self._err.encoding) + "\n")
            self._err.flush()
        except (BrokenPipeError, ValueError):
            pass


def wait_text(record: StepWaits) -> str:
    """Which step waits for which time or signal; a time of another day with its date, all as the clock here has it."""
    if record.until is None:
        return f'{record.path} waits for signal "{clean(record.signal or record.on, 60)}"'
    until = time.localtime(record.until)
    today = until[:3] == time.localtime()[:3]
    return f"{record.path} waits until {time.strftime('%H:%M:%S' if today else '%Y-%m-%d %H:%M:%S', until)}"


def summary(marks: RunMarks, failures: int, tokens: str) -> str:
    """The line under a run: how it ended, steps that began or ended, failures, tokens, time."""
    steps = sum([marks.mark(node).times for node in marks.picture.walk() if node.is_leaf and not node.inside])
    failed = f", {failures:,} failed" if failures else ""
    words = [(marks.status or "not begun").replace("_", " "), counted(steps, "step") + failed, tokens]
    if marks.started_at is not None and marks.finished_at is not None:
        words.append(span_text(marks.finished_at - marks.started_at))
    return " · ".join(words)
