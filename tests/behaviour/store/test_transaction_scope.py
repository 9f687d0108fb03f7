"""What can be done inside `transact` and `read`: every public method works there, or is refused in time."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

import clew
from clew.backends.memory.backend import MemoryBackend
from clew.errors import InvalidError
from clew.model import Retention
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import said, user

Call = Callable[[Store, Path], object]


class WorkedError(Exception):
    """Raised by tests to leave a transaction without a commit."""


def _of_session(call: Callable[[Session], object]) -> Call:
    return lambda store, _: call(store.get("s"))


def _turn(s: Session) -> None:
    with s.turn() as turn:
        turn.append(user("x"))


def _completed(s: Session) -> None:
    s.start()
    s.complete()


def _failed(s: Session) -> None:
    s.start()
    s.fail("x")


def _reopened(s: Session) -> None:
    s.close()
    s.reopen()


def _undone(s: Session) -> None:
    s.rewind(0)
    s.undo()
    s.redo()


READS: Final[dict[str, Call]] = {
    "Store.capabilities": lambda store, _: store.capabilities,
    "Store.export": lambda store, _: [store.export("s", kind) for kind in ("jsonl", "json")],
    "Store.find": lambda store, _: store.find("s"),
    "Store.get": lambda store, _: store.get("s"),
    "Store.interrupted": lambda store, _: store.interrupted(),
    "Store.latest": lambda store, _: store.latest(),
    "Store.list": lambda store, _: store.list(),
    "Store.location": lambda store, _: store.location,
    "Store.removals": lambda store, _: store.removals(),
    "Store.retention": lambda store, _: store.retention,
    "Store.search": lambda store, _: store.search("one").hits,
    "Store.session": lambda store, _: store.session("s"),
    "Store.sweep": lambda store, _: store.sweep(dry_run=True),
    "Store.usage": lambda store, _: store.usage(),
    "Session.checkpoints": _of_session(lambda s: s.checkpoints()),
    "Session.context": _of_session(lambda s: s.context()),
    "Session.count_events": _of_session(lambda s: s.count_events()),
    "Session.documents": _of_session(lambda s: s.documents()),
    "Session.entries": _of_session(lambda s: list(s.entries())),
    "Session.events": _of_session(lambda s: s.events()),
    "Session.get_checkpoint": _of_session(lambda s: s.get_checkpoint("cp")),
    "Session.get_document": _of_session(lambda s: s.get_document("d")),
    "Session.get_var": _of_session(lambda s: s.get_var("v")),
    "Session.head": _of_session(lambda s: s.head),
    "Session.info": _of_session(lambda s: s.info),
    "Session.lease": _of_session(lambda s: s.lease),
    "Session.messages": _of_session(lambda s: s.messages()),
    "Session.outside_lease": _of_session(lambda s: s.outside_lease()),
    "Session.resume": lambda store, _: store.get("worked").resume(),
    "Session.status_changes": _of_session(lambda s: s.status_changes()),
    "Session.summary": _of_session(lambda s: s.summary),
    "Session.tree": _of_session(lambda s: s.tree()),
    "Session.usage": _of_session(lambda s: s.usage()),
    "Session.usage_records": _of_session(lambda s: s.usage_records()),
    "Session.vars": _of_session(lambda s: s.vars()),
}
"""What works inside both."""

WRITES: Final[dict[str, Call]] = {
    "Store.clear": lambda store, _: store.clear(confirm=True),
    "Store.create": lambda store, _: store.create("new"),
    "Store.delete": lambda store, _: store.delete("s"),
    "Store.restore_deleted": lambda store, _: store.restore_deleted("trashed"),
    "Store.set_retention": lambda store, _: store.set_retention(Retention(idle_timeout=timedelta(days=9))),
    "Session.add_alias": _of_session(lambda s: s.add_alias("also")),
    "Session.add_event": _of_session(lambda s: s.add_event("x")),
    "Session.add_events": _of_session(lambda s: s.add_events([{"type": "x"}])),
    "Session.add_usage": _of_session(lambda s: s.add_usage(model="m", input_tokens=1, output_tokens=1)),
    "Session.annotate": _of_session(lambda s: s.annotate(0, label="x")),
    "Session.append": _of_session(lambda s: s.append(user("x"))),
    "Session.checkpoint": _of_session(lambda s: s.checkpoint("new")),
    "Session.clear": _of_session(lambda s: s.clear()),
    "Session.close": _of_session(lambda s: s.close()),
    "Session.compact": _of_session(lambda s: s.compact("all of it")),
    "Session.complete": _of_session(_completed),
    "Session.delete_checkpoint": _of_session(lambda s: s.delete_checkpoint("cp")),
    "Session.delete_document": _of_session(lambda s: s.delete_document("d")),
    "Session.delete_var": _of_session(lambda s: s.delete_var("v")),
    "Session.fail": _of_session(_failed),
    "Session.fork": _of_session(lambda s: s.fork()),
    "Session.redo": _of_session(_undone),
    "Session.remove_alias": lambda store, _: store.get("s").remove_alias("alias"),
    "Session.reopen": _of_session(_reopened),
    "Session.replace": _of_session(lambda s: s.replace([user("x")])),
    "Session.rewind": _of_session(lambda s: s.rewind(0)),
    "Session.set_document": _of_session(lambda s: s.set_document("n", b"")),
    "Session.set_summary": _of_session(lambda s: s.set_summary("x")),
    "Session.set_var": _of_session(lambda s: s.set_var("n", 1)),
    "Session.start": _of_session(lambda s: s.start()),
    "Session.touch": _of_session(lambda s: s.touch()),
    "Session.truncate": _of_session(lambda s: s.truncate(1)),
    "Session.turn": _of_session(_turn),
    "Session.undo": _of_session(_undone),
    "Session.update": _of_session(lambda s: s.update(title="x")),
}
"""What works inside `transact`."""

REFUSED: Final[dict[str, Call]] = {
    "Store.backup": lambda store, path: store.backup(path / "backup.db"),
    "Store.clear (purge)": lambda store, _: store.clear(confirm=True, purge=True),
    "Store.close": lambda store, _: store.close(),
    "Store.delete (purge)": lambda store, _: store.delete("s", purge=True),
    "Store.delete_snapshot": lambda store, _: store.delete_snapshot("x"),
    "Store.diff": lambda store, path: store.diff("x", path),
    "Store.finish_restore": lambda store, _: store.finish_restore("x"),
    "Store.flush": lambda store, _: store.flush(),
    "Store.gc": lambda store, _: store.gc(),
    "Store.get_snapshot": lambda store, _: store.get_snapshot("x"),
    "Store.read_file": lambda store, _: store.read_file("x", "a"),
    "Store.import_path": lambda store, path: store.import_path(path),
    "Store.load": lambda store, _: store.load(_SOURCE),
    "Store.maintain": lambda store, _: store.maintain(),
    "Store.pending_restores": lambda store, _: store.pending_restores(),
    "Store.read": lambda store, _: store.read(lambda look: look.list()),
    "Store.repair": lambda store, path: store.repair(to=path / "repaired.db"),
    "Store.restore": lambda store, path: store.restore("x", path),
    "Store.snapshot": lambda store, path: store.snapshot(path),
    "Store.snapshots": lambda store, _: store.snapshots(),
    "Store.stats": lambda store, _: store.stats(),
    "Store.sweep (not dry)": lambda store, _: store.sweep(),
    "Store.transact": lambda store, _: store.transact(lambda tx: tx.session("never")),
    "Store.undo_restore": lambda store, _: store.undo_restore("x"),
    "Store.vacuum": lambda store, _: store.vacuum(),
    "Store.verify": lambda store, _: store.verify(),
    "Store.watch": lambda store, _: store.watch(wait=False),
    "Store.watch_files": lambda store, path: store.watch_files(path),
    "Session.append_nowait": _of_session(lambda s: s.append_nowait(user("never"))),
    "Session.checkpoint (files)": lambda store, path: store.get("s").checkpoint("never", files=path),
    "Session.file_history": _of_session(lambda s: s.file_history("a.txt")),
    "Session.restore_files": lambda store, path: store.get("s").restore_files("files", path),
    "Session.rewind (files)": lambda store, path: store.get("s").rewind("files", files=path),
    "Session.run": _of_session(lambda s: s.run()),
    "copy (from)": lambda store, path: clew.copy(store, path / "copy.db"),
    "copy (to)": lambda store, path: clew.copy(Store(MemoryBackend()), store),
}
"""What is refused inside both: it needs a thread, looks at files, or rewrites the store."""

_SOURCE: Any = None  # `load` is refused before it looks at it


def _called(call: Call, path: Path, store: Store) -> object:
    return call(store, path)


def _public() -> set[str]:
    return {f"{kind.__name__}.{name}" for kind in (Store, Session) for name in dir(kind) if name[0] != "_"}


class TestTransactionScope:
    """Nothing that cannot be a part of a transaction is done by halves."""

    @pytest.fixture
    def furnished(self, store: Store, tmp_path: Path) -> Store:
        """A store with something for every method to work on."""
        (tmp_path / "a.txt").write_text("a")
        s = store.session("s")
        s.append(user("one"), user("two"))
        s.checkpoint("cp")
        s.checkpoint("files", files=tmp_path)
        s.set_var("v", 1)
        s.set_document("d", b"d")
        s.add_alias("alias")
        with store.session("worked").run() as run:
            run.checkpoint()
        store.create("trashed")
        store.delete("trashed")
        return store

    def test_every_public_method_is_known_here(self) -> None:
        """Who adds a method says whether it works inside: the tests below then show that it is so."""
        known = {name.partition(" ")[0] for name in (*READS, *WRITES, *REFUSED)}

        assert known - {"copy"} == _public()

    def test_they_work_inside_a_transaction(self, furnished: Store, tmp_path: Path) -> None:
        """Each by itself; none is committed, so that all find the same store."""
        for name, call in {**READS, **WRITES}.items():

            def work(tx: Store, name: str = name, call: Call = call) -> None:
                call(tx, tmp_path)
                raise WorkedError(name)

            with pytest.raises(WorkedError, match=re.escape(name)):
                furnished.transact(work)

    def test_they_work_inside_a_look(self, furnished: Store, tmp_path: Path) -> None:
        """Also those by which a store would else be written to on the way."""
        before = _state(furnished)
        for call in READS.values():
            furnished.read(partial(_called, call, tmp_path))

        assert _state(furnished) == before

    @pytest.mark.parametrize("how", ["transact", "read"])
    def test_a_refusal_comes_before_anything_is_done(
        self, furnished: Store, tmp_path: Path, how: str
    ) -> None:
        """P2: whoever catches it commits nothing of what was refused; no thread and no file is left."""
        before, threads, files = _state(furnished), set(threading.enumerate()), sorted(tmp_path.iterdir())
        for name, call in REFUSED.items():
            refusals: list[str] = []

            def work(inside: Store, call: Call = call, refusals: list[str] = refusals) -> None:
                with pytest.raises(InvalidError) as refusal:
                    call(inside, tmp_path)
                refusals.append(str(refusal.value))

            furnished.transact(work) if how == "transact" else furnished.read(work)

            assert "cannot be a part of a transaction or of read()" in refusals[-1], name
            assert _state(furnished) == before, name
            assert set(threading.enumerate()) <= threads, name
        assert sorted(tmp_path.iterdir()) == files
        furnished.sweep()  # nobody was left with its lease

    def test_what_writes_is_refused_in_a_look(self, furnished: Store, tmp_path: Path) -> None:
        """The error says what to use instead."""
        before = _state(furnished)
        for call in WRITES.values():

            def work(look: Store, call: Call = call) -> None:
                with pytest.raises(InvalidError, match="transact"):
                    call(look, tmp_path)

            furnished.read(work)

        assert _state(furnished) == before

    @pytest.mark.parametrize("name", ["flush", "close", "vacuum", "append_nowait", "purge", "maintain"])
    def test_the_store_outside_does_not_wait_for_the_transaction_it_is_called_in(
        self, store: Store, name: str
    ) -> None:
        """That would be for ever."""
        s = store.session("s")
        calls: dict[str, Callable[[], object]] = {
            "flush": store.flush,
            "close": store.close,
            "vacuum": store.vacuum,
            "append_nowait": lambda: s.append_nowait(user("never")),
            "purge": lambda: store.delete("s", purge=True),
            "maintain": store.maintain,
        }
        ended = threading.Event()

        def attempt() -> None:
            with suppress(InvalidError):
                store.transact(lambda _: calls[name]())
                return
            ended.set()

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(20)

        assert ended.is_set(), "it was not refused"
        assert said(store.get("s")) == []


def _state(store: Store) -> list[Any]:
    """What a caller can see of the sessions."""
    seen: list[Any] = [[info.id for info in store.list(deleted=True)]]
    for info in store.list():
        s = store.get(info.id)
        seen += [info, s.messages(), s.lease, s.status_changes(), s.checkpoints()]
    return [*seen, store.retention, [one.id for one in store.snapshots()]]
