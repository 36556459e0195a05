"""The hash chain: honest journals verify, and no single change of a linked one goes unseen."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from loopwright.core.chain import ChainAudit, ChainReport, fingerprint, link_for
from loopwright.model.codec import encode_record
from loopwright.model.records import ChainLinked
from loopwright.ports.store import EncodedRecord, StoredRecord

KEY, OTHER = b"k" * 32, b"o" * 32
SESSION = "s"

Rows = list[StoredRecord]

RECORDS = st.builds(
    EncodedRecord,
    st.sampled_from(["user_message_added", "tool_finished", "send_finished", "\ud800"]),
    st.integers(1, 3),
    st.sampled_from([0.0, 1.5, 1_700_000_000.25, -1.0]),
    st.sampled_from([b"", b"{}", b'{"kind":"chain_linked"}']) | st.binary(max_size=8),
)
TRANSITIONS = st.lists(RECORDS, min_size=1, max_size=4)
KEYS = st.sampled_from([None, KEY])


class Journal:
    """What a session's writers leave in a store, with links where they make them."""

    def __init__(self, session_id: str = SESSION) -> None:
        self.session_id = session_id
        self.rows: Rows = []
        self.digest = ""

    def write(self, records: Sequence[EncodedRecord], key: bytes | None) -> None:
        """One transition of a writer that links."""
        since = len(self.rows)
        self.write_unlinked(records)
        at = records[-1].at
        link = link_for(self.session_id, self.digest, since, at, records, key)
        self.write_unlinked([EncodedRecord(*encode_record(link)[:2], at, encode_record(link)[2])])
        self.digest = link.digest

    def write_unlinked(self, records: Sequence[EncodedRecord]) -> None:
        """One transition of a writer that does not."""
        for one in records:
            self.rows.append(StoredRecord(len(self.rows), one.kind, one.version, one.at, one.body))


def linked(transitions: Sequence[Sequence[EncodedRecord]], key: bytes | None = None) -> Rows:
    journal = Journal()
    for records in transitions:
        journal.write(records, key)
    return journal.rows


def judged(
    rows: Sequence[StoredRecord],
    key: bytes | None = None,
    *,
    expected: str | None = None,
    length: int | None = None,
    session_id: str = SESSION,
) -> ChainReport:
    audit = ChainAudit(session_id, key=key, expected=expected)
    for row in rows:
        audit.take(row)
    return audit.report(len(rows) if length is None else length)


def renumbered(rows: Sequence[StoredRecord]) -> Rows:
    return [structs.replace(row, position=n) for n, row in enumerate(rows)]


def content(row: StoredRecord) -> tuple[str, int, float, bytes]:
    return row.kind, row.version, row.at, row.body


def neighbourhood(rows: Rows, position: int) -> range:
    """From the first record of the transition around `position` to the link after the next one."""
    links = [row.position for row in rows if row.kind == "chain_linked"]
    first = max([p + 1 for p in links if p < position], default=0)
    behind = [p for p in links if p >= position]
    return range(first, (behind[1] if len(behind) > 1 else len(rows)) + 2)


JOURNALS = st.lists(TRANSITIONS, min_size=1, max_size=5)


# --- honest -----------------------------------------------------------------------------------------------------------


@given(JOURNALS, KEYS)
def test_what_every_writer_linked_is_intact_to_the_last_record(
    transitions: list[list[EncodedRecord]], key: bytes | None
) -> None:
    rows = linked(transitions, key)
    report = judged(rows, key)
    assert (report.problems, report.unlinked) == ((), ())
    assert (report.intact, report.linked, report.digest_position) == (True, len(rows), len(rows) - 1)


@given(st.lists(st.tuples(TRANSITIONS, st.booleans()), min_size=1, max_size=6), KEYS)
def test_what_nobody_linked_is_listed_and_is_a_problem_only_at_the_end(
    written: list[tuple[list[EncodedRecord], bool]], key: bytes | None
) -> None:
    journal, bare = Journal(), set[int]()
    for records, links in written:
        if links:
            journal.write(records, key)
        else:
            bare |= {len(journal.rows) + n for n in range(len(records))}
            journal.write_unlinked(records)
    report = judged(journal.rows, key)
    assert {n for first, last in report.unlinked for n in range(first, last + 1)} == bare
    assert report.linked == len(journal.rows) - len(bare)
    assert [problem.why for problem in report.problems] == ([] if written[-1][1] else ["unlinked"])


@given(JOURNALS, KEYS, st.data())
def test_the_digest_of_any_earlier_report_is_found_again(
    transitions: list[list[EncodedRecord]], key: bytes | None, data: st.DataObject
) -> None:
    rows = linked(transitions, key)
    earlier = linked(transitions[: data.draw(st.integers(1, len(transitions)))], key)
    digest = judged(earlier, key).digest
    report = judged(rows, key, expected=digest)
    assert (report.intact, report.expected_position) == (True, len(earlier) - 1)


def test_the_digest_of_a_chain_never_changes() -> None:
    """A link that was written must verify for ever: these values stand in stores."""
    records = [EncodedRecord("user_message_added", 1, 1.5, b"{}"), EncodedRecord("send_finished", 2, 2.5, b"\xff")]
    assert link_for("s", "", 0, 2.5, records, None) == ChainLinked(
        "c53f1cfbe2929970fcea47c95f52f16cd354008203f28838415598995cc9746f", 0, "e829976a44136fa39cef429aa8100ae6"
    )
    assert (
        link_for("s", "ab", 7, 2.5, records, KEY).digest
        == "846c5e107082013ca97ba897bd82924c1bfbd5429101c72a2f074bee046410d7"
    )
    assert fingerprint(KEY) == "019bd101cb478cb5"


# --- one change -------------------------------------------------------------------------------------------------------


@given(JOURNALS, KEYS, st.data())
def test_a_changed_byte_of_any_body_is_found_at_its_place(
    transitions: list[list[EncodedRecord]], key: bytes | None, data: st.DataObject
) -> None:
    rows = linked(transitions, key)
    where = data.draw(st.integers(0, len(rows) - 1))
    before = rows[where].body
    place = data.draw(st.integers(0, len(before)))
    body = before[:place] + data.draw(st.binary(max_size=2)) + before[place + data.draw(st.integers(0, 2)) :]
    assume(body != before)
    report = judged([*rows[:where], structs.replace(rows[where], body=body), *rows[where + 1 :]], key)
    if rows[where].kind == "chain_linked":
        assert report.problems[0].position in neighbourhood(rows, where)
    else:
        assert [(p.position, p.why) for p in report.problems] == [(where, "changed_body")]


@given(JOURNALS, KEYS, st.data(), st.sampled_from(["kind", "version", "at"]))
def test_a_changed_kind_version_or_time_is_found_at_its_place(
    transitions: list[list[EncodedRecord]], key: bytes | None, data: st.DataObject, field: str
) -> None:
    rows = linked(transitions, key)
    where = data.draw(st.integers(0, len(rows) - 1))
    values = {"kind": st.sampled_from(["other", "chain_linked", ""]), "version": st.integers(0, 5), "at": st.floats()}
    value = data.draw(values[field])
    assume(value != getattr(rows[where], field))
    changed = msgspec.convert({**structs.asdict(rows[where]), field: value}, StoredRecord)
    report = judged([*rows[:where], changed, *rows[where + 1 :]], key)
    if rows[where].kind == "chain_linked":
        assert report.problems[0].position in neighbourhood(rows, where)
    else:
        assert [(p.position, p.why) for p in report.problems] == [(where, "changed_kind_or_time")]


@given(JOURNALS, KEYS, st.data())
def test_a_record_that_was_deleted_is_missing_whether_or_not_the_rest_was_renumbered(
    transitions: list[list[EncodedRecord]], key: bytes | None, data: st.DataObject
) -> None:
    rows = linked(transitions, key)
    where = data.draw(st.integers(0, len(rows) - 1))
    rest = [*rows[:where], *rows[where + 1 :]]
    gap = judged(rest, key, length=len(rows))
    assert (gap.problems[0].position, gap.problems[0].why) == (where, "missing")
    closed = judged(renumbered(rest), key)
    assert closed.problems[0].position in neighbourhood(rows, where)


@given(JOURNALS, KEYS, st.data())
def test_a_record_that_was_put_in_is_found(
    transitions: list[list[EncodedRecord]], key: bytes | None, data: st.DataObject
) -> None:
    rows = linked(transitions, key)
    where = data.draw(st.integers(0, len(rows)))
    strange = data.draw(st.sampled_from(rows) | RECORDS)
    new = StoredRecord(where, strange.kind, strange.version, strange.at, strange.body)
    report = judged(renumbered([*rows[:where], new, *rows[where:]]), key)
    assert report.problems[0].position in neighbourhood(rows, where)


@given(JOURNALS, KEYS, st.data())
def test_records_that_changed_places_are_found(
    transitions: list[list[EncodedRecord]], key: bytes | None, data: st.DataObject
) -> None:
    rows = linked(transitions, key)
    one, two = sorted(data.draw(st.tuples(*[st.integers(0, len(rows) - 1)] * 2)))
    assume(content(rows[one]) != content(rows[two]))
    swapped = list(rows)
    swapped[one], swapped[two] = rows[two], rows[one]
    report = judged(renumbered(swapped), key)
    assert report.problems[0].position in neighbourhood(rows, one)
    inside = range(one, two + 1)
    if not any(rows[n].kind == "chain_linked" for n in inside):
        assert [(p.position, p.why) for p in report.problems] == [(one, "reordered")]


@given(JOURNALS, KEYS, st.data())
def test_a_tail_that_was_cut_off_is_found_by_the_digest_that_was_kept(
    transitions: list[list[EncodedRecord]], key: bytes | None, data: st.DataObject
) -> None:
    rows = linked(transitions, key)
    digest = judged(rows, key).digest
    end = data.draw(st.integers(0, len(rows) - 1))
    report = judged(rows[:end], key, expected=digest)
    assert "truncated" in [problem.why for problem in report.problems]
    assert judged(rows[:end], key, expected=digest, length=len(rows)).problems[0].why == "missing"


# --- who can make it anew ---------------------------------------------------------------------------------------------

TALK = [[EncodedRecord("user_message_added", 1, float(n), b"{}")] for n in range(4)]


def test_a_chain_without_a_key_that_was_made_anew_is_found_only_by_the_digest_that_was_kept() -> None:
    forged = linked([[EncodedRecord("user_message_added", 1, 0.0, b'{"forged":1}')], *TALK[1:]])
    assert judged(forged).intact
    assert [p.why for p in judged(forged, expected=judged(linked(TALK)).digest).problems] == ["truncated"]


@pytest.mark.parametrize("theirs, why", [(None, "unlinked"), (OTHER, "other_key")])
def test_a_chain_with_a_key_cannot_be_made_anew_without_it(theirs: bytes | None, why: str) -> None:
    report = judged(linked(TALK, theirs), KEY)
    assert (report.intact, report.linked, report.problems[0].why) == (False, 0, why)


@pytest.mark.parametrize("theirs", [None, OTHER])
def test_what_was_appended_without_the_key_is_not_vouched_for(theirs: bytes | None) -> None:
    journal = Journal()
    journal.write(TALK[0], KEY)
    journal.write(TALK[1], theirs)
    report = judged(journal.rows, KEY)
    assert (report.intact, report.unlinked, report.linked) == (False, ((2, 3),), 2)
    journal.write(TALK[2], KEY)
    later = judged(journal.rows, KEY)
    assert (later.unlinked, later.linked) == (((2, 3),), 4)


def test_links_with_a_key_say_nothing_to_one_who_does_not_have_it() -> None:
    report = judged(linked(TALK, KEY))
    assert [p.why for p in report.problems] == ["other_key", "unlinked"]
    assert fingerprint(KEY) in report.problems[0].detail


def test_a_journal_is_not_that_of_another_session() -> None:
    assert judged(linked(TALK), session_id="another").problems[0].why == "changed_link"


def test_a_journal_without_any_link_is_not_intact() -> None:
    journal = Journal()
    journal.write_unlinked(TALK[0])
    report = judged(journal.rows)
    assert (report.digest, report.unlinked, [p.why for p in report.problems]) == (None, ((0, 0),), ["unlinked"])


@pytest.mark.parametrize(
    "field, value",
    [("body", "text"), ("body", None), ("at", "soon"), ("version", "x"), ("version", -1), ("kind", b"k")],
)
def test_values_of_another_type_are_a_problem_and_no_error(field: str, value: object) -> None:
    for where in range(4):
        rows = linked(TALK)
        given = {**structs.asdict(rows[where]), field: value}
        rows[where] = StoredRecord(**given)  # type: ignore[arg-type]
        assert judged(rows).problems[0].position in (where - 1, where, where + 1)


def test_several_changes_are_each_named_once() -> None:
    rows = linked(TALK)
    for where in (0, 4):
        rows[where] = structs.replace(rows[where], body=b"x")
    assert [(p.position, p.why) for p in judged(rows).problems] == [(0, "changed_body"), (4, "changed_body")]
    later = renumbered([rows[1], *linked(TALK)[2:]])
    assert [p.why for p in judged(later).problems] == ["missing"]


def test_parts_that_are_cut_elsewhere_give_another_digest() -> None:
    parts = [EncodedRecord(kind, 1, 1.0, body) for kind, body in itertools.product(["a", "ab"], [b"b", b""])]
    digests = {
        link_for(s, before, 0, 1.0, [one], None).digest for one in parts for s, before in (("s", "t"), ("st", ""))
    }
    assert len(digests) == 8
