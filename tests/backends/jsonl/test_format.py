"""docs/reference/format.md is the specification, and says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xxhash import xxh3_64_hexdigest

import clew
from clew.core.log import jsonl

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "format.md"


def example() -> str:
    found: list[str] = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return found[-1]


def test_the_example_opens_as_a_store(fast_path: Path) -> None:
    place = fast_path / "store"
    (place / "sessions").mkdir(parents=True)
    (place / "sessions" / "hello.jsonl").write_text(example())
    with clew.open(f"jsonl:///{place}") as store:
        session = store.get("hello")
        assert session.messages() == [
            {"role": "user", "content": "What is 2+2?"},
            {"role": "assistant", "content": "4"},
        ]
        assert session.get_var("mood") == "good"
        assert [event.type for event in session.events()] == ["answered"]
        session.append({"role": "user", "content": "Sure?"})

    assert (place / "sessions" / "hello.jsonl").read_text().startswith(example())
    assert not list((place / "quarantine").iterdir())


def test_the_example_has_ten_lines_with_right_checksums() -> None:
    """Computed here as the page says, without the code under test."""
    found = example().splitlines()

    assert len(found) == 10
    for line in found:
        assert re.match(r'\{"x":"[0-9a-f]{16}","end":[01],"kind":"', line)
        assert line[6:22] == xxh3_64_hexdigest(line[24:].encode())


def test_every_kind_of_line_is_documented() -> None:
    table = PAGE.read_text()

    assert {kind for kind in jsonl.KINDS if f"`{kind}`" not in table} == set()


@pytest.mark.parametrize(
    "value",
    [b"{}", b"1", b'"a\\n"', b' {"a":1}', b'{"a":\n1}', b"", b"\0\xff", b"nul", b'{"a":1}x', b'"\xff"'],
)
def test_a_value_comes_out_of_a_line_as_it_went_in(value: bytes) -> None:
    line = jsonl.record_line(1, "var", "n", value)
    whole = jsonl.finish(jsonl.encode(line), is_last=True)

    assert whole.count(b"\n") == 1
    is_last, text = jsonl.open_line(whole[:-1])
    found = jsonl.decode(text)
    assert is_last
    assert isinstance(found, jsonl.RecordLine)
    assert jsonl.extract(found.base64, found.value) == value


def test_any_changed_byte_of_a_line_is_found() -> None:
    """P7."""
    whole = jsonl.finish(jsonl.encode(jsonl.record_line(1, "var", "n", b"[1]")), is_last=True)[:-1]
    for at in range(len(whole)):
        for bit in (1, 16, 128):
            changed = whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
            with pytest.raises(jsonl.BadLineError):
                jsonl.open_line(changed)
