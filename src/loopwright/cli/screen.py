"""What a run looks like: the answer on standard output, everything else on standard error.

Owns: the plain form, for pipes, and what every form shares. Must not know: rich (`live_screen.py`), runs.
Read next: `live_screen.py`.
"""

from __future__ import annotations

import os
import time
from typing import Protocol, TextIO

from ..core.result import StatefulResult
from ..model.events import (
    AgentError,
    AgentEvent,
    AttemptDiscarded,
    FoldStatus,
    InboxDelivered,
    InputRequested,
    LLMCallStarted,
    LLMDegraded,
    LLMRetryAttempted,
    LoopCancelled,
    RoundCompleted,
    RoundStarted,
    RunEnded,
    RunStarted,
    StreamDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageUpdated,
)
from ..model.records import Interaction
from ..model.usage import NO_USAGE, Usage
from .journal_lines import call_text, counted, one_line, printable, tokens_text


class Figures:
    """What the status bar and the last line say about a run; kept up to date by its events."""

    def __init__(self, model: str = "") -> None:
        self.began = time.monotonic()
        self.round = 0
        self.max_rounds = 0
        self.model = model
        self.usage: Usage = NO_USAGE

    def take(self, event: AgentEvent) -> None:
        """Notes what the event changes."""
        match event.data:
            case RunStarted():
                self.began = time.monotonic()
                self.usage = NO_USAGE
                self.round = 0
            case RoundStarted():
                self.round, self.max_rounds = event.round_index, event.data.max_rounds
            case LLMCallStarted():
                self.model = event.data.model or self.model
            case UsageUpdated():
                self.usage = event.data.send
            case RunEnded():
                self.usage = event.data.usage
            case _:
                pass

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began or went on."""
        return time.monotonic() - self.began

    def summary(self, result: StatefulResult) -> str:
        """The line under a finished run."""
        return f"{result.status} · {counted(result.rounds, 'round')} · {tokens_text(result.usage)} · {seconds_text(self.elapsed_s)}"


class Screen(Protocol):
    """Shows one run after the other."""

    @property
    def gone(self) -> bool:
        """True when the reader of standard output went away."""
        ...

    def event(self, event: AgentEvent) -> None:
        """Shows an event; called in order, must not block for long."""
        ...

    def note(self, text: str, *, bad: bool = False) -> None:
        """A line about the run, on standard error."""
        ...

    def typed(self, text: str) -> None:
        """What a person is typing meanwhile, where there is a place for it."""
        ...

    def end(self, result: StatefulResult | None) -> None:
        """The run ended (None: without a result); the terminal is as it was."""
        ...


def seconds_text(seconds: float) -> str:
    """A duration as a person reads it."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


class ShownText:
    """What was shown of the newest reply, so that the answer is shown once: while it streams, or else at the end."""

    def __init__(self) -> None:
        self._current = ""
        self._last = ""

    def add(self, text: str) -> None:
        """More of the reply is on the screen."""
        self._current += text

    def ended(self, *, void: bool = False) -> None:
        """The reply is over, or did not count."""
        if self._current or void:
            self._last = "" if void else self._current
        self._current = ""

    def covers(self, final_text: str) -> bool:
        """True when the end of `final_text` is on the screen."""
        last = self._current or self._last
        return not final_text or bool(last and final_text.endswith(last))


class AnswerText:
    """The reply as it streams to standard output, which may be a file, a pipe or a terminal."""

    def __init__(self, out: TextIO, *, streaming: bool, clean: bool) -> None:
        self._out = out
        self._streaming = streaming
        self._clean = clean
        self._at_line_start = True
        self._shown = ShownText()
        self.closed = False
        """True when the reader went away."""

    def write(self, text: str) -> None:
        """Shows more of a reply."""
        if self._streaming and text:
            self._shown.add(text)
            self._put(text)

    def end_line(self) -> None:
        """Goes to the start of a line."""
        if not self._at_line_start:
            self._put("\n")

    def reply_ended(self, *, void: bool = False) -> None:
        """What comes next is another reply; a void one did not count."""
        self.end_line()
        self._shown.ended(void=void)

    def finish(self, final_text: str) -> None:
        """Shows the answer unless all of it streamed already."""
        if not self._shown.covers(final_text):
            self.end_line()
            self._put(final_text)
        self.reply_ended()

    def _put(self, text: str) -> None:
        if self.closed:
            return
        shown = printable(text) if self._clean else text
        try:
            try:
                self._out.write(shown)
            except UnicodeEncodeError:
                self._out.write(encodable(shown, self._out))
            self._out.flush()
        except (BrokenPipeError, ValueError):
            self.closed = True
        self._at_line_start = text.endswith("\n")


def note_of(event: AgentEvent) -> tuple[str, bool] | None:
    """What a run has to say beside text and tools, and whether it is bad news; None for the rest."""
    match event.data:
        case RunStarted(resumed=True):
            return "going on where the last run stopped", False
        case LLMRetryAttempted() as retry:
            why = one_line(retry.error_message, 120)
            wait = f" in {seconds_text(retry.next_sleep_s)}"
            return f"model call failed ({why}); attempt {retry.attempt} of {retry.max_attempts}{wait}", True
        case AttemptDiscarded():
            return "the reply above was cut off; it starts again", True
        case LLMDegraded() as degraded:
            return f"the model could not be reached: {one_line(degraded.error_message, 200)}", True
        case AgentError() as error:
            return f"{one_line(error.message, 300)} ({error.error_code})", True
        case LoopCancelled() as cancelled:
            return f"stopped: {cancelled.reason}", True
        case InboxDelivered() as delivered:
            return f"{counted(len(delivered.item_ids), 'message')} taken in", False
        case FoldStatus(phase="started" | "begin") as fold:
            return f"folding older messages ({fold.before_tokens:,} tokens)", False
        case FoldStatus(phase="failed") as fold:
            return f"folding failed: {one_line(fold.error_message, 200)} ({fold.error_code})", True
        case _:
            return None


def tool_end(data: ToolCallCompleted, width: int) -> str:
    """The line of a finished call after its mark."""
    first = next((line for line in data.output.splitlines() if line.strip()), "")
    lines = data.output.count("\n") + 1
    more = f" (+{counted(lines - 1, 'line')})" if lines > 1 else ""
    status = "" if data.status == "finished" else f" {data.status}"
    head = f"{data.name}{status} · {seconds_text(data.duration_s)} · "
    return head + one_line(first, max(width - len(head) - len(more), 20)) + more


def question_text(asked: Interaction) -> str:
    """A question as a person reads it."""
    choices = f" [{'/'.join(asked.options)}]" if asked.options else " [yes/no]" if asked.kind == "confirm" else ""
    return printable(asked.prompt) + choices


class PlainScreen:
    """Lines without colour or movement; what a pipe or a log gets."""

    def __init__(self, *, out: TextIO | None, err: TextIO, streaming: bool = True, quiet: bool = False) -> None:
        self.answer = None if out is None else AnswerText(out, streaming=streaming, clean=out.isatty())
        self.figures = Figures()
        self._err = err
        self._quiet = quiet

    @property
    def gone(self) -> bool:
        """See `Screen.gone`."""
        return self.answer is not None and self.answer.closed

    def event(self, event: AgentEvent) -> None:
        """See `Screen.event`."""
        self.figures.take(event)
        match event.data:
            case StreamDelta():
                if self.answer is not None:
                    self.answer.write(event.data.text)
            case AttemptDiscarded():
                self._reply_ended(void=True)
            case RoundCompleted():
                self._reply_ended()
            case ToolCallStarted():
                self._reply_ended()
                self._line(f"  > {call_text(event.data.name, event.data.arguments, 110)}")
            case ToolCallCompleted():
                self._reply_ended()
                self._line(f"  {'x' if event.data.failed else '<'} {tool_end(event.data, 110)}")
            case InputRequested():
                self._reply_ended()
            case _:
                pass
        if (said := note_of(event)) is not None:
            self.note(said[0], bad=said[1])

    def note(self, text: str, *, bad: bool = False) -> None:
        """See `Screen.note`."""
        if self.answer is not None:
            self.answer.end_line()
        self._line(f"loopwright: {printable(text)}")

    def typed(self, text: str) -> None:
        """There is no place for it."""

    def end(self, result: StatefulResult | None) -> None:
        """See `Screen.end`."""
        if result is None:
            return
        if self.answer is not None:
            self.answer.finish(result.final_text if result.status != "degraded" else "")
        if not self._quiet:
            self._line(f"[{self.figures.summary(result)}]")

    def _reply_ended(self, *, void: bool = False) -> None:
        if self.answer is not None:
            self.answer.reply_ended(void=void)

    def _line(self, text: str) -> None:
        try:
            try:
                self._err.write(text + "\n")
            except UnicodeEncodeError:
                self._err.write(encodable(text, self._err) + "\n")
            self._err.flush()
        except (BrokenPipeError, ValueError):
            pass


def encodable(text: str, stream: TextIO) -> str:
    """`text` with a question mark for what the stream's encoding cannot hold."""
    encoding = stream.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def is_terminal(stream: TextIO) -> bool:
    """True when a person reads `stream` on a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
