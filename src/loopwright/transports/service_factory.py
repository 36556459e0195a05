"""From a setting to a service: by config, by environment, by model string.

Owns: the table of adapters. Must not know: a protocol; each adapter is imported when it is first wanted, because the
HTTP client alone costs about 100 ms of import.
Read next: `http_service.py`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, Final

from ..model.errors import ConfigError
from ..ports.llm import LLMService
from .provider_config import LLMProviderConfig, echo_settings, unknown_provider
from .vendors import VENDORS, Family, vendor_of

_ADAPTERS: Final[dict[Family, str]] = {
    "openai": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "echo": "echo",
}


def create_llm_service_from_config(config: LLMProviderConfig) -> LLMService:
    """A service for `config`; connections are opened by the first call."""
    module = importlib.import_module(f".{_ADAPTERS[config.family]}", __package__)
    service: LLMService = module.open_service(config)
    return service


def create_llm_service_from_env(
    prefix: str = "LOOPWRIGHT_", fallback_prefix: str | None = None, env: Mapping[str, str] | None = None
) -> LLMService:
    """A service from LOOPWRIGHT_MODEL, _BASE_URL, _API_KEY and _PROVIDER, falling back to OPENAI_* and ANTHROPIC_*.

    Raises: `ConfigError` that names the variables to set.
    """
    return create_llm_service_from_config(LLMProviderConfig.from_env(prefix, fallback_prefix, env))


def create_llm_service(model: str, *, env: Mapping[str, str] | None = None, **settings: Any) -> LLMService:
    """A service for a model string such as `openai:gpt-5-mini`, `anthropic:claude-sonnet-4-5`, `ollama:llama3:8b` or `echo:`.

    `settings` are fields of `LLMProviderConfig`; the key comes from the vendor's variable in `env` (the process's own
    by default), or from LOOPWRIGHT_API_KEY; a base URL of one's own from LOOPWRIGHT_BASE_URL.
    Raises: `ConfigError` that says which variable is missing.
    """
    return create_llm_service_from_config(config_of_model(model, env=env, **settings))


def config_of_model(model: str, *, env: Mapping[str, str] | None = None, **settings: Any) -> LLMProviderConfig:
    """The config that `create_llm_service` uses."""
    values = os.environ if env is None else env
    provider, colon, name = model.partition(":")
    if not colon or not provider:
        raise ConfigError(
            f"model string {model!r} must be provider:model, for example openai:gpt-5-mini; providers: {', '.join(sorted(VENDORS))}"
        )
    unknown = sorted(set(settings) - set(LLMProviderConfig.__struct_fields__))
    if unknown:
        raise ConfigError(
            f"unknown settings {', '.join(unknown)}; known: {', '.join(LLMProviderConfig.__struct_fields__)}"
        )
    vendor = vendor_of(provider)
    known = provider.lower() in VENDORS
    settings.setdefault("provider", provider)
    settings.setdefault("model", name)
    if settings.get("base_url") is None:
        own = {"openai": "OPENAI_BASE_URL", "openai-responses": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
        variables = [own.get(provider.lower(), ""), "" if known and vendor.base_url else "LOOPWRIGHT_BASE_URL"]
        settings["base_url"] = next((values[v] for v in variables if values.get(v)), None)
        if settings["base_url"] is None and settings["provider"].lower() not in VENDORS:
            raise unknown_provider(settings["provider"], "any other word needs base_url")
    if vendor.family == "echo":
        settings.setdefault("extra", echo_settings(values))
    if settings.get("api_key") is None and settings.get("auth") is None:
        # A key that was set for one provider is never sent to another.
        ours = values.get("LOOPWRIGHT_PROVIDER", "").lower() in ("", provider.lower())
        variables = [*vendor.key_variables, "LOOPWRIGHT_API_KEY" if ours else ""]
        settings["api_key"] = next((values[v] for v in variables if values.get(v)), None)
    return LLMProviderConfig(**settings)
