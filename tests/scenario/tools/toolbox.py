"""Calls a registry's tools as a run does: validate, then the handler, sync ones in a thread."""

from __future__ import annotations

import asyncio
from typing import Any

from loopwright.model.errors import LoopwrightError
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import ToolRegistry


class Toolbox:
    """One session's view of a registry."""

    def __init__(self, registry: ToolRegistry, context: FakeToolContext | None = None) -> None:
        self.registry = registry
        self.context = context or FakeToolContext()

    async def result(self, name: str, /, **arguments: Any) -> Any:
        assert self.registry.problems(name, arguments) is None
        definition = self.registry.get(name)
        assert definition is not None
        assert definition.handler is not None
        if definition.is_async:
            return await definition.handler(arguments, self.context)
        return await asyncio.to_thread(definition.handler, arguments, self.context)

    async def text(self, name: str, /, **arguments: Any) -> str:
        result = await self.result(name, **arguments)
        return result if isinstance(result, str) else str(result.content)

    async def failure(self, name: str, /, **arguments: Any) -> str:
        try:
            result = await self.result(name, **arguments)
        except LoopwrightError as error:
            return str(error)
        raise AssertionError(f"{name} did not fail: {result}")
