"""The hook registry: order, names, directives, faults."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.engine.hooks import AgentHooks
from loopwright.model.errors import CancellationRequested, ConfigError, HookFailedError
from loopwright.ports.hook import CompletionContext, HookDirective, HookPoint


def context() -> CompletionContext:
    return CompletionContext(session_id="s", final_text="done")


class Noting:
    """Hooks that note their names when called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def hook(self, name: str, directive: HookDirective | None = None) -> Any:
        def called(_: Any) -> HookDirective | None:
            self.called.append(name)
            return directive

        return called


async def test_hooks_run_by_order_and_then_by_registration() -> None:
    hooks, noting = AgentHooks(), Noting()
    for name, order in (("c", 1), ("a", 0), ("b", 0), ("z", -1)):
        hooks.register("completion", noting.hook(name), order=order, name=name)
    await hooks.run(HookPoint.COMPLETION, context())
    assert noting.called == ["z", "a", "b", "c"] == list(hooks.names("completion"))


async def test_the_first_directive_ends_the_chain() -> None:
    hooks, noting = AgentHooks(), Noting()
    hooks.register("completion", noting.hook("one", HookDirective.SKIP))
    hooks.register("completion", noting.hook("two", HookDirective.BREAK))
    ran = await hooks.run(HookPoint.COMPLETION, context())
    assert (ran.directive, noting.called) == (HookDirective.SKIP, ["one"])


async def test_a_directive_may_be_set_on_the_context_by_sync_and_async_hooks() -> None:
    hooks = AgentHooks()

    @hooks.on("completion")
    async def veto(ctx: Any) -> None:
        ctx.directive = HookDirective.SKIP
        ctx.message = "again"

    ran = await hooks.run(HookPoint.COMPLETION, context())
    assert (ran.directive, ran.message) == (HookDirective.SKIP, "again")


async def test_a_named_hook_is_replaced_and_removed_by_its_name() -> None:
    hooks, noting = AgentHooks(), Noting()
    hooks.register("completion", noting.hook("old"), name="mine")
    with pytest.raises(ConfigError, match="mine"):
        hooks.register("completion", noting.hook("second"), name="mine")
    hooks.replace("completion", "mine", noting.hook("new"))
    hooks.register(HookPoint.ROUND_END, noting.hook("elsewhere"), name="mine")
    await hooks.run(HookPoint.COMPLETION, context())
    assert noting.called == ["new"]
    assert hooks.remove("mine", "completion") == 1
    assert not hooks.has("completion")
    assert hooks.remove("mine") == 1
    assert hooks.remove("mine") == 0


async def test_hooks_are_cleared_at_one_point_or_everywhere() -> None:
    hooks, noting = AgentHooks(), Noting()
    hooks.register("completion", noting.hook("a"))
    hooks.register("round.end", noting.hook("b"))
    hooks.clear("completion")
    assert (hooks.has("completion"), hooks.has("round.end")) == (False, True)
    hooks.clear()
    assert not hooks.has("round.end")


def test_an_unknown_point_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"tool\.before"):
        AgentHooks().register("tool.during", lambda ctx: None)


async def test_a_raising_hook_is_named() -> None:
    hooks = AgentHooks()

    def broken(ctx: Any) -> None:
        raise KeyError("x")

    hooks.register("completion", broken, name="the broken one")
    with pytest.raises(HookFailedError, match="the broken one") as caught:
        await hooks.run(HookPoint.COMPLETION, context())
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_hook_may_ask_for_a_stop() -> None:
    hooks = AgentHooks()

    def stop(ctx: Any) -> None:
        raise CancellationRequested("enough")

    hooks.register("completion", stop)
    with pytest.raises(CancellationRequested):
        await hooks.run(HookPoint.COMPLETION, context())


async def test_a_hook_that_removes_itself_while_running_does_not_skip_the_next() -> None:
    hooks, noting = AgentHooks(), Noting()

    def once(ctx: Any) -> None:
        noting.called.append("once")
        hooks.remove("once")

    hooks.register("completion", once, name="once")
    hooks.register("completion", noting.hook("next"), name="next")
    await hooks.run(HookPoint.COMPLETION, context())
    await hooks.run(HookPoint.COMPLETION, context())
    assert noting.called == ["once", "next", "next"]
