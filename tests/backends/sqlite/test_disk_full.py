"""F-06, F-07, P23: no space blocks new appends, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clew
from tests.backends.sqlite.children import fill_the_disk, fill_up_to_a_limit, prepare_store, read_when_full
from tests.faults.crash.common import chain_of, check_file, texts
from tests.faults.requirements import mounted
from tests.support.children import forked


def check_told(found: dict[str, Any], code: str) -> None:
    """What was acknowledged is there, and no more than that: the refused batch is absent as a whole."""
    assert found["code"] == code
    assert len(found["acknowledged"]) > 20
    assert found["kept"] == found["acknowledged"]
    assert found["after"] == [*found["acknowledged"], "room again"]


def check_afterwards(path: Path, expected: list[str]) -> None:
    with clew.open(path) as store:
        assert texts(store.get("s")) == expected
        assert chain_of(store.get("s")) == []
    assert check_file(path) == "ok"


@pytest.mark.needs("root")
def test_f06_a_full_disk_refuses_appends_and_the_same_store_goes_on_when_there_is_room() -> None:
    with mounted(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(150_000))

        found = fill_the_disk(str(disk / "a.db"), str(ballast))

        check_told(found, "disk_full")
        assert found["retryable"]
        assert found["refused"] == ["disk_full"] * 3
        assert found["listed"] == ["s"]
        assert found["counted"] == found["entries"] == len(found["kept"])
        assert found["context"] > 0
        assert found["second"]
        assert found["wrong"] == []
        check_afterwards(disk / "a.db", found["after"])


@pytest.mark.needs("root")
def test_f06_a_store_can_be_opened_and_read_when_the_disk_is_full_already() -> None:
    with mounted(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]) as disk:
        expected = prepare_store(disk / "a.db")
        with (disk / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                pass

        assert read_when_full(str(disk / "a.db")) == {"texts": expected, "listed": ["s"]}
        (disk / "ballast").unlink()
        check_afterwards(disk / "a.db", expected)


def test_f07_a_file_size_limit_refuses_appends_with_a_typed_error_and_loses_nothing(tmp_path: Path) -> None:
    found = forked(fill_up_to_a_limit, str(tmp_path / "a.db"), 450_000)

    check_told(found, found["code"])
    assert found["code"] in ("disk_full", "backend", "outcome_unknown")
    check_afterwards(tmp_path / "a.db", found["after"])
