"""What can be done inside `transact` and `read`: every public method works there, or is refused in time."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import pytest

import clew
from clew.backends.contract import STORE_WIDE, RecordKind
from clew.backends.memory import MemoryBackend
from clew.core.engine.transaction import offered
from clew.core.log.rows import SessionQuery
from clew.errors import InvalidError
from clew.model import Retention
from clew.run import Run
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import said, say, user
from tests.behaviour import calls

Call = Callable[[Store, Session, Path], object]
"""Calls a method: of a store, or of a session of it, with a directory that it may use."""


class WorkedError(Exception):
    """Raised by tests to leave a transaction without a commit."""


def _of_session(call: Callable[[Session], object]) -> Call:
    return lambda _store, s, _path: call(s)


READS: Final[dict[str, Call]] = {
    "Store.capabilities": lambda store, _s, _path: store.capabilities,
    "Store.compare": lambda store, _s, _path: store.compare("s", "s"),
    "Store.export": lambda store, _s, _path: [store.export("s", kind) for kind in ("jsonl", "json")],
    "Store.export_pieces": lambda store, _s, _path: b"".join(store.export_pieces("s", "json")),
    "Store.facets": lambda store, _s, _path: store.facets(),
    "Store.find": lambda store, _s, _path: store.find("s"),
    "Store.get": lambda store, _s, _path: store.get("s"),
    "Store.interrupted": lambda store, _s, _path: store.interrupted(),
    "Store.latest": lambda store, _s, _path: store.latest(),
    "Store.list": lambda store, _s, _path: store.list(),
    "Store.location": lambda store, _s, _path: store.location,
    "Store.removals": lambda store, _s, _path: store.removals(),
    "Store.redaction": lambda store, _s, _path: store.redaction,
    "Store.retention": lambda store, _s, _path: store.retention,
    "Store.search": lambda store, _s, _path: store.search("a").hits,
    "Store.session": lambda store, _s, _path: store.session("s"),
    "Store.sweep": lambda store, _s, _path: store.sweep(dry_run=True),
    "Store.usage": lambda store, _s, _path: store.usage(),
    "Session.outside_lease": _of_session(lambda s: s.outside_lease()),
    **{f"Session.{name}": _of_session(call) for name, call in calls.READS.items()},
}
"""What works inside both."""

WRITES: Final[dict[str, Call]] = {
    "Store.clear": lambda store, _s, _path: store.clear(confirm=True),
    "Store.create": lambda store, _s, _path: store.create("new"),
    "Store.delete": lambda store, _s, _path: store.delete("s"),
    "Store.restore_deleted": lambda store, _s, _path: store.restore_deleted("trashed"),
    "Store.set_retention": lambda store, _s, _path: store.set_retention(
        Retention(idle_timeout=timedelta(days=9))
    ),
    "Store.upsert": lambda store, _s, _path: store.upsert("s", title="put"),
    **{f"Session.{name}": _of_session(call) for name, call in calls.WRITES.items()},
}
"""What works inside `transact`."""

REFUSED: Final[dict[str, Call]] = {
    "Store.backup": lambda store, s, path: store.backup(path / "backup.db"),
    "Store.clear (purge)": lambda store, _s, _path: store.clear(confirm=True, purge=True),
    "Store.close": lambda store, _s, _path: store.close(),
    "Store.delete (purge)": lambda store, _s, _path: store.delete("s", purge=True),
    "Store.delete_snapshot": lambda store, _s, _path: store.delete_snapshot("x"),
    "Store.diff": lambda store, s, path: store.diff("x", path),
    "Store.finish_restore": lambda store, _s, _path: store.finish_restore("x"),
    "Store.flush": lambda store, _s, _path: store.flush(),
    "Store.gc": lambda store, _s, _path: store.gc(),
    "Store.get_snapshot": lambda store, _s, _path: store.get_snapshot("x"),
    "Store.read_file": lambda store, _s, _path: store.read_file("x", "a"),
    "Store.list_files": lambda store, _s, _path: store.list_files("x"),
    "Store.sessions_with_snapshot": lambda store, _s, _path: store.sessions_with_snapshot("x"),
    "Store.import_path": lambda store, s, path: store.import_path(path),
    "Store.load": lambda store, _s, _path: store.load(_SOURCE),
    "Store.maintain": lambda store, _s, _path: store.maintain(),
    "Store.pending_restores": lambda store, _s, _path: store.pending_restores(),
    "Store.read": lambda store, _s, _path: store.read(lambda look: look.list()),
    "Store.repair": lambda store, s, path: store.repair(to=path / "repaired.db"),
    "Store.restore": lambda store, s, path: store.restore("x", path),
    "Store.snapshot": lambda store, s, path: store.snapshot(path),
    "Store.snapshots": lambda store, _s, _path: store.snapshots(),
    "Store.stats": lambda store, _s, _path: store.stats(),
    "Store.sweep (not dry)": lambda store, _s, _path: store.sweep(),
    "Store.set_redaction": lambda store, _s, _path: store.set_redaction("off"),
    "Store.sync": lambda store, s, path: store.sync(path),
    "Store.transact": lambda store, _s, _path: store.transact(lambda tx: tx.session("never")),
    "Store.undo_restore": lambda store, _s, _path: store.undo_restore("x"),
    "Store.vacuum": lambda store, _s, _path: store.vacuum(),
    "Store.verify": lambda store, _s, _path: store.verify(),
    "Store.watch": lambda store, _s, _path: store.watch(wait=False),
    "Store.watch_files": lambda store, s, path: store.watch_files(path),
    "Session.add_event_nowait": _of_session(lambda s: s.add_event_nowait("never")),
    "Session.append_nowait": _of_session(lambda s: s.append_nowait(user("never"))),
    "Session.checkpoint (files)": lambda _store, s, path: s.checkpoint("never", files=path),
    "Session.file_history": _of_session(lambda s: s.file_history("a.txt")),
    "Session.redo (files)": lambda store, _s, _path: store.get("undone").redo(),
    "Session.restore_files": lambda _store, s, path: s.restore_files("files", path),
    "Session.rewind (files)": lambda _store, s, path: s.rewind("files", files=path),
    "Session.attach": _of_session(lambda s: s.attach("1.1")),
    "Session.run": _of_session(lambda s: s.run()),
    "Session.undo (files)": lambda store, _s, _path: store.get("rewound").undo(),
    "copy (from)": lambda store, s, path: clew.copy(store, path / "copy.db"),
    "copy (to)": lambda store, s, path: clew.copy(Store(MemoryBackend()), store),
}
"""What is refused inside both: it needs a thread, looks at files, or rewrites the store."""

_SOURCE: Any = None  # `load` is refused before it looks at it

OF_RUNS: Final = {
    "Run.lost": lambda _store, s, _path: s.lost,
    "Run.secret": lambda _store, s, _path: s.secret,
}
"""What a run has that a session has not,"""
WRITES_OF_RUNS: Final = {"Run.renew": lambda _store, s, _path: s.renew()}
"""and what of it writes."""


def _public(*kinds: type) -> set[str]:
    return {f"{kind.__name__}.{name}" for kind in kinds for name in dir(kind) if name[0] != "_"}


def _method(name: str) -> str:
    """Without the arguments that a table puts behind it."""
    return name.partition(" ")[0]


class TestTransactionScope:
    """Every public method works inside transact and read, or is refused before it does anything."""

    @pytest.fixture
    def furnished(self, store: Store, tmp_path: Path) -> Store:
        """A store with something for every method to work on."""
        (tmp_path / "a.txt").write_text("a")
        calls.furnish(store.session("s")).checkpoint("files", files=tmp_path)
        for name in ("rewound", "undone"):
            other, tree = store.session(name), tmp_path / name
            tree.mkdir()
            other.append(user("one"))
            other.checkpoint("files", files=tree)
            (tree / "new.txt").write_text("new")
            other.append(user("two"))
            other.rewind("files", files=tree)
        store.get("undone").undo()
        store.create("trashed")
        store.delete("trashed")
        return store

    def test_every_public_method_is_decided_here(self) -> None:
        """Who adds a method says here whether it works inside; until then it is refused there."""
        decided = {_method(name) for name in (*READS, *WRITES, *REFUSED)} - {"copy"}

        assert decided == _public(Store, Session)
        assert {*OF_RUNS, *WRITES_OF_RUNS} == {
            name for name in _public(Run) if not hasattr(Session, name[4:])
        }

    def test_a_method_without_a_decision_is_refused(
        self, furnished: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """P2: one that is added later is refused before it writes, until its author decides."""
        before = _rows(furnished)

        def added(handle: Any) -> None:
            handle._scope.run(lambda tx: tx.put_record(STORE_WIDE, "var", "added", b"1"))

        for kind in (Store, Session):
            monkeypatch.setattr(kind, "added", added, raising=False)
            monkeypatch.setattr(kind, "known", property(added), raising=False)
        offered.cache_clear()  # as a new release would: it is asked what there is once

        def work(inside: Store) -> None:
            handles: list[Any] = [inside, inside.get("s")]
            for handle in handles:
                kind = type(handle).__name__
                with pytest.raises(InvalidError, match=rf"^{kind}\.added\(\) cannot be .*before or after"):
                    handle.added()
                with pytest.raises(InvalidError, match=rf"^{kind}\.known cannot be .*before or after"):
                    handle.known  # noqa: B018

        furnished.transact(work)
        furnished.read(work)
        monkeypatch.undo()
        offered.cache_clear()

        assert _rows(furnished) == before

    def test_they_work_inside_a_transaction(self, furnished: Store, tmp_path: Path) -> None:
        """Each by itself; none is committed, so that all find the same store."""
        before = _rows(furnished)
        for name, call in {**READS, **WRITES}.items():
            with pytest.raises(WorkedError, match=re.escape(name)):
                furnished.transact(_leaving(name, call, tmp_path))

        assert _rows(furnished) == before

    def test_they_work_inside_a_transaction_of_a_run(self, furnished: Store, tmp_path: Path) -> None:
        """The session of the run is written to under its lease."""
        with furnished.get("s").run() as run:
            before = _rows(furnished)
            for name, call in _of_sessions({**READS, **WRITES}).items():
                with pytest.raises(WorkedError, match=re.escape(name)):
                    furnished.transact(_leaving(name, call, tmp_path), run=run)

            assert _rows(furnished) == before

    def test_they_work_inside_a_look(self, furnished: Store, tmp_path: Path) -> None:
        """Also those by which a store would else be written to on the way."""
        before = _rows(furnished)
        for call in READS.values():
            furnished.read(partial(_called, call, tmp_path))

        assert _rows(furnished) == before

    @pytest.mark.parametrize("how", ["transact", "read"])
    def test_a_refusal_comes_before_anything_is_done(
        self, furnished: Store, tmp_path: Path, how: str
    ) -> None:
        """P2: whoever catches it commits nothing of what was refused; no thread and no file is left."""
        before, threads, files = _rows(furnished), set(threading.enumerate()), sorted(tmp_path.iterdir())
        for name, call in REFUSED.items():
            refusals: list[str] = []

            def work(inside: Store, call: Call = call, refusals: list[str] = refusals) -> None:
                s = inside.get("s")
                with pytest.raises(InvalidError) as refusal:
                    call(inside, s, tmp_path)
                refusals.append(str(refusal.value))

            furnished.transact(work) if how == "transact" else furnished.read(work)

            part = "a transaction" if how == "transact" else "read()"
            next_step = f"cannot be part of {part}: call it before or after"
            if how == "read" and _method(name) in WRITES:
                next_step = "writes, and nothing can be written inside read(): use transact()"
            assert refusals[-1].startswith(f"{_method(name)}("), name
            assert next_step in refusals[-1], name
            assert _rows(furnished) == before, name
            assert set(threading.enumerate()) <= threads, name
        assert sorted(tmp_path.iterdir()) == files
        furnished.sweep()  # nobody was left with its lease

    def test_what_writes_is_refused_in_a_look(self, furnished: Store, tmp_path: Path) -> None:
        """The error names the method, and says what to use instead."""
        before = _rows(furnished)
        for name, call in WRITES.items():

            def work(look: Store, name: str = name, call: Call = call) -> None:
                s = look.get("s")
                with pytest.raises(InvalidError) as refusal:
                    call(look, s, tmp_path)
                assert re.match(r"\w+\.\w+\(\) writes", str(refusal.value)), name
                assert "use transact()" in str(refusal.value), name

            furnished.read(work)

        assert _rows(furnished) == before

    def test_a_session_that_is_missing_is_not_made_in_a_look(self, store: Store) -> None:
        """`session` reads if it can; where it would write it says what to use instead."""
        with pytest.raises(InvalidError, match=r"nothing can be written inside read\(\): use transact\(\)"):
            store.read(lambda look: look.session("new"))

        assert store.find("new") is None

    def test_a_run_reads_inside_a_transaction_and_is_refused_to_write(
        self, furnished: Store, tmp_path: Path
    ) -> None:
        """It is a handle from outside: its writes would wait for the transaction that waits for them."""
        run = furnished.get("s").run()
        before = _rows(furnished)

        for call in (*_of_sessions(READS).values(), *OF_RUNS.values()):
            furnished.transact(lambda tx, call=call: call(tx, run, tmp_path))  # type: ignore[misc]
        for name, call in (*_of_sessions(WRITES).items(), *WRITES_OF_RUNS.items()):

            def work(tx: Store, name: str = name, call: Call = call) -> None:
                with pytest.raises(
                    InvalidError, match=r"inside transact\(\) use the store that it gives you"
                ):
                    call(tx, run, tmp_path)

            furnished.transact(work)
            assert _rows(furnished) == before, name
        for name in ("append_nowait", "checkpoint (files)", "restore_files", "rewind (files)", "run"):

            def attempt(tx: Store, call: Call = REFUSED[f"Session.{name}"]) -> None:
                with pytest.raises(InvalidError, match="inside transact"):
                    call(tx, run, tmp_path)

            furnished.transact(attempt)
            assert _rows(furnished) == before, name
        assert not run.lost
        run.complete()

    def test_a_run_works_as_ever_beside_a_look(self, furnished: Store, tmp_path: Path) -> None:
        """A handle from outside is not bound to the moment of the look, nor kept from writing."""
        for name, call in (_of_sessions(READS) | _of_sessions(WRITES) | OF_RUNS).items():
            run = calls.furnish(furnished.session(name)).run()

            furnished.read(lambda _, call=call, run=run: call(furnished, run, tmp_path))  # type: ignore[misc]

    @pytest.mark.parametrize(
        "name", ["append", "append_nowait", "close", "flush", "maintain", "purge", "vacuum"]
    )
    def test_the_store_outside_does_not_wait_for_the_transaction_it_is_called_in(
        self, store: Store, name: str
    ) -> None:
        """That would be for ever."""
        s = store.session("s")
        outside: dict[str, Callable[[], object]] = {
            "append": lambda: s.append(user("never")),
            "append_nowait": lambda: s.append_nowait(user("never")),
            "close": store.close,
            "flush": store.flush,
            "maintain": store.maintain,
            "purge": lambda: store.delete("s", purge=True),
            "vacuum": store.vacuum,
        }
        refusals: list[str] = []

        def attempt() -> None:
            try:
                store.transact(lambda _: outside[name]())
            except InvalidError as refusal:
                refusals.append(str(refusal))

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join()

        assert len(refusals) == 1, "it was not refused"
        assert name != "append" or "wait for itself" in refusals[0]
        say(s, "after")
        assert said(s) == ["after"]

    @pytest.mark.parametrize("how", ["transact", "read", "transact that failed"])
    def test_handles_end_with_what_they_were_given_in(self, store: Store, s: Session, how: str) -> None:
        """What they would read may be undone, and a late write must not look like one that happened."""
        kept: list[Session] = []

        def work(inside: Store) -> None:
            kept.append(inside.session("s"))
            if how == "transact that failed":
                raise ZeroDivisionError

        with suppress(ZeroDivisionError):
            store.read(work) if how == "read" else store.transact(work)

        with pytest.raises(InvalidError, match="over"):
            kept[0].messages()
        with pytest.raises(InvalidError, match="over"):
            kept[0].append(user("late"))


def _leaving(name: str, call: Call, path: Path) -> Callable[[Store], None]:
    """Call a method, and leave the transaction without a commit."""

    def work(tx: Store) -> None:
        call(tx, tx.get("s"), path)
        raise WorkedError(name)

    return work


def _called(call: Call, path: Path, store: Store) -> object:
    return call(store, store.get("s"), path)


def _of_sessions(calls: dict[str, Call]) -> dict[str, Call]:
    return {name: call for name, call in calls.items() if name.startswith("Session.")}


def _rows(store: Store) -> list[Any]:
    """Every row of the store, by the storage contract."""
    with store._engine.read() as reader:
        queries = (SessionQuery(limit=1000, deleted=deleted) for deleted in (False, True))
        sessions = [one.row for query in queries for one in reader.list_sessions(query)]
        found: list[Any] = [*sessions, reader.list_packs(0, 1000), reader.scan_objects(b"", 1000)]
        for tree in sorted({row.tree for row in sessions}):
            for branch in reader.tree_branches(tree):
                last = reader.last_position(branch.branch)
                found += [branch, reader.read_entries(branch.branch, branch.fork + 1, last)]
        for sid in (STORE_WIDE, *(row.sid for row in sessions)):
            found += [(sid, kind, reader.scan_records(sid, kind)) for kind in get_args(RecordKind)]
        for row in sessions:
            found += [reader.get_details(row.sid), reader.read_events(row.sid, 0, 1000)]
            found += [reader.read_usage(row.sid, 0, 1000)]
    return found
