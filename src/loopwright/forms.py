"""What a host hands to the public handle in one of several forms: tools, and the schema of an answer.

Owns: which form it is, and what is wrong with it. Must not know: loops, sends.
Read next: `loop.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from .core.decide import FoldPolicy
from .late import Late
from .model.errors import ConfigError
from .model.specs import StructuredOutputSpec
from .ports.tool import NoTools, ToolDefinition, ToolSource

if TYPE_CHECKING:
    from .engine import context_parts as parts
    from .engine.context_parts import ContextParts
    from .ports.fold import FoldStrategy
    from .ports.representation import Representation
    from .ports.token_counter import TokenCounter
    from .tools import registry, signature, validation
else:
    parts = Late("loopwright.engine.context_parts")
    registry = Late("loopwright.tools.registry")
    signature = Late("loopwright.tools.signature")
    validation = Late("loopwright.tools.validation")

OutputSchema = StructuredOutputSpec | dict[str, Any] | type


def _is_registry(tools: object) -> TypeGuard[ToolSource]:
    """True for a source of tools, false for a list of them or of their names."""
    return hasattr(tools, "problems") and hasattr(tools, "get")


def source_of_tools(tools: ToolSource | Iterable[ToolDefinition | Callable[..., Any]]) -> ToolSource:
    """What the host's tools are found in. Raises `ConfigError`."""
    if _is_registry(tools):
        return tools
    if isinstance(tools, str):
        raise ConfigError(
            f"tools must be functions, definitions or a registry, not the text {tools!r};"
            " presets come from create_default_tool_registry()"
        )
    given = _each(tools)
    return registry.ToolRegistry.of(*given) if given else NoTools()


def _each(tools: Any) -> list[Any]:
    return list(tools)


def names_of_tools(tools: Sequence[str] | ToolSource | None) -> tuple[str, ...] | None:
    """The names that narrow the tools of a send; None when it has all of them, or a source of its own."""
    if tools is None or _is_registry(tools):
        return None
    if isinstance(tools, str):
        raise ConfigError(f"tools must be a list of names, not the text {tools!r}")
    return tuple([str(name) for name in _each(tools)])


def replacing_source(tools: Sequence[str] | ToolSource | None) -> ToolSource | None:
    """What replaces the tools of a send; None when nothing does."""
    return tools if _is_registry(tools) else None


def output_spec(schema: OutputSchema | None) -> StructuredOutputSpec | None:
    """How the answer is to be. Raises `ConfigError` for a schema that does not compile."""
    if schema is None:
        return schema
    if isinstance(schema, StructuredOutputSpec):
        spec = schema
    elif isinstance(schema, dict):
        spec = StructuredOutputSpec(str(schema.get("title") or "answer"), schema)
    else:
        spec = _spec_of_type(schema)
    # A schema that does not compile must not be found out by a reply that was paid for.
    validation.CompiledSchema(spec.schema)
    return spec


def _spec_of_type(schema: type) -> StructuredOutputSpec:
    if not isinstance(schema, type):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise ConfigError(f"output_schema must be a JSON Schema, a type or a spec, not {schema!r}")
    return StructuredOutputSpec(schema.__name__, signature.schema_of_type(schema))


def fold_policy(fold: FoldStrategy) -> FoldPolicy:
    """What a strategy wants of folds. Raises: `ConfigError` listing what cannot be."""
    problems: list[str] = []
    if not 0 < fold.trigger_ratio <= 1:
        problems.append(f"fold: trigger_ratio must be more than 0 and at most 1, not {fold.trigger_ratio!r}")
    for name in ("keep_last_sends", "summary_max_tokens"):
        value = getattr(fold, name)
        if not isinstance(value, int) or value < 1:
            problems.append(f"fold: {name} must be a number from 1, not {value!r}")
    if problems:
        raise ConfigError(problems)
    return FoldPolicy(
        keep_last_sends=fold.keep_last_sends,
        trigger_ratio=fold.trigger_ratio,
        note_tokens=fold.summary_max_tokens,
    )


def context_parts(
    representation: Representation | None, fold: FoldStrategy | None, counter: TokenCounter | None
) -> ContextParts:
    """The host's implementers, together. Raises: `ConfigError` for a counter that cannot count."""
    if counter is not None and not hasattr(counter, "count"):
        raise ConfigError(f"token_counter must have count(request, model=...); a {type(counter).__name__} has not")
    return parts.ContextParts(representation=representation, fold=fold, counter=counter)
