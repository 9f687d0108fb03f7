"""P6, P7, F-12: `verify(full=True)` reads the whole file, tables and indices, and names what is damaged."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.backends.sqlite import schema
from tests.backends.sqlite.damage.pages import PAGE, flipped
from tests.faults.crash.common import quick_directory
from tests.support.effort import spread

BITS = 4
"""Flipped in each page of an index; all of a cell in a thorough run."""

INDICES = ("sqlite_autoindex_", "sessions_", "facets_", "branches_", "events_", "usage_", "objects_",
           "search_entries_")  # fmt: skip


def fill(store: clew.Store, work: Path) -> None:
    """Something in every table."""
    work.mkdir()
    for number in range(30):
        (work / f"file-{number}").write_bytes(random.Random(number).randbytes(500))
    for n in range(5):
        session = store.session(
            f"s{n}", workspace=f"/w{n % 2}", tags=[f"t{n % 3}"], metadata={"chat": str(n)}
        )
        for number in range(30):
            session.append({"role": "user", "content": f"question {number} of word{n}x{number}"})
            session.add_event("tool", {"n": number}, stream=f"stream-{number % 2}", id=f"e{number}")
            session.add_usage(model="m", input_tokens=number, output_tokens=2, cost="0.5", id=f"u{number}")
        session.set_var("mood", n)
        session.checkpoint("here", files=work)
    store.session("done").start("go")
    store.session("done").complete("gone")
    store.session("busy").start("go")
    store.session("trash").append({"role": "user", "content": "bye"})
    store.delete("trash")
    assert store.search("question", limit=3).hits


@pytest.fixture(scope="module")
def sound() -> Iterator[tuple[bytes, dict[str, list[int]]]]:
    """The bytes of a sound store, and the pages of each table and index that holds something."""
    with quick_directory() as directory:
        path = directory / "sound.db"
        with clew.open(path) as store:
            fill(store, directory / "work")
        connection = apsw.Connection(str(path))
        pages: dict[str, list[int]] = {}
        for name, page, cells in connection.execute("SELECT name, pageno, ncell FROM dbstat ORDER BY pageno"):
            if cells:
                pages.setdefault(name, []).append(page)
        connection.close()
        yield path.read_bytes(), pages


Sound = tuple[bytes, dict[str, list[int]]]


@pytest.fixture
def place() -> Iterator[Path]:
    with quick_directory() as directory:
        yield directory / "a.db"


def judged(path: Path, file: bytes) -> tuple[str, ...] | None:
    """The problems that are found; None: it is not even opened."""
    path.write_bytes(file)
    try:
        store = clew.open(path)
    except clew.CorruptError:
        return None
    with store:
        report = store.verify(full=True)
        assert report.complete
        return report.problems


def test_a_sound_store_has_no_problem(sound: Sound, place: Path) -> None:
    """Else the other tests here would prove nothing; and all tables have something in them."""
    file, pages = sound

    assert judged(place, file) == ()
    assert {"events", "usage", "records", "details", "facets", "packs", "objects", "search_words_data",
            "search_entries", "events_id", "events_stream", "usage_id", "sessions_id", "sessions_due",
            "sessions_trash", "sessions_running", "facets_sid", "objects_name"} <= pages.keys()  # fmt: skip


def test_a_garbled_page_of_each_table_and_index_is_named(sound: Sound, place: Path) -> None:
    file, pages = sound
    silent = []
    for name, numbers in pages.items():
        for page in {numbers[0], numbers[-1]} - {1}:
            noise = random.Random(page).randbytes(PAGE)
            damaged = file[: (page - 1) * PAGE] + noise + file[page * PAGE :]
            if judged(place, damaged) == ():
                silent.append((name, page))

    assert silent == []


def test_a_flipped_bit_in_an_index_is_named(sound: Sound, place: Path) -> None:
    """In the cells of its leaves: an index that says something else than its table."""
    file, pages = sound
    indices = [name for name in pages if name.startswith(INDICES)]
    assert len(indices) > 12
    silent: list[tuple[str, int, int]] = []
    for name in indices:
        for page in pages[name]:
            cells = _content_of(file, page)
            bits = spread(range(cells.start * 8, cells.stop * 8), BITS)
            silent += [(name, page, bit) for bit in bits if judged(place, flipped(file, bit)) == ()]

    assert silent == []


def _content_of(file: bytes, page: int) -> range:
    """Where the first cell of a leaf is; nothing of an inner page."""
    start = (page - 1) * PAGE
    if file[start] not in (0x0A, 0x0D):
        return range(0)
    (cell,) = struct.unpack(">H", file[start + 8 : start + 10])
    size = file[start + cell]
    return range(start + cell + 1, start + cell + 1 + min(size, 100))


def test_damage_in_one_place_leaves_the_rest_to_be_looked_at(sound: Sound, place: Path) -> None:
    """P6: the list of sessions cannot be read, and an event of one of them neither: both are named."""
    file, pages = sound
    (page,) = pages["sessions_activity"]
    damaged = bytearray(file[: (page - 1) * PAGE] + bytes(PAGE) + file[page * PAGE :])
    at = damaged.index(b'{"n":17}')
    damaged[at : at + 8] = b'{"n":17!'

    problems = judged(place, bytes(damaged))

    assert problems is not None
    assert any("not all sessions can be listed" in text for text in problems)
    assert any("event 18: it cannot be read" in text for text in problems)


def test_the_words_name_the_index(sound: Sound, place: Path) -> None:
    file, pages = sound
    page = pages["events_id"][-1]
    at = (page - 1) * PAGE + struct.unpack(">H", file[(page - 1) * PAGE + 8 : (page - 1) * PAGE + 10])[0]
    problems = judged(place, flipped(file, (at + 5) * 8))

    assert problems is not None
    assert any("the database file is damaged" in text and "events_id" in text for text in problems)


def test_the_look_at_the_file_ends_when_time_is_over(sound: Sound, place: Path, monkeypatch: Any) -> None:
    place.write_bytes(sound[0])
    monkeypatch.setattr(schema, "STEPS", 10)

    class Over(Exception): ...

    def go_on() -> None:
        raise Over

    with clew.open(place) as store, store._engine.read() as reader:
        with pytest.raises(Over):
            list(reader.damage(full=True, go_on=go_on))
        assert list(reader.damage(full=True, go_on=lambda: None)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE events SET key = key + (1 << 50) WHERE key IN (SELECT max(key) FROM events)", "1 events"),
        ("UPDATE usage SET key = key + (1 << 50) WHERE key IN (SELECT max(key) FROM usage)", "1 model calls"),
        ("UPDATE records SET kind = 'vaz' WHERE kind = 'var' AND sid = 2", "records of the kind 'vaz'"),
        ("UPDATE records SET sid = 999 WHERE kind = 'var' AND sid = 2", "1 records belong to no session"),
        ("UPDATE facets SET value = 't9' WHERE name = '' AND sid = 2", "'s1' is not listed by its tags"),
        ("UPDATE usage SET input = 999 WHERE key = (2 << 32) + 7", "call 7: its sums are wrong: input"),
        ("UPDATE usage SET all_cost = 1 WHERE key = (2 << 32) + 7", "call 7: its sums are wrong: cost"),
        ("DELETE FROM usage WHERE key = (2 << 32) + 7", "model call 7: it is missing"),
        ("DELETE FROM events WHERE key BETWEEN (2 << 32) + 7 AND (2 << 32) + 9", "events 7 to 9, of each"),
        ("UPDATE events SET time = -5 WHERE key = (2 << 32) + 7", "event 7: it cannot be read: its"),
    ],
)  # fmt: skip
def test_what_nobody_would_find_is_told(sound: Sound, place: Path, change: str, said: str) -> None:
    """One problem for one row, though SQLite finds nothing wrong with the file."""
    place.write_bytes(sound[0])
    connection = apsw.Connection(str(place))
    connection.execute(change)
    connection.close()

    problems = judged(place, place.read_bytes())

    assert problems is not None
    assert len(problems) == 1
    assert said in problems[0]
