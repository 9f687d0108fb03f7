"""P6, P7, F-12: `verify(full=True)` reads every line of every log, and the index beside them."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import apsw
import pytest

import clew
from clew.backends.sqlite import schema
from tests.backends.jsonl.stores import without_index
from tests.backends.sqlite.damage.pages import PAGE, flipped
from tests.support.effort import spread


def make(place: Path, messages: int) -> Path:
    with clew.open(f"jsonl:///{place}") as store:
        for n in range(3):
            session = store.session(f"s{n}", tags=["t"], metadata={"chat": str(n)}, workspace="/w")
            for number in range(messages):
                session.append({"role": "user", "content": f"message {number} of word{n}x{number}"})
                session.add_event("tool", {"n": number}, stream="ui", id=f"e{number}")
                session.add_usage(model="m", input_tokens=number, output_tokens=1, id=f"u{number}")
            session.set_var("mood", n)
        assert store.search("message").hits
        assert store.verify(full=True).problems == ()
    return place


@pytest.fixture
def place(fast_path: Path) -> Path:
    return make(fast_path / "store", 40)


def problems(place: Path) -> tuple[str, ...]:
    with clew.open(f"jsonl:///{place}") as store:
        return store.verify(full=True).problems


@pytest.mark.parametrize("kind", ["event", "usage", "entry", "record", "session"])
@pytest.mark.parametrize("index", ["kept", "deleted"])
def test_a_damaged_line_is_named_by_file_and_line(place: Path, kind: str, index: str) -> None:
    """Also if the index read it before it was damaged: what that knows of it stays."""
    log = place / "sessions" / "s1.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    numbers = [number for number, line in enumerate(lines, 1) if f'"kind":"{kind}'.encode() in line]
    number = numbers[len(numbers) // 2]
    line = lines[number - 1]
    lines[number - 1] = (
        line[: len(line) // 2] + bytes([line[len(line) // 2] ^ 1]) + line[len(line) // 2 + 1 :]
    )
    log.write_bytes(b"".join(lines))
    if index == "deleted":
        without_index(place)

    named = f"line {number} of {log} is damaged"
    for _ in range(2):
        found = problems(place)
        assert any(text.startswith(named) for text in found)
        assert not any("index" in text for text in found)
    with clew.open(f"jsonl:///{place}") as store:
        assert len(store.get("s1").events()) == (39 if (kind, index) == ("event", "deleted") else 40)
        assert len(store.get("s2").events()) == 40


def test_a_lost_line_is_named_by_a_quick_look_too(place: Path) -> None:
    """A record has no place that would be empty without it."""
    log = place / "sessions" / "s1.jsonl"
    without_index(place)
    log.write_bytes(log.read_bytes().replace(b'"name":"mood"', b'"name":"wood"'))
    with clew.open(f"jsonl:///{place}") as store:
        (problem,) = store.verify().problems

    line = len(log.read_bytes().splitlines())
    assert problem.startswith(f"line {line} of {log} is damaged: its checksum does not match")


def test_all_damaged_lines_are_named(place: Path) -> None:
    for n in (0, 2):
        log = place / "sessions" / f"s{n}.jsonl"
        log.write_bytes(log.read_bytes().replace(b'"n":7}', b'"n":8}'))

    found = problems(place)

    assert [any(f"s{n}.jsonl is damaged" in text for text in found) for n in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    ("messages", "query"),
    [
        (2, "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 1"),
        (40, "SELECT name, pageno FROM dbstat WHERE ncell > 0 AND pageno > 1"),
    ],
    ids=["the first of each table", "some of all"],
)
def test_a_damaged_page_of_the_index_is_named_or_mended_at_once(
    fast_path: Path, messages: int, query: str
) -> None:
    """The words of the search too. Who comes upon it first, be it when the store is opened, makes the index
    anew. Each page costs two full looks, which takes more than a second."""
    place = make(fast_path / "store", messages)
    index = place / "index.db"
    file = index.read_bytes()
    connection = apsw.Connection(str(index))
    pages = list(connection.execute(query))
    connection.close()
    beside = {path.name: path.read_bytes() for path in place.glob("index.db-*")}
    silent = []
    for name, page in pages if messages == 2 else spread(pages, 24, quick=8):
        without_index(place)
        noise = random.Random(page).randbytes(PAGE)
        index.write_bytes(file[: (page - 1) * PAGE] + noise + file[page * PAGE :])
        for kept, content in beside.items():
            (place / kept).write_bytes(content)
        with clew.open(f"jsonl:///{place}") as store:
            if store.verify(full=True).ok and not any(place.glob("index.db.corrupt-*")):
                silent.append((name, page))
            assert [len(store.get(f"s{n}").messages()) for n in range(3)] == [messages] * 3
            assert [len(store.get(f"s{n}").events()) for n in range(3)] == [messages] * 3
            assert len(store.search("message", limit=200).hits) == 3 * messages
            assert store.verify(full=True).problems == ()

    assert silent == []


def test_an_index_of_the_index_that_leads_elsewhere_is_named(place: Path) -> None:
    index = place / "index.db"
    connection = apsw.Connection(str(index))
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions_id'")
    connection.close()
    at = index.read_bytes().index(b"s1", (page - 1) * PAGE)
    index.write_bytes(flipped(index.read_bytes(), at * 8 + 8))

    with clew.open(f"jsonl:///{place}") as store:
        assert any(str(index) in text for text in store.verify(full=True).problems)
        assert store.verify(full=True).ok
        assert len(store.get("s1").messages()) == 40


def test_the_comparison_ends_when_time_is_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "STEPS", 50)

    class Over(Exception): ...

    calls = 0

    def go_on() -> None:
        nonlocal calls
        calls += 1
        if calls > limit:
            raise Over

    with clew.open(f"jsonl:///{place}") as store, store._engine.read() as reader:
        limit = 10**9
        assert list(reader.damage(full=True, go_on=go_on)) == []
        limit, calls = calls - 2, 0  # in the last table that is compared
        with pytest.raises(Over):
            list(reader.damage(full=True, go_on=go_on))
        limit = 10**9
        assert list(reader.damage(full=True, go_on=go_on)) == []


def test_a_full_look_at_a_store_that_others_scrub_all_the_time_comes_to_its_end(place: Path) -> None:
    """It looks again, and at last while nobody writes: neither clean without a look, nor damaged."""
    with clew.open(f"jsonl:///{place}") as store, clew.open(f"jsonl:///{place}") as other:
        stop = threading.Event()

        def scrub() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                for _ in range(20):
                    other.get("s0").set_var("mood", number)
                other.vacuum()

        thread = threading.Thread(target=scrub)
        thread.start()
        try:
            reports = [store.verify(full=True) for _ in range(3)]
        finally:
            stop.set()
            thread.join()
        assert [report.problems for report in reports] == [()] * 3
