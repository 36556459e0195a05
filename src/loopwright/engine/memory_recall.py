"""Memory at work: what providers recall for a send, and what they are told when one ends.

Owns: time limits, bounds, and that nothing a provider does changes a run. Must not know: how memories are kept, how they
are shown (`core/request_tail.py`). Loaded by loops with a provider.
Read next: `ports/memory.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import Any, cast

from ..core import result as results
from ..core.calls import text_of
from ..core.estimate import CHARS_PER_TOKEN
from ..core.fold_plan import ratio_of
from ..core.request_tail import fitting
from ..core.state import State
from ..core.window import send_messages
from ..model.errors import HookFailedError
from ..model.event_types import AgentEventType
from ..model.messages import Message
from ..ports.cancellation import CancellationToken
from ..ports.hook import HookDirective, HookPoint, MemoryContext
from ..ports.memory import MemoryProvider, MemorySnapshot, RecalledMemory
from .actor import outside_of_turns
from .kernel import Kernel
from .leaving import LEAVING, refused
from .running import RunContext
from .stopping import TimedOut, Won, race

_log = logging.getLogger("loopwright.memory")

MOST = 100
"""Memories taken of one answer."""
REMEMBER_S = 60.0
"""How long a provider may take to remember a send; nobody waits for it but `aclose`."""


async def recalled(run: RunContext) -> tuple[str, ...]:
    """The lines of memory for this send, asked for once a run.

    Raises: `HookFailedError` of a hook that filters them; never what a provider does.
    """
    if run.recalled is None:
        run.recalled = await _recall(run)
    return run.recalled


async def _recall(run: RunContext) -> tuple[str, ...]:
    kernel = run.kernel
    assert kernel.context is not None
    budget = max(int(kernel.config.memory_budget_tokens / max(ratio_of(run.state), 1.0)), 1)
    window = run.window()
    answers = await asyncio.gather(*[_asked(run, one, window, budget) for one in kernel.context.memory])
    # Best first of all of them: the best of each provider, then the second of each.
    found = [text for rank in zip_longest(*answers) for text in rank if text is not None]
    lines = fitting(await _filtered(run, found, budget), budget)
    run.emit(AgentEventType.MEMORY_RECALLED, len(found), len(lines), budget)
    return lines


async def _asked(run: RunContext, provider: MemoryProvider, window: Sequence[Message], budget: int) -> Sequence[str]:
    kernel, limit = run.kernel, run.kernel.config.memory_timeout_s

    async def ask() -> Sequence[str]:
        return _texts(await _of_host(lambda: provider.recall(window, run.session_id, budget)), budget)

    try:
        raced = await race(ask(), run.token, kernel.deadlines, timeout_s=limit, grace_s=kernel.config.stop_grace_s)
    except Exception as error:  # noqa: BLE001 - the hook boundary: a provider of the host changes nothing in the run
        _failed(kernel, run.session_id, "recall", error)
        return ()
    if isinstance(raced, TimedOut):
        _failed(kernel, run.session_id, "recall", TimeoutError(f"no answer after {limit:g} s"))
    return raced.value if isinstance(raced, Won) else ()


def _texts(found: Any, budget: int) -> Sequence[str]:
    """The texts of an answer, bounded, with characters that any request can carry. Raises: `TypeError` for another shape."""
    whole = found  # of which the check below would say half a type
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise TypeError(f"recall() must answer a sequence of RecalledMemory, not {type(found).__name__}")
    texts: list[str] = []
    for one in whole[:MOST]:
        if not isinstance(one, RecalledMemory) or not isinstance(one.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"recall() must answer RecalledMemory with a text, not {type(one).__name__}")
        if text := _carried(one.text, budget).strip():
            texts.append(text)
    return texts


async def _filtered(run: RunContext, found: list[str], budget: int) -> Sequence[str]:
    hooks = run.kernel.hooks
    if not hooks.in_use or not hooks.has(HookPoint.MEMORY_RECALLED):
        return found
    context = MemoryContext(
        session_id=run.session_id, round_index=run.round, recalled=list(found), budget_tokens=budget
    )
    await run.kernel.hooked(HookPoint.MEMORY_RECALLED, context)
    if context.directive is HookDirective.SKIP:
        return ()
    left = cast("list[object]", context.recalled)  # hooks set what they like
    if type(left) not in (list, tuple):
        wrong = TypeError(f"recalled must be a list of texts, not {type(left).__name__}")
        raise HookFailedError("among those registered", HookPoint.MEMORY_RECALLED.value, wrong)
    return [text for one in left[:MOST] if (text := _carried(text_of(one), budget).strip())]


def _carried(text: str, budget: int) -> str:
    return text[: 2 * budget * CHARS_PER_TOKEN].encode("utf-8", "replace").decode("utf-8")


def snapshots_of(state: State) -> list[MemorySnapshot]:
    """The newest send, which has just ended; none of a child, whose parent has the memory."""
    if state.facts.family is not None and state.facts.family.spawned is not None:
        return []
    result = results.result_of(state)
    ended = MemorySnapshot(
        session_id=state.facts.session_id,
        messages=tuple(send_messages(state, len(state.spans) - 1)) if state.spans else (),
        final_text=result.final_text,
        rounds=result.rounds,
        status=result.status,
        metadata=dict(state.facts.metadata),
    )
    return [ended]


def remember(kernel: Kernel, snapshots: Sequence[MemorySnapshot]) -> None:
    """Tells every provider of sends that have ended, beside the runs: nobody waits, and a failure is an event and a log."""
    assert kernel.context is not None
    for snapshot in snapshots:
        for provider in kernel.context.memory:
            work = asyncio.get_running_loop().create_task(
                _remember(kernel, provider, snapshot), context=outside_of_turns()
            )
            kernel.background.add(work)
            work.add_done_callback(kernel.background.discard)


async def _remember(kernel: Kernel, provider: MemoryProvider, snapshot: MemorySnapshot) -> None:
    session_id = snapshot.session_id

    async def tell() -> None:
        await _of_host(lambda: provider.remember(snapshot, session_id))

    try:
        raced = await race(
            tell(),
            CancellationToken(),
            kernel.deadlines,
            timeout_s=REMEMBER_S,
            grace_s=kernel.config.stop_grace_s,
        )
    except Exception as error:  # noqa: BLE001 - the hook boundary: the send is over, and stays as it is
        _failed(kernel, session_id, "remember", error)
        return
    if isinstance(raced, TimedOut):
        _failed(kernel, session_id, "remember", TimeoutError(f"not done after {REMEMBER_S:g} s"))


async def _of_host(call: Callable[[], Awaitable[Any] | Any]) -> Any:
    """What a provider answers; hosts may write a plain function."""
    task = asyncio.current_task()
    try:
        answer = call()
        return await answer if inspect.isawaitable(answer) else answer
    except LEAVING as leaving:
        raise refused(leaving, "the provider", task) from leaving


def _failed(kernel: Kernel, session_id: str, phase: str, error: Exception) -> None:
    name, text = type(error).__name__, text_of(error)[:500]
    _log.warning("session %s: memory: %s failed, the session goes on: %s: %s", session_id, phase, name, text)
    kernel.emit(session_id, AgentEventType.MEMORY_FAILED, phase, name, text)
