"""What commands a shell would run for a command line, read without running anything, and how sure that is.

Owns: the reading of words, separators, quotes and redirections as POSIX shells and bash do it; `doubt` where the words that
run cannot be told from the text alone. Must not know: rules, tools.
Read from the safe side: whatever is not plain is a doubt, and the commands found beside it are still told.
Read next: `permissions.py`.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

MAX_CHARS: Final = 20_000
MAX_COMMANDS: Final = 50
MAX_READINGS: Final = 200
"""Lists of words that one command may come to run."""
MAX_NESTED: Final = 3
"""Command lines inside of the words of others (`bash -c "…"`) that are looked into."""

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9?@*-]")
_PLAIN_TARGETS: Final = frozenset({"/dev/null"})
_RESERVED: Final = frozenset(
    [
        "!",
        "[[",
        "case",
        "coproc",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "fi",
        "for",
        "function",
        "if",
        "in",
        "select",
        "then",
        "time",
        "until",
        "while",
    ]
)
"""Words that begin something else than a simple command."""

_WRAPPERS: Final = frozenset(
    [
        "builtin",
        "chroot",
        "chrt",
        "command",
        "doas",
        "env",
        "exec",
        "find",
        "flock",
        "ionice",
        "nice",
        "nohup",
        "parallel",
        "script",
        "setarch",
        "setpriv",
        "setsid",
        "ssh",
        "stdbuf",
        "strace",
        "sudo",
        "su",
        "taskset",
        "time",
        "timeout",
        "unshare",
        "watch",
        "xargs",
    ]
)
"""Programs that run the command in their words."""

_SHELLS: Final = frozenset(
    ["ash", "bash", "busybox", "dash", "eval", "fish", "ksh", "sh", "source", "trap", "zsh", "."]
)
"""Programs whose words may be command lines."""


class SimpleCommand(Struct, frozen=True):
    """One program with its words."""

    words: tuple[str, ...]
    """Quotes taken away; never empty."""
    plain: bool = True
    """False: variables are set for it, or it reads or writes a file by redirection."""
    open_words: bool = False
    """The shell fills a word: with names of files (`*`), or with a variable (`$HOME`), which makes it not plain."""


class CommandLine(Struct, frozen=True):
    """A whole command line."""

    commands: tuple[SimpleCommand, ...]
    """In the order of the text; with a doubt there may be others."""
    doubt: str = ""
    """Why this need not be all that runs; "" when it is."""


def read_command_line(text: str) -> CommandLine:
    """The simple commands of a command line. Never raises; cost: linear in its length, of which `MAX_CHARS` are read."""
    reader = _LineReader(text[:MAX_CHARS])
    if len(text) > MAX_CHARS:
        reader.doubt("it is too long to be read")
    reader.run()
    return CommandLine(tuple(reader.commands), reader.why)


def readings(command: SimpleCommand) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """(lists of words that the command may come to run, whether these are all), for rules that must not be got around.

    As it is and by the program's bare name; behind programs that run others (`sudo`, `xargs`, `env` …), and inside of words
    that a shell would read as a command line. More than what runs: not for rules that allow.
    """
    found: dict[tuple[str, ...], None] = {}
    whole = _collect(command.words, 0, found)
    return tuple(found), whole


def _collect(words: tuple[str, ...], depth: int, found: dict[tuple[str, ...], None]) -> bool:
    """Adds the readings of these words; False when there may be more."""
    name = words[0].rpartition("/")[2]
    found |= {words: None, (name, *words[1:]): None}
    if len(found) > MAX_READINGS:
        return False
    whole = True
    if name in _WRAPPERS:
        for start in range(1, len(words)):
            if words[start:] not in found:
                whole = _collect(words[start:], depth, found) and whole
            if len(found) > MAX_READINGS:
                return False
    if name not in _SHELLS and name not in _WRAPPERS:
        return whole
    lines = [one for one in words[1:] if name in _SHELLS or any(char in one for char in " \t\n;&|(")]
    lines += [" ".join(words[1:])] if name in ("eval", "trap") else []
    if depth >= MAX_NESTED:
        return whole and not lines
    for line in lines:
        read = read_command_line(line)
        whole = whole and not read.doubt
        for command in read.commands:
            whole = _collect(command.words, depth + 1, found) and whole and not command.open_words
            if len(found) > MAX_READINGS:
                return False
    return whole


def may_become_another(words: tuple[str, ...]) -> bool:
    """Whether the shell may fill the program's name with something else."""
    return any(char in words[0] for char in "*?[$")


class _LineReader:
    """One pass over the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._words: list[str] = []
        self._word: list[str] = []
        self._in_word = False
        self._quoted: int | None = None
        """Where in the word under way the first quoted part begins, in pieces of it."""
        self._open = False
        self._plain = True
        self._open_words = False
        self._redirects = ""
        """The operator whose target is the next word; "" for none."""
        self.commands: list[SimpleCommand] = []
        self.why = ""

    def doubt(self, why: str) -> None:
        """Notes the first reason for which there may be more than what was read."""
        self.why = self.why or why

    def run(self) -> None:
        """Reads all of it."""
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            self._at += 1
            if char in " \t":
                self._end_word()
            elif char in "\n;&|()":
                self._separator(char)
            elif char in "<>":
                self._redirection(char)
            elif char == "'":
                self._single_quoted()
            elif char == '"':
                self._double_quoted()
            elif char == "\\":
                self._escaped()
            elif char == "`":
                self.doubt("it runs a command inside of another (`…`)")
                self._end_command()
            else:
                self._plain_char(char)
        self._end_command()

    def _plain_char(self, char: str) -> None:
        if char == "$":
            self._dollar()
            return
        if char == "#" and not self._in_word:
            self.doubt("it holds a comment (#)")
        elif char in "{}":
            self.doubt("the shell groups or expands a part of it ({…})")
        elif char in "*?[":
            self._open = True
        elif ord(char) < 32 or ord(char) == 127 or (char.isspace() and not char.isascii()):
            self.doubt("it holds a character that cannot be seen")
        self._take(char)

    def _dollar(self) -> None:
        """A variable fills a word and cannot bring another command; everything else behind a `$` may."""
        found = _VARIABLE.match(self._text, self._at)
        self._take("$")
        if found is None:
            self.doubt("the shell replaces a part of it ($…)")
            return
        self._word.append(found.group())
        self._at = found.end()
        self._open, self._plain = True, False

    def _quote(self) -> None:
        self._in_word = True
        if self._quoted is None:
            self._quoted = len(self._word)

    def _take(self, char: str) -> None:
        self._in_word = True
        self._word.append(char)

    def _single_quoted(self) -> None:
        end = self._text.find("'", self._at)
        self._quote()
        if end < 0:
            self.doubt("a quotation is not closed")
            end = len(self._text)
        self._word.append(self._text[self._at : end])
        if "\x00" in self._text[self._at : end]:
            self.doubt("it holds a character that cannot be seen")
        self._at = end + 1

    def _double_quoted(self) -> None:
        text = self._text
        self._quote()
        while self._at < len(text):
            char = text[self._at]
            self._at += 1
            if char == '"':
                return
            if char == "\\" and self._at < len(text) and text[self._at] in '$`"\\\n':
                char = text[self._at]
                self._at += 1
                if char == "\n":
                    continue
            elif char == "$":
                self._dollar()
                continue
            elif char == "`":
                self.doubt("it runs a command inside of another (`…`)")
            elif char == "\x00":
                self.doubt("it holds a character that cannot be seen")
            self._word.append(char)
        self.doubt("a quotation is not closed")

    def _escaped(self) -> None:
        if self._at >= len(self._text):
            self.doubt("it ends in the middle of a word")
            return
        char = self._text[self._at]
        self._at += 1
        if char != "\n":  # a backslash before the end of a line joins it with the next
            self._quote()
            self._take(char)

    def _separator(self, char: str) -> None:
        if char == "&" and self._text[self._at : self._at + 1] == ">":
            self._end_word()
            self._at += 1
            return self._redirection(">", both=True)
        if char in "()":
            self.doubt("the shell groups a part of it ((…))")
        return self._end_command()

    def _redirection(self, char: str, *, both: bool = False) -> None:
        if self._in_word and self._quoted is None and "".join(self._word).isdecimal():
            self._word, self._in_word = [], False  # the number of a descriptor
        self._end_word()
        operator = "&" + char if both else char
        while self._at < len(self._text) and len(operator) < 3 and self._text[self._at] in "<>&|":
            operator += self._text[self._at]
            self._at += 1
        if "<<" in operator:
            self.doubt("it gives a text to a command (<<)")
        if self._text[self._at : self._at + 1] == "(":
            self.doubt("it runs a command inside of another (<(…))")
        self._redirects = operator

    def _end_word(self) -> None:
        if not self._in_word:
            return
        word, quoted = "".join(self._word), self._quoted is not None
        name = "".join(self._word[: self._quoted])  # as far as the shell takes signs in it for signs
        operator, is_open = self._redirects, self._open
        self._word, self._in_word, self._quoted, self._open, self._redirects = [], False, None, False, ""
        if operator:
            to_descriptor = operator in (">&", "<&") and (word == "-" or word.isdecimal())
            harmless = to_descriptor or (operator in (">", ">>", "&>", ">|", "<") and word in _PLAIN_TARGETS)
            self._plain = self._plain and harmless
            return
        if not self._words and _ASSIGNMENT.match(name):
            self._plain = False
            return
        if not self._words and ((word in _RESERVED and not quoted) or is_open):
            self.doubt("what it begins with is no plain name of a program")
        self._open_words = self._open_words or is_open
        self._words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        if self._redirects:
            self.doubt("a redirection names nothing")
        if self._words:
            if len(self.commands) >= MAX_COMMANDS:
                self.doubt("it holds too many commands")
            else:
                self.commands.append(SimpleCommand(tuple(self._words), self._plain, self._open_words))
        elif not self._plain:
            self.doubt("it sets variables or writes to a file without a command")
        self._words, self._plain, self._open_words, self._redirects = [], True, False, ""
