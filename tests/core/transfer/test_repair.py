"""`store.repair(to=)`: a new store of all that can be read, and an account of what cannot."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import clew
from clew.backends.sqlite.rows import key
from clew.model.transfer import RepairReport
from tests.backends.sqlite.damage.pages import PAGE, find_cell, make, pages_of
from tests.core.transfer.kinds import OTHERS, ROUND, Address
from tests.support.stores import dump, run_sql, say, wander, with_files


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store of one session with twenty messages, closed, to be damaged."""
    path = tmp_path / "damaged.db"
    with clew.open(path) as store:
        s = store.session("s")
        s.append(*(say(n) for n in range(20)))
        s.checkpoint("end")
        s.annotate(4, label="gold")
        s.set_var("v", 1)
    return path


def repaired(path: Path, to: Path) -> RepairReport:
    before = path.read_bytes()
    with clew.open(path, read_only=True) as store:
        report = store.repair(to=to)
    assert path.read_bytes() == before, "the original was changed"
    return report


@contextmanager
def mended(path: Path) -> Iterator[tuple[RepairReport, clew.Store]]:
    """Repair a store, and open the new one, in which nothing is wrong."""
    to = path.with_name("new.db")
    report = repaired(path, to)
    with clew.open(to) as new:
        yield report, new
        assert new.verify(full=True).problems == ()


def branch_of(path: Path) -> int:
    [(number,)] = run_sql(path, "SELECT branch FROM branches ORDER BY branch LIMIT 1")
    return int(number)


@pytest.mark.parametrize(("kind", "to"), ROUND)
def test_of_a_whole_store_nothing_is_lost(kind: str, to: str, address: Address, tmp_path: Path) -> None:
    to = "sqlite" if to == "memory" else to  # one in memory could not be looked at
    with clew.open(address(kind)) as store:
        wander(store, 1)
        with_files(store, tmp_path / "work")
        expected = dump(store)

        report = store.repair(to=address(to))

        stats = store.stats()
        assert report.ok
        assert report.lost == ()
        assert report.sessions == stats.sessions + stats.deleted
        assert report.entries == stats.entries
    with clew.open(report.location) as new:
        assert dump(new) == expected


@pytest.mark.parametrize(("kind", "to"), [pair for pair in OTHERS if "memory" != pair[1]])
def test_a_store_is_repaired_into_one_of_any_kind(
    kind: str, to: str, address: Address, tmp_path: Path
) -> None:
    test_of_a_whole_store_nothing_is_lost(kind, to, address, tmp_path)


def test_a_damaged_entry_costs_its_content_and_nothing_else(damaged: Path) -> None:
    with clew.open(damaged) as store:
        hashes = [entry.hash for entry in store.get("s").entries()]
    run_sql(damaged, "UPDATE entries SET body = zeroblob(20) WHERE key = ?", key(branch_of(damaged), 7))

    with mended(damaged) as (report, new):
        [lost] = report.lost
        assert (lost.kind, lost.session, lost.position) == ("entry", "s", 7)
        assert "checksum" in lost.reason
        assert report.entries == 19
        s = new.get("s")
        entries = list(s.entries())
        assert [entry.hash for entry in entries] == hashes
        assert [entry.kind for entry in entries] == ["message"] * 7 + ["removed"] + ["message"] * 12
        assert s.messages() == [say(n) for n in range(20) if n != 7]
        assert s.checkpoints()[0].position == 19
        assert s.get_var("v") == 1
        assert len(s.context()) == 19
        assert s.context().report.repairs == ()
        s.append(say(20))


def test_a_missing_entry_has_an_empty_place(damaged: Path) -> None:
    """Its hash is not known any more; those of the others stay."""
    with clew.open(damaged) as store:
        hashes = [entry.hash for entry in store.get("s").entries()]
    run_sql(damaged, "DELETE FROM entries WHERE key = ?", key(branch_of(damaged), 3))

    with mended(damaged) as (report, new):
        assert [lost.position for lost in report.lost] == [3]
        entries = list(new.get("s").entries())
        assert [e.hash for e in entries if e.position != 3] == [h for n, h in enumerate(hashes) if n != 3]
        assert new.get("s").messages() == [say(n) for n in range(20) if n != 3]


def test_damaged_counters_and_hashes_are_made_anew(damaged: Path) -> None:
    branch = branch_of(damaged)
    with clew.open(damaged) as store:
        expected = dump(store)
    run_sql(damaged, "UPDATE entries SET messages = 77, turns = 5 WHERE key = ?", key(branch, 5))
    run_sql(damaged, "UPDATE entries SET digest = zeroblob(32) WHERE key = ?", key(branch, 9))
    run_sql(damaged, "UPDATE entries SET digest = zeroblob(32) WHERE key = ?", key(branch, 19))

    with mended(damaged) as (report, new):
        assert report.ok
        assert dump(new) == expected


def test_a_damaged_mark_does_not_cut_off_the_context(tmp_path: Path) -> None:
    with clew.open(tmp_path / "a.db") as store:
        s = store.session("s")
        s.append(*(say(n) for n in range(6)))
        s.compact("all of it")
        s.append(say(6))
    run_sql(tmp_path / "a.db", "UPDATE entries SET body = x'00' WHERE kind = 1")

    with mended(tmp_path / "a.db") as (report, new):
        assert [lost.position for lost in report.lost] == [6]
        assert list(new.get("s").context()) == [say(n) for n in range(7)]


def test_records_that_can_not_be_read_are_named(damaged: Path) -> None:
    run_sql(damaged, "UPDATE records SET value = x'7b' WHERE kind = 'checkpoint'")
    run_sql(damaged, "UPDATE records SET value = x'ff' WHERE kind = 'var'")

    with mended(damaged) as (report, new):
        assert sorted(lost.name or "" for lost in report.lost) == ["checkpoint end", "var v"]
        assert new.get("s").checkpoints() == []
        assert new.get("s").messages() == [say(n) for n in range(20)]


def test_a_lost_branch_does_not_take_those_that_continue_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        s = store.session("s")
        s.append(*(say(n) for n in range(5)))
        fork = s.fork("f")
        fork.append(say(5), say(6))
    run_sql(path, "DELETE FROM branches WHERE branch = ?", branch_of(path))

    with mended(path) as (report, new):
        assert {lost.kind for lost in report.lost} == {"branch", "session"}
        assert new.get("f").messages() == [say(5), say(6)]
        assert [entry.position for entry in new.get("f").entries()][-2:] == [5, 6]
        assert new.get("s").messages() == []
        new.get("s").append(say(9))
        new.get("f").append(say(9))


def test_a_move_that_is_lost_costs_undo_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        s = store.session("s")
        s.append(say(1), say(2))
        s.rewind(0)
        s.clear()
        s.undo()
    run_sql(path, "DELETE FROM records WHERE kind = 'move' AND name LIKE '%2'")

    with mended(path) as (report, new):
        assert [lost.kind for lost in report.lost] == ["record"]
        assert new.get("s").messages() == [say(1)]
        with pytest.raises(clew.errors.NothingToUndoError):
            new.get("s").undo()


def test_damaged_objects_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        with_files(store, tmp_path / "work")
    run_sql(path, "UPDATE packs SET content = zeroblob(100) WHERE pack = (SELECT min(pack) FROM packs)")

    report = repaired(path, tmp_path / "new.db")

    assert {lost.kind for lost in report.lost} == {"object"}
    with clew.open(tmp_path / "new.db") as new:
        assert new.get("with files").messages() == [say(1)]


def test_pages_of_the_file_that_are_gone_cost_what_they_held(tmp_path: Path) -> None:
    """F-20 and others: whole pages overwritten, any of them but the first."""
    path = tmp_path / "a.db"
    written = make(path)
    whole = path.read_bytes()
    rng = random.Random(7)
    leaves = [page for page, _, kind in pages_of(path) if kind in ("leaf", "overflow") and page > 1]
    rescued = 0
    for number, page in enumerate(rng.sample(leaves, 12)):
        path.write_bytes(whole[: (page - 1) * PAGE] + rng.randbytes(PAGE) + whole[page * PAGE :])
        new = tmp_path / f"new-{number}.db"
        try:
            report = repaired(path, new)
        except (clew.CorruptError, clew.errors.InvalidUrlError):
            with pytest.raises(clew.ClewError):  # it cannot be opened, or not listed, at all
                clew.open(path, read_only=True).list()
            continue
        rescued += 1
        with clew.open(new) as store:
            for info in store.list():
                kept = {entry.position: entry.raw for entry in store.get(info.id).entries()}
                known = {entry[1]: entry[3] for entry in written[info.id]}
                assert all(known[at] == raw for at, raw in kept.items() if raw != b"{}")
                lost = sum(raw == b"{}" for raw in kept.values())
                told = [one for one in report.lost if one.session == info.id and one.kind == "entry"]
                assert lost <= len(told)
    assert rescued >= 8


def test_a_flipped_bit_is_told_of_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    written = make(path)
    whole = path.read_bytes()
    cell = find_cell(whole, b"<2.11>")
    damaged = bytearray(whole)
    damaged[cell.body + 20] ^= 4
    path.write_bytes(bytes(damaged))

    with mended(path) as (report, new):
        [lost] = report.lost
        assert (lost.session, lost.position) == ("s2", 11)
        assert len(new.get("s2").messages()) == len(written["s2"]) - 1


def test_a_repair_never_writes_into_a_store_that_is_used(damaged: Path, tmp_path: Path) -> None:
    with clew.open(tmp_path / "used.db") as used:
        used.session("mine").append(say(1))
    with clew.open(damaged) as store:
        with pytest.raises(clew.ConflictError):
            store.repair(to=tmp_path / "used.db")
        with pytest.raises(clew.InvalidError):
            store.repair(to=damaged)
    with clew.open(tmp_path / "used.db") as used:
        assert [info.id for info in used.list()] == ["mine"]


def test_a_time_that_can_not_be_is_put_right(damaged: Path) -> None:
    run_sql(damaged, "UPDATE sessions SET updated = 1 << 62")

    with mended(damaged) as (report, new):
        assert [(lost.kind, lost.session) for lost in report.lost] == [("session", "s")]
        info = new.list()[0]
        assert info.updated_at == info.created_at


def test_a_lost_event_leaves_a_place_in_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        s = store.session("s")
        s.add_events([{"type": "t", "data": {"n": n}} for n in range(5)])
        for n in range(3):
            s.add_usage(input_tokens=n + 1)
    run_sql(path, "UPDATE events SET data = x'7b' WHERE key = (SELECT min(key) + 2 FROM events)")
    run_sql(path, "DELETE FROM usage WHERE key = (SELECT min(key) + 1 FROM usage)")

    with mended(path) as (report, new):
        assert sorted((lost.kind, lost.name) for lost in report.lost) == [("events", "3"), ("usage", "2")]
        s = new.get("s")
        assert [event.type for event in s.events()] == ["t", "t", "clew.lost", "t", "t"]
        assert [call.input_tokens for call in s.usage_records()] == [1, 0, 3]
