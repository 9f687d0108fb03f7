"""Large lines and many files, within bounds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.backends.jsonl import JsonlBackend
from clew.testing.backend.base import user
from tests.backends.jsonl.stores import without_index

OPEN_AND_READ = """
import resource, sys, clew
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with clew.open(f"jsonl:///{sys.argv[1]}") as store:
    session = store.get("s")
    assert session.messages(last=1)[0]["content"] == "small"
    session.append({"role": "user", "content": "next"})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def grown_by(place: Path) -> int:
    """Memory in KiB that opening, reading the end and appending take, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AND_READ, str(place)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_a_large_line_is_not_read_to_open_a_session(fast_path: Path) -> None:
    """P16: only what is asked for; and without an index one line at a time."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}", durability="process") as store:
        session = store.session("s")
        for _ in range(4):
            session.append(user("x" * 20_000_000))
        session.append(user("small"))
    assert grown_by(place) < 40_000
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").append(user("small"))
    assert grown_by(place) < 40_000


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_messages_of_any_size_come_back_in_either_direction(fast_path: Path, size: int) -> None:
    """Small ones between large ones, within and across the window that is read at once."""
    texts = [str(number) * (size if number % 3 == 0 else 10) for number in range(8)]
    with clew.open(f"jsonl:///{fast_path / 'store'}", durability="process") as store:
        session = store.session("s")
        session.append(*map(user, texts))
        assert [message["content"] for message in session.messages()] == texts
        assert [message["content"] for message in session.messages(last=3)] == texts[-3:]


WITH_LITTLE = """
import resource, sys, clew
resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))
with clew.open(f"jsonl:///{sys.argv[1]}") as store:
    session = store.get("s")
    assert [message["content"] for message in session.messages()] == ["one", "two"]
    session.append({"role": "user", "content": "three"})
    store.vacuum()
    assert len(session.messages()) == 3
"""


@pytest.mark.parametrize("is_last", [True, False])
def test_a_line_of_300_megabytes_is_passed_over_with_little_memory(tmp_path: Path, is_last: bool) -> None:
    """P16, F-11: nobody writes such a line; it costs itself. A vacuum carries over what it cannot read."""
    place = tmp_path / "store"
    with clew.open(f"jsonl:///{place}", durability="process") as store:
        store.session("s").append(user("one"))
        log = place / "sessions" / "s.jsonl"
        before = log.read_bytes()
        store.get("s").append(user("two"))
    behind = log.read_bytes()[len(before) :]
    without_index(place)
    with log.open("wb") as file:
        file.write(before + (behind if is_last else b""))
        for _ in range(300):
            file.write(b"x" * 1_000_000)
        file.write(b"" if is_last else b"\n" + behind)

    subprocess.run([sys.executable, "-c", WITH_LITTLE, str(place)], check=True)

    assert (log.stat().st_size > 300_000_000) == (not is_last)


READ_THE_END = """
import sys, clew

def bytes_read():
    return int(open("/proc/self/io").read().split()[1])

with clew.open(f"jsonl:///{sys.argv[1]}", durability="process") as store:  # imports what is needed
    store.get("other").messages()
before = bytes_read()
with clew.open(f"jsonl:///{sys.argv[1]}", durability="process") as store:
    session = store.get("s")
    assert session.messages(last=1)[0]["content"] == "small"
    session.append({"role": "user", "content": "small"})
print(bytes_read() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count what is read")
def test_opening_a_session_of_hundreds_of_megabytes_reads_its_end(tmp_path: Path) -> None:
    """P16: counted by the system, whoever reads; also after a process that did not close the store."""
    place = tmp_path / "store"
    store = clew.open(f"jsonl:///{place}", durability="process")
    store.session("other").append(user("x"))
    session = store.session("s")
    for _ in range(4):
        session.append(user("x" * 60_000_000))
    session.append(user("small"))
    assert (place / "sessions" / "s.jsonl").stat().st_size > 240_000_000

    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", READ_THE_END, str(place)], capture_output=True, text=True, check=True
        )
        assert int(done.stdout) < 1_000_000
        store.close()


def renew_a_lease(backend: JsonlBackend, session: clew.Session) -> None:
    with session.run("go"), backend.read() as reader:
        row = reader.find_session("s")
        assert row is not None
        lease = reader.get_record(row.sid, "lease", "")
        assert lease is not None
        for _ in range(200):
            with backend.write() as tx:
                tx.put_record(row.sid, "lease", "", lease)


def set_a_variable(backend: JsonlBackend, session: clew.Session) -> None:
    for number in range(200):
        session.set_var("step", number)


@pytest.mark.parametrize("keep_index", [True, False])
@pytest.mark.parametrize("repeat", [renew_a_lease, set_a_variable])
def test_a_vacuum_takes_away_what_was_said_again_and_again(
    fast_path: Path, keep_index: bool, repeat: Callable[[JsonlBackend, clew.Session], None]
) -> None:
    """P17: a log does not grow without bound; and is not written anew for nothing."""
    place = fast_path / "store"
    log = place / "sessions" / "s.jsonl"
    backend = JsonlBackend(place, durability="process")
    with clew.Store(backend) as store:
        session = store.session("s")
        session.append(user("one"))
        before = log.stat().st_size
        repeat(backend, session)
        grown = log.stat().st_size
        step = session.get_var("step", None)
        assert grown > 10 * before
    if not keep_index:
        without_index(place)
    with clew.open(f"jsonl:///{place}", durability="process") as store:
        assert store.vacuum() > (grown - before) // 2
        assert log.stat().st_size < 3 * before
        inode = log.stat().st_ino
        store.vacuum()
        assert log.stat().st_ino == inode
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert store.get("s").get_var("step", None) == step
        assert store.get("s").messages() == [user("one")]
        assert store.verify(full=True).ok
