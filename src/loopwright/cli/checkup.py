"""What `loopwright doctor` looks at.

Owns: the checks and what they advise. Must not know: how findings are shown.
Read next: `doctor_command.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from ..engine.diagnosis import SessionFinding, examine_sessions
from ..model.errors import ConfigError, LoopwrightError, StoreReadOnlyError, StoreSchemaError
from ..ports.store_admin import SchemaPolicy, SessionStore, UncertainCall
from ..transports.provider_config import LLMProviderConfig
from ..transports.vendors import vendor_of
from .agent_setup import DEFAULT_AGENT, EXAMPLE, AgentSettings, model_config
from .journal_lines import call_text, counted
from .sqlite_neighbours import is_old, neighbours_of, own_version, standard_version
from .store_place import COPY_IT, db_option, file_of, missing_file, shown, store_at, why_not_made

Grade = Literal["good", "note", "problem"]
"""good; worth knowing; something is wrong (exit code 1)."""

_SETTINGS: Final = ("LOOPWRIGHT_MODEL", "LOOPWRIGHT_PROVIDER", "LOOPWRIGHT_BASE_URL", "OPENAI_MODEL", "ANTHROPIC_MODEL")


class CheckLine(Struct, frozen=True):
    """One finding."""

    area: str
    """store, sqlite, schema, integrity, sessions, calls or model."""
    grade: Grade
    what: str
    todo: str = ""
    """What to do about it; "" when there is nothing to do."""


async def examine_all(db: str, settings: AgentSettings, env: Mapping[str, str]) -> list[CheckLine]:
    """Every check, in the order in which a person would make them; a store that cannot be opened ends its part."""
    return [*await _store_part(db), *model_part(settings, env)]


async def _store_part(db: str) -> list[CheckLine]:
    path = file_of(db)
    found = list(sqlite_part(path)) if path is not None else []
    if (missing := missing_file(db)) is not None:
        return [_missing_store(db, missing), *found]
    try:
        store = store_at(db, SchemaPolicy.VERIFY)
    except StoreSchemaError as error:
        return [_other_tables(error, db), *found]
    except LoopwrightError as error:
        todo = COPY_IT if isinstance(error, StoreReadOnlyError) else ""
        return [CheckLine("store", "problem", str(error), todo), *found]
    try:
        inside = await _inside(store, db)
        if any(line.area == "schema" for line in inside):
            return [*inside, *found]
        size = f", {path.stat().st_size / 1024:,.0f} KiB" if path is not None else ""
        found.insert(0, CheckLine("store", "good", f"{shown(db)} opens{size}; its tables are those of this version"))
        found += inside
    finally:
        try:
            await store.aclose()
        except LoopwrightError as error:
            found.append(CheckLine("store", "problem", f"it cannot be closed: {error}", "restore a backup"))
    return found


def _missing_store(db: str, path: Path) -> CheckLine:
    words = f"no store at {shown(db)}"
    if why := why_not_made(db, path):
        todo = "make the folder or its mode right, or name another store with --db"
        return CheckLine("store", "problem", f"{words}, and none can be made there: {why}", todo)
    return CheckLine("store", "note", f"{words} yet", f"`loopwright run{db_option(db)}` makes it")


def _other_tables(error: StoreSchemaError, db: str) -> CheckLine:
    words = str(error).partition("\n")[0].partition("; run `loopwright db migrate`")[0]
    todo = f"if it is a store of an older loopwright: loopwright db migrate{db_option(db)}" if error.ddl else ""
    return CheckLine("schema", "problem", words, todo)


async def _inside(store: SessionStore, db: str) -> list[CheckLine]:
    found: list[CheckLine] = []
    try:
        problems = await store.check()
        found += [
            CheckLine("integrity", "problem", f"{p.session_id + ': ' if p.session_id else ''}{p.what}", p.todo)
            for p in problems
        ]
        if not problems:
            found.append(CheckLine("integrity", "good", "pages, journals and heads are sound"))
        found += sessions_part(await examine_sessions(store), db_option(db))
        found += calls_part(await store.uncertain_calls())
    except StoreSchemaError as error:  # a server is asked for its tables when it is first used
        return [_other_tables(error, db)]
    except LoopwrightError as error:
        found.append(CheckLine("integrity", "problem", str(error), "restore a backup, or save what can be read"))
    return found


def sqlite_part(path: Path | None) -> Iterator[CheckLine]:
    """Versions of SQLite: ours, Python's own, and those of processes that have the file open."""
    version = own_version()
    if is_old(version):
        yield CheckLine("sqlite", "problem", f"SQLite {version} can lose committed data", "pip install -U apsw")
    else:
        yield CheckLine("sqlite", "good", f"SQLite {version} in loopwright")
    if is_old(standard_version()):
        yield CheckLine(
            "sqlite",
            "note",
            f"this Python's sqlite3 module has {standard_version()}, which can lose data when it writes to a busy file",
            "do not write to the store with it while agents run; reading is safe",
        )
    for other in neighbours_of(path) if path is not None else ():
        if other.old:
            words = f"process {other.pid} ({other.program}) has the store open with SQLite {other.version}"
            yield CheckLine("sqlite", "problem", words, "end it, or give it a SQLite of 3.51.3 or newer")
        else:
            yield CheckLine("sqlite", "note", f"process {other.pid} ({other.program}) has the store open")


def sessions_part(findings: Sequence[SessionFinding], db_option: str) -> list[CheckLine]:
    """What was found in the sessions: how many are fine, and each that is not."""
    fine = sum(1 for finding in findings if finding.healthy)
    grade: Grade = "good" if fine == len(findings) else "note"
    found = [CheckLine("sessions", grade, f"{fine} of {counted(len(findings), 'session')} readable and sendable")]
    for finding in findings:
        sid = finding.session_id
        detail = f": {finding.detail.removeprefix(f'session {sid!r}, ')}" if finding.detail else ""
        own = finding.agent_name == DEFAULT_AGENT
        resume = f"loopwright {'workflow' if finding.kind == 'workflow' else 'sessions'} resume {sid}{db_option}"
        match finding.condition:
            case "fine":
                pass
            case "running":
                found.append(CheckLine("sessions", "note", f"{sid} is running ({finding.detail})"))
            case "interrupted":
                todo = resume if own else f"start the program of agent {finding.agent_name!r}, or call loop.recover()"
                found.append(CheckLine("sessions", "note", f"{sid} was interrupted{detail}", todo))
            case "waiting":
                todo = f"{resume} --answer TEXT" if own else f"answer it in the program of agent {finding.agent_name!r}"
                found.append(CheckLine("sessions", "note", f"{sid} waits{detail}", todo))
            case "encrypted":
                todo = "say where its keys are: LOOPWRIGHT_KEY_FILE, or LOOPWRIGHT_KEYS"
                found.append(CheckLine("sessions", "problem", f"{sid} is encrypted", todo))
            case "too_new":
                found.append(CheckLine("sessions", "problem", f"{sid} {finding.detail}", "upgrade loopwright"))
            case _:
                todo = f"loopwright sessions export {sid}{db_option} saves what there is; then delete the session"
                found.append(CheckLine("sessions", "problem", f"{sid} {finding.condition}{detail}", todo))
    return found


def calls_part(calls: Sequence[UncertainCall]) -> list[CheckLine]:
    """Calls that may or may not have happened."""
    told = "the model was told" if calls else ""
    lines = [
        CheckLine(
            "calls",
            "note",
            f"{call_text(call.name, call.arguments, 70)} in {call.session_id} may or may not have happened"
            + (f" ({told})" if call.told else ""),
            f"look where it would show; its idempotency key is {call.idempotency_key}",
        )
        for call in calls
    ]
    return lines or [CheckLine("calls", "good", "no call of unknown outcome")]


def model_part(settings: AgentSettings, env: Mapping[str, str]) -> list[CheckLine]:
    """The model settings; a key is said to be there or not, and never shown."""
    try:
        config = model_config(settings, env)
    except ConfigError as error:
        nothing = not settings.model and not any(env.get(name) for name in _SETTINGS)
        words = str(error).partition(f"; {EXAMPLE}")[0]
        return [CheckLine("model", "note" if nothing else "problem", "not set" if nothing else words, EXAMPLE)]
    return [
        CheckLine("model", "good", f"{config.vendor} {config.model} at {config.host or 'this process'}; {_key(config)}")
    ]


def _key(config: LLMProviderConfig) -> str:
    if config.api_key:
        return "a key is set"
    return (
        "no key is set, none is needed"
        if not vendor_of(config.provider).key_variables
        else "no key is set (a server on this machine)"
    )


def workable(lines: Sequence[CheckLine]) -> bool:
    """True when nothing is wrong."""
    return all(line.grade != "problem" for line in lines)
