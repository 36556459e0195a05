"""`loopwright inbox`: what waits for a person, in all sessions of a store, and the answers.

Owns: which question was meant, what the options mean as an answer, who goes on after it. Must not know: how questions look
(`keyboard_questions.py`), how a run is shown. Read next: `asking.py`, `run_command.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec import Struct

from ..config import AgentLoopConfig
from ..core.result import StatefulResult
from ..engine.question_list import OpenQuestion, OpenQuestions, open_questions
from ..loop import StatefulAgentLoop
from ..model.errors import ConfigError, LoopwrightError
from .agent_options import SETTINGS, takes_agent
from .agent_setup import AgentSettings, NoModel, opened_agent
from .answer_fields import answer_from_fields, answer_from_text, fields_of
from .exit_codes import ExitCode, code_of_outcome
from .inbox_table import print_questions, short_ids
from .journal_lines import counted, one_line, printable
from .keyboard_questions import APPROVAL, ask_on_terminal, field_lines, question_lines, suggested
from .live_screen import terminal_console
from .options import AsJson, Db
from .plain_command import PlainCommand
from .run_command import error_json
from .session_commands import with_store
from .session_drive import ANSWERED_BY, Drive, how_to_go_on, result_json, screen_for, write_json
from .session_table import ago
from .standard_streams import text_of_argument
from .store_place import DEFAULT_DB, db_option, opened_store, shown

inbox_app = typer.Typer(help="See what waits for a person, and answer it.", no_args_is_help=True, rich_markup_mode=None)

SHORTEST: Final = 12
"""Characters that are needed to name a question by the beginning of its id: `ask_` and eight more."""
FIRST: Final = 50
"""Questions that `list` shows without --all."""

QuestionId = Annotated[
    str,
    typer.Argument(metavar="ID", help="A question; `last` is the newest.", show_default=False),
]


@inbox_app.command("list", cls=PlainCommand)
def list_questions(
    db: Db = DEFAULT_DB,
    everything: Annotated[bool, typer.Option("--all", help=f"Not only the {FIRST} that wait longest.")] = False,
    as_json: AsJson = False,
) -> None:
    """List open questions of all sessions, the oldest first."""
    found = with_store(db, open_questions)
    kept = found.questions if everything else found.questions[:FIRST]
    if as_json:
        write_json({"questions": [question_json(one) for one in kept], "unreadable": list(found.unreadable)})
    elif kept:
        print_questions(terminal_console(sys.stdout), kept, short_ids([one.question.id for one in found.questions]))
    else:
        _tell(f"nobody is asked anything in {shown(db)}")
    if more := len(found.questions) - len(kept):
        _tell(f"and {counted(more, 'more question')}; --all shows them")
    _tell_unreadable(found)


@inbox_app.command(cls=PlainCommand)
def show(question_id: QuestionId, db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Show a question in full, and how to answer it."""
    one = meant(with_store(db, open_questions), question_id, db)
    if as_json:
        return write_json(question_json(one))
    width = terminal_console(sys.stdout).width if sys.stdout.isatty() else 100
    asked = one.question
    below = "" if one.asked_by == one.session_id else f", asked by {one.asked_by}"
    facts = [
        f"question {asked.id}",
        f"session {one.session_id}{below}",
        f"agent {' → '.join([one_line(name, 40) for name in one.agents])}, tool {one_line(asked.tool_name, 60)}"
        + ("" if one.asked_at is None else f", asked {ago(one.asked_at)}"),
    ]
    lines = [part for fact in facts for part in textwrap.wrap(fact, max(width, 30), subsequent_indent="  ")]
    lines += ["", *question_lines(asked, width)]
    for field in fields_of(asked.schema) if asked.kind != "approval" else ():
        lines += [f"    {one_line(field.name, 40)} ({one_line(field.hint, 120)})", *field_lines(field, width)]
    sys.stdout.write("\n".join([*lines, "", f"answer: {_how(one, db)}"]) + "\n")
    return None


class Given(Struct, frozen=True, kw_only=True):
    """What the options say the answer is."""

    value: str | None = None
    fields: tuple[str, ...] = ()
    approve: bool = False
    deny: bool = False
    message: str | None = None
    edit: str | None = None
    always: str | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing was said: a person at a terminal is asked."""
        return self == Given()


@inbox_app.command(cls=PlainCommand)
@takes_agent(without=("system",))
def answer(
    question_id: QuestionId,
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="The answer; - reads it from standard input.", show_default=False),
    ] = None,
    fields: Annotated[
        list[str] | None, typer.Option("--field", metavar="NAME=VALUE", help="A field of a form; once for each.")
    ] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Let the call run.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Do not; also declines what a server asks.")] = False,
    message: Annotated[
        str | None, typer.Option("--message", metavar="TEXT", help="Why not; the model reads it.")
    ] = None,
    edit: Annotated[
        str | None, typer.Option("--edit", metavar="JSON", help="Let the call run with these arguments instead.")
    ] = None,
    always: Annotated[
        str | None, typer.Option("--always", metavar="session|project", help="Do not ask again for such calls.")
    ] = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Only store it; a worker or resume goes on.")] = False,
    settings: AgentSettings = SETTINGS,
    as_json: AsJson = False,
) -> None:
    """Answer a question, and go on with its session.

    On a terminal, without a value, it asks. A session of another agent, and a run of a workflow, is not run here: the
    answer is stored, and its own program goes on with it.
    """
    text = sys.stdin.read().rstrip("\n") if value == "-" else None if value is None else text_of_argument(value)
    given = Given(
        value=text,
        fields=tuple(fields or ()),
        approve=approve,
        deny=deny,
        message=message,
        edit=edit,
        always=always,
    )
    raise typer.Exit(asyncio.run(_carry_out(settings, question_id, given, no_run=no_run, as_json=as_json)))


async def _carry_out(settings: AgentSettings, question_id: str, given: Given, *, no_run: bool, as_json: bool) -> int:
    session_id: str | None = None
    try:
        async with opened_store(settings.db) as store:
            one = meant(await open_questions(store), question_id, settings.db)
            session_id = one.session_id
            head = (await store.lookup(session_id)).head
        value = _value(one, given, settings.db)
        if value is None:
            _tell("the question stays open")
            return ExitCode.WAITING
        if no_run or one.agent_name != settings.agent or head.kind == "workflow":
            await _stored(settings, one, value)
            how = _who_goes_on(one, settings, kind=head.kind)
            if as_json:
                write_json({"session_id": session_id, "question_id": one.question.id, "status": "answered"})
            _tell(f"answered; {how}")
            return ExitCode.COMPLETED
        result = await _run(settings, one, value, as_json=as_json)
    except LoopwrightError as error:
        if as_json:
            write_json(error_json(error, session_id, settings))
        raise
    if result is None:
        return ExitCode.UNAVAILABLE
    if as_json:
        write_json(result_json(result))
    if (words := how_to_go_on(result, settings)) is not None:
        _tell(words)
    return code_of_outcome(result.status)


async def _stored(settings: AgentSettings, one: OpenQuestion, value: Any) -> None:
    """Storing an answer needs no code of the agent, only its name."""
    async with opened_store(settings.db) as store:
        config = AgentLoopConfig(agent_name=one.agent_name, serve_timers=False)
        async with StatefulAgentLoop(llm=NoModel(), store=store, config=config) as loop:
            await loop.answer_input(one.session_id, one.question.id, value, by=ANSWERED_BY)


async def _run(settings: AgentSettings, one: OpenQuestion, value: Any, *, as_json: bool) -> StatefulResult | None:
    async with opened_agent(settings, one.session_id, os.environ) as agent:
        screen = screen_for(answer=not as_json, streaming=settings.stream, model=agent.model.model)
        screen.note(f"session {one.session_id}")
        drive = Drive(agent, settings, screen)
        work = drive.answering(one.session_id, one.question, value)
        if as_json or not _at_keyboard():
            return await drive.run(work)
        return await drive.with_questions(work, ask_on_terminal)


def _who_goes_on(one: OpenQuestion, settings: AgentSettings, *, kind: str) -> str:
    if kind == "workflow":
        return f"the run goes on with: loopwright workflow resume {one.session_id}{settings.repeated()}"
    if one.agent_name != settings.agent:
        return f"agent {one_line(one.agent_name, 60)!r} goes on with session {one.session_id}: a worker of it, or its program's next resume"
    return f"go on: loopwright sessions resume {one.session_id}{settings.repeated()}, or a worker does"


# --- which question, which value --------------------------------------------------------------------------------------


def meant(found: OpenQuestions, question_id: str, db: str) -> OpenQuestion:
    """The open question with this id, or this beginning of one. Raises `ConfigError` with what is open."""
    if question_id == "last" and found.questions:
        return max(found.questions, key=lambda one: one.asked_at or 0.0)
    exact = [one for one in found.questions if one.question.id == question_id]
    fitting = exact or [one for one in found.questions if one.question.id.startswith(question_id)]
    if not exact and len(question_id) < SHORTEST and fitting:
        raise ConfigError(
            f"{question_id!r} is too short for the beginning of an id: write at least {SHORTEST} characters"
        )
    if len(fitting) == 1:
        return fitting[0]
    listing = f"`loopwright inbox list{db_option(db)}` shows what is open"
    if fitting:
        raise ConfigError(f"{len(fitting)} questions begin with {question_id!r}; write more of the id; {listing}")
    raise ConfigError(f"no open question {question_id!r}: it was answered, or never asked; {listing}")


def _value(one: OpenQuestion, given: Given, db: str) -> Any:
    """The answer that the options mean; None when a person left the question open. Raises `ConfigError`."""
    question = one.question
    if given.is_empty:
        if not _at_keyboard():
            raise ConfigError(f"nothing was answered, and nobody can be asked here; for example: {_how(one, db)}")
        return ask_on_terminal(question)
    _check_together(given)
    try:
        if given.fields:
            return answer_from_fields(question, given.fields)
        if given.value is not None:
            return answer_from_text(question, given.value)
    except ValueError as error:
        raise ConfigError(f"the answer does not fit: {error}; for example: {_how(one, db)}") from error
    if question.kind == "elicitation" and given.deny and given.message is None:
        return {"action": "decline"}
    if question.kind != "approval":
        raise ConfigError(f"this is no approval but a question of kind {question.kind}; for example: {_how(one, db)}")
    return _approval(one, given)


def _approval(one: OpenQuestion, given: Given) -> Any:
    if given.deny:
        return {"decision": "deny", "message": given.message} if given.message else "deny"
    answered: dict[str, Any] = {"decision": "approve"}
    if given.edit is not None:
        try:
            answered["arguments"] = msgspec.json.decode(given.edit, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ConfigError(f"--edit takes the arguments as one JSON object: {error}") from error
    if given.always is not None:
        if suggested(one.question) is None:
            raise ConfigError("this question suggests no rule, so that nothing can hold always; leave --always out")
        answered["remember"] = given.always
    return answered if len(answered) > 1 else "approve"


def _check_together(given: Given) -> None:
    """Raises `ConfigError` for options that do not go together."""
    approves = given.approve or given.edit is not None or given.always is not None
    ways = [given.value is not None, bool(given.fields), approves, given.deny or given.message is not None]
    if sum(ways) > 1:
        raise ConfigError(
            "give one answer: a VALUE, --field, --approve (with --edit, --always) or --deny (with --message)"
        )
    if given.message is not None and not given.deny:
        raise ConfigError("--message belongs to --deny: it is what the model reads")
    if given.always not in (None, "session", "project"):
        raise ConfigError(f"--always is session or project, not {one_line(given.always or '', 40)!r}")


def _how(one: OpenQuestion, db: str) -> str:
    """A command that answers the question."""
    question = one.question
    command = f"loopwright inbox answer {question.id}{db_option(db)}"
    if question.kind == "approval" and question.options in ((), APPROVAL):
        return f"{command} --approve (or --deny --message WHY)"
    if fields := fields_of(question.schema):
        filled = " ".join(
            [f"--field {one_line(field.name, 40)}=VALUE" for field in fields if field.needed] or ["--field NAME=VALUE"]
        )
        return f"{command} {filled}" + (" (or --deny)" if question.kind == "elicitation" else "")
    return f"{command} {'yes' if question.kind == 'confirm' else 'VALUE'}"


# --- words ------------------------------------------------------------------------------------------------------------


def question_json(one: OpenQuestion) -> dict[str, Any]:
    """An open question as JSON values."""
    return dict(msgspec.to_builtins(one))


def _at_keyboard() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _tell(text: str) -> None:
    sys.stderr.write(f"loopwright: {printable(text)}\n")
    sys.stderr.flush()


def _tell_unreadable(found: OpenQuestions) -> None:
    if found.unreadable:
        shown_ids: Sequence[str] = found.unreadable[:3]
        more = "" if len(found.unreadable) <= len(shown_ids) else ", …"
        _tell(
            f"{counted(len(found.unreadable), 'session')} that waits cannot be read here: {', '.join(shown_ids)}{more}"
        )
