"""`@tool`: a plain function becomes a tool.

Owns: the decorator and the handler that it builds. Must not know: registries, the run.
Read next: `signature.py` (schema and conversion), `registry.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from ..model.errors import ConfigError
from ..model.records import Effect
from ..ports.tool import Project, Reconcile, ToolContext, ToolDefinition
from .docstring import read_docstring
from .settings_problems import settings_problems
from .signature import Parameters, convert_arguments, read_parameters

if TYPE_CHECKING:
    from typing import Unpack

    from ..ports.tool import ToolTraits

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider accepts as a tool's name; the whole name must match."""


class FunctionHandler:
    """The handler of a tool made by `@tool`: converts the arguments and calls the function.

    A coroutine function's handler returns its coroutine; a sync one's blocks and belongs in a thread.
    """

    __slots__ = ("_parameters", "_tool_name", "function")

    def __init__(self, function: Callable[..., Any], parameters: Parameters, tool_name: str) -> None:
        self.function = function
        """The decorated function, for direct calls and tests."""
        self._parameters = parameters
        self._tool_name = tool_name

    def __call__(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Raises `ToolValidationError` when the arguments are not what the annotations say; else what the function does."""
        values = self.converted(arguments)
        if self._parameters.context is not None:
            values[self._parameters.context] = context
        return self.function(**values)

    def converted(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the function gets them. Raises `ToolValidationError` when the annotations say something else."""
        return convert_arguments(self._parameters.types, arguments, self._tool_name)


@overload
def tool(function: Callable[..., Any], /) -> ToolDefinition: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "once",
    timeout_s: float | None = None,
    output_limit: int | None = None,
    reconcile: Reconcile | None = None,
    project: Project | None = None,
    **traits: Unpack[ToolTraits],
) -> Callable[[Callable[..., Any]], ToolDefinition]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "once",
    timeout_s: float | None = None,
    output_limit: int | None = None,
    reconcile: Reconcile | None = None,
    project: Project | None = None,
    **traits: Unpack[ToolTraits],
) -> ToolDefinition | Callable[[Callable[..., Any]], ToolDefinition]:
    """Makes a tool from an async or sync function: `@tool` or `@tool(effect="pure", ...)`.

    The schema comes from the signature, parameter descriptions from the docstring, the description from its first paragraph.
    A parameter annotated `ToolContext` receives the context and is not in the schema. The decorated name is a `ToolDefinition`;
    the function itself is `definition.handler.function`.
    `traits` are further fields of `ToolDefinition`, such as `max_parallel=2` or `subjects={"path": "path"}`.
    `project`: what a call did, tersely, for windows in which earlier sends are shown as accounts (`ProjectedRepresentation`).
    An undeclared effect is `once`: after a crash such a call is never repeated silently.
    Raises: `ConfigError` naming the function and every parameter that does not work.
    """

    def decorate(target: Callable[..., Any]) -> ToolDefinition:
        tool_name = name if name is not None else getattr(target, "__name__", "")
        problems = [
            *_name_problems(tool_name),
            *_kind_problems(tool_name, target),
        ]
        if problems:
            raise ConfigError(problems)
        parameters = read_parameters(target, tool_name)
        text = description if description is not None else read_docstring(target.__doc__).summary
        definition = ToolDefinition(
            name=tool_name,
            description=text or tool_name.replace("_", " "),
            parameters=parameters.schema,
            handler=FunctionHandler(target, parameters, tool_name),
            is_async=_is_async(target),
            effect=effect,
            timeout_s=timeout_s,
            output_limit=output_limit,
            reconcile=reconcile,
            project=project,
            **traits,
        )
        if problems := settings_problems(definition):
            raise ConfigError(problems)
        return definition

    return decorate if function is None else decorate(function)


def _is_async(target: Callable[..., Any]) -> bool:
    """True for coroutine functions, also behind `functools.partial` and as a `__call__` method."""
    called = getattr(target, "__call__", target)  # noqa: B004 - asks how the object is called, not whether it can be
    return inspect.iscoroutinefunction(inspect.unwrap(target)) or inspect.iscoroutinefunction(called)


def _name_problems(name: str) -> list[str]:
    if TOOL_NAME.fullmatch(name):
        return []
    return [f"tool name {name!r} must be 1 to 64 characters of A-Z, a-z, 0-9, _ and -; give one with name="]


def _kind_problems(name: str, target: Callable[..., Any]) -> list[str]:
    called = getattr(target, "__call__", target)  # noqa: B004 - see above
    for found in (inspect.unwrap(target), getattr(target, "func", None), called):
        if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
            return [f"tool {name!r} is a generator; a tool returns its one result (progress goes through ctx)"]
    return []
