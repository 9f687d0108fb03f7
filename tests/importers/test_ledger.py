"""The ledger of sources: an unchanged file is not opened, and whatever changed is read."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.load.entries import batch_name
from clew.importers import REVISIONS, ledger
from clew.importers.detect import known_places, reader_of
from clew.importers.reading import seen
from tests.home.make import make_home
from tests.importers.programs import test_goose
from tests.importers.programs.claude_code.test_reader import Log
from tests.importers.programs.test_codex import Rollout
from tests.importers.test_run import write_claude
from tests.support.waiting import until

NAME = "0b1c2d3e-0000-4000-8000-00000000000"
_listening: list[list[str]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening and event == "open" and isinstance(arguments[0], str | bytes):
        _listening[-1].append(os.fsdecode(arguments[0]))


sys.addaudithook(_audit)


@contextmanager
def opened_below(folder: Path) -> Iterator[list[str]]:
    """The files that are opened in the block."""
    told: list[str] = []
    found: list[str] = []
    _listening.append(told)
    try:
        yield found
    finally:
        _listening.pop()
        found += [path for path in told if path.startswith(str(folder))]


@pytest.fixture(autouse=True)
def files_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "RECENT", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sessions, one of them with a subagent, and one of Codex."""
    place = tmp_path / "files"
    for number in range(2):
        write_claude(place / f"{NAME}{number}.jsonl", 3)
    agent = write_claude(place / f"{NAME}0" / "subagents" / "agent-a1.jsonl", 2)
    agent.with_suffix(".meta.json").write_text('{"agentType": "look"}')
    codex(place)
    return place


def codex(place: Path, thread: str = "c1") -> Path:
    return Rollout(place, thread).user("hi").path


def states(report: clew.ImportReport) -> dict[str, str]:
    return {session.id: session.state for session in report.sessions}


def read(report: clew.ImportReport) -> list[str]:
    return sorted(Path(source.path).name for source in report.sources if source.read)


# -- unchanged


@pytest.mark.parametrize("address", ["memory:", "s.db", "store/"])
def test_the_second_import_opens_no_file(folder: Path, tmp_path: Path, address: str) -> None:
    with clew.open(address if ":" in address else tmp_path / address) as store:
        first = store.import_path(folder)
        assert (first.files_read, first.new) == (4, 4)
        with opened_below(folder) as opened:
            again = store.import_path(folder)
        assert opened == []
        assert (again.files, again.files_read, again.unchanged, again.entries) == (4, 0, 4, 0)
        told = [
            {(one.id, one.source, one.messages, one.format, one.parent) for one in report.sessions}
            for report in (first, again)
        ]
        assert told[0] == told[1]
        assert again.bytes == first.bytes


def test_postgresql_has_it_too(folder: Path, emptied_postgres: str) -> None:
    with clew.open(emptied_postgres) as store:
        assert store.import_path(folder).files_read == 4
        assert store.import_path(folder).files_read == 0


def test_a_format_that_is_named_is_not_looked_for_either(folder: Path, store: clew.Store) -> None:
    shutil.rmtree(folder / "sessions")
    store.import_path(folder, "claude-code")
    with opened_below(folder) as opened:
        assert store.import_path(folder, "claude-code").files_read == 0
        assert store.import_path(folder / f"{NAME}0.jsonl").files_read == 0
    assert opened == []


def test_all_are_read_on_demand(folder: Path, store: clew.Store) -> None:
    store.import_path(folder)
    report = store.import_path(folder, again=True)
    assert (report.files_read, report.unchanged) == (4, 4)


def test_a_dry_run_looks_at_the_ledger_and_writes_none(folder: Path, store: clew.Store) -> None:
    store.import_path(folder, dry_run=True)
    with store._engine.read() as reader:
        assert reader.scan_records(STORE_WIDE, "source") == []
    assert store.import_path(folder).files_read == 4
    report = store.import_path(folder, dry_run=True)
    assert (report.files_read, report.unchanged) == (0, 4)


def test_what_could_not_be_read_is_told_again(tmp_path: Path, store: clew.Store) -> None:
    path = write_claude(tmp_path / "one.jsonl", 3, damaged=True)
    first = store.import_path(tmp_path)
    again = store.import_path(tmp_path)
    assert again.files_read == 0
    assert again.problems == first.problems
    assert [(problem.path, problem.line) for problem in again.problems] == [(str(path), 2)]
    with pytest.raises(clew.InvalidError, match="line 2"):
        store.import_path(tmp_path, strict=True)


def test_of_many_problems_some_are_told_again(tmp_path: Path, store: clew.Store) -> None:
    path = write_claude(tmp_path / "one.jsonl", 3)
    path.write_text(path.read_text() + "{\n" * 100)
    assert len(store.import_path(path).problems) == 100
    again = store.import_path(path).problems
    assert len(again) == ledger.PROBLEMS + 1
    assert again[-1].reason == "and 80 more like these"


# -- changed


def test_a_file_of_the_same_size_and_time_is_told_by_its_inode(tmp_path: Path, store: clew.Store) -> None:
    path = write_claude(tmp_path / "one.jsonl", 1)
    store.import_path(path)
    before = path.stat()
    other = tmp_path / "other"
    other.write_text(path.read_text().replace("word 0", "WORD 0").replace("one-0", "one-1"))
    os.replace(other, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.import_path(path).entries == 1


def _written_now(path: Path) -> int:
    path.write_bytes(b"")
    return path.stat().st_ctime_ns


def test_a_file_written_over_in_place_with_its_old_time_is_read(tmp_path: Path, store: clew.Store) -> None:
    path = write_claude(tmp_path / "one.jsonl", 1)
    store.import_path(path)
    before = path.stat()
    until(lambda: _written_now(tmp_path / "x") > before.st_ctime_ns)  # the clock of the disk ticks
    path.write_text(path.read_text().replace("one-0", "one-1"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert store.import_path(path).entries == 1


def test_a_file_that_grows_while_it_is_read_is_read_again(
    tmp_path: Path, store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.importers.programs.claude_code import reader

    path = write_claude(tmp_path / "one.jsonl", 3)
    whole, original = path.read_text(), reader.follow

    def growing(*given: Any) -> Any:
        yield from original(*given)
        path.write_text(whole + whole.splitlines()[-1].replace("one-2", "one-3") + "\n")

    monkeypatch.setattr(reader, "follow", growing)
    store.import_path(path)
    monkeypatch.setattr(reader, "follow", original)
    assert store.import_path(path).entries == 1


@pytest.mark.parametrize("change", ["other", "gone", "new"])
def test_what_lies_beside_a_subagent_is_part_of_it(folder: Path, store: clew.Store, change: str) -> None:
    beside = folder / f"{NAME}0" / "subagents" / "agent-a1.meta.json"
    if change == "new":
        beside.unlink()
    store.import_path(folder)
    beside.write_text('{"agentType": "other"}') if change != "gone" else beside.unlink()
    assert read(store.import_path(folder)) == ["agent-a1.jsonl"]
    if change != "gone":
        agent = store.get(f"claude-code:{NAME}0/agent-a1")
        assert agent.info.metadata["agent_meta"] == json.loads(beside.read_text())


def test_new_subagents_of_an_unchanged_session_come(folder: Path, store: clew.Store) -> None:
    store.import_path(folder)
    write_claude(folder / f"{NAME}0" / "subagents" / "agent-b2.jsonl", 1)
    for path in (folder, folder / f"{NAME}0.jsonl"):
        report = store.import_path(path)
        assert (report.new, report.files_read) == ((1, 1) if path == folder else (0, 0))


def test_copies_of_files_that_come_back_are_taken(tmp_path: Path, store: clew.Store) -> None:
    path = write_claude(tmp_path / "projects" / "p" / f"{NAME}0.jsonl", 2)
    kept = {"messageId": f"{NAME}0-0", "trackedFileBackups": {"a.py": {"backupFileName": "abc@v1"}}}
    line = {"type": "file-history-snapshot", "messageId": f"{NAME}0-0", "snapshot": kept}
    path.write_text(path.read_text() + json.dumps(line) + "\n")
    store.import_path(path)
    (tmp_path / "file-history" / f"{NAME}0").mkdir(parents=True)
    assert store.import_path(path).files_read == 1
    assert store.import_path(path).files_read == 0
    (tmp_path / "file-history" / f"{NAME}0" / "abc@v1").write_text("x")
    assert store.import_path(path).files_read == 1


def test_a_list_of_names_concerns_only_whom_it_names(tmp_path: Path, store: clew.Store) -> None:
    for thread in ("c1", "c2"):
        codex(tmp_path, thread)
    store.import_path(tmp_path)
    (tmp_path / "session_index.jsonl").write_text('{"id": "c2", "thread_name": "Second"}\n')
    assert [name[-8:] for name in read(store.import_path(tmp_path / "sessions"))] == ["c2.jsonl"]
    assert store.get("codex:c2").info.title == "Second"


def test_titles_in_a_new_file_reach_unchanged_sessions(tmp_path: Path, store: clew.Store) -> None:
    write_claude(tmp_path / f"{NAME}0.jsonl", 2)
    write_claude(tmp_path / "sub" / f"{NAME}1.jsonl", 2)
    store.import_path(tmp_path)
    other = write_claude(tmp_path / f"{NAME}2.jsonl", 1)
    title = {"type": "summary", "summary": "About words", "leafUuid": f"{NAME}0-1"}
    other.write_text(json.dumps(title) + "\n" + other.read_text())
    report = store.import_path(tmp_path)
    assert read(report) == [f"{NAME}0.jsonl", f"{NAME}2.jsonl"]
    assert store.get(f"claude-code:{NAME}0").info.title == "About words"


def test_the_log_of_a_database_is_part_of_it(tmp_path: Path, store: clew.Store) -> None:
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(test_goose.SCHEMA)
        db.execute("INSERT INTO sessions (id) VALUES ('a')")
    assert store.import_path(path).files_read == 1
    assert store.import_path(path).files_read == 0
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        assert store.import_path(path).files_read == 1
        with db:
            db.execute("INSERT INTO sessions (id) VALUES ('b')")
        assert store.import_path(path).new == 1


def test_every_message_and_part_of_opencode_is_part_of_its_session(tmp_path: Path, store: clew.Store) -> None:
    storage = tmp_path / "opencode" / "storage"
    for name, value in {
        "session/p/ses_1.json": {"id": "ses_1", "projectID": "p", "time": {"created": 1700000000000}},
        "message/ses_1/msg_1.json": {"id": "msg_1", "role": "user", "time": {"created": 1700000000000}},
        "part/msg_1/prt_1.json": {"id": "prt_1", "type": "text", "text": "hi"},
    }.items():
        (storage / name).parent.mkdir(parents=True, exist_ok=True)
        (storage / name).write_text(json.dumps(value))
    place = tmp_path / "opencode"
    assert store.import_path(place).entries == 1
    with opened_below(place) as opened:
        assert store.import_path(place).files_read == 0
    assert opened == []
    (storage / "part/msg_1/prt_2.json").write_text('{"id": "prt_2", "type": "text", "text": "more"}')
    assert store.import_path(place).files_read == 1
    (storage / "part/msg_1/prt_2.json").write_text('{"id": "prt_2", "type": "text", "text": "less"}')
    assert store.import_path(place).files_read == 1
    assert store.import_path(place).files_read == 0


def test_another_revision_of_a_reader_reads_its_files(
    folder: Path, store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.import_path(folder)
    monkeypatch.setitem(REVISIONS, "codex", 99)
    assert len(read(store.import_path(folder))) == 1
    monkeypatch.setattr(clew, "__version__", "99")
    assert len(read(store.import_path(folder))) == 4
    assert len(read(store.import_path(folder))) == 0


# -- the store changed


def test_a_purged_session_comes_back_and_a_trashed_one_does_not(folder: Path, store: clew.Store) -> None:
    store.import_path(folder)
    store.delete(f"claude-code:{NAME}1")
    report = store.import_path(folder)
    assert (report.files_read, states(report)[f"claude-code:{NAME}1"]) == (0, "trashed")
    store.delete(f"claude-code:{NAME}1", purge=True)
    report = store.import_path(folder)
    assert (read(report), report.new) == ([f"{NAME}1.jsonl"], 1)


@pytest.mark.parametrize("address", ["s.db", "store/"])
def test_a_purge_leaves_nothing_in_the_ledger(folder: Path, tmp_path: Path, address: str) -> None:
    with clew.open(tmp_path / address) as store:
        store.import_path(folder)
        store.delete(f"claude-code:{NAME}1", purge=True)
    for path in (tmp_path / address).rglob("*") if address.endswith("/") else [tmp_path / address]:
        assert path.is_dir() or f"{NAME}1".encode() not in path.read_bytes()


def test_a_purge_of_all_leaves_no_record(folder: Path, store: clew.Store) -> None:
    store.import_path(folder)
    store.clear(confirm=True, purge=True)
    with store._engine.read() as reader:
        assert reader.scan_records(STORE_WIDE, "source") == []
    assert store.import_path(folder).new == 4


def test_another_session_of_a_purged_ones_id_is_not_taken_for_it(folder: Path, store: clew.Store) -> None:
    store.import_path(folder)
    store.delete(f"claude-code:{NAME}1", purge=True)
    store.session(f"claude-code:{NAME}1").append({"role": "user", "content": "mine"})
    report = store.import_path(folder)
    assert report.left_out == (str(folder / f"{NAME}1.jsonl"),)
    report = store.import_path(folder, rename=True)
    assert states(report)[f"claude-code:{NAME}1~2"] == "new"
    assert store.import_path(folder).files_read == 0


def test_a_copy_of_a_store_reads_all_and_adds_nothing(folder: Path, tmp_path: Path) -> None:
    with clew.open(tmp_path / "s.db") as store:
        store.import_path(folder)
        store.backup(tmp_path / "b.db")
        write_claude(folder / f"{NAME}1.jsonl", 5)
        store.import_path(folder)
    clew.copy(tmp_path / "s.db", tmp_path / "c.db")
    with clew.open(tmp_path / "c.db") as copied:
        report = copied.import_path(folder)
        assert (report.files_read, report.unchanged, report.entries) == (4, 4, 0)
    with clew.open(tmp_path / "b.db") as restored:
        report = restored.import_path(folder)
        assert (report.files_read, report.grown, report.entries) == (1, 1, 2)


def test_a_parent_that_comes_later_learns_of_its_subagent(folder: Path, store: clew.Store) -> None:
    agent = folder / f"{NAME}0" / "subagents" / "agent-a1.jsonl"
    store.import_path(agent)
    report = store.import_path(folder)
    assert agent.name in read(report)
    told = [
        event.data for event in store.get(f"claude-code:{NAME}0").events() if event.type == "child-session"
    ]
    assert told == [{"session": f"claude-code:{NAME}0/agent-a1"}]


def answered(path: Path, calls: list[str]) -> None:
    """A session that tells of model calls, of 100 tokens each."""
    path.unlink(missing_ok=True)
    log = Log(path, sessionId=path.stem)
    for number, call in enumerate(calls):
        log.model(f"{path.stem}-{number}", call, parentUuid=None, prompt=95)


def test_calls_that_an_unchanged_file_told_of_are_not_counted_again(tmp_path: Path) -> None:
    def tokens(*steps: dict[str, list[str]]) -> int:
        shutil.rmtree(tmp_path / "d", ignore_errors=True)
        with clew.open("memory:") as store:
            for step in steps:
                for name, calls in step.items():
                    answered(tmp_path / "d" / f"{name}.jsonl", calls)
                store.import_path(tmp_path / "d")
            return store.usage().input_tokens

    whole = tokens({f"{NAME}0": ["m1", "m2"], f"{NAME}1": ["m1", "m2", "m3", "m4"]})
    assert whole == 400
    copied_later = tokens({f"{NAME}0": ["m1", "m2"]}, {f"{NAME}1": ["m1", "m2", "m3", "m4"]})
    grown_later = tokens(
        {f"{NAME}0": ["m1", "m2"], f"{NAME}1": ["m1", "m2", "m3"]}, {f"{NAME}1": ["m1", "m2", "m3", "m4"]}
    )
    assert (copied_later, grown_later) == (whole, whole)


def test_a_session_that_lost_its_end_with_the_power_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    write_claude(folder / "one.jsonl", 3)
    with clew.open(tmp_path / "store", durability="process") as store:
        store.import_path(folder)
        assert store.import_path(folder).files_read == 0
        with store._engine.read() as reader:
            row = reader.find_session("claude-code:one")
            assert row is not None
        sid = row.sid
        store._engine.run(lambda tx: tx.drop_record(sid, "key", batch_name(1)))
        assert store.import_path(folder).files_read == 1


def test_readers_note_all_that_they_open(store: clew.Store, tmp_path: Path) -> None:
    """On files of real agents: what a reader opens is in the record of its file, or is known to be shared."""
    home = make_home(tmp_path / "ana")
    for format, place in known_places(home):
        store.import_path(place, format)
        for path in reader_of(format).files(place):
            source = ledger.Ledger(store._engine).find(str(path))
            assert source is not None
            noted = {stamp.path for stamp in source.seen}
            with opened_below(home) as opened:
                for session in reader_of(format).read(path, lambda problem: None, lambda count: None):
                    list(session.entries)
                    session.updates()
            beside = {one for one in opened if Path(one).parent == path.parent and format == "claude-code"}
            missing = {one for one in opened if one not in noted and str(Path(one).parent) not in noted}
            assert missing <= beside, (path, missing)


def test_a_file_that_has_grown_does_not_concern_those_beside_it(tmp_path: Path, store: clew.Store) -> None:
    for number in range(5):
        answered(tmp_path / f"{NAME}{number}.jsonl", [f"msg_{number}"])
    store.import_path(tmp_path)
    answered(tmp_path / f"{NAME}1.jsonl", ["msg_1", "msg_9"])
    answered(tmp_path / f"{NAME}7.jsonl", ["msg_7"])
    assert read(store.import_path(tmp_path)) == [f"{NAME}1.jsonl", f"{NAME}7.jsonl"]


# -- what records hold


def put_all(store: clew.Store, names: list[str], value: bytes) -> None:
    def put(tx: Transaction) -> None:
        for name in names:
            tx.put_record(STORE_WIDE, "source", name, value)

    store._engine.run(put)


def test_a_damaged_record_costs_a_read(folder: Path, store: clew.Store) -> None:
    store.import_path(folder)
    with store._engine.read() as reader:
        names = [name for name, _ in reader.scan_records(STORE_WIDE, "source")]
    for value in (b"", b"\xff", b"{}", b'{"format":7}', b'{"format":"codex","reader":"x","at":0,"seen":[]}'):
        put_all(store, names, value)
        report = store.import_path(folder)
        assert (report.files_read, report.unchanged) == (4, 4)


def test_names_that_are_no_utf8_have_records_too(tmp_path: Path, store: clew.Store) -> None:
    place = os.fsencode(tmp_path) + b"/100%\xff%41"
    os.mkdir(place)
    path = write_claude(Path(os.fsdecode(place), "one.jsonl"), 2)
    assert store.import_path(path.parent).files_read == 1
    with opened_below(tmp_path) as opened:
        assert store.import_path(path.parent).files_read == 0
        assert store.import_path(tmp_path).files_read == 0
    assert opened == []


def test_a_wrong_format_is_still_told(folder: Path, store: clew.Store) -> None:
    store.import_path(folder)
    with pytest.raises(clew.InvalidError, match="its format is claude-code, not codex"):
        store.import_path(folder / f"{NAME}0.jsonl", "codex")


def test_a_file_of_which_only_its_caller_knew_the_format_is_not_taken_without_it(
    tmp_path: Path, store: clew.Store
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"role": "user", "content": "hi", "mood": "good"}\n')
    assert store.import_path(path, "picoclaw").new == 1
    assert store.import_path(path, "picoclaw").files_read == 0
    with pytest.raises(clew.InvalidError, match="looks like a session"):
        store.import_path(path)
