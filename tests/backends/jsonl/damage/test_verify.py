"""`store.verify()` tells what the logs lost, by file and line, and what the index says otherwise."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import clew
from tests.backends.jsonl.stores import without_index


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
    without_index(place)
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


def test_a_page_of_the_index_that_makes_no_sense_is_found_by_a_full_look(
    fast_path: Path, place: Path
) -> None:
    """P6, P7: of whatever table or index of it, the words of the search too; then it is made anew."""
    with clew.open(f"jsonl:///{place}") as store:
        session = store.get("s")
        session.append(*({"role": "user", "content": f"word {n}"} for n in range(50)))
        session.add_event("e", {"n": 1})
        session.add_usage(model="m", input_tokens=1, output_tokens=1)
        assert store.search("word").hits
    connection = apsw.Connection(str(place / "index.db"))
    roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 1"))
    connection.close()
    whole = (place / "index.db").read_bytes()
    missed = []
    for name, page in roots.items():
        garbled = bytearray(whole)
        garbled[(page - 1) * 4096 : page * 4096] = bytes(range(256)) * 16
        (place / "index.db").write_bytes(garbled)
        for file in place.glob("index.db[.-]*"):
            file.unlink()
        with clew.open(f"jsonl:///{place}") as store:
            is_ok = store.verify(full=True).ok
            if is_ok and not list(place.glob("index.db.corrupt-*")):  # else it was found, and is mended
                missed.append(name)
            assert store.verify(full=True).ok
            assert len(store.search("word", limit=100).hits) == 50
            assert len(store.get("s").messages()) == 51
    assert missed == []


def test_a_full_look_at_a_store_that_others_scrub_all_the_time_comes_to_its_end(place: Path) -> None:
    """It looks again, and at last while nobody writes: neither clean without a look, nor damaged."""
    import threading

    with clew.open(f"jsonl:///{place}") as store, clew.open(f"jsonl:///{place}") as other:
        stop = threading.Event()

        def scrub() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                for _ in range(20):
                    other.get("s").set_var("mood", number)
                other.vacuum()

        thread = threading.Thread(target=scrub)
        thread.start()
        try:
            reports = [store.verify(full=True) for _ in range(3)]
        finally:
            stop.set()
            thread.join()
        assert [report.problems for report in reports] == [()] * 3
