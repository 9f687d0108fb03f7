"""Small changes to files that were whole: of their values, their lines, their rows and their bytes.

What is drawn are few numbers, so that Hypothesis makes a failure small.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

NASTY: Final[list[Any]] = [
    None, True, False, 0, -1, 1, 99, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**70, -0.0, 0.5,
    1e15, 1e18, 1e308, -1e308, "", " ", "0", "-1", "x", "\0", "a\0b", "\x1b[2J", "\n", "\r\n", "\u2028",
    "\u202e", "\ufeff", "\ud800", "\udfff\ud800", "a" * 513, "ä" * 300, "x" * 70_000, "../../etc/passwd",
    "/dev/null", "C:\\NUL", "`touch pwned`", "$(id)", "{}", "[]", "null", "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999-23:59", "1969-12-31T23:59:59Z", "NaN", "1e999",
    [], {}, [[]], [{}], [None], {"": ""}, {"a": None}, {"\0": 1}, {"role": "system"}, [1, "a", None],
    "system", "assistant", "tool", {"type": "text", "text": None}, {"$ref": "#"}, ["x"] * 300,
    {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}},
]  # fmt: skip
"""Values that nobody writes on purpose."""


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@contextmanager
def place() -> Iterator[Path]:
    """Make a directory for one example."""
    made = Path(tempfile.mkdtemp(prefix="clew-fuzz-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


BYTES: Final = [b"\0", b"\xff", b"\n", b'"', b"{", b"\r", b"\xed\xa0\x80"]
VALUES: Final = [*NASTY, deep(150), deep(250)]

Number = Callable[[int], int]
"""Gives one of so many."""


@st.composite
def numbers(draw: st.DrawFn) -> Number:
    """A source of choices, drawn one after the other."""

    def choose(count: int) -> int:
        return draw(st.integers(0, count - 1)) if count > 1 else 0

    return choose


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place inside of a value: what holds it, and under which key or index."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        inside = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, item in list(inside):
            yield holder, key
            if isinstance(item, dict | list) and item:
                waiting.append(item)


def change_value(value: Any, choose: Number) -> None:
    """Change one thing inside of a value: replace, remove, double, swap, rename."""
    found = list(places(value))
    if not found:
        return
    holder, key = found[choose(len(found))]
    match choose(6):
        case 0 | 1:
            holder[key] = VALUES[choose(len(VALUES))]
        case 2:
            del holder[key]
        case 3:
            other, its = found[choose(len(found))]
            holder[key] = deepcopy(other[its])
        case 4:
            if isinstance(holder, list):
                holder.insert(choose(len(holder)), deepcopy(holder[key]))
            else:
                holder[str(VALUES[choose(len(VALUES))])[:600]] = holder[key]
        case _:
            holder[key] = [holder[key]] if choose(2) else {"a": holder[key]}


def change_lines(lines: list[Any], choose: Number) -> None:
    """Drop, double or move a line."""
    if not lines:
        return
    index = choose(len(lines))
    match choose(3):
        case 0:
            del lines[index]
        case 1:
            lines.insert(choose(len(lines)), lines[index])
        case _:
            lines.insert(choose(len(lines)), lines.pop(index))


def change_bytes(raw: bytes, choose: Number) -> bytes:
    """Cut off, flip, put in, double."""
    if not raw:
        return b"{"
    at = choose(len(raw))
    match choose(5):
        case 0:
            return raw[:at]
        case 1:
            return raw[:at] + bytes([raw[at] ^ (1 << choose(8))]) + raw[at + 1 :]
        case 2:
            return raw[:at] + BYTES[choose(len(BYTES))] + raw[at:]
        case 3:
            return raw[:at] + raw[choose(len(raw)) :]
        case _:
            return raw + raw[at:]


def dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def change_file(path: Path, choose: Number) -> None:
    """Change a file by what it is."""
    raw = path.read_bytes()
    if raw.startswith(b"SQLite format 3\0"):
        if choose(3):
            change_database(path, choose)
        else:
            path.write_bytes(change_bytes(raw, choose))
        return
    if choose(4) == 0:
        path.write_bytes(change_bytes(raw, choose))
        return
    try:
        document = json.loads(raw)
    except ValueError:
        document = None
    if isinstance(document, dict | list):
        change_value(document, choose)
        path.write_bytes(dumped(document))
        return
    lines: list[Any] = []
    for line in raw.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            lines.append(line)
    if choose(3) == 0 or not any(isinstance(line, dict) for line in lines):
        change_lines(lines, choose)
    else:
        change_value(lines, choose)
    path.write_bytes(b"".join(_line(line) + b"\n" for line in lines))


def _line(line: Any) -> bytes:
    if isinstance(line, bytes):
        return line
    try:
        return dumped(line)
    except TypeError:  # a line that is no JSON came into one that is
        return repr(line).encode(errors="replace")


def change_database(path: Path, choose: Number) -> None:
    """Another value in one cell of a table, or a row less, or one twice."""
    with closing(sqlite3.connect(path)) as db, db, suppress(sqlite3.Error):
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        if not tables:
            return
        table = tables[choose(len(tables))]
        columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
        rows = [number for (number,) in db.execute(f'SELECT rowid FROM "{table}"')]
        if not rows:
            return
        row, column = rows[choose(len(rows))], columns[choose(len(columns))]
        match choose(5):
            case 0:
                db.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))
            case 1:
                db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE rowid = ?', (row,))
            case 2:
                _change_cell(db, table, column, row, choose)
            case _:
                value = VALUES[choose(len(VALUES))]
                if isinstance(value, dict | list):
                    value = dumped(value).decode()
                with suppress(OverflowError, UnicodeEncodeError):
                    db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (value, row))


def _change_cell(db: sqlite3.Connection, table: str, column: str, row: int, choose: Number) -> None:
    """A change inside of the JSON that a cell holds."""
    ((cell,),) = db.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (row,))
    try:
        value = json.loads(cell)
    except (TypeError, ValueError):
        value = [cell]
    if isinstance(value, dict | list):
        change_value(value, choose)
        with suppress(TypeError):  # there were bytes in it
            text = dumped(value).decode()
            db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (text, row))
