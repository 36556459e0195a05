"""What a host hands to the public handle in one of several forms: tools, and the schema of an answer.

Owns: which form it is, and what is wrong with it. Must not know: loops, sends.
Read next: `loop.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

from msgspec.structs import replace

from .config import AgentLoopConfig, has_cost_budget
from .core.decide import FoldPolicy
from .late import Late
from .model.errors import ConfigError
from .model.notes import NotesPolicy
from .model.specs import StructuredOutputSpec
from .ports.executor import FilingExecutor
from .ports.prices import Prices
from .ports.tool import NoTools, ToolDefinition, ToolSource

if TYPE_CHECKING:
    from .engine import context_parts as parts
    from .engine import model_chain
    from .engine.context_parts import ContextParts
    from .engine.model_chain import ModelChain
    from .model import context_records, permission_spec
    from .model.permission_spec import PermissionPolicy
    from .ports import permission_source
    from .ports.executor import Executor
    from .ports.fold import FoldStrategy
    from .ports.llm import LLMService
    from .ports.memory import MemoryProvider
    from .ports.permission_source import PermissionSource
    from .ports.representation import Representation
    from .ports.store_admin import SessionStore
    from .stores import dsn
    from .tools import recall, registry, signature, tool_search, validation
    from .transports import published_prices, service_factory
else:
    dsn = Late("loopwright.stores.dsn")
    context_records = Late("loopwright.model.context_records")
    permission_spec = Late("loopwright.model.permission_spec")
    permission_source = Late("loopwright.ports.permission_source")
    parts = Late("loopwright.engine.context_parts")
    model_chain = Late("loopwright.engine.model_chain")
    recall = Late("loopwright.tools.recall")
    registry = Late("loopwright.tools.registry")
    signature = Late("loopwright.tools.signature")
    tool_search = Late("loopwright.tools.tool_search")
    validation = Late("loopwright.tools.validation")
    published_prices = Late("loopwright.transports.published_prices")
    service_factory = Late("loopwright.transports.service_factory")

Permissions: TypeAlias = "PermissionPolicy | PermissionSource"

OutputSchema = StructuredOutputSpec | dict[str, Any] | type


def _is_registry(tools: object) -> TypeGuard[ToolSource]:
    """True for a source of tools, false for a list of them or of their names."""
    return hasattr(tools, "problems") and hasattr(tools, "get")


def source_of_tools(
    tools: ToolSource | Iterable[ToolDefinition | Callable[..., Any]], beyond: int | None = None
) -> ToolSource:
    """What the host's tools are found in; those `beyond` a number only by a search. Raises `ConfigError`."""
    if _is_registry(tools):
        return _searchable(tools, beyond)
    if isinstance(tools, str):
        raise ConfigError(
            f"tools must be functions, definitions or a registry, not the text {tools!r};"
            " presets come from create_default_tool_registry()"
        )
    given = _each(tools)
    return _searchable(registry.ToolRegistry.of(*given), beyond) if given else NoTools()


def _searchable(tools: ToolSource, beyond: int | None) -> ToolSource:
    """The same tools, with `tool_search` where some are kept back."""
    if beyond is None and not any((one := tools.get(name)) is not None and one.deferred for name in tools.names()):
        return tools
    return tool_search.SearchableTools(tools, beyond)


def recalling(tools: ToolSource, config: AgentLoopConfig, shown_as: Representation | None) -> ToolSource:
    """`tools`, where a window will leave things out with those that bring them back; a host's own of these names stay."""
    is_verbatim = shown_as is None or shown_as.kind == context_records.VERBATIM
    return tools if is_verbatim and config.context_budget_tokens is None else recall.RecallingTools(tools)


def source_of_prices(prices: Prices | str | None, config: AgentLoopConfig) -> Prices | None:
    """What says what calls cost. Raises `ConfigError`, for "auto" `ImportError` that names the extra."""
    if prices is None:
        if has_cost_budget(config):
            raise ConfigError('a budget of money needs the price of calls: give the loop prices="auto" or a PriceTable')
        return None
    if prices == "auto":
        return published_prices.PublishedPrices()
    if (problem := lacking("prices", prices)) is not None:
        raise ConfigError(problem)
    return cast("Prices", prices)


def source_of_permissions(given: Permissions) -> PermissionSource:
    """What says what calls may do. Raises `ConfigError`."""
    if isinstance(given, permission_spec.PermissionPolicy):
        return permission_source.FixedPermissions(given)
    if not all(hasattr(given, part) for part in ("keeps", "policy", "remember")):
        raise ConfigError(f"permissions must be a PermissionPolicy or a PermissionSource, not {type(given).__name__}")
    given.policy()  # rules that cannot be read are found out before anything runs
    return given


def _each(tools: Any) -> list[Any]:
    return list(tools)


def names_of_tools(tools: Sequence[str] | ToolSource | None, known: ToolSource) -> tuple[str, ...] | None:
    """The names that narrow the tools of a send; None when it has all of them, or a source of its own.

    A name that is not `known` is passed over. Raises: `ConfigError` for what is no name, and when none is known.
    """
    if tools is None or _is_registry(tools):
        return None
    if isinstance(tools, str):
        raise ConfigError(f"tools must be a list of names, not the text {tools!r}")
    names = _each(tools)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise ConfigError(
            f"tools of a send must be names, or a registry that replaces the loop's; {wrong[0]!r} is no name"
        )
    if names and not set(names) & set(known.names()):
        all_known = ", ".join(known.names()) or "none"
        raise ConfigError(f"no tool is called {' or '.join(map(repr, names))}; this loop has: {all_known}")
    return tuple(names)


def replacing_source(tools: Sequence[str] | ToolSource | None) -> ToolSource | None:
    """What replaces the tools of a send; None when nothing does."""
    return _searchable(tools, None) if _is_registry(tools) else None


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


def fold_policy(fold: FoldStrategy | None, config: AgentLoopConfig, *, remembers: bool) -> FoldPolicy:
    """What bounds folds: what the strategy wants, and what has to stay free behind the window.

    Raises: `ConfigError` listing what cannot be.
    """
    budget, memory = config.context_budget_tokens, config.memory_budget_tokens if remembers else 0
    if budget is not None and memory >= budget:
        raise ConfigError(
            f"memory_budget_tokens ({memory}) must be less than context_budget_tokens ({budget}), which it is a part of"
        )
    policy = FoldPolicy(reserved_tokens=memory, notes_chars=(config.notes or NotesPolicy()).inject_max_chars)
    return policy if fold is None else _wanted_by(fold, policy)


def _wanted_by(fold: FoldStrategy, policy: FoldPolicy) -> FoldPolicy:
    problems: list[str] = []
    if not 0 < fold.trigger_ratio <= 1:
        problems.append(f"fold: trigger_ratio must be more than 0 and at most 1, not {fold.trigger_ratio!r}")
    for name in ("keep_last_sends", "summary_max_tokens"):
        value = getattr(fold, name)
        if not isinstance(value, int) or value < 1:
            problems.append(f"fold: {name} must be a number from 1, not {value!r}")
    if problems:
        raise ConfigError(problems)
    return replace(
        policy,
        keep_last_sends=fold.keep_last_sends,
        trigger_ratio=fold.trigger_ratio,
        note_tokens=fold.summary_max_tokens,
    )


def context_parts(**given: Any) -> ContextParts | None:
    """The host's implementers, together, by the fields of `ContextParts`; None when there is none.

    Raises: `ConfigError` for one that lacks what its port asks for.
    """
    if all(part is None for part in given.values()):
        return None
    given["memory"] = _providers(given.get("memory"))
    problems = [
        problem
        for name, value in given.items()
        for part in (value if name == "memory" else (value,))
        if part is not None and (problem := lacking(name, part)) is not None
    ]
    if problems:
        raise ConfigError(problems)
    return parts.ContextParts(**given)


def _providers(memory: object) -> tuple[MemoryProvider, ...]:
    if memory is None:
        return ()
    # A text is a sequence, too, and none of providers: one problem, not one a letter.
    is_one = not isinstance(memory, Sequence) or isinstance(memory, str | bytes)
    return cast("tuple[MemoryProvider, ...]", (memory,) if is_one else tuple(_each(memory)))


def lacking(name: str, part: object) -> str | None:
    """What keeps `part` from being the loop's `name`, None when nothing does."""
    wanted, members = _WANTED[name]
    if isinstance(part, type):
        return f"{name} must be an object, not the class: {part.__name__}(...) instead of {part.__name__}"
    if isinstance(part, str | bytes | int | float):
        return f"{name} must be {wanted}, not {part!r}"
    missing = [member for member in members if not hasattr(part, member)]
    if not missing:
        return None
    return f"{name} must be {wanted}; {type(part).__name__} has no {', no '.join(missing)}"


_WANTED = {
    "representation": ("a Representation such as ProjectedRepresentation()", ("kind", "version", "project")),
    "fold": (
        "a FoldStrategy such as LLMSummaryFold()",
        ("fold_id", "keep_last_sends", "trigger_ratio", "summary_max_tokens", "fold"),
    ),
    "memory": ("a MemoryProvider such as StoreMemory(), or several", ("recall", "remember")),
    "prompt_source": ("a PromptSource such as PromptFiles()", ("sections",)),
    "token_counter": ("a TokenCounter such as TiktokenCounter()", ("count",)),
    "prices": ('"auto" or a price list such as PriceTable({...})', ("cost",)),
}
"""What each part is, and what it must have."""


def chain_of_models(first: LLMService, others: Sequence[str | LLMService]) -> ModelChain:
    """The models in their order. Raises: `ConfigError` for a model string that cannot be opened."""
    if isinstance(others, str) or not isinstance(others, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"fallbacks must be a list of models, not {_named(others)}")
    chain: list[LLMService | model_chain.ClosedModel] = []
    for other in others:
        if not isinstance(other, str):
            chain.append(_usable(other))
            continue
        config = service_factory.config_of_model(other)
        opened = partial(service_factory.create_llm_service_from_config, config)
        chain.append(model_chain.ClosedModel(other, opened))
    return model_chain.ModelChain(first, chain)


def _usable(service: LLMService) -> LLMService:
    if isinstance(service, type) or not (hasattr(service, "complete") or hasattr(service, "stream")):
        raise ConfigError(
            f"fallbacks must be 'provider:model' or objects with complete() or stream(), not {_named(service)}"
        )
    return service


def _named(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"the text {value!r}" if isinstance(value, str) else f"an object of type {type(value).__name__}"


def attach(executor: Executor, store: SessionStore) -> None:
    """Tells an executor that keeps files of its own where sessions belong. Raises: `ConfigError`."""
    for verb in ("submit", "nudge", "cancel", "observe"):
        if not callable(getattr(executor, verb, None)):
            raise ConfigError(
                f"executor must have submit, nudge, cancel and observe; {type(executor).__name__} has no {verb}"
            )
    if isinstance(executor, FilingExecutor):
        executor.attach(store, dsn.open_store)
