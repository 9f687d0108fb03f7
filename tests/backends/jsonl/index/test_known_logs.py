"""A log that was written anew is another log, however much it looks like the one that the index has read."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

import clew
from clew.backends.jsonl import JsonlBackend, disk
from clew.testing.backend.base import user
from clew.testing.chain import check_store
from tests.backends.jsonl.stores import drop_variable, log, without_index


def scrub(place: Path) -> None:
    """Write the log of `s` anew."""
    backend = JsonlBackend(place)
    with clew.Store(backend) as store:
        store.get("s").set_var("gone", 1)
        drop_variable(backend, "gone")
        backend.scrub()


def alter(place: Path, *statements: str) -> None:
    connection = apsw.Connection(str(place / "index.db"))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def written_anew_with_an_older_index(fast_path: Path) -> Path:
    """What a power cut leaves after a scrub: a log that was written anew, of the same length and with the
    same last line, and an index of the time before."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        session = store.session("s")
        session.append(user("one"))
        session.set_var("v", "old")
        session.checkpoint("here", state={"n": 1})
        session.add_event("last", {"n": 1})
    scrub(place)
    shutil.copy(place / "index.db", fast_path / "old.db")
    before = log(place).read_bytes()
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").set_var("v", "new")
        store.get("s").checkpoint("here", state={"n": 2})
    scrub(place)
    after = log(place).read_bytes()
    assert len(after) == len(before)
    assert after.splitlines()[-1] == before.splitlines()[-1]
    shutil.copy(fast_path / "old.db", place / "index.db")
    return place


def check_new(store: clew.Store) -> None:
    session = store.get("s")
    assert session.get_var("v") == "new"
    assert session.get_checkpoint("here").state == {"n": 2}
    check_store(store)
    assert store.verify(full=True).ok


def test_a_log_that_was_written_anew_is_read_anew(fast_path: Path) -> None:
    """P1, F-03: an acknowledged value is read after a purge and a power cut, and after the next purge."""
    place = written_anew_with_an_older_index(fast_path)

    with clew.open(f"jsonl:///{place}") as store:
        check_new(store)
    scrub(place)
    with clew.open(f"jsonl:///{place}") as store:
        check_new(store)


def test_a_log_that_was_written_anew_is_known_even_if_it_got_the_same_inode(fast_path: Path) -> None:
    """A file system may give the number of a file that is gone to the next one."""
    place = written_anew_with_an_older_index(fast_path)
    alter(place, f"UPDATE logs SET inode = {log(place).stat().st_ino} WHERE name = 'sessions/s.jsonl'")

    with clew.open(f"jsonl:///{place}") as store:
        check_new(store)


def test_an_older_log_put_back_is_read_as_it_is(fast_path: Path) -> None:
    """F-13: also if it is as long as the newer one, and ends as that does."""
    place = written_anew_with_an_older_index(fast_path)
    shutil.copy(log(place), fast_path / "backup")
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").set_var("v", "3rd")
    scrub(place)
    assert log(place).stat().st_size == (fast_path / "backup").stat().st_size
    (fast_path / "backup").replace(log(place))

    with clew.open(f"jsonl:///{place}") as store:
        check_new(store)


def test_what_was_read_once_is_not_read_again(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: a large session is opened by its tail, also in a copy of the store, whose files have other
    inodes."""
    with clew.open(f"jsonl:///{fast_path / 'store'}") as store:
        session = store.session("s")
        for number in range(20):
            session.append(user(f"{number} " + "x" * 200_000))
    assert log(fast_path / "store").stat().st_size > 4_000_000
    shutil.copytree(fast_path / "store", fast_path / "copy")
    read: list[int] = []
    real = disk.read_at

    def counted(handle: int, count: int, offset: int) -> bytes:
        data = real(handle, count, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(disk, "read_at", counted)
    for place in ("store", "copy"):
        read.clear()
        with clew.open(f"jsonl:///{fast_path / place}") as store:
            assert store.get("s").info.messages == 20
            assert len(store.get("s").messages(last=1)) == 1
            store.get("s").append(user("next"))
        assert sum(read) < 1_000_000


@pytest.mark.parametrize("with_index", [True, False])
def test_logs_of_an_older_version_have_no_mark_and_are_known_by_their_inodes(
    fast_path: Path, with_index: bool
) -> None:
    """An exported session put into a store has none either."""
    place = fast_path / "store"
    with clew.open("memory:") as memory:
        memory.session("s").append(user("one"))
        memory.get("s").set_var("v", "old")
        memory.get("s").add_event("last", {"n": 1})
        old = memory.export("s", "jsonl")
        memory.get("s").set_var("v", "new")
        new = memory.export("s", "jsonl")
    text = [each if isinstance(each, str) else "".join(each) for each in (old, new)]
    assert len(text[0]) == len(text[1])
    assert "mark" not in text[0].splitlines()[0]
    (place / "sessions").mkdir(parents=True)
    log(place).write_text(text[0])
    with clew.open(f"jsonl:///{place}") as store:
        assert store.get("s").get_var("v") == "old"
    (place / "other").write_text(text[1])
    (place / "other").replace(log(place))
    if not with_index:
        (place / "index.db").unlink()

    with clew.open(f"jsonl:///{place}") as store:
        assert store.get("s").get_var("v") == "new"


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE records SET value = '\"lie\"' WHERE kind = 'var'",
        "DELETE FROM records",
        "DELETE FROM events",
        "UPDATE sessions SET title = 'lie'",
        "DELETE FROM entries WHERE key & 4294967295 = 1",
    ],
)
def test_a_scrub_writes_what_the_log_says_and_not_what_the_index_says(fast_path: Path, harm: str) -> None:
    """P1, P11: rows of the index have no checksums. A log is never made of what may be wrong."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        session = store.session("s", title="truth")
        session.append(user("one"), user("two"), user("three"))
        session.set_var("v", "truth")
        session.add_event("e", {"n": 1})
    alter(place, harm.replace("'\"lie\"'", "CAST('\"lie\"' AS BLOB)"))

    scrub(place)

    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        session = store.get("s")
        assert session.get_var("v") == "truth"
        assert session.info.title == "truth"
        assert [message["content"] for message in session.messages()] == ["one", "two", "three"]
        assert [event.type for event in session.events()] == ["e"]
        assert store.verify(full=True).ok


def test_a_scrub_removes_no_pack_that_the_logs_name(fast_path: Path) -> None:
    """P13: also if the index has forgotten it."""
    place, files = fast_path / "store", fast_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("content")
    with clew.open(f"jsonl:///{place}") as store:
        session = store.session("s")
        session.append(user("one"))
        snapshot = session.checkpoint("files", files=files).snapshot
    alter(place, "DELETE FROM objects", "DELETE FROM packs")

    scrub(place)

    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert snapshot is not None
        store.restore(snapshot, fast_path / "back")
    assert (fast_path / "back" / "a.txt").read_text() == "content"


def test_a_scrub_does_not_give_up_what_the_index_knows_of_a_damaged_line(fast_path: Path) -> None:
    """P6, P11: the log stays as it is, the error names the line, and a repair saves what it said."""
    place = fast_path / "store"
    backend = JsonlBackend(place)
    with clew.Store(backend) as store:
        session = store.session("s")
        session.append(user("one"))
        session.set_var("v", "truth")
        session.set_var("gone", 1)
        drop_variable(backend, "gone")
        damaged = log(place).read_bytes().replace(b'"truth"', b'"trvth"')
        with log(place).open("r+b") as file:
            file.write(damaged)

        with pytest.raises(clew.errors.BackendUnavailableError, match=r"line \d+ of .*s\.jsonl is damaged"):
            backend.scrub()

        assert log(place).read_bytes() == damaged
        assert session.get_var("v") == "truth"
        store.repair(to=f"jsonl:///{fast_path / 'repaired'}")
        store.delete("s", purge=True)
        assert not log(place).exists()
    with clew.open(f"jsonl:///{fast_path / 'repaired'}") as store:
        assert store.get("s").get_var("v") == "truth"
