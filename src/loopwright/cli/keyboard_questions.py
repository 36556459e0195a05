"""Asking a person at the keyboard: the question in full, then one value after the other.

Owns: how questions and approvals look on a terminal, what may be typed. Must not know: sessions, runs.
Everything that a model, a tool or a server wrote is printed without control characters. Read next: `answer_fields.py`.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from ..model.errors import ConfigError
from ..model.permission_spec import as_rule
from ..model.records import Interaction
from .answer_fields import Field, answer_from_text, choices_of, fields_of, fitting, value_of
from .journal_lines import one_line, printable

MOST_LINES: Final = 20
"""Lines of one argument that are shown."""
APPROVAL: Final = ("approve", "deny")
"""The options of an approval that nobody gave others."""

_INDENT: Final = "    "
_WIDEST: Final = 100
_LEAVE: Final = "empty: leave it open"


class Left(Exception):
    """The person leaves the question open."""


def ask_on_terminal(question: Interaction) -> Any:
    """Asks a person at the keyboard until the answer fits; None when the person leaves it open (empty line, Ctrl-D)."""
    _say("")
    for line in question_lines(question, _width()):
        _say(line)
    try:
        if question.kind == "approval":
            return _approval(question)
        if question.kind == "elicitation":
            return _elicitation(question)
        if fields_of(question.schema):
            return _form(question, fields_of(question.schema))
        hint = _hint(question)
        return _until_fits(f"{hint}; {_LEAVE}" if hint else _LEAVE, lambda line: answer_from_text(question, line))
    except Left:
        return None


def question_lines(question: Interaction, width: int) -> list[str]:
    """The question as a person reads it before answering: who asks what, and what there is to choose."""
    lines = _wrapped(printable(question.prompt).rstrip(), width, "  ? ", "    ")
    if isinstance(source := question.metadata.get("source"), str):
        lines += _wrapped(f"asked by {one_line(source, 100)}, which is not this program", width, "    ", "    ")
    if question.kind == "approval":
        lines += call_lines(question, width)
        if question.options == APPROVAL:
            return lines
    if question.kind == "approval" or not fields_of(question.schema):
        for number, choice in enumerate(choices_of(question), start=1):
            lines += _wrapped(one_line(choice.label, 1000), width, f"    {number} ", "      ")
    return lines


def call_lines(question: Interaction, width: int) -> list[str]:
    """The call that an approval is about, an argument a line or more."""
    lines = [f"    {one_line(question.tool_name, width - 4)}"]
    for name, value in _arguments(question).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown = printable(text).splitlines() or [""]
        more = len(shown) - MOST_LINES
        if more > 0:
            shown = [*shown[:MOST_LINES], f"… {more} more lines"]
        head = f"      {one_line(name, 40)}: "
        if len(shown) == 1:
            lines += _wrapped(shown[0], width, head, "        ")
        else:
            lines.append(head.rstrip())
            lines += [wrapped for line in shown for wrapped in _wrapped(line, width, "        ", "        ")]
    if (rule := suggested(question)) is not None:
        lines += _wrapped(f"“always” would mean: {one_line(rule, 300)}", width, "    ", "    ")
    return lines


def suggested(question: Interaction) -> str | None:
    """The rule that "always" would make, as people read it; None where there is none."""
    rule: Any = question.metadata.get("suggested")
    if rule is None:
        return None
    try:
        return str(as_rule(rule))
    except (ConfigError, TypeError):  # of another version, or of a hook of the host's
        return rule if isinstance(rule, str) else json.dumps(rule, ensure_ascii=False)


def field_lines(field: Field, width: int) -> list[str]:
    """A field before it is asked: what it is about, and its choices."""
    lines = _wrapped(printable(field.about), width, "    ", "    ") if field.about else []
    for number, choice in enumerate(field.choices, start=1):
        lines += _wrapped(one_line(choice.label, 1000), width, f"      {number} ", "        ")
    return lines


# --- the kinds --------------------------------------------------------------------------------------------------------


def _hint(question: Interaction) -> str:
    if question.kind == "confirm":
        return "y or n"
    if choices_of(question):
        return "a number or a word"
    kind = (question.schema or {}).get("type")
    return {"number": "a number", "integer": "a whole number", "boolean": "y or n", "array": "JSON"}.get(str(kind), "")


def _form(question: Interaction, fields: tuple[Field, ...], wrap: Callable[[Any], Any] | None = None) -> Any:
    """Field by field; what does not fit together is asked again with what was typed as the new defaults."""
    _tell("(Enter takes what is in brackets, Ctrl-D leaves the question open)")
    typed: dict[str, Any] = {field.name: field.default for field in fields if field.has_default}
    while True:
        form = dict(typed)
        for field in fields:
            _field(field, form)
        form = {field.name: form[field.name] for field in fields if field.name in form}
        try:
            return fitting(question, form if wrap is None else wrap(form))
        except ValueError as error:
            _tell(f"that does not fit: {error}")
            typed = form


def _field(field: Field, form: dict[str, Any]) -> None:
    """Asks for one field until it fits; an empty line keeps what is there, or leaves it out."""
    for line in field_lines(field, _width()):
        _say(line)
    kept = f" [{one_line(_shown(form[field.name]), 40)}]" if field.name in form else ""
    name = one_line(field.title or field.name, 40)
    while True:
        text = _read(f"{name} ({one_line(field.hint, 80)}){kept}")
        if not text.strip():
            if field.name in form or not field.needed:
                return
            _tell("it is needed")
            continue
        try:
            form[field.name] = value_of(field, text)
            return
        except ValueError as error:
            _tell(f"that does not fit: {error}")


def _elicitation(question: Interaction) -> Any:
    fields = fields_of(question.schema)
    asked = "[a]nswer, [d]ecline" if fields else "[a]ccept, [d]ecline"
    action = _until_fits(f"{asked}; {_LEAVE}", lambda line: _one_of(line, {"a": "accept", "d": "decline"}))
    if action == "decline":
        return {"action": "decline"}
    if not fields:
        return {"action": "accept"}
    return _form(question, fields, lambda form: {"action": "accept", "content": form})


def _approval(question: Interaction) -> Any:
    """What a person says about a call: its option alone, or a mapping as `submit_input` takes it."""
    if question.options and question.options != APPROVAL:
        return _until_fits(f"a number or a word; {_LEAVE}", lambda line: answer_from_text(question, line))
    words = {"a": "approve", "d": "deny", "y": "approve", "n": "deny"}
    asked = "[a]pprove, [d]eny"
    if _arguments(question):
        words["e"], asked = "edit", "[a]pprove, [e]dit, [d]eny"
    if suggested(question) is not None:
        words |= {"s": "session", "p": "project"}
        asked += ", always in this [s]ession or [p]roject"
    match _until_fits(f"{asked}; {_LEAVE}", lambda line: _one_of(line, words)):
        case "deny":
            why = _read("why not? the model reads it (empty: nothing)").strip()
            return {"decision": "deny", "message": why} if why else "deny"
        case "edit":
            return {"decision": "approve", "arguments": _edited(_arguments(question))}
        case "session" | "project" as standing:
            return {"decision": "approve", "remember": standing}
        case _:
            return "approve"


def _edited(arguments: Mapping[str, Any]) -> dict[str, Any]:
    _tell("(Enter keeps what is there; text as it is, everything else as JSON)")
    edited = dict(arguments)
    for name, value in arguments.items():
        while text := _read(f"{one_line(name, 40)} [{one_line(_shown(value), 40)}]"):
            if isinstance(value, str):
                edited[name] = text
                break
            try:
                edited[name] = json.loads(text)
                break
            except ValueError as error:
                _tell(f"that is not JSON: {error}")
    return edited


def _arguments(question: Interaction) -> dict[str, Any]:
    given: Any = question.metadata.get("arguments")
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


# --- the terminal -----------------------------------------------------------------------------------------------------


def _until_fits(hint: str, meant: Callable[[str], Any]) -> Any:
    """What the first line that fits means. Raises `Left` for an empty one."""
    while True:
        text = _read(f"({hint})")
        if not text.strip():
            raise Left
        try:
            return meant(text)
        except ValueError as error:
            _tell(f"that does not fit: {error}")


def _one_of(line: str, words: Mapping[str, str]) -> str:
    """The word that is meant, by its letter or its beginning. Raises `ValueError`."""
    text = line.strip().lower()
    found = words.get(text) or next((word for word in words.values() if len(text) > 1 and word.startswith(text)), None)
    if found is None:
        raise ValueError(f"type {', '.join(dict.fromkeys(words))}")
    return found


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read(prompt: str) -> str:
    """A line. Raises `Left` at the end of input and for Ctrl-C."""
    lines = _wrapped(prompt, _width() - 2, _INDENT, _INDENT)
    for line in lines[:-1]:
        _say(line)
    sys.stderr.write(f"{lines[-1]} › ")
    sys.stderr.flush()
    # An event loop that stands still here would only note Ctrl-C: it has to end the reading.
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if _is_main() else None
    try:
        return input()
    except (EOFError, KeyboardInterrupt):
        sys.stderr.write("\n")
        raise Left from None
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _tell(text: str) -> None:
    for line in _wrapped(text, _width(), _INDENT, _INDENT):
        _say(line)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _width() -> int:
    return min(shutil.get_terminal_size().columns, _WIDEST)


def _wrapped(text: str, width: int, first: str, later: str) -> list[str]:
    """The text in lines of at most `width`, its own line breaks kept."""
    lines: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        start = later if lines else first
        lines += textwrap.wrap(
            line, max(width, 20), initial_indent=start, subsequent_indent=later, drop_whitespace=True
        ) or [start.rstrip()]
    return lines
