"""The contract of a store as tests: what a third party's store must pass to be one.

    from loopwright.testing.store_suite import StoreSuite

    class TestMyStore(StoreSuite):
        def make_store(self, place):
            return MyStore(place / "data")

Owns: the list of promises. Must not know: any store, any test runner: the tests are plain methods that run an event loop
of their own, so that pytest needs no plugin, and pytest is not imported.
Read next: `store_commit_promises.py`; `store_machine.py` for random sequences (needs hypothesis).
"""

from __future__ import annotations

from .store_board_promises import BoardPromises
from .store_cancel_promises import CancelPromises
from .store_commit_promises import CommitPromises
from .store_family_promises import ClaimPromises, FamilyPromises
from .store_fork_promises import ForkPromises
from .store_inbox_promises import InboxPromises
from .store_kit import StoreMaker
from .store_lease_promises import LeasePromises, RenewalPromises
from .store_ledger_promises import HoldPromises, LedgerPromises
from .store_memory_promises import MemoryPromises, MemorySearchPromises
from .store_reading_promises import ArtifactPromises, ReadingPromises
from .store_upkeep_promises import TransferPromises, UpkeepPromises
from .store_waking_promises import TimerPromises, WakingPromises


class StoreSuite(
    CommitPromises,
    LeasePromises,
    RenewalPromises,
    InboxPromises,
    FamilyPromises,
    ClaimPromises,
    WakingPromises,
    TimerPromises,
    ReadingPromises,
    ArtifactPromises,
    HoldPromises,
    LedgerPromises,
    MemoryPromises,
    MemorySearchPromises,
    BoardPromises,
    CancelPromises,
    StoreMaker,
):
    """Subclass it with `make_store`, and with `reopen` where a second client is opened in another way.

    `make_store(place)` gets a folder of the test's own; the same place means the same data, also after every store
    object on it was closed or abandoned.
    """


class WholeStoreSuite(StoreSuite, UpkeepPromises, TransferPromises):
    """Beside what runs need, what operators need: figures, space, copies, sessions out and in."""


class ForkingStoreSuite(WholeStoreSuite, ForkPromises):
    """And forks, for a store that has them; any other one refuses them with `ConfigError`."""
