"""Bringing what agents wrote since the last time: what is read, what is written, and that nothing is lost."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.backends.contract import STORE_WIDE, Transaction
from clew.importers import contract, records
from clew.importers import sync as sync_module
from clew.importers.contract import NotFollowedError
from clew.importers.detect import known_places
from clew.importers.ledger import Ledger
from clew.importers.programs.claude_code import reader as claude_code
from clew.importers.reading import seen
from clew.importers.reading.files import zstd
from clew.importers.records import record_of
from clew.importers.run import MUCH, Place
from clew.importers.sync import Sync
from clew.model.source import SourceEntry, SourceSession
from tests.home.make import make_home
from tests.importers.cutting import each_write
from tests.importers.following import content_of
from tests.importers.hostile.forged_files import store_of
from tests.importers.test_ledger import NAME, answered, opened_below
from tests.importers.test_run import line_of_claude, write_claude

Follow = Callable[[SourceSession], Iterator[SourceSession]]


@pytest.fixture(autouse=True)
def files_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "RECENT", 0)


@pytest.fixture
def store(backend: str, tmp_path: Path) -> Iterator[clew.Store]:
    with store_of(backend, tmp_path) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_claude(tmp_path / "files" / f"{NAME}0.jsonl", 3)


def line(path: Path, number: int, parent: int | None = None, words: str = "") -> str:
    """What the agent writes next."""
    return line_of_claude(path, number, None if parent is None else f"{path.stem}-{parent}", words)


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def syncing(store: clew.Store, *sources: Path) -> Sync:
    return Sync(lambda **_: store, list(sources))


def words(store: clew.Store, id: str = f"claude-code:{NAME}0") -> list[str]:
    return [message["content"] for message in store.get(id).messages()]


@contextmanager
def transactions() -> Iterator[list[int]]:
    """The numbers of the transactions that were made."""
    found: list[int] = []
    with each_write(lambda number, at: found.append(number) if at == "after" else None):
        yield found


@contextmanager
def followed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int | None]]:
    """From which offsets the reader went on; None: it read the whole file."""
    found: list[int | None] = []
    original = claude_code.follow

    def follow(path: Path, place: Any, *rest: Any) -> Any:
        found.append(None if place is None else place.offset)
        return original(path, place, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(claude_code, "follow", follow)
        yield found


# -- what is read and written


def test_unchanged_files_are_not_opened_and_nothing_is_written(store: clew.Store, path: Path) -> None:
    answered(path.parent / f"{NAME}1.jsonl", ["m1", "m2"])
    write_claude(path.parent / f"{NAME}0" / "subagents" / "agent-a1.jsonl", 2)
    first = syncing(store, path.parent).all()
    assert (first.new, first.files_read, first.entries) == (3, 3, 7)
    for sync in (one := syncing(store, path.parent), one, syncing(store, path.parent)):
        with opened_below(path.parent) as opened, transactions() as written:
            report = sync.all()
        assert (opened, written) == ([], [])
        assert (report.files, report.files_read, report.sessions, report.sources) == (3, 0, (), ())


@pytest.mark.parametrize("is_warm", [True, False])
def test_an_appended_line_is_one_commit_and_is_read_by_itself(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch, is_warm: bool
) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    for number in range(3, 8):
        sync = sync if is_warm else syncing(store, path.parent)
        size = path.stat().st_size
        add(path, line(path, number))
        with followed(monkeypatch) as places, transactions() as written:
            report = sync.some([path]) if number % 2 else sync.all()
        assert (report.grown, report.entries, report.files_read) == (1, 1, 1)
        assert len(written) == 1
        assert len(places) == 1
        assert places[0] is not None
        assert places[0] <= size
        assert places[0] == size or not is_warm
    assert words(store) == [f"word {number}" for number in range(8)]
    assert store.verify().ok


def test_a_new_session_with_its_record_is_one_commit(store: clew.Store, path: Path) -> None:
    with transactions() as written:
        syncing(store, path.parent).all()
    assert len(written) == 1


def test_a_line_without_its_end_waits_for_sync_and_not_for_import(store: clew.Store, path: Path) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    whole = line(path, 3)
    add(path, whole[:-20])
    assert sync.all().entries == 0
    assert len(words(store)) == 3
    add(path, whole[-20:-1])
    assert sync.some([path]).entries == 0
    assert store.import_path(path).entries == 1
    add(path, "\n" + line(path, 4))
    assert sync.some([path]).entries == 1
    assert words(store) == [f"word {number}" for number in range(5)]


def test_a_file_that_was_just_written_is_looked_at_once_more_without_a_write(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "RECENT", 2_000_000_000)
    sync = syncing(store, path.parent)
    sync.all()
    with transactions() as written:
        assert sync.all().files_read == 1
    assert written == []
    monkeypatch.setattr(seen, "RECENT", 0)
    assert sync.all().files_read == 1
    assert sync.all().files_read == 0


# -- files that did not just grow


@pytest.mark.parametrize("how", ["rewritten", "shrunk", "replaced", "grown and rewritten"])
def test_what_was_rewritten_is_read_as_a_whole_and_nothing_is_lost(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    before = path.read_text().splitlines(keepends=True)
    other = line(path, 7, parent=0)
    if how == "shrunk":
        path.write_text(before[0])
    elif how == "replaced":
        (path.parent / "other").write_text("".join([*before, other]))
        os.replace(path.parent / "other", path)
    elif how == "rewritten":
        path.write_text(before[0] + other)
    else:
        path.write_text(before[0] + other + line(path, 8, parent=7) * 3)
    with followed(monkeypatch) as places:
        report = sync.some([path])
    assert places == [None]
    assert report.problems == ()
    found = {one.message["content"] for one in every_entry(store.get(f"claude-code:{NAME}0"))}
    assert found >= {"word 0", "word 1", "word 2"}
    assert ("word 7" in found) == (how != "shrunk")
    assert sync.all().files_read == 0
    assert store.verify().ok


def every_entry(session: clew.Session) -> list[clew.Entry]:
    found: dict[str, clew.Entry] = {}
    for branch in session.tree().branches:
        if branch.last >= branch.first:
            at = clew.Head(branch.id, branch.last)
            found |= {entry.id: entry for entry in session.entries(at=at)}
    return list(found.values())


def test_a_file_that_was_compressed_is_the_same_session(store: clew.Store, tmp_path: Path) -> None:
    from tests.importers.test_ledger import codex

    path = codex(tmp_path / "files")
    sync = syncing(store, tmp_path / "files")
    sync.all()
    before = content_of(store)
    path.with_suffix(".jsonl.zst").write_bytes(zstd().compress(path.read_bytes()))
    path.unlink()
    report = sync.all()
    assert (report.new, report.entries, report.gone) == (0, 0, (str(path),))
    after = content_of(store)
    assert [one["entries"] for one in before.values()] == [one["entries"] for one in after.values()]
    assert sync.all().files_read == 0


def test_what_is_gone_stays_here_and_is_told_once(store: clew.Store, path: Path) -> None:
    sync = syncing(store, path.parent)
    other = write_claude(path.parent / f"{NAME}1.jsonl", 2)
    sync.all()
    kept = path.read_bytes()
    path.unlink()
    report = sync.all()
    assert (report.gone, report.problems, report.files) == ((str(path),), (), 1)
    assert len(words(store)) == 3
    with transactions() as written:
        assert sync.all().gone == ()
    assert written == []
    other.unlink()
    assert sync.some([other]).gone == (str(other),)
    path.write_bytes(kept + line(path, 3).encode())
    assert sync.all().entries == 1
    source = Ledger(store._engine).find(str(path))
    assert source is not None
    assert source.gone == 0


def test_a_directory_that_is_gone_is_no_error(store: clew.Store, path: Path) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    path.unlink()
    path.parent.rmdir()
    assert sync.all().gone == (str(path),)
    with pytest.raises(clew.InvalidError, match="there is no file"):
        syncing(store, path.parent / "never").all()


def raising(error: Exception) -> Follow:
    def follow(session: SourceSession) -> Iterator[SourceSession]:
        list(session.entries)
        raise error
        yield session

    return follow


def behind_nothing(session: SourceSession) -> Iterator[SourceSession]:
    """An entry whose parent is in no store."""
    entries = [msgspec.structs.replace(entry, parent="not here") for entry in session.entries]
    yield msgspec.structs.replace(session, entries=entries)


@pytest.mark.parametrize(
    "changed",
    [raising(NotFollowedError()), raising(TypeError("odd state")), behind_nothing],
    ids=["its reader says so", "its reader fails", "behind an entry that is not here"],
)
def test_what_cannot_be_followed_is_read_as_a_whole(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch, changed: Follow
) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    original = claude_code.follow

    def follow(path: Path, place: Any, *rest: Any) -> Any:
        for one in original(path, place, *rest):
            if place is not None and not isinstance(one, contract.Place):
                yield from changed(one)
            else:
                yield one

    monkeypatch.setattr(claude_code, "follow", follow)
    add(path, line(path, 3))
    report = sync.some([path])
    assert (report.entries, len(report.sources), report.problems) == (1, 1, ())
    assert words(store) == [f"word {number}" for number in range(4)]
    monkeypatch.setattr(claude_code, "follow", original)
    add(path, line(path, 4))
    with followed(monkeypatch) as places:
        sync.some([path])
    assert None not in places


def test_a_session_that_a_worker_holds_is_gone_on_with_later(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    with store.get(f"claude-code:{NAME}0").run():
        add(path, line(path, 3))
        report = sync.some([path])
        assert (report.entries, len(report.problems)) == (0, 1)
    add(path, line(path, 4))
    with followed(monkeypatch) as places:
        assert sync.some([path]).entries == 2
    assert None not in places


def test_formats_that_cannot_be_followed_are_read_only_if_they_changed(
    store: clew.Store, tmp_path: Path
) -> None:
    path = tmp_path / "files" / "a.jsonl"
    path.parent.mkdir()
    path.write_text('{"role": "user", "content": "hi", "created_at": "2025-01-01T00:00:00Z"}\n')
    sync = Sync(lambda **_: store, [Place(path, "picoclaw")])
    assert sync.all().new == 1
    assert sync.all().files_read == 0
    add(path, '{"role": "assistant", "content": "yes", "created_at": "2025-01-01T00:00:01Z"}\n')
    assert sync.all().entries == 1


# -- the law


@pytest.mark.parametrize("is_warm", [True, False])
def test_piece_by_piece_is_as_once(tmp_path: Path, is_warm: bool) -> None:
    """A home of real agents that grows, cut anywhere, leaves what one import of it leaves."""
    whole = make_home(tmp_path / "whole" / "ana")
    grows = tmp_path / "grows" / "ana"
    files = [file for file in sorted(whole.rglob("*")) if file.is_file()]
    choice = random.Random(is_warm)
    steps = 6
    cuts = {}
    for file in files:
        size = file.stat().st_size
        is_log = file.suffix == ".jsonl"
        inner = sorted(choice.choices(range(size + 1), k=steps - 1)) if is_log else [size] * (steps - 1)
        cuts[file] = [0, *inner, size]
    with clew.open("memory:") as store, clew.open("memory:") as once:
        sync = syncing(store, grows)
        for step in range(steps):
            for file in files:
                target = grows / file.relative_to(whole)
                target.parent.mkdir(parents=True, exist_ok=True)
                start, end = list(pairwise(cuts[file]))[step]
                with target.open("ab") as out:
                    out.write(file.read_bytes()[start:end])
            if not is_warm:
                sync = syncing(store, grows)
            report = sync.all()
            assert all("cut" in one.reason or "no" in one.reason for one in report.problems), report.problems
        once.import_path(grows)
        left, right = content_of(store, times_of_events=False), content_of(once, times_of_events=False)
        assert sorted(left) == sorted(right)
        for id in right:
            for one in (left[id], right[id]):  # a child is told when it comes
                one["events"] = sorted(one["events"], key=lambda event: event[1] == "child-session")
                one["events"].sort(key=lambda event: event[0] if event[1] == "child-session" else "")
            assert store.get(id).messages() == once.get(id).messages()
            parts = ["head", "events", "usage", "checkpoints", "vars", "calls"]
            if not id.startswith("gemini-cli:"):  # whose messages change: what they were stays on a branch
                parts.append("entries")
            for part in parts:
                assert left[id][part] == right[id][part], (id, part)
            assert left[id]["info"]["title"] == right[id]["info"]["title"], id
        assert sync.all().files_read == 0
        assert store.verify().ok


def test_what_another_process_loaded_is_not_overlooked(tmp_path: Path, path: Path) -> None:
    with clew.open(tmp_path / "s.db") as store, clew.open(tmp_path / "s.db") as other:
        first, second = syncing(store, path.parent), syncing(other, path.parent)
        first.all()
        for number in range(3, 30):
            add(path, line(path, number))
            one = first if number % 3 else second
            assert one.some([path]).entries == 1
        assert first.some([path]).entries == second.some([path]).entries == 0
        assert words(store) == [f"word {number}" for number in range(30)]
        assert store.stats().entries == 30
        assert store.verify().ok


# -- the store changed


def test_a_session_in_the_trash_gets_what_it_missed_when_it_is_back(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    store.delete(f"claude-code:{NAME}0")
    for number in range(3, 6):
        add(path, line(path, number))
        with followed(monkeypatch) as places:
            report = sync.some([path])
        assert places == []
        assert [session.state for session in report.sessions] == ["trashed"]
    store.restore_deleted(f"claude-code:{NAME}0")
    assert sync.all().entries == 3
    assert words(store) == [f"word {number}" for number in range(6)]


def test_p18_a_purged_session_does_not_come_back_unasked(store: clew.Store, path: Path) -> None:
    id = f"claude-code:{NAME}0"
    sync = syncing(store, path.parent)
    sync.all()
    store.delete(id, purge=True)
    for number in range(3, 6):
        add(path, line(path, number))
        assert sync.some([path]).sessions == ()
        assert syncing(store, path.parent).all().sessions == ()
    assert store.find(id) is None
    assert store.import_path(path).new == 1
    assert words(store) == [f"word {number}" for number in range(6)]
    add(path, line(path, 6))
    assert syncing(store, path.parent).all().entries == 1
    assert store.verify().ok


def test_a_dry_run_of_an_import_leaves_the_mark_of_a_purged_session(store: clew.Store, path: Path) -> None:
    syncing(store, path.parent).all()
    store.delete(f"claude-code:{NAME}0", purge=True)
    assert store.import_path(path, dry_run=True).new == 1
    add(path, line(path, 3))
    assert syncing(store, path.parent).all().sessions == ()


def test_a_store_that_was_cleared_begins_anew(store: clew.Store, path: Path) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    store.delete(f"claude-code:{NAME}0", purge=True)
    store.clear(confirm=True, purge=True)
    assert syncing(store, path.parent).all().new == 1


def test_a_session_that_is_purged_while_its_file_is_followed_stays_away_and_never_comes_in_part(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = syncing(store, path.parent)
    sync.all()
    add(path, line(path, 3))
    original = claude_code.follow

    def follow(path: Path, place: Any, *rest: Any) -> Any:
        if place is not None:
            store.delete(f"claude-code:{NAME}0", purge=True)
        return original(path, place, *rest)

    monkeypatch.setattr(claude_code, "follow", follow)
    assert sync.some([path]).sessions == ()
    assert store.find(f"claude-code:{NAME}0") is None
    assert store.import_path(path).entries == 4
    assert words(store) == [f"word {number}" for number in range(4)]


def test_what_lies_beside_a_file_makes_it_be_looked_at(store: clew.Store, path: Path) -> None:
    agent = write_claude(path.parent / f"{NAME}0" / "subagents" / "agent-a1.jsonl", 2)
    sync = syncing(store, path.parent)
    sync.all()
    beside = agent.with_suffix(".meta.json")
    beside.write_text('{"agentType": "look"}')
    assert [source.path for source in sync.some([beside]).sources] == [str(agent)]
    told = store.get(f"claude-code:{NAME}0/agent-a1").info.metadata["agent_meta"]
    assert told == {"agentType": "look"}


def test_paths_that_no_reader_knows_are_passed_over(store: clew.Store, path: Path, tmp_path: Path) -> None:
    sync = syncing(store, path.parent)
    (path.parent / "notes.txt").write_text("hello")
    (path.parent / "half.jsonl").write_text('{"type": "us')
    (tmp_path / "elsewhere.jsonl").write_text(path.read_text())
    report = sync.some(
        [path.parent / "notes.txt", path.parent / "half.jsonl", tmp_path / "elsewhere.jsonl", path.parent]
    )
    assert (report.files, report.sources, report.problems) == (0, (), ())


def test_a_file_that_fails_is_not_tried_again_until_it_changes(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.session(f"claude-code:{NAME}0").append({"role": "user", "content": "mine"})
    sync = syncing(store, path.parent)
    report = sync.all()
    assert report.left_out == (str(path),)
    assert sync.all().files_read == 0
    add(path, line(path, 3))
    assert sync.all().left_out == (str(path),)
    monkeypatch.setattr(sync_module, "AGAIN", 0.0)  # time goes by
    assert sync.all().left_out == (str(path),)
    assert syncing(store, path.parent).all().left_out == (str(path),)


# -- machines, names, faces


def test_machines_that_share_a_store_have_records_of_their_own(
    store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncing(store, path.parent).all()
    monkeypatch.setattr(records, "machine", lambda: "0123456789ab")
    report = syncing(store, path.parent).all()
    assert (report.files_read, report.entries, report.gone) == (1, 0, ())
    with store._engine.read() as reader:
        names = [name for name, _ in reader.scan_records(STORE_WIDE, "source")]
    assert len(names) == 2
    assert {records.path_in(name) for name in names} == {str(path)}
    path.unlink()
    assert syncing(store, path.parent.parent).all().gone == (str(path),)


def test_a_record_without_a_machine_costs_one_read_and_is_replaced(store: clew.Store, path: Path) -> None:
    syncing(store, path.parent).all()

    def age(tx: Transaction) -> None:
        value = tx.get_record(STORE_WIDE, "source", record_of(str(path)))
        assert value is not None
        tx.drop_record(STORE_WIDE, "source", record_of(str(path)))
        tx.put_record(STORE_WIDE, "source", str(path), value)

    store._engine.run(age)
    report = syncing(store, path.parent).all()
    assert (report.files_read, report.entries) == (1, 0)
    with store._engine.read() as reader:
        names = [name for name, _ in reader.scan_records(STORE_WIDE, "source")]
    assert names == [record_of(str(path))]


def test_a_damaged_place_costs_a_read(store: clew.Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncing(store, path.parent).all()
    with store._engine.read() as reader:
        row = reader.find_session(f"claude-code:{NAME}0")
        assert row is not None
    sid = row.sid

    def put(value: bytes) -> Callable[[Transaction], None]:
        return lambda tx: tx.put_record(sid, "source", record_of(str(path)), value)

    for value in (b"", b"\xff", zstd().compress(b"other")):
        store._engine.run(put(value))
        number = len(words(store))
        add(path, line(path, number))
        with followed(monkeypatch) as places:
            assert syncing(store, path.parent).all().entries == 1
        assert places == [None]


def test_a_dry_run_writes_nothing(store: clew.Store, path: Path) -> None:
    assert store.sync(path.parent, dry_run=True).new == 1
    assert store.stats().sessions == 0
    store.sync(path.parent)
    add(path, line(path, 3))
    with transactions() as written:
        report = store.sync([path.parent], dry_run=True)
    assert (report.grown, report.entries, report.dry_run, written) == (1, 1, True, [])
    assert store.sync(path).entries == 1


def test_the_usual_places_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path / "ana")
    monkeypatch.setenv("HOME", str(home))
    with clew.open("memory:") as store, clew.open("memory:") as other:
        report = store.sync()
        assert {source.format for source in report.sources} >= {"claude-code", "codex", "pi"}
        assert store.sync().files_read == 0
        for format, place in known_places(home):
            other.import_path(place, format)
        assert {info.id for info in store.list(limit=1000)} == {info.id for info in other.list(limit=1000)}
        roots = Sync(lambda **_: store).roots
        assert {root.format for root in roots} >= {"claude-code", "codex", "goose"}


def test_much_is_made_findable_and_little_is_left_to_the_search(tmp_path: Path) -> None:
    path = write_claude(tmp_path / "files" / f"{NAME}0.jsonl", 3)
    with clew.open(tmp_path / "s.db") as store:
        sync = syncing(store, path.parent)
        sync.all()
        with store._engine.read() as reader:
            assert reader.unsearched_trees() != []
        add(path, "".join(line(path, number) for number in range(3, MUCH + 3)))
        sync.all()
        with store._engine.read() as reader:
            assert reader.unsearched_trees() == []
        add(path, line(path, MUCH + 3, words="needle"))
        sync.all()
        assert len(store.search("needle").hits) == 1


@pytest.mark.parametrize("more", [1, 4, 40])
def test_what_another_process_loads_at_the_same_moment_is_never_brought_twice(
    store: clew.Store, more: int
) -> None:
    """Whether what is new goes into the last record of names, or into one of its own."""

    def source(count: int, meanwhile: Callable[[], object] = lambda: None) -> SourceSession:
        def entries() -> Iterator[SourceEntry]:
            meanwhile()
            for number in range(count):
                parent = f"e{number - 1}" if number else None
                message = {"role": "user", "content": str(number)}
                yield SourceEntry(uid=f"e{number}", parent=parent, message=message)

        return SourceSession(id="other:1", entries=entries())

    store.load(source(60))
    with pytest.raises(clew.StoreBusyError):
        store.load(source(61 + more, lambda: store.load(source(61))))
    store.load(source(61 + more))
    assert store.stats().entries == 61 + more
    assert [message["content"] for message in store.get("other:1").messages()] == [
        str(number) for number in range(61 + more)
    ]
