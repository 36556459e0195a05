"""What stands against a transition: the fence, as one rule for every store that reads a head before it writes.

Owns: the order in which the parts of the guard are judged. Must not know: where heads are kept, how they are locked.
Read next: `memory_rules.py`, `sqlite_writes.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..model.errors import InboxMovedError, SessionBusyError, SessionFencedError, SessionMovedError
from ..ports.store import Lease, Transition


def check(
    transition: Transition,
    left_s: Callable[[str], float],
    *,
    position: int,
    epoch: int,
    token: bytes | None,
    stranger: str | None,
    inbox_seq: int,
) -> bool:
    """Raises what `Store.commit` promises, in its order; answers whether the lease of a dead owner is taken.

    The head's values must not change until the transition is written: they are read under its lock. `stranger` is the
    head's owner unless that is the caller; `left_s` says how long it is still alive.
    """
    lease, takeover = transition.lease, False
    if isinstance(lease, Lease):
        if lease.token != token or lease.epoch != epoch:
            raise SessionFencedError(transition.session_id, epoch=lease.epoch, current_epoch=epoch)
    elif stranger is not None:
        left = left_s(stranger)
        if left > 0:
            raise SessionBusyError(transition.session_id, stranger, left)
        takeover = True
    if position != transition.expect:
        raise SessionMovedError(transition.session_id, expected=transition.expect, actual=position)
    if transition.if_inbox is not None and transition.if_inbox != inbox_seq:
        raise InboxMovedError(transition.session_id, inbox_seq)
    return takeover
