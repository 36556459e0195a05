"""The vendors that are known by name: which protocol they speak, where, and which variable holds the key.

Owns: one table. Must not know: how a protocol is spoken.
Read next: `provider_config.py`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Family: TypeAlias = Literal["openai", "openai-responses", "anthropic", "echo"]
"""The protocols that are spoken; the value is also `ProviderState.provider`."""


class Vendor(Struct, frozen=True):
    """One place where models are served."""

    family: Family
    base_url: str | None = None
    """None when it has to be given."""
    key_variables: tuple[str, ...] = ()
    """Environment variables that hold the key, first found wins; empty when no key is needed."""
    key_header: str = "authorization"
    """Header of the key; "authorization" carries it as a bearer token."""


_OPENAI = "https://api.openai.com/v1"
_ANTHROPIC = "https://api.anthropic.com"

VENDORS: Final[dict[str, Vendor]] = {
    "openai": Vendor("openai", _OPENAI, ("OPENAI_API_KEY",)),
    "openai-chat": Vendor("openai", _OPENAI, ("OPENAI_API_KEY",)),
    "openai-responses": Vendor("openai-responses", _OPENAI, ("OPENAI_API_KEY",)),
    "anthropic": Vendor("anthropic", _ANTHROPIC, ("ANTHROPIC_API_KEY",), "x-api-key"),
    "claude": Vendor("anthropic", _ANTHROPIC, ("ANTHROPIC_API_KEY",), "x-api-key"),
    "azure": Vendor("openai", None, ("AZURE_OPENAI_API_KEY",), "api-key"),
    "cerebras": Vendor("openai", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    "deepseek": Vendor("openai", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    "fireworks": Vendor("openai", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "gemini": Vendor(
        "openai",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "groq": Vendor("openai", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "huggingface": Vendor("openai", "https://router.huggingface.co/v1", ("HF_TOKEN",)),
    "mistral": Vendor("openai", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "moonshot": Vendor("openai", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
    "ollama": Vendor("openai", "http://127.0.0.1:11434/v1"),
    "openrouter": Vendor("openai", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "together": Vendor("openai", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "xai": Vendor("openai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    "dashscope-anthropic": Vendor(
        "anthropic", "https://dashscope.aliyuncs.com/apps/anthropic", ("DASHSCOPE_API_KEY",), "x-api-key"
    ),
    "echo": Vendor("echo", "echo:"),
    "stub": Vendor("echo", "echo:"),
}

_COMPATIBLE = Vendor("openai", None, ("LOOPWRIGHT_API_KEY",))


def vendor_of(provider: str) -> Vendor:
    """The vendor of this tag; an unknown tag means an OpenAI-compatible server at a given base URL."""
    return VENDORS.get(provider.lower(), _COMPATIBLE)


def canonical_vendor(provider: str) -> str:
    """The tag without its aliases, in lower case."""
    name = provider.lower()
    return {"openai-chat": "openai", "claude": "anthropic", "stub": "echo"}.get(name, name)
