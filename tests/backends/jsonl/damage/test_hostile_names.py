"""S-01, S-49: a name that a store holds never becomes a path outside of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from xxhash import xxh3_64_hexdigest

import clew
from clew.backends.jsonl import JsonlBackend
from clew.backends.jsonl.journal import Intent
from clew.backends.jsonl.layout import encoded, is_log, is_ours, pack_file
from clew.core.log import jsonl
from clew.errors import CorruptError
from clew.testing.backend.base import user
from tests.backends.jsonl.damage.planted import (
    SECRET,
    forget_index,
    make_outside,
    make_store,
    rewritten,
    state,
    use,
)
from tests.backends.jsonl.stores import said

Part = tuple[str, int, bytes]

NO_LOGS = (
    "../outside/bashrc", "../outside/new", "sessions/../../outside/bashrc", "sessions/../../new.jsonl",
    "sessions/../store.jsonl", "sessions/./a.jsonl", "sessions/sub/a.jsonl", "sessions//a.jsonl", "sessions",
    "sessions/", "sessions/.jsonl", "sessions/..", "a.jsonl", "", "clew.json", "journal.jsonl", "index.db",
    "locks/store.lock", "packs/1-0123456789abcdef.pack", "quarantine/x", "Sessions/a.jsonl",
    "sessions/a.jsonl.new", "sessions/new\n.jsonl", "sessions/new\0.jsonl", "sessions/a\\b.jsonl",
    "sessions/Not Ours.jsonl", "sessions/" + "x" * 300 + ".jsonl", "store.jsonl/", "/store.jsonl",
)  # fmt: skip


@pytest.fixture
def place(fast_path: Path) -> Path:
    make_store(fast_path / "store")
    make_outside(fast_path)
    return fast_path / "store"


@pytest.fixture
def outside(place: Path) -> Path:
    return place.parent / "outside"


def intent(*parts: Part, lengths: tuple[int, ...] = ()) -> bytes:
    """As the journal holds it; `lengths` are claimed instead of the true ones."""
    claimed = lengths or tuple(len(data) for _, _, data in parts)
    named = tuple(
        (name, at, length, xxh3_64_hexdigest(data))
        for (name, at, data), length in zip(parts, claimed, strict=True)
    )
    head = jsonl.finish(msgspec.json.encode(Intent(named, True))[1:], is_last=True)
    return head + b"".join(data for _, _, data in parts)


def state_without_index(place: Path) -> dict[str, Any]:
    return {name: found for name, found in state(place).items() if "/index.db" not in name}


def refuse_to_open(place: Path) -> CorruptError:
    """Neither opening nor anything else writes; and what is there can be read."""
    before = state_without_index(place.parent)
    with pytest.raises(CorruptError) as caught:
        clew.open(f"jsonl:///{place}")
    with clew.open(f"jsonl:///{place}", read_only=True) as store:
        assert said(store, "a") == ["word a"]
    assert state_without_index(place.parent) == before
    return caught.value


@pytest.mark.parametrize("name", NO_LOGS)
def test_s49_a_journal_that_names_what_is_no_log_is_refused_before_a_byte_is_written(
    place: Path, name: str
) -> None:
    (place / "journal.jsonl").write_bytes(intent((name, 0, b"evil")))
    error = refuse_to_open(place)
    assert "journal.jsonl" in str(error)
    assert repr(name) in str(error)


def test_s49_an_absolute_name_in_a_journal_is_refused(place: Path, outside: Path) -> None:
    name = str(outside / "bashrc")
    (place / "journal.jsonl").write_bytes(intent((name, 0, b"evil")))
    assert repr(name) in str(refuse_to_open(place))


def test_s49_of_a_journal_with_one_bad_name_nothing_is_done(place: Path) -> None:
    good: Part = ("sessions/a.jsonl", (place / "sessions" / "a.jsonl").stat().st_size, b"junk\n")
    for journal in (
        intent(good) + intent(("../outside/new", 0, b"evil")),
        intent(good, ("../outside/new", 0, b"evil")),
    ):
        (place / "journal.jsonl").write_bytes(journal)
        refuse_to_open(place)


@pytest.mark.parametrize("at", [-1, -(2**40), 2**42, 2**62])
def test_s49_a_journal_that_writes_far_from_the_end_of_a_log_is_refused(place: Path, at: int) -> None:
    (place / "journal.jsonl").write_bytes(intent(("sessions/a.jsonl", at, b"evil")))
    assert "sessions/a.jsonl" in str(refuse_to_open(place))


@pytest.mark.parametrize("length", [-1, -(2**62), 2**40, 2**62])
def test_s49_an_intent_that_claims_more_than_the_journal_has_is_its_end(place: Path, length: int) -> None:
    (place / "journal.jsonl").write_bytes(intent(("sessions/a.jsonl", 0, b"evil"), lengths=(length,)))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]


def test_s49_a_journal_without_a_line_end_is_not_read_into_memory(place: Path) -> None:
    with (place / "journal.jsonl").open("wb") as journal:
        journal.truncate(1 << 42)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]


def test_a_journal_still_does_what_it_is_for(place: Path) -> None:
    """P2: names as we make them, and those of logs that somebody put there, are done again."""
    log = place / "sessions" / "a.jsonl"
    content = log.read_bytes()
    cut = content[: content[:-1].rindex(b"\n") + 1]
    log.unlink()
    (place / "sessions" / "My Session (1).jsonl").write_bytes(cut)
    journal = intent(
        ("sessions/My Session (1).jsonl", len(cut), content[len(cut) :]), ("sessions/x%2f~7.jsonl", 0, b"")
    )
    (place / "journal.jsonl").write_bytes(journal)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]
    assert (place / "sessions" / "My Session (1).jsonl").read_bytes() == content


@pytest.mark.parametrize("id", ["a", "A b", "../../x", "con", "x" * 500, "é" * 60, "%", "~", "\N{SNOWMAN}"])
def test_s01_every_id_has_a_file_whose_name_is_taken_for_ours(id: str) -> None:
    for name in (f"{encoded(id)}.jsonl", f"{encoded(id)}~12.jsonl", f"{encoded(id)}~12~2.jsonl"):
        assert is_ours(name)
        assert is_log(name)


def test_s49_a_new_session_takes_no_file_that_is_there(place: Path) -> None:
    for name in ("new", *(f"new~{number}" for number in range(1, 9))):
        (place / "sessions" / f"{name}.jsonl").write_bytes(b"of somebody\n")
    with clew.open(f"jsonl:///{place}") as store:
        store.session("new").append(user("first"))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "new") == ["first"]
    assert (place / "sessions" / "new.jsonl").read_bytes() == b"of somebody\n"


# -- packs


def aim_pack(place: Path, file: str) -> None:
    """Let the line of a pack name another file."""

    def change(line: jsonl.AnyLine) -> jsonl.AnyLine:
        return msgspec.structs.replace(line, file=file) if isinstance(line, jsonl.PackLine) else line

    rewritten(place / "store.jsonl", change)
    forget_index(place)


@pytest.mark.parametrize(
    "file",
    [
        "../../outside/bashrc",
        "../clew.json",
        "../sessions/a.jsonl",
        "x",
        "",
        "..",
        "\0",
        "2-0.pack",
    ],
)
def test_s49_a_pack_is_read_and_removed_in_the_store_only(place: Path, outside: Path, file: str) -> None:
    before = state(outside)
    aim_pack(place, file)
    with closing(JsonlBackend(place)) as backend:
        with backend.read() as reader, pytest.raises((CorruptError, KeyError)):
            reader.get_pack(1)
        with clew.Store(backend) as store:
            assert any("pack" in problem for problem in store.verify().problems)
    use(place)
    assert state(outside) == before
    assert (place / "clew.json").exists()


def test_s49_an_absolute_name_of_a_pack_is_not_followed(place: Path, outside: Path) -> None:
    aim_pack(place, str(outside / "bashrc"))
    use(place)
    assert (outside / "bashrc").read_bytes() == SECRET


def test_s49_a_session_from_elsewhere_brings_no_packs(place: Path) -> None:
    """Only the store's own log says where packs are: another log must not take their places."""
    log = place / "sessions" / "b.jsonl"
    evil = jsonl.PackLine(1, pack_file(1, 7), 0, 2, 7, 2, ((b"n" * 32, 0, 1),))
    gone = jsonl.PackGoneLine(1)
    for line in (evil, gone, jsonl.ObjectsGoneLine((b"n" * 32,))):
        log.write_bytes(log.read_bytes() + jsonl.finish(jsonl.encode(line), is_last=True))
    forget_index(place)
    with closing(JsonlBackend(place)) as backend, backend.read() as reader:
        assert reader.get_pack(1) == b"xy"
        assert list(reader.find_objects([b"n" * 32])) == [b"n" * 32]


# -- the index


def forge(place: Path, sql: str, values: tuple[Any, ...] = ()) -> None:
    connection = apsw.Connection(str(place / "index.db"))
    try:
        connection.execute(sql, values)
    finally:
        connection.close()


@pytest.mark.parametrize("name", [*NO_LOGS, "sessions/é.jsonl"])
def test_s49_a_log_that_only_the_index_names_is_not_looked_for(place: Path, outside: Path, name: str) -> None:
    before = state(outside)
    forge(place, "UPDATE logs SET name = ? WHERE name = 'sessions/a.jsonl'", (name,))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]
        store.get("a").append(user("more"))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a", "more"]
    assert state(outside) == before


@pytest.mark.parametrize("read_only", [False, True])
def test_s49_an_index_that_changes_while_it_is_used_leads_nowhere(
    place: Path, outside: Path, read_only: bool
) -> None:
    with clew.open(f"jsonl:///{place}", read_only=read_only) as store:
        forge(place, "UPDATE logs SET name = '../outside/bashrc' WHERE name = 'sessions/a.jsonl'")
        with pytest.raises(CorruptError, match="outside/bashrc"):
            store.get("a").messages()
        if not read_only:
            with pytest.raises(CorruptError, match="outside/bashrc"):
                store.get("a").append(user("more"))
    assert (outside / "bashrc").read_bytes() == SECRET


def test_s49_the_file_of_a_pack_is_not_taken_from_the_index(place: Path, outside: Path) -> None:
    content = msgspec.json.encode(("../../outside/bashrc", 2))
    forge(place, "UPDATE packs SET content = ?", (content,))
    with closing(JsonlBackend(place)) as backend:
        with backend.read() as reader:
            assert reader.get_pack(1) == b"xy"
        with backend.write() as tx:
            tx.drop_pack(1)
    assert (outside / "bashrc").read_bytes() == SECRET


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**40, 2**63 - 1])
@pytest.mark.parametrize("length", [-1, 0, 10, 2**40, 2**63 - 1])
def test_s49_a_body_outside_of_its_log_is_not_there(place: Path, offset: int, length: int) -> None:
    reference = b"".join(number.to_bytes(8, "little", signed=True) for number in (2, offset, length))
    forge(place, "UPDATE entries SET body = ? WHERE codec = 64", (reference,))
    with clew.open(f"jsonl:///{place}", read_only=True) as store, pytest.raises(CorruptError):
        store.get("a").messages()


def test_s49_a_reference_that_is_none_is_damage(place: Path) -> None:
    forge(place, "UPDATE entries SET body = x'0102' WHERE codec = 64")
    with clew.open(f"jsonl:///{place}", read_only=True) as store, pytest.raises(CorruptError):
        store.get("a").messages()
