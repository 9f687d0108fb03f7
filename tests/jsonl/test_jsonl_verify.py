"""`store.verify()` tells what the logs lost, by file and line, and what the index says otherwise."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import clew


@pytest.fixture
def place(fast_path: Path) -> Path:
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        session = store.session("s")
        session.append({"role": "user", "content": "one"})
        session.set_var("mood", "good")
    return place


def test_a_lost_line_is_named_by_verify(place: Path) -> None:
    """P6, P7, F-12: also when nothing else shows that it was there."""
    log = place / "sessions" / "s.jsonl"
    for index in place.glob("index.db*"):
        index.unlink()
    log.write_bytes(log.read_bytes().replace(b'"value":"good"', b'"value":"bood"'))
    with clew.open(f"jsonl:///{place}") as store:
        (problem,) = store.verify().problems

    assert f"line {len(log.read_bytes().splitlines())} of {log}" in problem


def test_an_index_that_says_otherwise_is_found_by_a_full_look(place: Path) -> None:
    """P7: and made anew."""
    connection = apsw.Connection(str(place / "index.db"))
    connection.execute("UPDATE sessions SET title = 'another'")
    connection.close()
    with clew.open(f"jsonl:///{place}") as store:
        assert store.verify(full=False).ok
        assert not store.verify(full=True).ok
        assert store.verify(full=True).ok
        assert store.get("s").info.title == "one"
