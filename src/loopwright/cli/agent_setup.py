"""From options to a loop: the model, the store, the tools.

Owns: what each setting falls back to, and that nothing is made for a wrong one. Must not know: terminals.
Read next: `store_place.py`, `session_drive.py`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from ..config import AgentLoopConfig
from ..context.permission_file import PERMISSION_FILE, PermissionFile, load_permissions
from ..loop import StatefulAgentLoop
from ..model.control_records import PermissionMode
from ..model.errors import ConfigError
from ..model.records import SessionCreated
from ..ports.llm import LLMRequest, LLMResponse, LLMStreamChunk
from ..ports.store_admin import SessionStore
from ..tools.presets import PRESETS, WORKSPACE_VARIABLE, create_default_tool_registry
from ..transports.provider_config import OTHER_WAYS, LLMProviderConfig
from ..transports.service_factory import config_of_model, create_llm_service_from_config
from . import mcp_setup
from .journal_lines import record_of
from .session_ids import resolved
from .shell_setup import AUTO, shell_of
from .store_place import DEFAULT_DB, check_there, db_option, made_store

DEFAULT_AGENT: Final = "cli"
"""Sessions of the command are its own: those of other programs need the tools of those programs."""

MODEL_VARIABLES: Final = ("LOOPWRIGHT_MODEL", "OPENAI_MODEL", "ANTHROPIC_MODEL")
"""Where the environment names a model."""

EXAMPLE: Final = (
    "for example: export LOOPWRIGHT_MODEL=openai:gpt-5-mini OPENAI_API_KEY=... (or --model echo: to try it offline)"
)


class AgentSettings(Struct, frozen=True, kw_only=True):
    """What the options of a command said; None was not said."""

    db: str = DEFAULT_DB
    model: str | None = None
    base_url: str | None = None
    workspace: str | None = None
    preset: str | None = None
    allow_bash: bool = False
    sandbox: str = AUTO
    mcp: bool = False
    mcp_config: str | None = None
    mode: str | None = None
    max_rounds: int | None = None
    stream: bool = True
    system: str | None = None
    agent: str = DEFAULT_AGENT

    def repeated(self) -> str:
        """The options that another command on the same session needs too, for the lines that say how to go on."""
        return db_option(self.db) + "".join(f" {shlex.quote(word)}" for word in self.repeated_words())

    def repeated_words(self) -> tuple[str, ...]:
        """The same without the store, a word each."""
        given: list[str] = []
        if self.base_url:
            given += ["--base-url", self.base_url]
        if self.agent != DEFAULT_AGENT:
            given += ["--agent", self.agent]
        if self.allow_bash:
            given.append("--allow-bash")
        if self.sandbox != AUTO:
            given += ["--sandbox", self.sandbox]
        if self.mcp_config:
            given += ["--mcp-config", self.mcp_config]
        elif self.mcp:
            given.append("--mcp")
        if self.mode is not None:
            given += ["--mode", self.mode]
        return tuple(given)


def model_config(settings: AgentSettings, env: Mapping[str, str]) -> LLMProviderConfig:
    """The model settings: options first, then LOOPWRIGHT_*, OPENAI_* and ANTHROPIC_* of `env`.

    Raises: `ConfigError`, one line that names what to set.
    """
    try:
        if settings.model:
            given: dict[str, Any] = {"base_url": settings.base_url} if settings.base_url else {}
            return config_of_model(settings.model, env=env, **given)
        if settings.base_url:
            env = {**env, "LOOPWRIGHT_BASE_URL": settings.base_url}
        return LLMProviderConfig.from_env(env=env)
    except ConfigError as error:
        problems = "; ".join(error.problems).replace(OTHER_WAYS, "").replace("needs base_url", "needs --base-url")
        raise ConfigError(f"{problems}; {EXAMPLE}") from error


class NoModel:
    """Stands in for a model where a command never asks one."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Raises: `ConfigError`."""
        raise ConfigError("this command runs no model")

    def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamChunk]:
        """Raises: `ConfigError`."""
        raise ConfigError("this command runs no model")

    async def aclose(self) -> None:
        """Nothing to release."""


class Agent(Struct, frozen=True):
    """A loop that can run sessions, and the session that was named."""

    loop: StatefulAgentLoop
    model: LLMProviderConfig
    session_id: str | None
    """None: a new one is to be made."""
    metadata: dict[str, Any]
    """For a new session: what its next commands fall back to."""


@asynccontextmanager
async def opened_agent(
    settings: AgentSettings, session_id: str | None, env: Mapping[str, str]
) -> AsyncGenerator[Agent]:
    """A loop whose store is made when it is missing and no session is named; the model settings must be complete.

    Where the options say nothing, a session that goes on takes the model, preset and workspace that it began with.
    """
    if session_id is None:  # before anything is made
        model_config(settings, env)
        _permissions(settings, _metadata(settings, {}, env)["workspace"])
        mcp_setup.check(settings, _metadata(settings, {}, env)["workspace"], env)
    else:
        check_there(settings.db)
    store = made_store(settings.db)
    try:
        named = None if session_id is None else await resolved(store, session_id)
        begun_with = {} if named is None else await begun_with_of(store, named)
        if settings.model is None and not any(env.get(name) for name in MODEL_VARIABLES):
            settings = msgspec.structs.replace(settings, model=begun_with.get("model"))
        config = model_config(settings, env)
        metadata = {**_metadata(settings, begun_with, env), "model": f"{config.provider}:{config.model}"}
        permissions = _permissions(settings, metadata["workspace"])
        tools = create_default_tool_registry(
            metadata["preset"],  # type: ignore[arg-type]
            workspace=metadata["workspace"],
            allow_bash=settings.allow_bash,
            shell_backend=await shell_of(settings.sandbox, settings.db, metadata["workspace"])
            if settings.allow_bash
            else None,
        )
        service = create_llm_service_from_config(config)
        try:
            async with mcp_setup.offered(settings, metadata["workspace"], env, tools):
                loop = StatefulAgentLoop(
                    llm=service,
                    store=store,
                    tools=tools,
                    config=_loop_config(settings, config),
                    permissions=permissions,
                )
                try:
                    yield Agent(loop, config, named, {"cli": metadata})
                finally:
                    await loop.aclose()
        finally:
            await service.aclose()
    finally:
        await store.aclose()


def _loop_config(settings: AgentSettings, model: LLMProviderConfig) -> AgentLoopConfig:
    limits: dict[str, Any] = {} if settings.max_rounds is None else {"max_rounds": settings.max_rounds}
    return AgentLoopConfig(agent_name=settings.agent, system_prompt=settings.system, stream=settings.stream, **limits)


async def begun_with_of(store: SessionStore, session_id: str) -> dict[str, str]:
    """Model, preset and workspace that a session of the command began with; nothing for one of another program."""
    rows = await store.read(session_id, limit=1)
    created = record_of(rows[0]) if rows else None
    found: Any = created.metadata.get("cli") if isinstance(created, SessionCreated) else None
    try:
        return msgspec.convert(found or {}, dict[str, str])
    except msgspec.ValidationError:
        return {}


def _metadata(settings: AgentSettings, begun_with: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    preset = settings.preset or begun_with.get("preset") or "core"
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; use {', '.join(PRESETS)}")
    if settings.sandbox != AUTO and not settings.allow_bash:
        raise ConfigError("--sandbox says where shell commands run, and there are none: add --allow-bash")
    if settings.allow_bash and "bash" not in PRESETS[preset]:
        raise ConfigError(f"--allow-bash does nothing with preset {preset}, which has no shell; use --preset core")
    return {
        "preset": preset,
        "workspace": str(_workspace(settings.workspace or begun_with.get("workspace"), env)),
    }


def _permissions(settings: AgentSettings, workspace: str) -> PermissionFile | None:
    """What calls may do, from the project's file and `--mode`; None where there is neither. Raises: `ConfigError`."""
    path = Path(workspace) / PERMISSION_FILE
    is_there = os.path.lexists(path)
    if not is_there and settings.mode is None:
        return None
    mode = cast("PermissionMode | None", settings.mode)  # a word that is none is told like one in the file
    return load_permissions(path, mode=mode, workspace=workspace, may_be_missing=not is_there)


def _workspace(given: str | None, env: Mapping[str, str]) -> Path:
    folder = Path(given or env.get(WORKSPACE_VARIABLE) or ".")
    if not folder.is_dir():
        raise ConfigError(f"workspace {str(folder)!r} is not a folder; name one with --workspace")
    return folder.resolve()
