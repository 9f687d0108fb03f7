"""An import that is killed: the next one brings the rest, once, and the ledger claims nothing that is not
there."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.core.load import load
from clew.core.load.entries import recall
from clew.importers import ledger
from clew.importers.ledger import Ledger
from clew.importers.reading import seen
from clew.importers.records import path_in
from tests.importers.cutting import GoneError, claim_too_early, each_write, gone_at, killed_at
from tests.importers.test_ledger import NAME, answered, codex
from tests.importers.test_run import write_claude
from tests.support.children import Child
from tests.support.effort import spread, usually
from tests.support.rows import named


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "AT_ONCE", 4)
    monkeypatch.setattr(ledger, "_AT_ONCE", 3)
    monkeypatch.setattr(seen, "RECENT", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    for number in range(5):
        write_claude(place / f"{NAME}{number}.jsonl", 9)
    write_claude(place / f"{NAME}0" / "subagents" / "agent-a1.jsonl", 6)
    answered(place / f"{NAME}6.jsonl", ["m1", "m2"])
    answered(place / f"{NAME}7.jsonl", ["m1", "m2", "m3"])
    for thread in ("c1", "c2"):
        codex(place, thread)
    return place


def contents(store: clew.Store) -> dict[str, object]:
    return {
        info.id: (
            info.hash,
            info.messages,
            len(list(store.get(info.id).events())),
            store.get(info.id).usage(),
        )
        for info in store.list()
    }


def check_claims(store: clew.Store, whole: dict[str, object]) -> int:
    """Every record of the ledger names sessions that are there to their end; how many records."""
    known = Ledger(store._engine)
    with store._engine.read() as reader:
        names = [name for name, _ in reader.scan_records(STORE_WIDE, "source")]
    for name in names:
        source = known.find(path_in(name))
        assert source is not None
        for session in source.sessions:
            with store._engine.read() as reader:
                row = reader.get_session(session.sid)
                assert row is not None, f"{name} claims {session.id}, which is not there"
                memory = recall(reader, row.sid)
            assert memory is not None
            assert memory.state.ended
            assert store.get(session.id).info.hash == whole[session.id][0]  # type: ignore[index]
    return len(names)


def imported(address: str, folder: Path) -> tuple[dict[str, object], int]:
    """What a whole import leaves, and in how many writes."""
    numbers = [0]
    with each_write(lambda number, _: numbers.append(number)), clew.open(address) as store:
        store.import_path(folder)
        return contents(store), max(numbers)


def cut_off(address: str, folder: Path, number: int, when: str) -> None:
    with pytest.raises(GoneError), each_write(gone_at(number, when)), clew.open(address) as store:
        store.import_path(folder)


def check_rest(address: str, folder: Path, whole: dict[str, object]) -> int:
    """After what was cut off, another import brings the rest; how many files it was said to have brought."""
    with clew.open(address) as store:
        claimed = check_claims(store, whole)
        store.import_path(folder)
        assert contents(store) == whole
        assert check_claims(store, whole) == 10
        assert store.import_path(folder).files_read == 0
        assert store.verify().ok
        return claimed


@pytest.mark.parametrize("kind", ["s.db", "store"])
def test_gone_at_any_write_and_then_again_is_as_once(folder: Path, tmp_path: Path, kind: str) -> None:
    whole, writes = imported(str(tmp_path / f"whole-{kind}"), folder)
    assert len(whole) == 10
    claimed = []
    for number in spread(range(1, writes + 1), 12, quick=4):
        for when in ("before", "after"):
            with named(f"{when} write {number} of {writes}"):
                address = str(tmp_path / f"{number}-{when}-{kind}")
                cut_off(address, folder, number, when)
                claimed.append(check_rest(address, folder, whole))
    assert (min(claimed), max(claimed)) == (0, 10)


def test_a_ledger_that_claims_what_is_not_there_is_found(folder: Path, tmp_path: Path) -> None:
    whole, _ = imported(str(tmp_path / "whole.db"), folder)
    with pytest.MonkeyPatch.context() as patch:
        claim_too_early(patch)
        _, writes = imported(str(tmp_path / "planted.db"), folder)
        for number in range(1, writes + 1):
            cut_off(str(tmp_path / f"{number}.db"), folder, number, "after")
            try:
                check_rest(str(tmp_path / f"{number}.db"), folder, whole)
            except AssertionError:
                return
    pytest.fail("the planted bug was not found")


def _import(tell: Callable[[int], None], address: str, folder: str, number: int, when: str) -> None:
    with each_write(killed_at(number, when)), clew.open(address) as store:
        store.import_path(folder)


@pytest.mark.parametrize("kind", ["s.db", "store"])
def test_killed_at_any_write_and_then_again_is_as_once(folder: Path, tmp_path: Path, kind: str) -> None:
    """By a real signal, which may come in the middle of a write, too."""
    whole, writes = imported(str(tmp_path / f"whole-{kind}"), folder)
    choice = random.Random(kind)
    for number in choice.sample(range(1, writes + 1), usually(10, quick=1, thorough=writes)):
        address = str(tmp_path / f"{number}-{kind}")
        when = choice.choice(["before", "during", "after"])
        with named(f"{when} write {number} of {writes}"):
            with Child(_import, address, str(folder), number, when) as child:
                assert child.wait() == -signal.SIGKILL
            check_rest(address, folder, whole)
