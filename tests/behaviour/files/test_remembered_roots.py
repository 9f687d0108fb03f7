"""S-50: a store cannot aim a restore. A directory that it names is used for those only who agree there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from clew.backends.contract import STORE_WIDE, Backend, Transaction
from clew.errors import ClewError, CorruptError, InvalidError, RestoreFailedError, RootNotNamedError
from clew.files import journal
from clew.model.files import RestoreReport
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import say
from tests.behaviour.files.trees import NOW, THEN, read, write

Use = Callable[[Store, Session], object]
OF_CHECKPOINT: dict[str, Use] = {
    "rewind": lambda store, s: s.rewind("start", files=True),
    "rewind, dry": lambda store, s: s.rewind("start", files=True, dry_run=True),
    "restore_files": lambda store, s: s.restore_files("start"),
    "restore_files, dry": lambda store, s: s.restore_files("start", dry_run=True),
    "restore": lambda store, s: store.restore(_snapshot(s)),
    "restore of the value": lambda store, s: store.restore(store.get_snapshot(_snapshot(s))),
    "diff": lambda store, s: store.diff(_snapshot(s)),
}


class TestRememberedRoots:
    """`owner` took the snapshots; for anybody else, the store is one that came from elsewhere."""

    @pytest.fixture
    def become(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        """Be another user, or the same one on another machine: it has a key of its own."""

        def become(name: str) -> None:
            monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "states" / name))

        return become

    # -- snapshots

    @pytest.mark.parametrize("use", OF_CHECKPOINT.values(), ids=OF_CHECKPOINT)
    def test_s50_a_directory_that_a_snapshot_names_is_not_used_for_somebody_else(
        self, store: Store, worked: Session, root: Path, become: Callable[[str], None], use: Use
    ) -> None:
        """Neither written nor read into the store: it has to be named."""
        snapshots = len(store.snapshots())
        become("stranger")

        with pytest.raises(RootNotNamedError, match="pass it as root="):
            use(store, worked)

        assert (read(root), worked.info.messages) == (NOW, 2)
        assert len(store.snapshots()) == snapshots

    @pytest.mark.parametrize("use", OF_CHECKPOINT.values(), ids=OF_CHECKPOINT)
    def test_the_one_who_took_a_snapshot_need_not_name_its_directory(
        self, store: Store, worked: Session, root: Path, become: Callable[[str], None], use: Use
    ) -> None:
        """Whoever else used the store in between."""
        become("stranger")
        become("owner")
        use(store, worked)

    def test_s50_whoever_names_the_directory_restores_there(
        self, store: Store, worked: Session, root: Path, tmp_path: Path, become: Callable[[str], None]
    ) -> None:
        """The files of a store from elsewhere are not lost, and their own new ones are known again."""
        become("stranger")
        there = tmp_path / "mine"

        worked.rewind("start", files=there)
        assert read(there) == THEN
        worked.undo()
        assert (read(there), read(root)) == ({}, NOW)

    @pytest.mark.parametrize("change", ["root", "tree", "id"])
    def test_s50_a_record_that_was_changed_is_not_believed(
        self, store: Store, backend: Backend, worked: Session, root: Path, tmp_path: Path, change: str
    ) -> None:
        """The signature is for this snapshot of this directory, and for no other."""
        (tmp_path / "other").mkdir()
        other = store.snapshot(tmp_path / "other")
        id = _snapshot(worked)

        def forge(tx: Transaction) -> str:
            value = msgspec.msgpack.decode(tx.get_record(STORE_WIDE, "snapshot", id) or b"")
            if change == "root":
                value[1] = os.fsencode(tmp_path / "other")
            elif change == "tree":
                value[2] = bytes.fromhex(other.tree)
            name = other.id if change == "id" else id
            tx.put_record(STORE_WIDE, "snapshot", name, msgspec.msgpack.encode(value))
            return name

        with backend.write() as tx:
            name = forge(tx)
        with pytest.raises(RootNotNamedError):
            store.restore(name)
        assert (read(root), read(tmp_path / "other")) == (NOW, {})

    def test_s50_a_record_of_an_older_clew_has_no_signature_and_its_directory_must_be_named(
        self, store: Store, backend: Backend, worked: Session, root: Path
    ) -> None:
        """Nobody can tell who wrote it; named, it is restored as ever."""
        id = _snapshot(worked)
        with backend.write() as tx:
            value = msgspec.msgpack.decode(tx.get_record(STORE_WIDE, "snapshot", id) or b"")
            tx.put_record(STORE_WIDE, "snapshot", id, msgspec.msgpack.encode(value[:-1]))

        with pytest.raises(RootNotNamedError):
            store.restore(id)
        store.restore(id, root)
        assert read(root) == THEN

    def test_without_a_place_for_the_key_the_directory_must_be_named_and_the_error_says_why(
        self, s: Session, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As in a container whose home cannot be written to."""
        (tmp_path / "file").touch()
        monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "file" / "state"))
        say(s, "first")
        s.checkpoint("start", files=root)
        write(root, NOW)

        with pytest.raises(RootNotNamedError, match=r"Not a directory.*CLEW_STATE_DIR.*pass it as root="):
            s.rewind("start", files=True)
        s.rewind("start", files=root)
        assert read(root) == THEN
        with pytest.raises(RootNotNamedError, match="CLEW_STATE_DIR"):
            s.undo()
        s.undo(root=root)
        assert read(root) == {**THEN, **NOW}

    # -- restores that are over

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_s50_undo_and_redo_write_nothing_where_somebody_else_restored(
        self, worked: Session, root: Path, become: Callable[[str], None], dry_run: bool
    ) -> None:
        """Neither the files nor the head move, and a dry run reads nothing there."""
        worked.rewind("start", files=True)
        become("stranger")
        with pytest.raises(RootNotNamedError, match="pass it as root="):
            worked.undo(dry_run=dry_run)
        assert (read(root), worked.info.messages) == (THEN, 1)

        become("owner")
        worked.undo()
        become("stranger")
        with pytest.raises(RootNotNamedError, match="pass it as root="):
            worked.redo(dry_run=dry_run)
        assert (read(root), worked.info.messages) == (NOW, 2)

    def test_s50_undo_and_redo_take_the_directory_and_no_other_one(
        self, worked: Session, root: Path, tmp_path: Path, become: Callable[[str], None]
    ) -> None:
        """To name it is to agree to it; it cannot be moved."""
        worked.rewind("start", files=True)
        become("stranger")
        with pytest.raises(InvalidError, match="not in"):
            worked.undo(root=tmp_path)
        worked.undo(root=root)
        assert (read(root), worked.info.messages) == (NOW, 2)
        worked.redo(root=root)
        assert (read(root), worked.info.messages) == (THEN, 1)

    def test_s50_undo_restore_writes_nothing_where_somebody_else_restored(
        self, store: Store, worked: Session, root: Path, become: Callable[[str], None]
    ) -> None:
        """Until the directory is named."""
        report = worked.restore_files("start")
        become("stranger")
        for dry_run in (True, False):
            with pytest.raises(RootNotNamedError, match="pass it as root="):
                store.undo_restore(report, dry_run=dry_run)
        assert read(root) == THEN
        store.undo_restore(report, root)
        assert read(root) == NOW

    def test_a_dry_run_of_an_undo_says_what_it_would_do(self, worked: Session, root: Path) -> None:
        """Where the head would go, and what would become of the files; nothing is done."""
        here = worked.head
        worked.rewind("start", files=True)

        plan = worked.undo(dry_run=True)
        assert (read(root), worked.info.messages) == (THEN, 1)
        done = worked.undo()

        assert plan == done == here
        assert plan.files is not None
        assert done.files is not None
        assert (plan.files.changes, plan.files.dry_run) == (done.files.changes, True)

    # -- restores that were cut off

    @pytest.fixture
    def cut_off(self, store: Store, worked: Session, root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """A rewind that the disk stopped."""
        with monkeypatch.context() as patch:
            patch.setattr("clew.files.restore.apply.Applier.run", _stop)
            with pytest.raises(RestoreFailedError):
                worked.rewind("start", files=True)
        (pending,) = store.pending_restores()
        return pending.id

    @pytest.mark.parametrize("dry_run", [False, True])
    @pytest.mark.parametrize("verb", ["finish_restore", "undo_restore"])
    def test_s50_nobody_else_goes_on_with_a_restore_that_was_cut_off(
        self,
        store: Store,
        cut_off: str,
        root: Path,
        become: Callable[[str], None],
        verb: str,
        dry_run: bool,
    ) -> None:
        """Neither forwards nor backwards, unless the directory is named."""
        become("stranger")
        with pytest.raises(RootNotNamedError, match="pass it as root="):
            getattr(store, verb)(cut_off, dry_run=dry_run)
        assert read(root) == NOW
        report: RestoreReport = getattr(store, verb)(cut_off, root, dry_run=dry_run)
        assert (report.root, report.dry_run) == (str(root), dry_run)
        done = verb == "finish_restore" and not dry_run
        assert read(root) == (THEN if done else NOW)

    def test_s50_a_restore_that_was_made_up_stops_nobody(
        self, store: Store, worked: Session, cut_off: str, become: Callable[[str], None], tmp_path: Path
    ) -> None:
        """It says that it is at work in a directory; whoever did not begin it there goes on."""
        become("stranger")
        worked.restore_files("start", tmp_path / "work" / "mine")
        assert read(tmp_path / "work" / "mine") == THEN

    @pytest.mark.parametrize(
        "change",
        [
            {"token": "/../../x"},
            {"token": ""},
            {"root": b"relative"},
            {"root": b"/nul\0"},
            {"target": b"short"},
            {"move": b"[]"},
            {"move": b'{"sid": "x"}'},
            {"id": "other"},
        ],
    )
    def test_s51_a_restore_with_values_that_nobody_writes_costs_only_itself(
        self,
        store: Store,
        backend: Backend,
        worked: Session,
        cut_off: str,
        root: Path,
        change: dict[str, object],
    ) -> None:
        """Its token becomes part of file names: one that leads elsewhere is refused first."""
        with backend.write() as tx:
            fields = msgspec.msgpack.decode(tx.get_record(STORE_WIDE, "restore", cut_off) or b"")
            tx.put_record(STORE_WIDE, "restore", cut_off, msgspec.msgpack.encode({**fields, **change}))

        for verb in (store.finish_restore, store.undo_restore):
            with pytest.raises(CorruptError, match="damaged"):
                verb(cut_off, root)
        assert (store.pending_restores(), read(root)) == ([], NOW)
        worked.restore_files("start")
        assert read(root) == THEN
        assert not store.verify().ok

    def test_s50_a_move_that_was_made_up_is_no_move(
        self, store: Store, backend: Backend, cut_off: str, root: Path
    ) -> None:
        """A head that goes nowhere is refused before a file is touched."""
        with backend.write() as tx:
            record = journal.get(tx, cut_off)
            forged = msgspec.structs.replace(record, move=b'{"sid": 1, "session": "s", "kind": "rewind"}')
            tx.put_record(STORE_WIDE, "restore", cut_off, msgspec.msgpack.encode(forged))
        with pytest.raises(ClewError):
            store.finish_restore(cut_off)
        assert read(root) == NOW


def _snapshot(session: Session) -> str:
    found = session.get_checkpoint("start").snapshot
    assert found is not None
    return found


def _stop(applier: object) -> None:
    raise OSError(28, "No space left on device")
