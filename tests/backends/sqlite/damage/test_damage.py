"""F-12, P6, P7: damage costs what it hits, is named, and never comes back as data."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from tests.backends.sqlite.damage.pages import (
    PAGE,
    find_cell,
    flipped,
    make,
    pages_of,
    positions_in,
    read_everything,
    text,
)
from tests.faults.crash.common import message, quick_directory, texts
from tests.support.effort import spread, usually

VICTIM = 2
"""The session whose entry is damaged; at position 21."""
QUICK, MOST = 12, 30
"""Places of damage in each test, of hundreds; a thorough run takes all."""


@pytest.fixture(scope="module")
def sound() -> Iterator[tuple[Path, bytes, dict[str, list[Any]]]]:
    """A sound store, its bytes, and what is in it."""
    with quick_directory() as directory:
        path = directory / "sound.db"
        written = make(path)
        yield path, path.read_bytes(), written


Sound = tuple[Path, bytes, dict[str, list[Any]]]


@pytest.fixture
def place() -> Iterator[Path]:
    with quick_directory() as directory:
        yield directory / "a.db"


def test_a_sound_store_is_read_without_an_error(sound: Sound, place: Path) -> None:
    """Else the other tests here would prove nothing."""
    place.write_bytes(sound[1])

    reading = read_everything(place, sound[2])

    assert (reading.errors, reading.leaks, reading.altered) == ({}, [], [])
    assert reading.kept == sound[2]


def test_p7_a_flipped_bit_in_a_message_is_found_on_read_and_costs_that_entry_alone(
    sound: Sound, place: Path
) -> None:
    """Named by branch and position; all else can be read; nothing altered is ever returned."""
    _, file, written = sound
    cell = find_cell(file, b'"' + text(VICTIM, 21).encode())
    name = f"s{VICTIM}"
    victim = written[name][21]
    wrong: dict[int, str] = {}
    for bit in spread(range(cell.body * 8, (cell.start + cell.size) * 8, 11), MOST, quick=QUICK):
        place.write_bytes(flipped(file, bit))
        reading = read_everything(place, written)
        problems = [*reading.leaks, *reading.altered]
        error = reading.errors.get(f"{name} entries")
        if not isinstance(error, clew.errors.CorruptEntryError):
            problems.append(f"not found: {error!r}")
        elif (error.source, error.position) != (victim[0].split(".")[0], 21):
            problems.append(f"misnamed: {error}")
        if reading.kept != {**written, name: [e for e in written[name] if e != victim]}:
            problems.append("it cost more than one entry")
        if others := {what for what in reading.errors if not what.startswith(name)}:
            problems.append(f"others are hit: {others}")
        if problems:
            wrong[bit - cell.body * 8] = "; ".join(problems[:3])

    assert wrong == {}


def test_p7_a_flipped_bit_in_the_other_columns_of_an_entry_never_comes_back_as_data(
    sound: Sound, place: Path
) -> None:
    """Kind, time, hash, counters, lengths and types: each bit before the body."""
    _, file, written = sound
    cell = find_cell(file, b'"' + text(VICTIM, 21).encode())
    wrong: dict[int, str] = {}
    for bit in spread(range(cell.start * 8, cell.body * 8, 3), MOST, quick=QUICK):
        place.write_bytes(flipped(file, bit))
        reading = read_everything(place, written)
        if problems := [*reading.leaks, *reading.altered]:
            wrong[bit - cell.start * 8] = "; ".join(problems[:3])

    assert wrong == {}


@pytest.mark.parametrize("how", ["zeroed", "garbled", "another page"])
def test_p6_a_damaged_leaf_of_entries_costs_the_entries_in_it(sound: Sound, place: Path, how: str) -> None:
    """Other entries of the same sessions, other sessions, lists and new appends are unharmed."""
    path, file, written = sound
    leaves = [number for number, name, kind in pages_of(path) if name == "entries" and kind == "leaf"]
    chosen = leaves[len(leaves) // 2]
    held = positions_in(path, chosen)
    place.write_bytes(_damaged(file, chosen, how, leaves))

    reading = read_everything(place, written)

    assert (reading.leaks, reading.altered) == ([], [])
    for name, entries in written.items():
        lost = held.get(name, [])
        assert reading.kept[name] == [entry for entry in entries if entry[1] not in lost]
        error = reading.errors.get(f"{name} entries")
        assert isinstance(error, clew.errors.CorruptEntryError) == bool(lost)
        if isinstance(error, clew.errors.CorruptEntryError):
            assert error.position == lost[0]
    assert "list" not in reading.errors
    unharmed = next(name for name in written if name not in held)
    with clew.open(place) as store:
        store.get(unharmed).append(message("goes on"))
        assert texts(store.get(unharmed))[-1] == "goes on"
        store.create("new").append(message("new"))


def _damaged(file: bytes, page: int, how: str, leaves: list[int]) -> bytes:
    noise = random.Random(page).randbytes(PAGE)
    other = leaves[0] if leaves[0] != page else leaves[1]
    content = {
        "zeroed": bytes(PAGE),
        "garbled": noise,
        "another page": file[(other - 1) * PAGE : other * PAGE],
    }[how]
    return file[: (page - 1) * PAGE] + content + file[page * PAGE :]


def test_p6_a_damaged_overflow_page_costs_one_entry(sound: Sound, place: Path) -> None:
    path, file, written = sound
    overflow = [number for number, name, kind in pages_of(path) if (name, kind) == ("entries", "overflow")]
    wrong = {}
    for page in spread(overflow[::4], MOST, quick=QUICK):
        place.write_bytes(_damaged(file, page, "zeroed", [0, 0]))
        reading = read_everything(place, written)
        lost = sum(len(written[name]) - len(reading.kept[name]) for name in written)
        named = sum(isinstance(error, clew.errors.CorruptEntryError) for error in reading.errors.values())
        if reading.leaks or reading.altered or lost != 1 or not named:
            wrong[page] = (reading.leaks, reading.altered, lost, named)

    assert wrong == {}


@pytest.mark.parametrize("how", ["zeroed", "garbled"])
def test_p7_whatever_page_is_damaged_errors_are_ours_and_nothing_altered_is_returned(
    sound: Sound, place: Path, how: str
) -> None:
    path, file, written = sound
    wrong = {}
    pages = [page for page in pages_of(path) if page[0] > 1]
    one_of_each = {(name, kind): (number, name, kind) for number, name, kind in pages}
    for number, name, kind in {*one_of_each.values(), *spread(pages, MOST, quick=QUICK)}:
        place.write_bytes(_damaged(file, number, how, [0, 0]))
        reading = read_everything(place, written)
        if reading.leaks or reading.altered:
            wrong[number, name, kind] = (reading.leaks[:3], reading.altered[:3])

    assert wrong == {}


def test_p7_whatever_bit_is_flipped_errors_are_ours_and_no_entry_comes_back_altered(
    sound: Sound, place: Path
) -> None:
    path, file, written = sound
    entries = {number for number, name, _ in pages_of(path) if name == "entries"}
    choose = random.Random(12)
    wrong = {}
    for bit in (
        choose.randrange(PAGE * 8, len(file) * 8) for _ in range(usually(80, quick=30, thorough=250))
    ):
        place.write_bytes(flipped(file, bit))
        reading = read_everything(place, written)
        page = bit // 8 // PAGE + 1
        altered = reading.altered if page in entries else []
        if reading.leaks or altered:
            wrong[page, bit] = (reading.leaks[:3], altered[:3])

    assert wrong == {}


@pytest.mark.parametrize("how", ["zeroed", "garbled", "cut"])
def test_a_damaged_first_page_is_refused_without_a_write(sound: Sound, place: Path, how: str) -> None:
    _, file, _ = sound
    damaged = file[:PAGE] if how == "cut" else _damaged(file, 1, how, [0, 0])
    place.write_bytes(damaged)

    with pytest.raises((clew.errors.InvalidUrlError, clew.CorruptError)):
        _open_and_read(place)

    assert place.read_bytes() == damaged


def _open_and_read(path: Path) -> None:
    with clew.open(path) as store:
        store.list()
        store.get("s1").messages()


@pytest.mark.parametrize("statement", ["DELETE FROM entries", "UPDATE entries SET body = zeroblob(5)"])
def test_p6_an_entry_that_another_program_removed_or_changed_is_named(
    sound: Sound, place: Path, statement: str
) -> None:
    _, file, written = sound
    place.write_bytes(file)
    connection = apsw.Connection(str(place))
    branch = connection.execute("SELECT branch FROM sessions WHERE id = 's4'").get
    connection.execute(f"{statement} WHERE key = ?", (branch << 32 | 9,))
    connection.close()

    reading = read_everything(place, written)

    assert (reading.leaks, reading.altered) == ([], [])
    error = reading.errors["s4 entries"]
    assert isinstance(error, clew.errors.CorruptEntryError)
    assert error.position == 9
    assert reading.kept["s4"] == [entry for entry in written["s4"] if entry[1] != 9]
    assert {what.split()[0] for what in reading.errors} == {"s4"}


@pytest.mark.parametrize("what", ["sessions_id", "sqlite_autoindex_branches_1"])
def test_p7_a_damaged_index_never_leads_to_another_session(tmp_path: Path, what: str) -> None:
    """Row numbers in the index are changed by a bit: an error comes, or the session that was meant."""
    path, names = tmp_path / "a.db", ("one", "two", "three", "four")
    with clew.open(path) as store:
        for name in names:
            store.session(name).append({"role": "user", "content": name})
        heads = {name: store.get(name).head for name in names}
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (what,))
    page = next(root for (root,) in rows)
    connection.close()
    whole, misled = path.read_bytes(), 0
    for place in range(page * 4096 - 160, page * 4096):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        try:
            with clew.open(path) as store:
                for name in names:
                    found = store.find(name)
                    assert found is None or texts(found) == [name]
                    with store._engine.read() as reader:
                        branch = reader.find_branch(heads[name].branch)
                        assert branch is None or branch.uid == heads[name].branch
        except clew.CorruptError as error:
            misled += "leads from" in str(error)
        except clew.ClewError:
            pass
    assert misled, "no flip made the index lead elsewhere"
