"""Finding, and damaging, what lies where in a database file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import apsw

import clew
from tests.faults.crash.common import message

PAGE = 4096
SESSIONS = 6
MESSAGES = 40


def text(session: int, number: int) -> str:
    """Small ones of several sizes, and now and then one that needs pages of its own."""
    size = 9_000 if number % 13 == 7 else 40 + number * 17 % 300
    return f"<{session}.{number}>" + "abcdefghij"[number % 10] * size


def make(path: Path) -> dict[str, list[Any]]:
    """A store of several sessions whose entries share pages; what each session holds."""
    with clew.open(path) as store:
        sessions = [store.session(f"s{n}", title=f"title {n}") for n in range(SESSIONS)]
        for number in range(MESSAGES):
            for n, session in enumerate(sessions):
                session.append(message(text(n, number)))
        for session in sessions:
            session.annotate(3, label="gold")
            session.checkpoint("here", state={"n": 1})
        return {session.id: contents(session) for session in sessions}


def contents(session: clew.Session, **options: Any) -> list[Any]:
    """What an entry's checksum covers: all but its hash and counters (ADR 0008)."""
    return [(e.id, e.position, e.kind, e.raw, e.stamp, e.replaced) for e in session.entries(**options)]


class Cell(NamedTuple):
    """Where a row lies in the file."""

    start: int
    size: int
    body: int
    """Where its last column begins."""


def find_cell(file: bytes, marker: bytes) -> Cell:
    """The row whose body holds a marker: parsed from the page, as SQLite would."""
    (place,) = [n for n in range(len(file)) if file.startswith(marker, n)]
    page = place // PAGE * PAGE
    assert file[page] == 0x0D, "a leaf of a table"
    count = int.from_bytes(file[page + 3 : page + 5], "big")
    pointers = [
        page + int.from_bytes(file[page + 8 + 2 * n : page + 10 + 2 * n], "big") for n in range(count)
    ]
    start = max(pointer for pointer in pointers if pointer <= place)
    payload, after_size = _varint(file, start)
    _, content = _varint(file, after_size)
    header, _ = _varint(file, content)
    body = file.rindex(b'{"role"', content + header, place)
    return Cell(start, content + payload - start, body)


def _varint(file: bytes, place: int) -> tuple[int, int]:
    value = 0
    for n in range(place, place + 9):
        value = value << 7 | file[n] & 0x7F
        if file[n] < 0x80:
            return value, n + 1
    return value, place + 9


def flipped(file: bytes, bit: int) -> bytes:
    damaged = bytearray(file)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def pages_of(path: Path) -> list[tuple[int, str, str]]:
    """Number, table or index, and kind of every page."""
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute("SELECT pageno, name, pagetype FROM dbstat ORDER BY pageno"))
    finally:
        connection.close()


def positions_in(path: Path, page: int) -> dict[str, list[int]]:
    """Which entries of which sessions a leaf of the entries holds."""
    connection = apsw.Connection(str(path))
    try:
        # Each page of a table knows its own rows: dump their keys by parsing the page.
        raw = path.read_bytes()[(page - 1) * PAGE : page * PAGE]
        owners = dict(connection.execute("SELECT b.branch, id FROM branches b JOIN sessions ON sid = owner"))
    finally:
        connection.close()
    count = int.from_bytes(raw[3:5], "big")
    found: dict[str, list[int]] = {}
    for n in range(count):
        start = int.from_bytes(raw[8 + 2 * n : 10 + 2 * n], "big")
        _, after_size = _varint(raw, start)
        key, _ = _varint(raw, after_size)
        found.setdefault(owners[key >> 32], []).append(key & 0xFFFFFFFF)
    return found


class Reading(NamedTuple):
    """What reading everything of a damaged store gave."""

    errors: dict[str, clew.ClewError]
    """By what was read; errors of ours."""
    leaks: list[str]
    """Errors that are not ours: a traceback from deep inside."""
    altered: list[str]
    """Reads that returned something else than was written."""
    kept: dict[str, list[Any]]
    """By session: the entries that can be read when the damaged ones are skipped."""


def read_everything(path: Path, written: dict[str, list[Any]]) -> Reading:
    """Read everything in every way."""
    reading = Reading({}, [], [], {})
    store = _guarded(reading, "open", lambda: clew.open(path))
    if store is None:
        return reading
    with store:
        _guarded(reading, "list", lambda: store.list())
        _guarded(reading, "stats", lambda: store.stats())
        for name, expected in written.items():
            _read_session(reading, store, name, expected)
    return reading


def _read_session(reading: Reading, store: clew.Store, name: str, expected: list[Any]) -> None:
    session = _guarded(reading, f"{name} get", lambda: store.find(name))
    if session is None:
        return
    bodies = [entry[3] for entry in expected]
    for what, call, right in (
        ("entries", lambda: contents(session), expected),
        ("newest first", lambda: contents(session, newest_first=True), expected[::-1]),
        ("messages", lambda: [_raw(found) for found in session.messages()], bodies),
        ("last", lambda: [_raw(found) for found in session.messages(last=5)], bodies[-5:]),
        ("info", lambda: session.info.messages, len(expected)),
        ("checkpoints", lambda: [each.name for each in session.checkpoints()], ["here"]),
        ("label", lambda: contents(session, label="gold"), expected[3:4]),
    ):
        found = _guarded(reading, f"{name} {what}", call)
        if found is not None and found != right:
            reading.altered.append(f"{name} {what}")
    context = _guarded(reading, f"{name} context", lambda: session.context())
    if context is not None:
        found = [_raw(each) for each in context]
        told = any("left out" in line for line in context.report.repairs)
        if found != [body for body in bodies if body in found] or (found != bodies and not told):
            reading.altered.append(f"{name} context")
    kept = _guarded(reading, f"{name} skip", lambda: contents(session, damaged="skip"))
    if kept is not None:
        reading.kept[name] = kept
        if not all(entry in expected for entry in kept):
            reading.altered.append(f"{name} skip")


def _raw(found: dict[str, Any]) -> bytes:
    return b'{"role":"user","content":"%s"}' % found["content"].encode()


def _guarded(reading: Reading, what: str, call: Any) -> Any:
    try:
        return call()
    except clew.ClewError as error:
        reading.errors[what] = error
    except Exception as error:  # noqa: BLE001 (collected for the test)
        reading.leaks.append(f"{what}: {error!r}")
    return None
