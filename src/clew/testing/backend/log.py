"""The storage contract: branches and entries."""

from __future__ import annotations

import json
import random

import pytest

from clew.backends.contract import Backend, Transaction
from clew.core.log.rows import COMPACTION, MESSAGE, REPLACED, SUMMARY, TRUNCATION, TURNS, BranchRow, EntryRow
from clew.errors import CorruptEntryError
from clew.testing.backend.base import Conformance, add, an_entry
from clew.testing.rows import named

MEGABYTE = 1 << 20
BODIES = {
    "small": b'{"role":"user","content":"hi"}',
    "empty object": b"{}",
    "NUL escape": rb'{"a":"\u0000","\u0000":1}',
    "NUL byte": b'{"a":"\0"}',
    "every byte": bytes(range(256)),
    "huge integer": b'{"n":' + b"7" * 4000 + b"}",
    "numbers as text": b'{"a": 1.0,"b":1e2 , "c":-0.0,"d":1E+2}',
    "just below compression": b"x" * (16 * 1024 - 1),
    "just compressed": b"x" * (16 * 1024),
    "a megabyte of text": b'{"content":"' + b"lorem ipsum " * (MEGABYTE // 12) + b'"}',
    "a megabyte of noise": random.Random(1).randbytes(MEGABYTE),
    "already compressed": b"\x28\xb5\x2f\xfd" + bytes(50_000),
}


class LogConformance(Conformance):
    """Entries never change, lie at consecutive positions of a branch, and come back byte for byte."""

    # -- branches

    def test_a_branch_comes_back_equal(self, backend: Backend) -> None:
        """By its number and by its uid."""
        with backend.write() as tx:
            first = tx.add_branch("first", 11, 12, 0, -1)
            second = tx.add_branch("second", 11, 13, first, 4)

        with backend.read() as reader:
            assert reader.get_branch(first) == BranchRow(first, "first", 11, 12, 0, -1)
            assert reader.get_branch(second) == BranchRow(second, "second", 11, 13, first, 4)
            assert reader.find_branch("second") == BranchRow(second, "second", 11, 13, first, 4)

    def test_an_unknown_branch_is_not_found(self, backend: Backend) -> None:
        """`get_branch` raises KeyError, the others give nothing."""
        with backend.read() as reader:
            with pytest.raises(KeyError):
                reader.get_branch(5)
            assert reader.find_branch("u") is None
            assert reader.tree_branches(5) == []
            assert reader.last_position(5) == -1
            assert reader.get_entry(5, 0) is None
            assert reader.get_tip(5, 0) is None

    def test_the_branches_of_a_tree_come_oldest_first(self, backend: Backend) -> None:
        """And those of other trees not at all."""
        with backend.write() as tx:
            uids = ["z", "y", "x"]
            for uid in uids:
                tx.add_branch(uid, 11, 1, 0, -1)
            tx.add_branch("other", 12, 1, 0, -1)

            assert [row.uid for row in tx.tree_branches(11)] == uids

    def test_the_numbers_of_branches_are_those_of_the_tree(self, backend: Backend) -> None:
        """All of them, also one without an entry; and of no other tree."""
        with backend.write() as tx:
            row, other = add(tx, "a"), add(tx, "b")
            first = tx.add_branch("u", row.tree, row.sid, 0, -1)
            second = tx.add_branch("v", row.tree, row.sid, first, 0)
            tx.add_branch("w", other.tree, other.sid, 0, -1)
            tx.add_entries(first, [an_entry(0)])

        with backend.read() as reader:
            assert sorted(reader.branch_numbers(row.sid, row.tree)) == sorted([first, second])

    def test_a_disowned_branch_belongs_to_nobody(self, backend: Backend) -> None:
        """Its owner becomes 0, and nothing else of it changes."""
        with backend.write() as tx:
            branch = tx.add_branch("u", 11, 12, 0, -1)
            assert tx.get_branch(branch).owner == 12
            tx.disown_branch(branch)

            assert tx.get_branch(branch) == BranchRow(branch, "u", 11, 0, 0, -1)
        with backend.read() as reader:
            assert reader.find_branch("u") == BranchRow(branch, "u", 11, 0, 0, -1)
            assert reader.get_branch(branch).owner == 0

    def test_a_branch_without_an_owner_is_adopted(self, backend: Backend) -> None:
        """Nothing else of it changes, and a reader that knew it before sees its owner."""
        with backend.write() as tx:
            branch = tx.add_branch("u", 11, 0, 0, -1)
        with backend.read() as reader:
            assert reader.get_branch(branch).owner == 0
        with backend.write() as tx:
            tx.adopt_branch(branch, 12)
            assert tx.get_branch(branch) == BranchRow(branch, "u", 11, 12, 0, -1)
        with backend.read() as reader:
            assert reader.find_branch("u") == BranchRow(branch, "u", 11, 12, 0, -1)

    def test_a_dropped_branch_is_gone(self, backend: Backend) -> None:
        """Also for a reader that knew it before."""
        with backend.write() as tx:
            branch = tx.add_branch("u", 11, 12, 0, -1)
            tx.get_branch(branch)
        with backend.write() as tx:
            tx.drop_branch(branch)

        with backend.read() as reader:
            assert reader.find_branch("u") is None
            assert reader.tree_branches(11) == []
            with pytest.raises(KeyError):
                reader.get_branch(branch)

    # -- entries

    def test_a_body_comes_back_byte_for_byte(self, backend: Backend) -> None:
        """P17, I-03, I-06, I-09: whatever it holds and however large it is."""
        rows = [an_entry(position, body) for position, body in enumerate(BODIES.values())]
        with backend.write() as tx:
            branch = _branch(tx)
            tx.add_entries(branch, rows)

        with backend.read() as reader:
            for name, row in zip(BODIES, rows, strict=True):
                with named(name):
                    assert reader.get_entry(branch, row.position) == row
                    assert reader.read_entries(branch, row.position, row.position) == [row]

    def test_an_entry_comes_back_equal(self, backend: Backend) -> None:
        """Kind, time, flags, digest and every counter."""
        kinds = (MESSAGE, COMPACTION, TRUNCATION, SUMMARY, TURNS)
        rows = [an_entry(position, b'{"a":1}', kind, REPLACED) for position, kind in enumerate(kinds)]
        with backend.write() as tx:
            branch = _branch(tx)
            tx.add_entries(branch, rows)

        with backend.read() as reader:
            assert [reader.get_entry(branch, row.position) for row in rows] == rows

    def test_the_place_of_an_entry_is_known_without_its_body(self, backend: Backend) -> None:
        """`get_tip` is what the entry itself says of its place; None where there is no entry."""
        with backend.write() as tx:
            branch = _branch(tx, entries=2)
            assert tx.get_tip(branch, 1) == an_entry(1).tip(branch)

        with backend.read() as reader:
            assert reader.get_tip(branch, 0) == an_entry(0).tip(branch)
            assert reader.get_tip(branch, 2) is None
            assert reader.get_tip(branch + 1, 0) is None

    def test_a_branch_may_start_anywhere(self, backend: Backend) -> None:
        """The first position is the one after the fork."""
        with backend.write() as tx:
            base = _branch(tx, entries=6)
            branch = tx.add_branch("v", 1, 1, base, 3)
            assert tx.last_position(branch) == -1
            tx.add_entries(branch, [an_entry(4, b"4"), an_entry(5, b"5")])

        with backend.read() as reader:
            assert reader.last_position(branch) == 5
            assert reader.get_entry(branch, 3) is None
            assert reader.get_entry(branch, 4) == an_entry(4, b"4")
            assert reader.read_entries(branch, 4, 5) == [an_entry(4, b"4"), an_entry(5, b"5")]

    def test_a_branch_grows_at_its_end(self, backend: Backend) -> None:
        """Entries added later follow those that are there."""
        with backend.write() as tx:
            branch = _branch(tx, entries=2)
        with backend.write() as tx:
            tx.add_entries(branch, [an_entry(2), an_entry(3)])

        with backend.read() as reader:
            assert reader.last_position(branch) == 3
            assert _positions(reader.read_entries(branch, 0, 3)) == [0, 1, 2, 3]

    def test_branches_do_not_mix(self, backend: Backend) -> None:
        """Two branches with neighbouring numbers and the same positions keep their own entries."""
        with backend.write() as tx:
            first, second = _branch(tx, "u"), _branch(tx, "v")
            tx.add_entries(first, [an_entry(n, b"first") for n in range(3)])
            tx.add_entries(second, [an_entry(n, b"second") for n in range(3)])
            tx.drop_entries(first, 0)

        with backend.read() as reader:
            assert reader.last_position(first) == 0
            assert [row.body for row in reader.read_entries(second, 0, 2)] == [b"second"] * 3

    def test_a_range_of_entries_can_be_read_either_way(self, backend: Backend) -> None:
        """Both ends are included; `limit` counts from the end at which the reading starts."""
        with backend.write() as tx:
            branch = _branch(tx, entries=10)

        with backend.read() as reader:
            read = reader.read_entries
            assert _positions(read(branch, 3, 6)) == [3, 4, 5, 6]
            assert _positions(read(branch, 3, 6, reverse=True)) == [6, 5, 4, 3]
            assert _positions(read(branch, 3, 6, limit=2)) == [3, 4]
            assert _positions(read(branch, 3, 6, limit=2, reverse=True)) == [6, 5]
            assert _positions(read(branch, 3, 6, limit=99)) == [3, 4, 5, 6]

    def test_a_missing_entry_is_named(self, backend: Backend) -> None:
        """P6: what should be there and is not raises CorruptEntryError with its branch and position."""
        with backend.write() as tx:
            branch = _branch(tx, entries=4)
            tx.drop_entries(branch, 1)

        for reverse in (False, True):
            with backend.read() as reader, pytest.raises(CorruptEntryError) as caught:
                reader.read_entries(branch, 0, 2, reverse=reverse)
            assert (caught.value.source, caught.value.position) == ("u", 2)

    def test_missing_entries_cost_nothing_but_themselves(self, backend: Backend) -> None:
        """P6: with `on_damage` the others are read, and each missing one is reported once."""
        with backend.write() as tx:
            branch = _branch(tx, entries=5)
            tx.drop_entries(branch, 2)

        for reverse in (False, True):
            told: list[CorruptEntryError] = []
            with backend.read() as reader:
                found = reader.read_entries(branch, 1, 4, reverse=reverse, on_damage=told.append)
            assert sorted(_positions(found)) == [1, 2]
            assert sorted((exc.source, exc.position) for exc in told) == [("u", 3), ("u", 4)]

    def test_what_lies_before_a_branch_is_missing_from_it(self, backend: Backend) -> None:
        """A branch does not hold the entries that it continues."""
        told: list[int] = []
        with backend.write() as tx:
            base = _branch(tx, entries=5)
            branch = tx.add_branch("v", 1, 1, base, 2)
            tx.add_entries(branch, [an_entry(3), an_entry(4)])

        with backend.read() as reader:
            found = reader.read_entries(branch, 1, 4, on_damage=lambda exc: told.append(exc.position))
            assert (_positions(found), told) == ([3, 4], [1, 2])
            assert reader.get_entry(branch, 2) is None
            assert reader.get_tip(branch, 2) is None

    def test_messages_are_read_without_the_marks(self, backend: Backend) -> None:
        """Positions and decoded bodies of messages only; `limit` counts messages."""
        kinds = [MESSAGE, SUMMARY, MESSAGE, COMPACTION, TRUNCATION, MESSAGE, TURNS]
        with backend.write() as tx:
            branch = _branch(tx)
            tx.add_entries(branch, [an_entry(n, b'{"n":%d}' % n, kind) for n, kind in enumerate(kinds)])
        zero, two, five = (0, {"n": 0}), (2, {"n": 2}), (5, {"n": 5})

        with backend.read() as reader:
            read = reader.read_messages
            assert read(branch, 0, 6) == [zero, two, five]
            assert read(branch, 0, 6, reverse=True) == [five, two, zero]
            assert read(branch, 0, 6, limit=2) == [zero, two]
            assert read(branch, 0, 6, limit=2, reverse=True) == [five, two]
            assert read(branch, 1, 2) == [two]
            assert read(branch, 3, 4) == []

    def test_messages_are_decoded_anew_for_each_reader(self, backend: Backend) -> None:
        """P17, I-14: equal to what the body says; a change to one does not show in another."""
        bodies = [BODIES[name] for name in ("NUL escape", "huge integer", "a megabyte of text")]
        with backend.write() as tx:
            branch = _branch(tx)
            tx.add_entries(branch, [an_entry(position, body) for position, body in enumerate(bodies)])
        expected = [(position, json.loads(body)) for position, body in enumerate(bodies)]

        with backend.read() as reader:
            for _ in range(2):
                found = reader.read_messages(branch, 0, 2)
                assert found == expected
                for _, message in found:
                    message.clear()

    def test_drop_entries_removes_what_lies_behind_a_position(self, backend: Backend) -> None:
        """What lies before stays; the place can be written again."""
        with backend.write() as tx:
            branch = _branch(tx, entries=5)
            tx.drop_entries(branch, 2)
            tx.add_entries(branch, [an_entry(3, b"again")])

        with backend.read() as reader:
            assert reader.last_position(branch) == 3
            assert reader.get_entry(branch, 3) == an_entry(3, b"again")
            assert reader.get_entry(branch, 4) is None

    def test_totals_count_what_is_stored(self, backend: Backend) -> None:
        """Shared entries once; sessions in the trash apart; the size is that of the messages."""
        with backend.read() as reader:
            nothing = reader.totals(0)
        assert (nothing.sessions, nothing.deleted, nothing.messages, nothing.entries, nothing.size) == (
            0,
        ) * 5

        with backend.write() as tx:
            base = add(tx, "a")
            add(tx, "b", tree=base.tree)
            add(tx, "gone", deleted=1)

        with backend.read() as reader:
            totals = reader.totals(0)
        assert (totals.sessions, totals.deleted, totals.messages, totals.entries) == (2, 1, 0, 0)


def _branch(tx: Transaction, uid: str = "u", entries: int = 0) -> int:
    branch = tx.add_branch(uid, 1, 1, 0, -1)
    if entries:
        tx.add_entries(branch, [an_entry(position, b"%d" % position) for position in range(entries)])
    return branch


def _positions(rows: list[EntryRow]) -> list[int]:
    return [row.position for row in rows]
