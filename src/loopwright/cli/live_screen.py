"""What a run looks like on a terminal: finished lines above, the line being written and a status bar below.

Owns: the moving part at the bottom. Must not know: runs.
The answer goes to standard output when that is not a terminal; else both streams are one screen, and one console draws it.
Read next: `session_drive.py`.
"""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.spinner import Spinner
from rich.text import Text

from ..core.result import StatefulResult
from ..model.events import (
    AgentEvent,
    AttemptDiscarded,
    InputRequested,
    LLMCallStarted,
    RoundCompleted,
    RoundStarted,
    RunEnded,
    RunStarted,
    StreamDelta,
    StreamThinkDelta,
    ToolArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
)
from .journal_lines import call_text, one_line, printable, tokens_text
from .live_bottom import LiveBottom
from .screen import AnswerText, Figures, ShownText, note_of, seconds_text, tool_end


class LiveScreen:
    """Draws runs on a terminal.

    Text is printed word-wrapped as it comes: whole screen lines go up for good, the last one stays in the moving part
    until it is full, so that nothing that was shown is drawn twice and scrolling back works.
    """

    def __init__(
        self,
        console: Console,
        *,
        out: TextIO | None = None,
        answer: bool = True,
        streaming: bool = True,
        model: str = "",
    ) -> None:
        self.figures = Figures(model)
        self._console = console
        self._aside = None if out is None else AnswerText(out, streaming=streaming, clean=False)
        self._show_text = answer and out is None
        self._live: LiveBottom | None = None
        self._line = ""
        self._shown = ShownText()
        self._doing = ""
        self._tools: dict[str, tuple[str, float]] = {}
        self._typed = ""
        self._spinner = Spinner("dots" if not console.legacy_windows and _draws_braille(console) else "line")

    @property
    def gone(self) -> bool:
        """See `Screen.gone`."""
        return self._aside is not None and self._aside.closed

    def event(self, event: AgentEvent) -> None:
        """See `Screen.event`."""
        self.figures.take(event)
        match event.data:
            case RunStarted():
                self._start()
            case RoundStarted():
                if self._live is not None:  # a quick round would be over before the next frame
                    self._live.refresh()
            case LLMCallStarted():
                self._doing = "waiting for the model"
            case StreamThinkDelta():
                self._doing = "thinking"
            case StreamDelta():
                self._doing = "writing"
                self._text(event.data.text)
            case ToolArgumentsDelta():
                self._doing = "writing a tool call"
            case ToolCallStarted():
                self._reply_ended()
                shown = call_text(event.data.name, event.data.arguments, max(self._console.width - 20, 30))
                self._tools[event.data.tool_call_id] = (shown, time.monotonic())
            case ToolCallCompleted():
                self._reply_ended()
                self._tool_ended(event.data)
            case AttemptDiscarded():
                self._reply_ended(void=True)
            case RoundCompleted() | InputRequested():
                self._reply_ended()
                self._doing = ""
            case RunEnded():
                self._doing = ""
            case _:
                pass
        if (said := note_of(event)) is not None:
            self.note(said[0], bad=said[1])

    def note(self, text: str, *, bad: bool = False) -> None:
        """See `Screen.note`."""
        self._reply_ended()
        self._print(Text(f"  {printable(text)}", style="yellow" if bad else "dim"))

    def typed(self, text: str) -> None:
        """Shows what is being typed while the run goes on."""
        self._typed = text
        if self._live is not None:
            self._live.refresh()

    def end(self, result: StatefulResult | None) -> None:
        """See `Screen.end`."""
        if result is not None:
            self._finish_text(result.final_text if result.status != "degraded" else "")
        self._reply_ended()
        self._tools.clear()
        self._typed = ""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if result is not None:
            style = "dim" if result.ok else "yellow"
            self._console.print(Text(f"  {self.figures.summary(result)}", style=style))

    def _start(self) -> None:
        if self._live is None:
            self._live = LiveBottom(self._console, self._bottom)

    def _bottom(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._line:
            parts.append(Text(self._line, no_wrap=True, overflow="crop"))
        now = time.monotonic()
        for shown, began in list(self._tools.values()):
            parts.append(
                Text(f"  ● {shown} {seconds_text(now - began)}", style="cyan", no_wrap=True, overflow="ellipsis")
            )
        parts.append(self._bar())
        if self._typed:
            parts.append(Text(f"› {self._typed}▏", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _bar(self) -> RenderableType:
        figures = self.figures
        words = [
            f"round {figures.round}/{figures.max_rounds}" if figures.round else "starting",
            tokens_text(figures.usage),
            seconds_text(figures.elapsed_s),
            *([figures.model] if figures.model else []),
            *([self._doing] if self._doing and not self._tools else []),
            "Ctrl-C stops",
        ]
        bar = " · ".join(words)
        self._spinner.update(text=Text(one_line(bar, max(self._console.width - 4, 20)), style="dim"), style="cyan")
        return self._spinner

    def _text(self, text: str) -> None:
        if self._aside is not None:
            self._aside.write(text)
        elif self._show_text:
            self._shown.add(text)
            *whole, self._line = (self._line + printable(text).replace("\t", "    ")).split("\n")
            for line in whole:
                self._print(Text(line))
            if len(self._line) >= self._console.width:
                *full, last = Text(self._line).wrap(self._console, self._console.width)
                for piece in full:
                    self._print(piece)
                self._line = last.plain

    def _finish_text(self, final_text: str) -> None:
        if self._aside is not None:
            self._aside.finish(final_text)
        elif self._show_text and not self._shown.covers(final_text):
            self._reply_ended()
            self._text(final_text)

    def _reply_ended(self, *, void: bool = False) -> None:
        if self._aside is not None:
            self._aside.reply_ended(void=void)
        if self._line:
            line, self._line = self._line, ""
            self._print(Text(line))
        self._shown.ended(void=void)

    def _tool_ended(self, data: ToolCallCompleted) -> None:
        started = self._tools.pop(data.tool_call_id, None)
        mark, style = ("✗", "red") if data.failed else ("✓", "green")
        shown = started[0] if started is not None else data.name
        self._print(Text.assemble((f"  {mark} ", style), shown))
        width = self._console.width - 5
        self._print(Text(f"    {one_line(tool_end(data, width).partition(' · ')[2], width)}", style="dim"))

    def _print(self, text: Text) -> None:
        self._console.print(text, highlight=False)


def _draws_braille(console: Console) -> bool:
    return "utf" in (console.encoding or "").lower()


def terminal_console(stream: TextIO) -> Console:
    """A console that draws on `stream`; NO_COLOR and TERM are honoured, text is never read as markup."""
    return Console(file=stream, highlight=False, markup=False, emoji=False)


def print_lines(console: Console, shown: RenderableType) -> None:
    """Prints; in a pipe lines are as long as they are, and without the blanks that fill a terminal's width."""
    if console.is_terminal:
        console.print(shown)
        return
    console.width = 10_000
    with console.capture() as captured:
        console.print(shown)
    console.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))
