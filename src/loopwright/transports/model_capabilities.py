"""What a model can take, as far as it is known: declared by the host or looked up by name.

Owns: the capability value and the table of names. Must not know: HTTP, requests.
Read next: `wire_parts.py`, which acts on it.
"""

from __future__ import annotations

import re

from msgspec import Struct


class ModelCapabilities(Struct, frozen=True, kw_only=True):
    """Tri-state abilities of one model: True, False, or None for "not known".

    A picture or file for a model that cannot take it, or of which it is not known, becomes a text that says so;
    nothing is dropped silently and a session with a picture in its history stays usable on every model.
    """

    images: bool | None = None
    """Pictures in user messages."""
    files: bool | None = None
    """Documents (PDF) in user messages."""
    json_schema: bool | None = None
    """The provider enforces a JSON Schema; else the schema goes into the instructions."""
    max_tokens_field: str | None = None
    """Chat Completions only: "max_tokens" or "max_completion_tokens"; None chooses by provider."""
    forced_tool_choice: bool | None = None
    """`tool_choice` may be "required" or a name; False sends "auto" instead."""
    usage_in_stream: bool | None = None
    """Chat Completions only: `stream_options.include_usage` is understood; False leaves it out."""

    context_tokens: int | None = None
    """Tokens that a request and its reply may have together; a fallback for longer requests needs it declared."""

    def over(self, other: ModelCapabilities) -> ModelCapabilities:
        """This value where it knows, `other` elsewhere."""
        return ModelCapabilities(
            images=other.images if self.images is None else self.images,
            files=other.files if self.files is None else self.files,
            json_schema=other.json_schema if self.json_schema is None else self.json_schema,
            max_tokens_field=self.max_tokens_field or other.max_tokens_field,
            forced_tool_choice=other.forced_tool_choice if self.forced_tool_choice is None else self.forced_tool_choice,
            context_tokens=other.context_tokens if self.context_tokens is None else self.context_tokens,
            usage_in_stream=other.usage_in_stream if self.usage_in_stream is None else self.usage_in_stream,
        )


# Providers' model pages, November 2026. A name that is in neither table is "not known".
_TEXT_ONLY = re.compile(
    r"gpt-3\.5|gpt-4-(0314|0613)|gpt-oss|o1-mini|o1-preview|o3-mini|deepseek-(chat|reasoner|r1|v[23])|qwen3?-(coder|\d+b)"
    r"|codestral|devstral|mixtral|llama-?3\.[13]|kimi-k2(?!\.)|claude-2|claude-instant|smollm"
)
_SEES = re.compile(
    r"gpt-4o|gpt-4\.[15]|gpt-4-turbo|gpt-[5-9]|chatgpt|\bo[134]\b|o4-mini|claude|gemini|gemma-?[34]|pixtral|grok-[4-9]"
    r"|mistral-(small|medium|large)|llama-?4|llama-?3\.2-(11|90)b|llava|vision|-vl\b|-vl-|qwen3\.[5-9]|kimi-k2\.[5-9]"
)
_NEW_LIMIT = re.compile(r"gpt-[5-9]|\bo[134](-|$)")
# These think on every request, and a forced tool is refused together with thinking.
_ALWAYS_THINKS = re.compile(r"claude-(opus|sonnet|fable|mythos)-(5[-.][1-9]|[6-9])(?!\d)")
_ANTHROPIC_WITHOUT_SCHEMA = re.compile(r"claude-(2|3|instant)|claude-(opus|sonnet)-4(-0|-2025\d+)?$")


def known_capabilities(family: str, vendor: str, model: str, *, own_server: bool = False) -> ModelCapabilities:
    """What is known of `model`, by its name, at `vendor`, behind the protocol `family`.

    `own_server` says that the address is not the vendor's: then only the name tells which fields are understood.
    """
    name = model.lower()
    sees: bool | None = None
    if _TEXT_ONLY.search(name):
        sees = False
    elif vendor == family or _SEES.search(name):
        # A model of the protocol's own vendor whose name is not in the table is a newer one: those all see.
        sees = True
    if family == "anthropic":
        schema = not _ANTHROPIC_WITHOUT_SCHEMA.search(name)
        forced = not _ALWAYS_THINKS.search(name)
        return ModelCapabilities(images=sees, files=sees, json_schema=schema, forced_tool_choice=forced)
    if family == "openai-responses":
        return ModelCapabilities(images=sees, files=sees, json_schema=vendor != "deepseek", forced_tool_choice=True)
    # OpenAI's newer models refuse `max_tokens`; many compatible servers know nothing else.
    new_field = vendor in ("openai", "azure") and (not own_server or bool(_NEW_LIMIT.search(name)))
    return ModelCapabilities(
        images=sees,
        files=sees if vendor in ("openai", "openrouter", "azure") else None,
        json_schema=vendor in _WITH_SCHEMA,
        max_tokens_field="max_completion_tokens" if new_field else "max_tokens",
        forced_tool_choice=True,
        usage_in_stream=True,
    )


_WITH_SCHEMA = frozenset(
    ("openai", "azure", "openrouter", "mistral", "groq", "ollama", "together", "fireworks", "xai", "gemini", "cerebras")
)
