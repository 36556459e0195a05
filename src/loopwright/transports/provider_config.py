"""Where the model is and how to reach it, as one checked value.

Owns: `LLMProviderConfig`, reading it from an environment. Must not know: HTTP clients, protocols; reading it must
stay cheap, so nothing heavy is imported here.
Read next: `service_factory.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final, TypeGuard
from urllib.parse import urlsplit

from msgspec import Struct, field

from ..model.errors import ConfigError
from .model_capabilities import ModelCapabilities, known_capabilities
from .vendors import VENDORS, Family, canonical_vendor, vendor_of

OTHER_WAYS: Final = ", or pass api_key= (LLMProviderConfig by itself reads no environment)"
"""What the message of a missing key goes on with, after the variable to set."""

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class LLMProviderConfig(Struct, frozen=True, kw_only=True):
    """One model at one provider.

    Raises: `ConfigError` at construction, which lists everything that is missing or wrong at once.
    `repr` never shows the key, the headers or a proxy's password.
    """

    provider: str = "openai"
    """"openai" (Chat Completions), "openai-responses", "anthropic", "echo", or a known vendor such as "openrouter",
    "groq" or "ollama"; any other tag means an OpenAI-compatible server at `base_url`."""
    base_url: str | None = None
    """Address up to and including the version; None takes the vendor's own."""
    api_key: str | None = None
    """Not needed with `auth`, with a host's own client or headers, or for a server on this machine."""
    model: str = ""
    """The model's name as the provider spells it."""
    timeout_s: float = 180.0
    """Longest silence between two pieces of a reply, in seconds; connecting has `connect_timeout_s`."""
    connect_timeout_s: float = 10.0
    max_output_tokens: int | None = 8000
    """Upper limit of a reply when the request names none; None sends no limit (Anthropic needs one)."""
    temperature: float | None = None
    """None is not sent: newer models refuse the field."""
    headers: Mapping[str, str] = field(default_factory=lambda: {})
    """Added to every request; they win over ours."""
    proxy: str | None = None
    """Address of an HTTP or SOCKS proxy; None takes HTTP_PROXY, HTTPS_PROXY and NO_PROXY from the environment."""
    auth: Any = None
    """An `httpx2.Auth`, for keys that expire or requests that are signed."""
    http_client: Any = None
    """A host's own `httpx2.AsyncClient`; it is used as it is and never closed here."""
    capabilities: ModelCapabilities = ModelCapabilities()
    """What is known better than the table of model names."""
    extra: Mapping[str, Any] = field(default_factory=lambda: {})
    """Provider fields added to every request body; `LLMRequest.extra` wins over them."""

    def __post_init__(self) -> None:
        problems = self._problems()
        if problems:
            raise ConfigError(problems)

    def __repr__(self) -> str:
        return f"LLMProviderConfig(provider={self.provider!r}, model={self.model!r}, host={self.host!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # What pretty tracebacks print of local variables; msgspec's own would list every field.
        return [("provider", self.provider), ("model", self.model), ("host", self.host)]

    @property
    def family(self) -> Family:
        """The protocol that is spoken."""
        return vendor_of(self.provider).family

    @property
    def vendor(self) -> str:
        """The provider tag without its aliases."""
        return canonical_vendor(self.provider)

    @property
    def url(self) -> str:
        """The base URL in force."""
        return self.base_url or vendor_of(self.provider).base_url or ""

    @property
    def host(self) -> str:
        """The host of the base URL; state that a provider wants back goes to the same host only."""
        try:
            return urlsplit(self.url).hostname or ""
        except (ValueError, AttributeError, TypeError):  # the check at construction reports it
            return ""

    @property
    def key_hint(self) -> str:
        """The names of the variables in which the key is looked for, for error messages."""
        return " or ".join(vendor_of(self.provider).key_variables) or "api_key"

    def capabilities_of(self, model: str) -> ModelCapabilities:
        """What is known of `model` here."""
        own_server = self.url.rstrip("/") != vendor_of(self.provider).base_url
        return self.capabilities.over(known_capabilities(self.family, self.vendor, model, own_server=own_server))

    @classmethod
    def from_env(
        cls,
        prefix: str = "LOOPWRIGHT_",
        fallback_prefix: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> LLMProviderConfig:
        """Reads PROVIDER, MODEL, BASE_URL, API_KEY, TIMEOUT_S, MAX_OUTPUT_TOKENS and TEMPERATURE with `prefix`.

        What is not set is looked for under `fallback_prefix`, when given, and then under the vendor's own names
        (OPENAI_* and ANTHROPIC_*; the provider is Anthropic when only its key is set).
        Raises: `ConfigError` that names the variables to set.
        """
        values = os.environ if env is None else env
        prefixes = [p for p in (prefix, fallback_prefix) if p]
        return _ProviderEnvironment(values, prefixes).config()

    def _problems(self) -> list[str]:
        problems: list[str] = []
        vendor = vendor_of(self.provider)
        if not self.provider:
            problems.append("provider is missing: for example openai, openai-responses or anthropic")
        if not self.url:
            problems.append(f"base_url is missing: provider {self.provider!r} has none of its own")
        elif vendor.family != "echo" and (problem := _url_problem(self.url)):
            problems.append(problem)
        if not self.model and vendor.family != "echo":
            problems.append("model is missing: the model's name as the provider spells it")
        if self._needs_key() and not self.api_key:
            problems.append(f"api_key is missing: set {self.key_hint}{OTHER_WAYS}")
        # The HTTP client would refuse such a key too, but with the key in its message.
        if self.api_key and (problem := _header_problem(self.api_key)):
            problems.append(f"api_key {problem}")
        for name, value in self.headers.items():
            if not (_is_text(name) and _HEADER_NAME.fullmatch(name)):
                problems.append("headers has a name that is not one: letters, digits and dashes")
            elif problem := _header_problem(value):
                problems.append(f"headers: the value of {name} {problem}")
        if self.timeout_s <= 0 or self.connect_timeout_s <= 0:
            problems.append("timeout_s and connect_timeout_s must be above 0")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            problems.append("max_output_tokens must be at least 1, or None for no limit")
        return problems

    def _needs_key(self) -> bool:
        if self.auth is not None or self.http_client is not None:
            return False
        if any(str(name).lower() in ("authorization", "x-api-key", "api-key") for name in self.headers):
            return False
        return bool(vendor_of(self.provider).key_variables) and self.host not in ("127.0.0.1", "localhost", "::1")


def _is_text(value: object) -> TypeGuard[str]:
    # Callers without types pass anything.
    return isinstance(value, str)


def _header_problem(value: object) -> str:
    """Why a header cannot carry `value`, without the value; "" when it can."""
    if not _is_text(value):
        return f"must be text, not {type(value).__name__}"
    if value.isascii() and value.isprintable():
        return ""
    return "holds characters that a header cannot carry, such as a line break or a typographic dash"


def _url_problem(url: object) -> str:
    """Why nothing can be reached at `url`, without the address, which may hold a password; "" when it can be tried."""
    if not _is_text(url):
        return f"base_url must be text, not {type(url).__name__}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "base_url is no address: check its host and its port"
    if parts.scheme not in ("http", "https"):
        return "base_url must begin with http:// or https://"
    if not host:
        return "base_url names no host"
    if not url.isprintable() or " " in url:
        return "base_url holds a space or a character that no address has"
    return ""


def unknown_provider(provider: str, otherwise: str) -> ConfigError:
    """The error for a provider word that is none; `otherwise` says what a word that is not known needs."""
    return ConfigError(f"unknown provider {provider!r}; known are {', '.join(sorted(VENDORS))}; {otherwise}")


def echo_settings(env: Mapping[str, str]) -> dict[str, Any]:
    """What LOOPWRIGHT_ECHO_REPLY and LOOPWRIGHT_ECHO_SLEEP of `env` say, as `extra` of an echo's config."""
    reader = _ProviderEnvironment(env, ["LOOPWRIGHT_"])
    extra = reader.echo()
    if reader.problems:
        raise ConfigError(reader.problems)
    return extra


class _ProviderEnvironment:
    """Looks settings up under several prefixes, then under the vendor's own names."""

    def __init__(self, env: Mapping[str, str], prefixes: list[str]) -> None:
        self._env = env
        self._prefixes = prefixes
        self.problems: list[str] = []

    def config(self) -> LLMProviderConfig:
        provider, model = self._provider_and_model()
        vendor = vendor_of(provider)
        own = "ANTHROPIC_" if vendor.family == "anthropic" else "OPENAI_"
        official = canonical_vendor(provider) in ("openai", "openai-responses", "anthropic")
        settings: dict[str, Any] = {"provider": provider}
        settings["model"] = model or (self._env.get(f"{own}MODEL", "") if official else "")
        settings["base_url"] = self._own("BASE_URL") or (self._env.get(f"{own}BASE_URL") if official else None) or None
        keys = [self._own("API_KEY"), *[self._env.get(name) for name in vendor.key_variables]]
        settings["api_key"] = next((key for key in keys if key), None)
        self._number(settings, "TIMEOUT_S", "timeout_s", float)
        self._number(settings, "MAX_OUTPUT_TOKENS", "max_output_tokens", int)
        self._number(settings, "TEMPERATURE", "temperature", float)
        if vendor.family == "echo":
            settings["extra"] = self.echo()
        if not settings["model"] and vendor.family != "echo":
            self.problems.append(
                f"model is missing: set {self._prefixes[0]}MODEL" + (f" or {own}MODEL" if official else "")
            )
            settings["model"] = "missing"
            if not self._own("PROVIDER"):  # until a provider is chosen, nobody knows whose key is needed
                settings["api_key"] = settings["api_key"] or "missing"
        try:
            config = LLMProviderConfig(**settings)
        except ConfigError as error:
            self.problems.extend(error.problems)
            raise ConfigError(self.problems) from None
        if self.problems:
            raise ConfigError(self.problems)
        return config

    def _provider_and_model(self) -> tuple[str, str]:
        provider, model = self._own("PROVIDER"), self._own("MODEL")
        if not provider:
            # A model string names its own provider, but a colon is also part of plain names such as "llama3:8b".
            head, colon, rest = model.partition(":")
            if colon and head.lower() in VENDORS:
                return head, rest
            only_anthropic = self._env.get("ANTHROPIC_API_KEY") and not self._env.get("OPENAI_API_KEY")
            looks_anthropic = model.startswith("claude") and not self._own("BASE_URL")
            provider = "anthropic" if (only_anthropic and not self._own("API_KEY")) or looks_anthropic else "openai"
            # Such names are those of servers of one's own.
            if colon and not (self._own("BASE_URL") or self._env.get(f"{provider.upper()}_BASE_URL")):
                name = self._prefixes[0]
                otherwise = f"a plain name with a colon needs {name}PROVIDER or {name}BASE_URL"
                raise unknown_provider(head, f"{name}MODEL is provider:model, {otherwise}")
        return provider, model

    def _own(self, name: str) -> str:
        for prefix in self._prefixes:
            if value := self._env.get(prefix + name, "").strip():
                return value
        return ""

    def _number(self, settings: dict[str, Any], name: str, target: str, kind: type[int] | type[float]) -> None:
        text = self._own(name)
        if not text:
            return
        try:
            settings[target] = kind(text)
        except ValueError:
            self.problems.append(f"{self._prefixes[0]}{name} must be a number")

    def echo(self) -> dict[str, Any]:
        """What the offline model is told."""
        extra: dict[str, Any] = {}
        if reply := self._own("ECHO_REPLY"):
            extra["reply"] = reply
        self._number(extra, "ECHO_SLEEP", "sleep_s", float)
        return extra
