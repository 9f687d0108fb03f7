"""The end of a log: what a crash tore is set aside, what was damaged after it was written is told."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

import clew
from clew.backends.jsonl import JsonlBackend
from clew.core.log import jsonl
from clew.errors import CorruptEntryError
from clew.testing.backend.base import user
from tests.backends.jsonl.stores import log, quarantined, said, without_index
from tests.support.effort import spread


def problems(place: Path) -> list[str]:
    backend = JsonlBackend(place)
    try:
        with backend.read() as reader:
            return reader.damage(full=False, go_on=lambda: None)
    finally:
        backend.close()


@pytest.fixture
def place(fast_path: Path) -> Path:
    """A store with one session: two appends, the second one longer than a few sectors."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        session = store.session("s")
        session.append(user("one"))
        session.append(user("two"), user("three" * 400), user("four"))
    without_index(place)
    return place


def last_batch(content: bytes) -> int:
    """Where the last batch of a log begins."""
    whole = content.splitlines(keepends=True)
    ends = [number for number, line in enumerate(whole) if b'"end":1' in line[:40]]
    return sum(map(len, whole[: ends[-2] + 1]))


def test_a_last_batch_of_which_a_sector_did_not_arrive_is_torn_whatever_else_did(
    place: Path, fast_path: Path
) -> None:
    """P2, P5, F-04: also when its last line is whole, and says that the batch ends there."""
    content = log(place).read_bytes()
    begin = last_batch(content)
    holes = [(begin, begin + 1), (begin, begin + 512)]
    holes += [(at, min(at + 512, len(content))) for at in range(-(-begin // 512) * 512, len(content), 512)]
    assert len(holes) > 5
    for number, (first, last) in enumerate(holes):
        copy = fast_path / f"copy-{number}"
        shutil.copytree(place, copy)
        torn = content[:first] + bytes(last - first) + content[last:]
        log(copy).write_bytes(torn)
        with clew.open(f"jsonl:///{copy}") as store:
            assert said(store) == ["one"], (first, last)
            assert store.verify(full=True).ok
            store.get("s").append(user("next"))
            assert said(store) == ["one", "next"]
        assert quarantined(copy) == torn[begin:]
        assert problems(copy) == []


def test_a_batch_with_a_hole_is_damaged_and_not_torn_if_another_follows(place: Path) -> None:
    """P6: it was durable before the next one was written."""
    content = log(place).read_bytes()
    begin = last_batch(content)
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").append(user("five"))
    without_index(place)
    grown = log(place).read_bytes()
    log(place).write_bytes(grown[:begin] + bytes(600) + grown[begin + 600 :])
    with clew.open(f"jsonl:///{place}") as store:
        session = store.get("s")
        with pytest.raises(CorruptEntryError):
            list(session.entries())
        texts = [entry.message["content"] for entry in session.entries(damaged="skip")]
        assert texts == ["one", "four", "five"]
    assert quarantined(place) == b""
    assert len(problems(place)) == 1


def test_a_damaged_line_at_the_end_of_a_log_is_told_and_not_dropped(place: Path, fast_path: Path) -> None:
    """P6, P7, F-12: every bit of the last line; only its line end can be restored."""
    content = log(place).read_bytes()
    begin = content[:-1].rindex(b"\n") + 1
    for at in spread(range(begin, len(content)), 60, quick=20):
        copy = fast_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(place, copy)
        changed = content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :]
        log(copy).write_bytes(changed)
        with clew.open(f"jsonl:///{copy}") as store:
            assert said(store) == ["one", "two", "three" * 400, "four"], at
            store.get("s").append(user("five"))
            assert said(store)[-1] == "five"
        assert quarantined(copy) == b""
        is_line_end = at == len(content) - 1
        lines = changed[begin:-1].count(b"\n") + 1  # a bit may make two lines of the one
        assert len(problems(copy)) == (0 if is_line_end else lines)
        expected = content if is_line_end else changed
        assert log(copy).read_bytes().startswith(expected)


def test_of_a_log_cut_in_its_place_the_index_knows_how_long_it_was(place: Path) -> None:
    """P1, P6: what was acknowledged does not vanish silently; a log that was put there owes nothing."""
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").append(user("five"))
    content = log(place).read_bytes()
    with log(place).open("r+b") as file:
        file.truncate(last_batch(content))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store)[-1] == "four"
    (problem,) = problems(place)
    assert f"of {len(content)} bytes that were durable {last_batch(content)} are left" in problem

    older = log(place).with_name("older")
    older.write_bytes(content[: last_batch(content[: last_batch(content)])])
    older.replace(log(place))
    assert problems(place) == []


def test_what_was_set_aside_is_told(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    """P5: with the log and the file where it is now."""
    with log(place).open("ab") as file:
        file.write(b'{"x":"0123')
    with caplog.at_level(logging.WARNING, "clew.jsonl"), clew.open(f"jsonl:///{place}"):
        pass

    (aside,) = (place / "quarantine").iterdir()
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("10 bytes")
    assert str(log(place)) in told
    assert str(aside) in told


def test_a_fork_whose_head_line_is_damaged_stands_at_its_last_entry(place: Path) -> None:
    """P6, P12: its branch begins where the row of the session says that it stands."""
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").fork("f", at=0).append(user("aside"))
        before = store.get("f").info
    without_index(place)
    content = log(place, "f").read_bytes()
    log(place, "f").write_bytes(content[:-30] + bytes([content[-30] ^ 1]) + content[-29:])
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "f") == ["one", "aside"]
        assert store.get("f").info.updated_at == before.updated_at
        assert store.verify(full=True).entries > 0


def test_a_session_whose_branch_is_lost_with_its_entries_is_damaged_and_listed(place: Path) -> None:
    """P6: several lines of it did not survive; what stands on them says so, by an error of ours."""
    with clew.open(f"jsonl:///{place}") as store:
        store.session("lost").append(user("gone"))
        store.get("lost").set_var("v", 1)
    without_index(place)
    kept = [
        line for line in log(place, "lost").read_bytes().splitlines(keepends=True)
        if jsonl.fields_of(jsonl.open_line(line[:-1])[1])["kind"] not in ("branch", "entry")
    ]  # fmt: skip
    kept.insert(2, b"\0" * 40 + b"\n")
    log(place, "lost").write_bytes(b"".join(kept))
    with clew.open(f"jsonl:///{place}") as store:
        assert {info.id for info in store.list()} == {"s", "lost"}
        with pytest.raises(CorruptEntryError):
            store.get("lost").messages()
        assert not store.verify().ok
        store.get("lost").append(user("next"))


def test_the_sessions_of_a_store_are_listed_when_a_log_that_forks_need_was_taken_away(place: Path) -> None:
    """P6, F-13: and all is well again when it is put back."""
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").fork("f")
    without_index(place)
    aside = place / "sessions" / "aside"
    log(place).rename(aside)
    with clew.open(f"jsonl:///{place}") as store:
        assert [info.id for info in store.list()] == ["f"]
        with pytest.raises(CorruptEntryError):
            store.get("f").messages()
    aside.rename(log(place))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "f") == ["one", "two", "three" * 400, "four"]
        assert store.verify(full=True).ok


def test_a_line_with_a_number_that_nobody_can_store_costs_itself(place: Path) -> None:
    """P6: its checksum is right, so it was made elsewhere."""
    text = b'"kind":"usage","sid":1,"row":{"number":%d}}' % (1 << 70)
    strange = b'"kind":"branch-disowned","branch":%d}' % ((1 << 64) - 1)
    with log(place).open("ab") as file:
        file.write(jsonl.finish(text, is_last=True) + jsonl.finish(strange, is_last=True))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store)[-1] == "four"
        store.get("s").append(user("five"))
    assert len(problems(place)) == 2
