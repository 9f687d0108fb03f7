"""What a backend that promises durability promises beyond the rest: all of it is there after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.backends.contract import STORE_WIDE, Backend
from clew.core.log.rows import Details
from clew.errors import KeyReusedError, LeaseHeldError, NothingToUndoError, SessionDeletedError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import (
    CHANGES,
    Broken,
    Conformance,
    Ticking,
    a_session,
    add,
    an_entry,
    fail,
    said,
    say,
    state,
    texts,
    user,
)
from clew.testing.backend.streams import a_call, an_event
from clew.testing.chain import check_store

MARKER = "purged-marker-7f3a9c"


class RestartConformance(Conformance):
    """P1, P12: what was acknowledged is there, in the same place, in whatever process looks next.

    For backends whose `capabilities.durability` is not "memory". A subclass gives `reopen`.
    """

    def reopen(self, backend: Backend) -> Backend:
        """Close the backend and open the same place again."""
        raise NotImplementedError("a durable backend needs `reopen(backend) -> Backend`")

    def files(self, backend: Backend) -> list[Path]:
        """The files that hold the store, to be searched for what was purged."""
        place = Path(backend.location)
        return [file for file in place.parent.glob(f"{place.name}*") if file.is_file()]

    def contents(self, backend: Backend) -> list[bytes]:
        """What these files hold. A backend that encodes or encrypts bytes decodes them here."""
        return [file.read_bytes() for file in self.files(backend)]

    @pytest.fixture
    def restart(self, backend: Backend, clock: Ticking) -> Iterator[Callable[[], Store]]:
        """Close everything that is open and open the store again."""
        opened: list[Backend] = [backend]

        def again() -> Store:
            opened.append(self.reopen(opened[-1]))
            return Store(opened[-1], clock=clock)

        yield again
        opened[-1].close()

    def test_it_promises_to_be_durable(self, backend: Backend) -> None:
        """It says what an acknowledged write survives."""
        assert backend.capabilities.durability in ("full", "process")

    def test_all_that_is_stored_is_there_after_a_restart(self, backend: Backend) -> None:
        """Equal to what was put; numbers go on where they were."""
        with backend.write() as tx:
            row = add(tx, "a", Details(tags=("t",)))
            branch = tx.add_branch("u", row.tree, row.sid, 0, -1)
            tx.add_entries(branch, [an_entry(0, b'{"a":1}')])
            tx.put_record(STORE_WIDE, "var", "n", b"1")
            tx.add_events(row.sid, [an_event(1, id="x"), an_event(2)])
            tx.add_usage(row.sid, a_call(1, id="x"))
        with backend.write() as tx:
            gone = tx.add_session(a_session("gone"), Details())
            tx.drop_session(gone)
        again = self.reopen(backend)
        try:
            with again.write() as tx:
                assert tx.find_session("a") == row
                assert tx.get_details(row.sid) == Details(tags=("t",))
                assert tx.get_entry(branch, 0) == an_entry(0, b'{"a":1}')
                assert tx.get_record(STORE_WIDE, "var", "n") == b"1"
                assert tx.read_events(row.sid, 0, 9) == [an_event(1, id="x"), an_event(2)]
                assert tx.read_usage(row.sid, 0, 9) == [a_call(1, id="x")]
                assert tx.add_session(a_session("new"), Details()) not in (row.sid, gone)
        finally:
            again.close()

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
    def test_every_change_survives_a_restart(
        self, s: Session, restart: Callable[[], Store], change: Callable[[Session], Any]
    ) -> None:
        """P12: with no message after it; undo and redo go on as if nothing had happened."""
        say(s, "a", "b", "c")
        before = state(s)
        change(s)
        after = state(s)
        again = restart().get("s")
        assert state(again) == after
        again.undo()
        assert state(again) == before
        again = restart().get("s")
        again.redo()
        assert state(again) == after
        with pytest.raises(NothingToUndoError):
            again.redo()

    def test_a_whole_session_survives_a_restart(
        self, store: Store, s: Session, restart: Callable[[], Store]
    ) -> None:
        """P1: everything that can be set, with the next append in its place."""
        s.append(user("a"), user("b"), key="k")
        s.checkpoint("c", state={"n": 1})
        s.annotate(0, label="l", note="x")
        s.set_var("v", [1])
        s.add_alias("alias")
        s.update(title="t", workspace="/w", tags=["x"], metadata={"m": 1})
        fork = s.fork()
        say(fork, "f")
        s.rewind(0)
        before = [
            (state(session), session.info, session.checkpoints(), session.tree()) for session in (s, fork)
        ]
        store = restart()
        s, fork = store.get("alias"), store.get("s#fork-1")

        after = [
            (state(session), session.info, session.checkpoints(), session.tree()) for session in (s, fork)
        ]
        assert after == before
        assert s.get_var("v") == [1]
        assert [entry.position for entry in s.entries(label="l")] == [0]
        assert [info.id for info in store.list(tag="x", where={"m": 1}, workspace="/w")] == ["s", "s#fork-1"]
        assert s.fork().id == "s#fork-2"
        (entry,) = s.append(user("next"))
        assert entry.position == 1
        check_store(store)

    def test_a_key_survives_a_restart(self, s: Session, restart: Callable[[], Store]) -> None:
        """P4: the retry after a crash writes nothing twice."""
        (entry,) = s.append(user("a"), key="k")
        again = restart().get("s")

        assert again.append(user("a"), key="k") == [entry]
        with pytest.raises(KeyReusedError):
            again.append(user("b"), key="k")
        assert said(again) == ["a"]

    def test_an_expected_head_survives_a_restart(self, s: Session, restart: Callable[[], Store]) -> None:
        """A head that was read before is the same after."""
        say(s, "a")
        head = s.head
        again = restart().get("s")
        again.append(user("b"), expect=head)

        assert said(again) == ["a", "b"]

    def test_close_writes_what_was_not_waited_for(
        self, store: Store, s: Session, restart: Callable[[], Store]
    ) -> None:
        """P1: `close` flushes."""
        for number in range(20):
            s.append_nowait(user(f"{number}"))
        store.close()

        assert said(restart().get("s")) == [f"{number}" for number in range(20)]

    def test_the_trash_survives_a_restart(
        self, store: Store, s: Session, restart: Callable[[], Store]
    ) -> None:
        """And what was purged stays purged."""
        say(s, "a")
        purged = store.create("purged")
        store.delete("s")
        store.delete("purged", purge=True)
        store = restart()

        assert [info.id for info in store.list(deleted=True)] == ["s"]
        assert said(store.restore_deleted("s")) == ["a"]
        assert store.find(purged.id) is None

    def test_a_cursor_survives_a_restart(self, store: Store, restart: Callable[[], Store]) -> None:
        """It holds no state of the store that made it."""
        for id in "abc":
            store.create(id)
        cursor = store.list(limit=1).cursor

        assert [info.id for info in restart().list(cursor=cursor)] == ["b", "a"]

    # -- runs

    @pytest.mark.parametrize("end", ["complete", "fail", "close", None])
    def test_the_status_survives_a_restart(
        self, s: Session, restart: Callable[[], Store], end: str | None
    ) -> None:
        """With the run and every change of status."""
        s.start({"request": 1}, task="sync")
        arguments: tuple[Any, ...] = () if end == "close" else ("outcome",)
        if end == "close":
            s.complete()
        if end:
            getattr(s, end)(*arguments)
        before = s.info, s.status_changes()
        store = restart()
        again = store.get("s")

        assert (again.info, again.status_changes()) == before
        assert store.stats().by_status[before[0].status] == 1
        assert [info.id for info in store.list(status=before[0].status)] == ["s"]

    def test_a_lease_survives_a_restart(
        self, s: Session, restart: Callable[[], Store], clock: Ticking
    ) -> None:
        """Its holder may still be there; when its time is over, the next epoch follows."""
        say(s.run(owner="w", lease=30), "a")
        again = restart().get("s")
        lease = again.lease

        assert lease is not None
        assert (lease.owner, lease.epoch, again.info.status) == ("w", 1, "running")
        with pytest.raises(LeaseHeldError):
            say(again, "b")
        clock.now += 31_000_000
        again = restart().get("s")
        assert again.lease is None
        with again.run() as run:
            assert run.epoch == 2
            say(run, "c")
        assert [entry.epoch for entry in again.entries()] == [1, 2]
        assert [change.status for change in again.status_changes()] == [
            "running", "interrupted", "running", "completed",
        ]  # fmt: skip

    def test_an_epoch_is_never_given_out_twice(self, s: Session, restart: Callable[[], Store]) -> None:
        """J8: not after a restart either."""
        epochs: list[int] = []
        for _ in range(3):
            with s.run() as run:
                epochs.append(run.epoch)
            s = restart().get("s")

        assert (epochs, s.info.epoch) == ([1, 2, 3], 3)

    def test_a_worker_resumes_after_a_restart(self, s: Session, restart: Callable[[], Store]) -> None:
        """From the last checkpoint, in whatever process; the log says nothing twice."""
        run = s.run(task="sync")
        say(run, "step 1")
        run.add_usage(model="none", input_tokens=7, output_tokens=3)
        before = run.checkpoint(iteration=1, state={"next": 2}, system_prompt="p")
        say(run, "half of step 2")
        store = restart()
        with store.get("s").run(steal=True) as other:
            point = other.resume(system_prompt="p")
            assert (point.checkpoint, point.changed, point.ahead) == (before, (), True)
            assert texts(point.messages) == ["step 1"]
            other.rewind(point.head)
            say(other, "step 2")
            other.checkpoint(iteration=2)
        again = restart().get("s")

        assert said(again) == ["step 1", "step 2"]
        assert (again.resume().iteration, again.resume().checkpoint.name) == (2, "run-2-2")

    def test_an_aborted_turn_survives_a_restart(self, s: Session, restart: Callable[[], Store]) -> None:
        """P12: it is off the path, and `undo` brings it back."""
        say(s, "a")
        with pytest.raises(Broken):
            fail(s, lambda: say(s, "b"))
        again = restart().get("s")
        assert said(again) == ["a"]
        again.undo()
        assert said(again) == ["a", "b"]

    # -- purges

    def test_a_purge_leaves_no_byte(self, backend: Backend, store: Store, s: Session) -> None:
        """P18, S-29: of messages, marks, names, variables and settings, also those of long ago."""
        for number in range(30):
            s.append(user(f"{MARKER} {number} " * (1 + 40 * number)))
        s.compact(MARKER)
        s.set_summary(MARKER)
        s.checkpoint(MARKER, state=MARKER)
        s.annotate(0, label=MARKER, note=MARKER)
        s.set_var(MARKER, MARKER)
        s.add_alias(MARKER)
        s.update(title=MARKER, workspace=f"/{MARKER}", tags=[MARKER], metadata={"m": MARKER}, model=MARKER)
        s.append(user("x"), key=MARKER)
        s.replace([user(MARKER)])
        keeper = store.create("keeper")
        say(keeper, "kept")
        assert self._holds_marker(backend)
        store.delete("s", purge=True)

        assert not self._holds_marker(backend)
        assert said(keeper) == ["kept"]
        with pytest.raises(SessionDeletedError):
            s.info  # noqa: B018
        store.close()
        assert not self._holds_marker(backend)

    def _holds_marker(self, backend: Backend) -> bool:
        return any(MARKER.encode() in content for content in self.contents(backend))
