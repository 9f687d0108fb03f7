"""Large lines and many files, within bounds."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import clew

OPEN_AND_READ = """
import resource, sys, clew
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with clew.open(f"jsonl:///{sys.argv[1]}") as store:
    session = store.get("s")
    assert session.messages(last=1)[0]["content"] == "small"
    session.append({"role": "user", "content": "next"})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


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
    for file in place.glob("index.db*"):
        file.unlink()
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").append(user("small"))
    assert grown_by(place) < 40_000


def test_few_files_are_open_however_many_sessions_there_are(fast_path: Path) -> None:
    """F-19: 200 sessions with 32 files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 32, before[1]))
    try:
        with clew.open(f"jsonl:///{fast_path / 'store'}", durability="process") as store:
            for number in range(200):
                store.session(f"s{number}").append(user(f"{number}"))
            for number in range(200):
                assert store.get(f"s{number}").messages() == [user(f"{number}")]
        assert len(list(Path("/proc/self/fd").iterdir())) <= used
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_messages_of_any_size_come_back_in_either_direction(fast_path: Path, size: int) -> None:
    """Small ones between large ones, within and across the window that is read at once."""
    texts = [str(number) * (size if number % 3 == 0 else 10) for number in range(8)]
    with clew.open(f"jsonl:///{fast_path / 'store'}", durability="process") as store:
        session = store.session("s")
        session.append(*map(user, texts))
        assert [message["content"] for message in session.messages()] == texts
        assert [message["content"] for message in session.messages(last=3)] == texts[-3:]
