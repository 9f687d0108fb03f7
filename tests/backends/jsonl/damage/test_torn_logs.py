"""What crashes and editors leave in a log costs what was never acknowledged, or one entry, and no more."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import clew
from clew.backends.jsonl import JsonlBackend
from clew.errors import CorruptEntryError
from clew.testing.backend.base import user
from tests.backends.jsonl.stores import drop_variable, log, quarantined, said, without_index
from tests.support.effort import spread


@pytest.fixture
def place(fast_path: Path) -> Path:
    """A small store, closed, without an index: three appends to one session."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        session = store.session("s")
        for text in ("one", "two", "three"):
            session.append(user(text))
    return place


@pytest.mark.parametrize("keep_index", [True, False])
def test_a_log_torn_at_every_byte_of_its_last_append_opens_and_goes_on(
    place: Path, fast_path: Path, keep_index: bool
) -> None:
    """P5, F-11: what is torn is set aside, the rest is there, and the next append is readable."""
    whole = log(place).read_bytes()
    lines = whole.splitlines(keepends=True)
    last = len(whole) - sum(len(line) for line in lines[_start_of_last_batch(lines) :])
    for cut in spread(range(last, len(whole), 7 if keep_index else 1), 70, quick=25):
        copy = fast_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(place, copy)
        if not keep_index:
            without_index(copy)
        log(copy).write_bytes(whole[:cut])
        with clew.open(f"jsonl:///{copy}") as store:
            found = said(store)
            is_whole = cut == len(whole) - 1  # all but the line end
            assert found == ["one", "two", *(["three"] if is_whole else [])]
            assert quarantined(copy) == (b"" if is_whole else whole[last:cut])
            store.get("s").append(user("four"))
        if cut % 5 == 0:
            without_index(copy)
            with clew.open(f"jsonl:///{copy}") as store:
                assert said(store) == [*found, "four"]


def _start_of_last_batch(lines: list[bytes]) -> int:
    ends = [number for number, line in enumerate(lines) if b'"end":1' in line[:40]]
    return ends[-2] + 1


def test_f03_an_append_that_was_never_synced_may_be_gone_without_being_damage(place: Path) -> None:
    """`durability="process"` promises nothing when the power is cut; what is left is sound."""
    synced = log(place).read_bytes()
    with clew.open(f"jsonl:///{place}", durability="process") as store:
        store.get("s").append(user("four"))
    log(place).write_bytes(synced)

    with clew.open(f"jsonl:///{place}") as store:
        assert said(store) == ["one", "two", "three"]
        assert store.verify(full=True).problems == ()


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 4096, b"garbage", b"\n\n", b'{"x":"', b"\0\n\0\n"])
def test_what_lies_behind_the_last_batch_is_set_aside(place: Path, tail: bytes) -> None:
    """P5, F-11: NULs and garbage cost nothing that was acknowledged."""
    with log(place).open("ab") as file:
        file.write(tail)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store) == ["one", "two", "three"]
        store.get("s").append(user("four"))
        assert said(store) == ["one", "two", "three", "four"]

    assert quarantined(place) == tail


def test_a_tail_torn_under_a_live_store_is_set_aside_before_the_next_append(place: Path) -> None:
    """F-10: two lines are never glued together."""
    with clew.open(f"jsonl:///{place}") as store:
        with log(place).open("ab") as file:
            file.write(b'{"x":"0123')
        store.get("s").append(user("four"))
        assert said(store) == ["one", "two", "three", "four"]

    assert quarantined(place) == b'{"x":"0123'
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store) == ["one", "two", "three", "four"]


def test_reading_changes_no_byte(place: Path) -> None:
    """A store opened for reading leaves even a torn tail where it is."""
    with log(place).open("ab") as file:
        file.write(b"torn")
    without_index(place)
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    with clew.open(f"jsonl:///{place}", read_only=True) as store:
        assert said(store) == ["one", "two", "three"]

    assert {file: file.read_bytes() for file in place.rglob("*") if file.is_file()} == before


def _damage(place: Path, text: bytes) -> int:
    """Flip a bit in the line that holds a text; its number."""
    lines = log(place).read_bytes().splitlines(keepends=True)
    quoted = b'"%s"' % text
    (number,) = [number for number, line in enumerate(lines) if quoted in line and b'"kind":"entry"' in line]
    at = lines[number].index(quoted) + 1
    lines[number] = lines[number][:at] + bytes([text[0] ^ 1]) + lines[number][at + 1 :]
    log(place).write_bytes(b"".join(lines))
    return number + 1


@pytest.mark.parametrize("keep_index", [True, False])
def test_a_bad_line_costs_one_entry_named_by_file_and_line(place: Path, keep_index: bool) -> None:
    """P6, P7: the others are served, and not a byte of the log is changed."""
    number = _damage(place, b"two")
    before = log(place).read_bytes()
    if not keep_index:
        without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        session = store.get("s")
        with pytest.raises(CorruptEntryError) as caught:
            list(session.entries())
        assert str(log(place)) in str(caught.value)
        assert str(number) in str(caught.value)
        assert [entry.message["content"] for entry in session.entries(damaged="skip")] == ["one", "three"]
        assert log(place).read_bytes() == before
        session.append(user("four"))

    assert log(place).read_bytes().startswith(before)
    assert not quarantined(place)


def test_a_scrub_carries_over_what_it_can_not_read(place: Path) -> None:
    """P11: bytes that nobody understands are not thrown away, once it is known that nothing else has them."""
    _damage(place, b"two")
    without_index(place)
    bad = next(line for line in log(place).read_bytes().splitlines() if b'"uwo"' in line)
    backend = JsonlBackend(place)
    with clew.Store(backend) as store:
        store.get("s").set_var("n", 1)
        drop_variable(backend, "n")
        backend.scrub()

    assert bad in log(place).read_bytes()


@pytest.mark.parametrize("change", ["bom", "crlf", "no last line end"])
def test_what_editors_do_to_a_log_is_let_pass(place: Path, change: str) -> None:
    """A byte order mark, other line ends, none at the end."""
    content = log(place).read_bytes()
    if change == "bom":
        content = b"\xef\xbb\xbf" + content
    elif change == "crlf":
        content = content.replace(b"\n", b"\r\n")
    else:
        content = content.removesuffix(b"\n")
    log(place).write_bytes(content)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store) == ["one", "two", "three"]
        store.get("s").append(user("four"))
        assert said(store) == ["one", "two", "three", "four"]
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store) == ["one", "two", "three", "four"]
    assert not quarantined(place)


def test_lines_and_fields_of_a_newer_version_are_kept(place: Path) -> None:
    """Also when the log is written anew."""
    from clew.core.log import jsonl

    strange = jsonl.finish(b'"kind":"hologram","sid":1,"depth":3}', is_last=True)
    with log(place).open("ab") as file:
        file.write(strange)
    backend = JsonlBackend(place)
    with clew.Store(backend) as store:
        session = store.get("s")
        session.append(user("four"))
        session.set_var("v", 1)
        store.delete(store.session("other").id, purge=True)
        drop_variable(backend, "v")
        backend.scrub()
        assert said(store) == ["one", "two", "three", "four"]

    assert b'"kind":"hologram","sid":1,"depth":3}' in log(place).read_bytes()


def test_a_newer_format_is_refused_by_name(place: Path) -> None:
    """P21: without a write."""
    (place / "clew.json").write_text('{"clew":"jsonl","format":11}\n')
    with pytest.raises(clew.errors.SchemaTooNewError, match="11"):
        clew.open(f"jsonl:///{place}")


def test_a_file_of_another_program_is_let_alone(place: Path) -> None:
    """Not read, not cut, not moved."""
    stranger = place / "sessions" / "stranger.jsonl"
    stranger.write_text('{"role":"user"}\n{"role"')
    with clew.open(f"jsonl:///{place}") as store:
        assert [info.id for info in store.list()] == ["s"]
        store.session("stranger").append(user("mine"))
        assert said(store, "stranger") == ["mine"]

    assert stranger.read_text() == '{"role":"user"}\n{"role"'


def test_a_copied_log_does_not_hide_the_session_that_it_copies(place: Path) -> None:
    """P6, F-13: one of the two is used, and nothing is lost."""
    copied = log(place).read_bytes()
    (place / "sessions" / "a.jsonl").write_bytes(copied)
    with clew.open(f"jsonl:///{place}") as store:
        assert [info.id for info in store.list()] == ["s"]
        store.get("s").append(user("four"))
        assert said(store) == ["one", "two", "three", "four"]
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert [info.id for info in store.list()] == ["s"]
        assert said(store) == ["one", "two", "three", "four"]
        store.get("s").append(user("five"))

    assert (place / "sessions" / "a.jsonl").read_bytes() == copied
    assert said_after_reopening(place) == ["one", "two", "three", "four", "five"]


def said_after_reopening(place: Path) -> list[str]:
    with clew.open(f"jsonl:///{place}") as store:
        return said(store)


def test_logs_that_changed_places_are_read_as_what_they_are(place: Path) -> None:
    """F-13: the name of a file is a help for people; what it holds says whose it is."""
    with clew.open(f"jsonl:///{place}") as store:
        store.session("t").append(user("other"))
    aside = place / "sessions" / "aside"
    log(place).rename(aside)
    log(place, "t").rename(log(place))
    aside.rename(log(place, "t"))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store) == ["one", "two", "three"]
        assert said(store, "t") == ["other"]


def _damage_line(place: Path, number: int) -> None:
    lines = log(place).read_bytes().splitlines(keepends=True)
    lines[number] = lines[number][:40] + bytes([lines[number][40] ^ 1]) + lines[number][41:]
    log(place).write_bytes(b"".join(lines))


def test_whatever_line_is_bad_the_entries_are_served_and_the_session_goes_on(
    place: Path, fast_path: Path
) -> None:
    """P6: one bad line costs what it said, no more; also the last one."""
    with clew.open(f"jsonl:///{place}") as store:
        store.get("s").set_var("v", 1)
    count = len(log(place).read_bytes().splitlines())
    assert count > 10
    for number in range(count):
        copy = fast_path / f"copy-{number}"
        shutil.copytree(place, copy)
        without_index(copy)
        kind = log(copy).read_bytes().splitlines()[number].split(b'"kind":"')[1].split(b'"')[0]
        _damage_line(copy, number)
        with clew.open(f"jsonl:///{copy}") as store:
            session = store.get("s")
            found = [entry.message["content"] for entry in session.entries(damaged="skip")]
            lost = 3 - len(found)
            assert lost == (kind == b"entry"), (number, kind)
            session.append(user("next"))
            texts = [entry.message["content"] for entry in session.entries(damaged="skip")]
            assert texts == [*found, "next"]
