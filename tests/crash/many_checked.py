"""What must be true of all journals after many processes wrote them: nothing lost, nothing twice, no interleaving.

Owns: reading and judging. Must not know: what was done to the processes.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from msgspec import Struct, field

from loopwright.core.pairing import problem
from loopwright.core.state import State, apply, refusal
from loopwright.model.codec import CURRENT_FORMAT, decode_record
from loopwright.model.records import ToolFinished, ToolStarted, UserMessageAdded
from loopwright.ports.store import ClaimQuery, StoredRecord
from loopwright.stores.dsn import open_store

FAR = 1e12
"""A time at which every timer is due."""


class Told(Struct):
    """What the journals say."""

    said: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Session → what users, timers and other processes said, in order."""
    started: set[str] = field(default_factory=set[str])
    finished: set[str] = field(default_factory=set[str])


def noted(folder: Path, pattern: str) -> list[list[str]]:
    """The words of every line that the workers left in files of this name."""
    return [line.split() for path in folder.glob(pattern) for line in path.read_text().splitlines()]


def journal_is_sound(session_id: str, rows: list[StoredRecord]) -> None:
    """Every record might follow the ones before it, and the window is one that providers take."""
    state = State()
    for row in rows:
        record = decode_record(row.kind, row.version, row.body)
        assert refusal(state, record) is None, f"{session_id}: {row.kind} at {row.position}"
        apply(state, record, row.at)
    assert (state.lost_answers, state.dropped) == ([], []), session_id
    assert problem(state.messages) is None, session_id
    assert state.active is None, f"{session_id} was never ended"


def timers_fired_once(session_id: str, said: list[str]) -> None:
    """A timer says its word once; one that was dropped or armed again says the old one before that or never."""
    place = {text: n for n, text in enumerate(said)}
    changed_by = {text.partition(".")[2] for text in said if text.startswith(("arm.", "again.", "drop."))}
    for name in changed_by | {text[5:].rpartition(".")[0] for text in said if text.startswith("tick.")}:
        first, second = place.get(f"tick.{name}.1"), place.get(f"tick.{name}.2")
        again, drop = place.get(f"again.{name}"), place.get(f"drop.{name}")
        changed = again if again is not None else drop
        about = f"{session_id}: {[text for text in said if name in text]}"
        assert f"arm.{name}" in place, about
        assert (second is not None) == (again is not None), about
        if changed is None:
            assert first is not None, about
        else:
            assert first is None or first < changed, about


async def told(dsn: str, sessions: int) -> Told:
    """Reads all journals, and judges each."""
    store, read = open_store(dsn), Told()
    for n in range(sessions):
        session_id = f"s{n}"
        rows = list(await store.read(session_id))
        journal_is_sound(session_id, rows)
        said = read.said.setdefault(session_id, [])
        for row in rows:
            record = decode_record(row.kind, row.version, row.body)
            if isinstance(record, UserMessageAdded):
                said.append(record.message.text)
            elif isinstance(record, ToolStarted):
                read.started.add(record.key)
            elif isinstance(record, ToolFinished) and record.status == "finished":
                read.finished.add(record.key)
        timers_fired_once(session_id, said)
        assert (await store.lookup(session_id)).waiting == ()
    left = await store.claim(ClaimQuery(agent_names=("default",), max_format=CURRENT_FORMAT, now=FAR, limit=sessions))
    assert (left.interrupted, left.timers) == ((), ())
    assert list(await store.check()) == []
    await store.aclose()
    return read


async def all_is_right(dsn: str, folder: Path, sessions: int) -> None:
    read = await told(dsn, sessions)
    accepted, times = noted(folder, "accepted-*"), Counter[tuple[str, str]]()
    for session_id, texts in read.said.items():
        times.update((session_id, text) for text in texts)
    ticks = sum(text.startswith("tick.") for _, text in times)
    served = sum(int(words[0]) for words in noted(folder, "served-*"))
    errors = Counter(words[0] for words in noted(folder, "errors-*"))
    sys.stdout.write(
        f"{len(accepted)} accepted, {ticks} timers fired, {served} runs of workers, errors {dict(errors)}\n"
    )
    assert ticks > sessions // 4, "too few timers fired"
    assert served > 0, "no worker of those that are left did anything"
    assert [one for one in accepted if times[one[0], one[1]] != 1] == [], "accepted and not said exactly once"
    assert [one for one, count in times.items() if count != 1] == [], "said twice"
    effects = Counter(key for _, key in noted(folder, "effects"))
    assert [key for key, count in effects.items() if count != 1] == [], "done twice"
    assert read.finished <= effects.keys() <= read.started
