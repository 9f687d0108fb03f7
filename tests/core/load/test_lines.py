"""Lines of files, cut and put together again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.core.load.lines import EXTENDED, _joined, cut, stored_lines
from clew.core.log.lines import LineRecord, decode_lines, encode_lines
from clew.errors import CorruptError
from clew.model.source import SourceEntry, SourceEvent, SourceLine, SourceSession
from tests.support.rows import each_row

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=600), st.lists(st.none() | st.binary(max_size=900), max_size=3), st.data())
def test_what_was_cut_out_of_a_line_comes_back(
    raw: bytes, sources: list[bytes | None], data: st.DataObject
) -> None:
    """Whatever the sources are: parts of the line, or nothing of it."""
    for _ in range(data.draw(st.integers(0, 3))):
        source = data.draw(st.sampled_from([s for s in sources if s] or [b""]))
        at = data.draw(st.integers(0, len(raw)))
        raw = raw[:at] + source * data.draw(st.integers(1, 3)) + raw[at:]
    text, cuts = cut(raw, sources)
    assert _joined(text, cuts, lambda number: sources[number]) == raw
    assert len(text) + sum(cuts[3::4]) == len(raw)


@given(values, st.dictionaries(st.text(max_size=8), values, max_size=3), st.booleans())
def test_a_message_in_a_record_is_cut_out_whole(message: Any, around: dict[str, Any], is_first: bool) -> None:
    told = {"role": "user", "content": ["a text that is long enough to be cut out of its line", message]}
    record = {"message": told, **around} if is_first else {**around, "message": told}
    record["message"] = told
    body = msgspec.json.encode(told)
    raw = msgspec.json.encode(record)
    text, cuts = cut(raw, (body, None))
    assert _joined(text, cuts, lambda number: body) == raw
    assert len(text) <= len(raw) - len(body)


def test_of_another_shape_the_long_text_is_cut_out() -> None:
    words = " ".join(f'line {number} \\n of "text"' for number in range(100))
    content = [{"type": "text", "text": words}]
    raw = json.dumps({"message": {"role": "toolResult", "content": content}}).encode()
    block = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": words}]}
    body = msgspec.json.encode({"role": "user", "content": [block]})
    text, cuts = cut(raw, (body, None))
    assert len(text) < 150
    assert _joined(text, cuts, lambda number: body) == raw


@each_row(
    "record",
    [
        LineRecord(),
        LineRecord([1], ["a"], [1], [0], [[]], [3], b"ab"),
        LineRecord([1], ["a"], [1], [0], [[1, 2]], [2], b"ab"),
        LineRecord([0], ["a"], [1], [0], [[]], [2], b"ab"),
        LineRecord([1, 1], ["a"], [1], [0], [[]], [2], b"ab"),
        LineRecord([1, 1], ["a", "b"], [1, 1], [0, 0], [[], []], [3, -1], b"ab"),
    ],
)
def test_a_record_that_no_load_wrote_is_damage(record: LineRecord) -> None:
    with pytest.raises(CorruptError):
        decode_lines(encode_lines(record))
    with pytest.raises(CorruptError):
        decode_lines(b"x")


# -- in a store


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as store:
        yield store


def line(number: int, text: str) -> SourceLine:
    record = {"n": number, "message": {"role": "user", "content": text}, "uuid": f"u{number}"}
    return SourceLine(number, 0, record, json.dumps(record).encode())


def source(lines: list[SourceLine]) -> SourceSession:
    def entries() -> Iterator[SourceEntry]:
        before = None
        for one in lines:
            beside = SourceEvent(id=f"e{one.number}", type="", line=line(one.number * 2 - 1, "beside"))
            said = SourceLine(one.number * 2, 0, one.record, one.raw)
            yield SourceEntry(
                uid=f"u{one.number}",
                parent=before,
                message=one.record["message"],
                at=datetime(2026, 11, 1, tzinfo=UTC),
                decoded=True,
                events=(beside,),
                line=said,
            )
            before = f"u{one.number}"

    return SourceSession(id="x:1", entries=entries())


def kept(store: clew.Store) -> list[tuple[int, bytes | None]]:
    with store._engine.read() as reader:
        row = reader.find_session("x:1")
        assert row is not None
        return [(one.number, one.raw) for one in stored_lines(reader, row.sid)]


def expected(lines: list[SourceLine]) -> list[tuple[int, bytes | None]]:
    pairs = [
        ((one.number * 2 - 1, line(one.number * 2 - 1, "beside").raw), (one.number * 2, one.raw))
        for one in lines
    ]
    return [item for pair in pairs for item in pair]


def test_lines_of_entries_and_of_nothing_else_come_back_in_order(store: clew.Store) -> None:
    lines = [line(number, f"{number} " + "words " * 40) for number in range(1, 2500)]
    store.load(source(lines))
    assert kept(store) == expected(lines)
    assert store.verify().ok


def test_a_load_that_is_repeated_adds_nothing(store: clew.Store) -> None:
    lines = [line(number, "words " * 40) for number in range(1, 30)]
    store.load(source(lines))
    assert store.load(source(lines)).state == "unchanged"
    assert kept(store) == expected(lines)


def test_what_is_new_goes_behind_what_was_there_and_small_records_are_filled(store: clew.Store) -> None:
    lines = [line(number, f"{number} " + "words " * 40) for number in range(1, 200)]
    for count in range(1, len(lines) + 1, 7):
        store.load(source(lines[:count]))
    store.load(source(lines))
    assert kept(store) == expected(lines)
    with store._engine.read() as reader:
        row = reader.find_session("x:1")
        assert row is not None
        found = reader.scan_records(row.sid, "line")
    assert len(found) <= 2
    assert all(len(value) < 2 * EXTENDED for _, value in found)


def test_lines_that_an_older_version_did_not_keep_come_with_the_next_load(store: clew.Store) -> None:
    lines = [line(number, "words " * 40) for number in range(1, 30)]
    store.load(source(lines))
    with store._engine.read() as reader:
        row = reader.find_session("x:1")
        assert row is not None
        names = [name for name, _ in reader.scan_records(row.sid, "line")]
    sid = row.sid
    store._engine.run(lambda tx: [tx.drop_record(sid, "line", name) for name in names])
    assert kept(store) == []
    store.load(source(lines))
    assert kept(store) == expected(lines)


def test_from_the_first_line_that_differs_on_the_new_ones_count(store: clew.Store) -> None:
    lines = [line(number, "words " * 40) for number in range(1, 30)]
    store.load(source(lines))
    others = [one if one.number < 11 else msgspec.structs.replace(one, raw=one.raw + b" ") for one in lines]
    store.load(source(others[:20]))
    assert kept(store) == expected(others[:20])


def test_a_dry_run_keeps_no_line(store: clew.Store) -> None:
    store.load(source([line(1, "words")]), dry_run=True)
    assert store.find("x:1") is None


def test_a_purge_leaves_no_line(store: clew.Store) -> None:
    store.load(source([line(1, "words")]))
    with store._engine.read() as reader:
        row = reader.find_session("x:1")
        assert row is not None
    store.delete("x:1", purge=True)
    with store._engine.read() as reader:
        assert not reader.scan_records(row.sid, "line")


def test_a_damaged_record_is_found_by_verify(store: clew.Store) -> None:
    store.load(source([line(1, "words")]))
    with store._engine.read() as reader:
        row = reader.find_session("x:1")
        assert row is not None
    sid = row.sid
    store._engine.run(lambda tx: tx.put_record(sid, "line", "000000000001", b"damaged"))
    report = store.verify()
    assert not report.ok
    assert "lines" in str(report.problems[0])
