"""`loopwright worker`.

Owns: which agent a worker runs, a line for each session. Must not know: how work is found.
Read next: `engine/worker.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import typer
from msgspec import Struct
from msgspec.structs import replace

from ..config import WorkerSettings
from ..engine.worker import SessionNews
from ..loop import StatefulAgentLoop
from ..model.errors import ConfigError, LoopwrightError
from ..ports.ambient import breathe
from .agent_options import SETTINGS, takes_agent
from .agent_setup import Agent, AgentSettings, begun_with_of, opened_agent
from .exit_codes import ExitCode
from .store_place import DB_VARIABLE, DEFAULT_DB

Accepts = Callable[[str], Awaitable[bool]]

WIND_DOWN_S: Final = 1.0

_DEFAULTS: Final = AgentSettings()


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How the worker works."""

    agent_module: str | None
    once: bool
    settings: WorkerSettings


@takes_agent(without=("db", "no_stream"))
def worker(
    db: Annotated[
        str,
        typer.Option(
            "--dsn", "--db", metavar="PATH", envvar=DB_VARIABLE, show_envvar=False, help="The store: a file or a DSN."
        ),
    ] = DEFAULT_DB,
    agent_module: Annotated[
        str | None,
        typer.Option(
            "--agent-module",
            metavar="MODULE:NAME",
            help="A function of yours that makes the StatefulAgentLoop to serve.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Do what there is to do now and end.")] = False,
    max_sessions: Annotated[
        int | None,
        typer.Option("--max-sessions", metavar="N", min=1, help="Sessions that run at once; default 16."),
    ] = None,
    drain_timeout_s: Annotated[
        float | None,
        typer.Option(
            "--drain-timeout", metavar="SECONDS", help="How long running sessions may go on after SIGTERM; default 10."
        ),
    ] = None,
    settings: AgentSettings = SETTINGS,
) -> None:
    """Run interrupted sessions and those with waiting messages, until SIGTERM.

    Any number of workers may serve one store. A line on standard output for each session taken, ended and left.
    """
    settings = replace(settings, db=db)
    limits: dict[str, Any] = {} if max_sessions is None else {"max_sessions": max_sessions}
    options = WorkerOptions(
        agent_module=agent_module, once=once, settings=WorkerSettings(drain_timeout_s=drain_timeout_s, **limits)
    )
    raise typer.Exit(asyncio.run(_serve(settings, options)))


async def _serve(settings: AgentSettings, options: WorkerOptions) -> int:
    async with _opened(settings, options.agent_module) as (loop, accepts):
        work = loop.serve(
            settings=options.settings, once=options.once, handle_signals=True, on_session=_say, accepts=accepts
        )
        serving = asyncio.get_running_loop().create_task(work)
        await breathe()  # so that who reads the next line may send a signal
        sys.stderr.write(f"loopwright: serving agent {loop.config.agent_name!r}; SIGTERM or Ctrl-C ends it\n")
        sys.stderr.flush()
        done = await serving
        sys.stderr.write(
            f"loopwright: {done.taken} taken, {done.ended} ended, {done.left} left, {done.timers} timers\n"
        )
    await _end_what_does_not_end()
    return ExitCode.COMPLETED


async def _end_what_does_not_end() -> None:
    """Ends the process when a handler that was left behind does not stop: nobody would hear its result."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others and (await asyncio.wait(others, timeout=WIND_DOWN_S))[1]:
        sys.stderr.write("loopwright: a tool does not stop; it is ended with the process\n")
        sys.stderr.flush()
        os._exit(ExitCode.COMPLETED)


@asynccontextmanager
async def _opened(
    settings: AgentSettings, agent_module: str | None
) -> AsyncGenerator[tuple[StatefulAgentLoop, Accepts | None]]:
    """The loop to serve, and which sessions are for it."""
    if agent_module is not None:
        loop = await made_by_host(settings, agent_module)
        try:
            yield loop, None
        finally:
            await loop.aclose()
        return
    async with opened_agent(settings, None, os.environ) as agent:
        yield agent.loop, _of_this_place(agent, settings)


def _of_this_place(agent: Agent, settings: AgentSettings) -> Accepts:
    """Accepts sessions that began with this worker's workspace and preset; an option that says otherwise decides."""
    here = agent.metadata["cli"]

    async def accepts(session_id: str) -> bool:
        began = await begun_with_of(agent.loop.store, session_id)
        return all(
            getattr(settings, name) is not None or began.get(name, here[name]) == here[name]
            for name in ("workspace", "preset")
        )

    return accepts


async def made_by_host(settings: AgentSettings, name: str) -> StatefulAgentLoop:
    """The loop that `--agent-module` names. Raises: `ConfigError`, also for settings beside it."""
    given = [field for field in settings.__struct_fields__ if getattr(settings, field) != getattr(_DEFAULTS, field)]
    if given:
        options = ", ".join("--dsn" if field == "db" else f"--{field.replace('_', '-')}" for field in given)
        raise ConfigError(f"{options} and --agent-module exclude each other: the function makes the whole agent")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    module, _, function = name.partition(":")
    if not module or not function:
        raise ConfigError(f"--agent-module {name!r} must be MODULE:NAME, for example my_app.agents:make_loop")
    try:
        make: Any = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"--agent-module {name!r} cannot be loaded: {error}") from error
    try:
        made = make() if callable(make) else make
        if inspect.isawaitable(made):
            made = await made
    except LoopwrightError:
        raise
    except Exception as error:
        raise ConfigError(f"{name} failed: {type(error).__name__}: {error}{_where(error)}") from error
    if not isinstance(made, StatefulAgentLoop):
        raise ConfigError(f"{name} must return a StatefulAgentLoop, not {type(made).__name__}")
    return made


def _where(error: BaseException) -> str:
    """Where it was raised; "" when nobody knows."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _say(news: SessionNews) -> None:
    """One line, its first word says what happened."""
    words = [news.what, news.session_id]
    if news.result is not None:
        words[0] = news.result.status
        words += [f"{news.result.error_code}: {news.result.error_message}"] if news.result.error_code else []
        if news.result.error is not None and not isinstance(news.result.error, LoopwrightError):
            words.append(_where(news.result.error))
    elif news.error is not None:
        words.append(f"{news.error.code}: {news.error}")
    elif news.what == "left":
        words.append("began with another workspace or preset; name them with --workspace and --preset")
    sys.stdout.write(" ".join(" ".join(words).split()) + "\n")
    sys.stdout.flush()
