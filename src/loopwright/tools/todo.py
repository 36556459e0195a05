"""The tool through which a model keeps a todo list.

Owns: `todo`. Must not know: how the list is stored, when the model sees it.
Read next: `../core/todo_rules.py`.
"""

from __future__ import annotations

from ..core.todo_rules import checked_todo, listed_todo
from ..model.notes import TodoItem
from ..ports.tool import ToolContext, ToolDefinition
from .decorator import tool
from .descriptions import description_of
from .note import lists_of


def todo_tool() -> ToolDefinition:
    """`todo`: replaces the session's list. Effect idempotent: the list rides with the result."""

    @tool(description=description_of("todo"), effect="idempotent", touches="session")
    async def todo(items: list[TodoItem], ctx: ToolContext) -> str:
        """Keep a list.

        Args:
            items: The whole list, in the order of work.
        """
        checked = checked_todo(tuple(items))
        lists_of(ctx).todo.write(checked)
        return listed_todo(checked) if checked else "the list is empty now"

    return todo
