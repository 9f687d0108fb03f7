"""F-06, P23: a full disk on which nothing can be freed is left by way of another one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import clew
from tests.faults.crash.common import message, texts
from tests.faults.requirements import mounted

KINDS = {"sqlite": "sqlite:///{}/a.db", "jsonl": "jsonl:///{}/store"}


def fill(store: clew.Store) -> dict[str, list[str]]:
    """Append to three sessions until nothing more fits."""
    said: dict[str, list[str]] = {f"s{number}": [] for number in range(3)}
    for number in range(100_000):
        id, text = f"s{number % 3}", f"{number}{os.urandom(1500).hex()}"
        try:
            store.session(id).append(message(text))
        except clew.errors.DiskFullError:
            return said
        said[id].append(text)
    raise AssertionError("it was never full")


def fill_the_rest(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError:
            pass


@pytest.mark.needs("root")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reopened", [False, True], ids=["open", "reopened"])
def test_f06_a_full_disk_can_be_left(tmp_path: Path, kind: str, reopened: bool) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    with mounted(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]) as disk:
        address = KINDS[kind].format(disk)
        store = clew.open(address)
        said = fill(store)
        if reopened:
            store.close()
            fill_the_rest(disk)
            store = clew.open(address)
        with pytest.raises((clew.errors.DiskFullError, clew.errors.ReadOnlyError)):
            store.delete("s0", purge=True)
        clew.copy(store, elsewhere, sessions=["s1", "s2"])
        store.close()
        for file in disk.iterdir():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        clew.copy(elsewhere, address)

        with clew.open(address) as store:
            assert sorted(info.id for info in store.list()) == ["s1", "s2"]
            assert [texts(store.get(id)) for id in ("s1", "s2")] == [said["s1"], said["s2"]]
            assert store.verify(full=True).ok
            store.get("s1").append(message("room again"))
