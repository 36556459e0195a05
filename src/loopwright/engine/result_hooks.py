"""What hooks make of the answer to a call, whoever gave it: a tool, a person, the host.

Owns: calling `tool.after` and taking over what it changed. Must not know: where the answer is from, how it is stored.
Read next: `ports/hook.py::ToolAfterContext`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..core.calls import as_content
from ..model.messages import Content
from ..model.records import ResultStatus
from ..ports.hook import HookDirective, HookPoint, ToolAfterContext
from .kernel import Kernel


class HookedResult(Struct, frozen=True):
    """An answer as it is stored."""

    status: ResultStatus
    content: Content
    data: Any
    broke: bool
    """A hook wants calls skipped that have not begun."""


def is_failed(status: ResultStatus) -> bool:
    """True for a call that did not do what it was for."""
    return status not in ("finished", "answered")


async def after_hooks(kernel: Kernel, context: ToolAfterContext, status: ResultStatus) -> HookedResult:
    """Calls the hooks. `context` is filled with the answer as it is. Raises `HookFailedError`."""
    content, output, failed = context.content, context.output, context.failed
    await kernel.hooked(HookPoint.TOOL_AFTER, context)
    if context.content is not content:
        content = as_content(context.content)
    elif context.output != output:
        content = as_content(context.output)
    if context.failed != failed:
        status = "failed" if context.failed else "finished"
    return HookedResult(status, content, context.data, context.directive is HookDirective.BREAK)
