"""The tail of a request: what the model is shown behind the window, for this call only.

Owns: gathering it. Must not know: its words and order (`core/request_tail.py`), providers of memory (`memory_recall.py`).
Loaded by requests that have one. Read next: `core/request_tail.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..core.fold_plan import ratio_of
from ..core.request_tail import tail, tail_room
from ..late import Late
from ..ports.llm import LLMRequest
from .running import RunContext
from .session_lists import policy_of

if TYPE_CHECKING:
    from . import memory_recall
else:
    memory_recall = Late("loopwright.engine.memory_recall")


async def with_tail(run: RunContext, request: LLMRequest) -> LLMRequest:
    """The request with its tail, and how much stands before it; as it was when there is nothing to say.

    Raises: `HookFailedError` of a hook that filters memory.
    """
    context, facts = run.kernel.context, run.state.facts.context
    family = run.state.facts.family
    own = family is None or family.spawned is None  # memory is the parent's
    recalled = await memory_recall.recalled(run) if own and context is not None and context.memory else ()
    most = policy_of(run.kernel.config).inject_max_chars
    room = tail_room(run.send.start.context_budget_tokens, ratio_of(run.state))
    behind = tail(recalled, () if facts is None else facts.notes, () if facts is None else facts.todo, most, room)
    if not behind:
        return request
    stable = len(request.messages) if request.stable is None else request.stable
    return msgspec.structs.replace(request, messages=(*request.messages, *behind), stable=stable)
