"""The hook registry and its one way of calling hooks.

Owns: order, names, isolation of hooks. Must not know: what a directive means (that stands at each call).
Read next: `ports/hook.py`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..late import Late
from ..model.errors import CancellationRequested, ConfigError, HookFailedError

if TYPE_CHECKING:
    from ..model import call_errors
    from ..ports import hook_points
    from ..ports.hook import HookContext
    from ..ports.hook_points import HookHandler, HookPoint
else:
    call_errors = Late("loopwright.model.call_errors")
    hook_points = Late("loopwright.ports.hook_points")

C = TypeVar("C", bound="HookContext")


class _Registered:
    __slots__ = ("always", "handler", "name", "order")

    def __init__(self, handler: HookHandler, name: str, order: int, always: bool) -> None:
        self.handler = handler
        self.name = name
        self.order = order
        self.always = always


class AgentHooks:
    """Hooks by point, called in ascending `order`, then in order of registration.

    The first directive other than CONTINUE ends the chain of its point, but for hooks that are `always` called.
    """

    def __init__(self) -> None:
        self._points: dict[HookPoint, list[_Registered]] = {}
        self.in_use = False
        """A hook was registered somewhere; looked at first, so that a loop without hooks loads no points."""

    def register(
        self,
        point: HookPoint | str,
        handler: HookHandler,
        *,
        order: int = 0,
        name: str | None = None,
        replace: bool = False,
        always: bool = False,
    ) -> str:
        """Adds a hook and returns its name (default: the function's). Raises `ConfigError` when the name is taken.

        `always`: it is called also when one before it ended the chain, whose directive counts unless it gives another one.
        """
        point = _point(point)
        label = name or str(getattr(handler, "__qualname__", repr(handler)))
        chain = self._points.setdefault(point, [])
        self.in_use = True
        taken = [r for r in chain if r.name == label]
        if taken and name is not None and not replace:
            raise ConfigError(f"a hook named {label!r} is registered at {point}; use replace()")
        if replace:
            chain = self._points[point] = [r for r in chain if r.name != label]
        chain.append(_Registered(handler, label, order, always))
        chain.sort(key=lambda r: r.order)
        return label

    def on(
        self, point: HookPoint | str, *, order: int = 0, name: str | None = None
    ) -> Callable[[HookHandler], HookHandler]:
        """Decorator form of `register`."""

        def add(handler: HookHandler) -> HookHandler:
            self.register(point, handler, order=order, name=name)
            return handler

        return add

    def replace(self, point: HookPoint | str, name: str, handler: HookHandler, *, order: int = 0) -> None:
        """Puts a hook in the place of the one of this name, or adds it."""
        self.register(point, handler, order=order, name=name, replace=True)

    def remove(self, name: str, point: HookPoint | str | None = None) -> int:
        """Removes hooks of this name, at one point or everywhere; answers how many."""
        points = [_point(point)] if point is not None else list(self._points)
        removed = 0
        for at in points:
            chain = self._points.get(at, [])
            kept = [r for r in chain if r.name != name]
            removed += len(chain) - len(kept)
            self._points[at] = kept
        return removed

    def has(self, point: HookPoint | str) -> bool:
        """True when any hook is registered there."""
        return bool(self._points.get(_point(point)))

    def names(self, point: HookPoint | str) -> tuple[str, ...]:
        """Names in calling order."""
        return tuple([r.name for r in self._points.get(_point(point), ())])

    def clear(self, point: HookPoint | str | None = None) -> None:
        """Removes all hooks of a point, or all."""
        if point is None:
            self._points.clear()
            self.in_use = False
        else:
            self._points.pop(_point(point), None)

    async def run(self, point: HookPoint, context: C) -> C:
        """Calls the hooks of a point one after the other.

        Raises: `HookFailedError` naming the hook when one raises; `GuardrailBlockedError` as it is.
        """
        going_on, ended = hook_points.HookDirective.CONTINUE, hook_points.HookDirective.CONTINUE
        for registered in tuple(self._points.get(point, ())):
            if ended is not going_on and not registered.always:
                continue
            try:
                directive = registered.handler(context)
                if inspect.isawaitable(directive):
                    directive = await directive
                context.directive = hook_points.HookDirective(context.directive if directive is None else directive)
            except (CancellationRequested, call_errors.GuardrailBlockedError):
                raise
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                raise HookFailedError(registered.name, point.value, error) from error  # nobody cancelled: its own
            except Exception as error:
                raise HookFailedError(registered.name, point.value, error) from error
            if context.directive is going_on:
                context.directive = ended
            else:
                ended = context.directive
        return context


def _point(point: HookPoint | str) -> HookPoint:
    try:
        return hook_points.HookPoint(point)
    except ValueError:
        known = ", ".join(p.value for p in hook_points.HookPoint)
        raise ConfigError(f"unknown hook point {point!r}; known: {known}") from None
