"""The storage contract: transactions, and the backend as a whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import pytest

from clew.backends.contract import STORE_WIDE, Backend, Reader, RecordKind, Transaction
from clew.core.log.rows import Details, SessionRow
from clew.errors import StoreClosedError
from clew.testing.backend.base import START, Conformance, a_session, a_tip, add, an_entry, query
from clew.testing.backend.sessions import DETAILS
from clew.testing.backend.streams import a_call, an_event

HUNG = 120
"""Seconds after which a thread counts as stuck. Nothing waits that long, however busy the machine is."""


class StopHereError(Exception):
    """Raised by tests to leave a transaction."""


@contextmanager
def undone(backend: Backend, error: type[BaseException] = StopHereError) -> Iterator[Transaction]:
    """A transaction that ends with an exception, which must come out of it."""
    try:
        with backend.write() as tx:
            yield tx
            raise error
    except error:
        return
    raise AssertionError("the backend swallowed an exception")


class TransactionConformance(Conformance):
    """A transaction happens as a whole or not at all."""

    def test_what_is_committed_is_seen_by_every_later_reader(self, backend: Backend) -> None:
        """Leaving the block commits: the next reader and the next transaction see it."""
        with backend.write() as tx:
            tx.put_record(STORE_WIDE, "var", "n", b"1")

        with backend.read() as reader:
            assert reader.get_record(STORE_WIDE, "var", "n") == b"1"
        with backend.write() as tx:
            assert tx.get_record(STORE_WIDE, "var", "n") == b"1"

    def test_a_transaction_sees_its_own_writes(self, backend: Backend) -> None:
        """Inside the block, reads show what was written in it."""
        with backend.write() as tx:
            row = add(tx, "a")
            branch = tx.add_branch("u", row.tree, row.sid, 0, -1)
            tx.add_entries(branch, [an_entry(0)])

            assert tx.find_session("a") == row
            assert tx.get_branch(branch).uid == "u"
            assert tx.last_position(branch) == 0

    def test_a_reader_never_sees_what_is_not_committed(self, backend: Backend) -> None:
        """A reader in another thread sees nothing of a transaction that is open, nor of one undone."""
        seen: list[bytes | None] = []

        def look() -> None:
            with backend.read() as reader:
                seen.append(reader.get_record(STORE_WIDE, "var", "n"))

        thread = threading.Thread(target=look)
        with undone(backend) as tx:
            tx.put_record(STORE_WIDE, "var", "n", b"1")
            thread.start()
            thread.join(0.05)  # it may look now, or have to wait for the end of the transaction
        thread.join()

        assert seen == [None]

    @pytest.mark.parametrize("error", [StopHereError, KeyboardInterrupt])
    def test_an_exception_undoes_all_of_a_transaction(
        self, backend: Backend, error: type[BaseException]
    ) -> None:
        """P2: after an exception of any kind everything is as it was before, also what was dropped."""
        with backend.write() as tx:
            sids, branches = _populate(tx)
            before = _everything(tx, sids, branches)
        with undone(backend, error) as tx:
            _change_everything(tx, sids, branches)
            new = add(tx, "new")
            new_branch = tx.add_branch("new", new.tree, new.sid, 0, -1)
            tx.add_entries(new_branch, [an_entry(0)])

        with backend.read() as reader:
            assert _everything(reader, sids, branches) == before
            assert reader.find_session("new") is None
            assert reader.find_branch("new") is None
            assert reader.get_entry(new_branch, 0) is None
            assert reader.scan_records(new.sid, "var") == []
        with backend.write() as tx:
            assert _everything(tx, sids, branches) == before

    def test_an_undone_transaction_leaves_the_next_one_unharmed(self, backend: Backend) -> None:
        """After a rollback the same writes can be made again."""
        for transaction in (undone(backend), backend.write()):
            with transaction as tx:
                row = add(tx, "a")
                branch = tx.add_branch("u", row.tree, row.sid, 0, -1)
                tx.add_entries(branch, [an_entry(0)])

        with backend.read() as reader:
            assert reader.find_session("a") == row
            assert reader.get_entry(branch, 0) == an_entry(0)
            assert reader.get_branch(branch).owner == row.sid

    def test_writers_exclude_each_other(self, backend: Backend) -> None:
        """Of two transactions that read and then write, neither loses the other's write."""

        def count() -> None:
            for _ in range(20):
                with backend.write() as tx:
                    value = tx.get_record(STORE_WIDE, "var", "n") or b"0"
                    tx.put_record(STORE_WIDE, "var", "n", b"%d" % (int(value) + 1))

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        with backend.read() as reader:
            assert reader.get_record(STORE_WIDE, "var", "n") == b"80"

    def test_a_transaction_may_be_left_twice_or_unentered(self, backend: Backend) -> None:
        """A signal handler may raise at the doorstep: nothing stays locked, nothing is undone."""
        transaction = backend.write()
        transaction.__enter__().put_record(STORE_WIDE, "var", "n", b"1")
        transaction.__exit__(None, None, None)
        for again in (transaction, backend.write()):
            again.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        seen: list[bytes | None] = []

        def look() -> None:
            with backend.write() as tx:
                seen.append(tx.get_record(STORE_WIDE, "var", "n"))

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        thread.join(HUNG)

        assert seen == [b"1"]

    def test_nobody_is_inside_while_the_process_forks(self, backend: Backend) -> None:
        """Between `before_fork` and `after_fork` no other thread gets in; then all go on."""
        done = threading.Event()

        def work() -> None:
            with backend.write() as tx:
                tx.put_record(STORE_WIDE, "var", "n", b"1")
            done.set()

        backend.before_fork()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        too_early = done.wait(0.05)
        backend.after_fork(is_child=False)

        assert not too_early
        assert done.wait(HUNG)
        with backend.read() as reader:
            assert reader.get_record(STORE_WIDE, "var", "n") == b"1"

    def test_writes_counts_the_calls_that_changed_something(self, backend: Backend) -> None:
        """`writes` grows with every change and with nothing else: so a failure without a trace shows."""
        with backend.write() as tx:
            assert tx.writes == 0
            sid = tx.add_session(a_session("a"), Details())
            counts = [tx.writes]
            branch = tx.add_branch("u", sid, sid, 0, -1)
            counts.append(tx.writes)
            tx.add_entries(branch, [an_entry(0), an_entry(1)])
            counts.append(tx.writes)
            tx.put_record(sid, "var", "n", b"1")
            counts.append(tx.writes)
            tx.set_session(a_session("a", sid=sid, tree=sid))
            counts.append(tx.writes)
            tx.set_head(sid, a_tip(branch, 1), 5, None, "p")
            counts.append(tx.writes)
            tx.drop_record(sid, "var", "n")
            counts.append(tx.writes)
            tx.set_due(sid, 5)
            counts.append(tx.writes)
            tx.set_due(None, 0)
            counts.append(tx.writes)
            tx.erase_entries(branch, [0])
            counts.append(tx.writes)
            tx.add_events(sid, [an_event(1), an_event(2)])
            counts.append(tx.writes)
            tx.drop_events(sid, 1)
            counts.append(tx.writes)
            tx.add_usage(sid, a_call(1))
            counts.append(tx.writes)

            assert counts == sorted(set(counts)), "each of these changes something"

            before = tx.writes
            _everything(tx, [sid], [branch])
            tx.list_sessions(query())
            assert tx.drop_record(sid, "var", "n") is False
            tx.drop_events(sid, 1)
            tx.erase_entries(branch, [7])
            assert tx.writes == before, "none of these does"

    # -- the backend itself

    def test_scrub_changes_nothing_that_is_stored(self, backend: Backend) -> None:
        """It removes what was dropped, and only that."""
        with backend.write() as tx:
            sids, branches = _populate(tx)
            before = _everything(tx, sids, branches)
        backend.scrub()

        with backend.read() as reader:
            assert _everything(reader, sids, branches) == before

    def test_its_address_and_powers_are_known(self, backend: Backend) -> None:
        """`location` can be shown; `durability` is one of the named levels; the size is a number."""
        assert backend.location
        assert backend.capabilities.durability in ("full", "process", "memory")
        assert backend.capabilities.shared in (True, False)
        assert backend.bytes_on_disk() >= 0

    def test_its_clock_is_one_that_all_share_or_none(self, backend: Backend) -> None:
        """Microseconds since 1970 that do not go back; None says that the machine's clock will do."""
        first, second = backend.clock(), backend.clock()

        assert (first is None) == (second is None)
        assert first is None or second is None or START < first <= second

    def test_closing_is_idempotent_and_final(self, backend: Backend) -> None:
        """After `close` every use raises StoreClosedError."""
        backend.close()
        backend.close()

        with pytest.raises(StoreClosedError), backend.read():
            pass
        with pytest.raises(StoreClosedError), backend.write():
            pass


KINDS: tuple[RecordKind, ...] = get_args(RecordKind)


def _populate(tx: Transaction) -> tuple[list[int], list[int]]:
    """Some of everything: (sids, branches)."""
    base = add(tx, "base", DETAILS)
    fork = add(tx, "fork", tree=base.tree)
    trashed = add(tx, "trashed", deleted=START)
    first = tx.add_branch("first", base.tree, base.sid, 0, -1)
    tx.add_entries(first, [an_entry(position) for position in range(4)])
    second = tx.add_branch("second", base.tree, fork.sid, first, 1)
    tx.add_entries(second, [an_entry(2), an_entry(3)])
    for sid in (STORE_WIDE, base.sid, fork.sid):
        for kind in KINDS:
            tx.put_record(sid, kind, "n", f"{sid} {kind}".encode())
    for sid in (base.sid, fork.sid):
        tx.add_events(sid, [an_event(1, id="x", stream="t"), an_event(2), an_event(3, id="y")])
        tx.add_usage(sid, a_call(1, id="x", cost=None))
        tx.add_usage(sid, a_call(2, branch=first, position=1))
    return [base.sid, fork.sid, trashed.sid], [first, second]


def _change_everything(tx: Transaction, sids: list[int], branches: list[int]) -> None:
    base, fork, trashed = sids
    tx.set_session(a_session("renamed", sid=base, tree=base))
    tx.set_head(base, a_tip(9, 9), 5, "t", "p")
    tx.set_details(base, Details(tags=("other",)))
    tx.add_entries(branches[0], [an_entry(4)])
    tx.put_record(STORE_WIDE, "alias", "n", b"changed")
    tx.put_record(base, "var", "added", b"1")
    tx.drop_record(base, "key", "n")
    tx.erase_entries(branches[0], [0, 4])
    tx.drop_entries(branches[0], 0)
    tx.add_events(base, [an_event(4, id="z")])
    tx.drop_events(base, 2)
    tx.add_usage(base, a_call(3, id="z"))
    tx.set_due(base, 99)
    tx.set_due(None, 0)
    tx.disown_branch(branches[0])
    tx.adopt_branch(branches[0], base)
    tx.disown_branch(branches[0])
    tx.drop_entries(branches[1], -1)
    tx.drop_branch(branches[1])
    tx.drop_session(fork)
    tx.set_session(a_session("trashed", sid=trashed, tree=trashed))


def _everything(reader: Reader, sids: list[int], branches: list[int]) -> dict[str, Any]:
    """All that a reader gives of these sessions and branches."""
    rows: list[SessionRow | None] = [reader.get_session(sid) for sid in sids]
    return {
        "rows": rows,
        "by id": [
            (reader.find_session(row.id), reader.find_session(row.id, deleted=True)) for row in rows if row
        ],
        "details": [reader.get_details(sid) for sid in sids],
        "listed": [reader.list_sessions(query(deleted=deleted)) for deleted in (False, True)],
        "by tag": reader.list_sessions(query(tags=("a",))),
        "branches": [reader.find_branch(uid) for uid in ("first", "second", "u")],
        "trees": [reader.tree_branches(sid) for sid in sids],
        "last": [reader.last_position(branch) for branch in branches],
        "entries": [[reader.get_entry(branch, n) for n in range(6)] for branch in branches],
        "records": [reader.scan_records(sid, kind) for sid in (STORE_WIDE, *sids) for kind in KINDS],
        "totals": reader.totals(START),
        "due": reader.due_sessions(START, 99),
        "idle": reader.list_sessions(query(oldest=True)),
        "events": [(reader.event_bounds(sid), reader.read_events(sid, 0, 99)) for sid in sids],
        "by event id": [reader.find_event(sid, id) for sid in sids for id in "xyz"],
        "streams": [reader.read_events(sid, 0, 99, stream) for sid in sids for stream in ("", "t")],
        "usage": [(reader.last_usage(sid), reader.read_usage(sid, 0, 99)) for sid in sids],
        "by usage id": [reader.find_usage(sid, id) for sid in sids for id in "xyz"],
        "sums": [reader.sum_usage(None, by) for by in ((), ("session",), ("branch", "model"))],
    }
