"""S-06, S-49: what others put in the place of a store's files is refused before a byte is written."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from tests.backends.sqlite.children import prepare_store
from tests.faults.crash.common import message, texts
from tests.faults.requirements import NOBODY

BESIDE = ["-wal", "-shm", "-journal"]
PRECIOUS = "precious\n" * 100
JOURNAL = bytes.fromhex("d9d505f920a163d7")


def link(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def link_to_nothing(place: Path, victim: Path) -> None:
    place.symlink_to(victim.with_name("not there"))


def hard_link(place: Path, victim: Path) -> None:
    os.link(victim, place)


def fifo(place: Path, victim: Path) -> None:
    os.mkfifo(place)


def directory(place: Path, victim: Path) -> None:
    place.mkdir()


PLANTS: list[Callable[[Path, Path], None]] = [link, link_to_nothing, hard_link, fifo, directory]


def names(place: Path) -> list[str]:
    return sorted(file.name for file in place.iterdir())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store" / "a.db"
    prepare_store(path)
    (tmp_path / "victim").write_text(PRECIOUS)
    return path


@pytest.mark.parametrize("end", BESIDE)
@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("read_only", [False, True])
def test_s06_what_is_planted_beside_a_store_is_refused(
    store: Path, end: str, plant: Callable[[Path, Path], None], read_only: bool
) -> None:
    victim = store.parent.parent / "victim"
    plant(Path(f"{store}{end}"), victim)
    content = store.read_bytes()

    with pytest.raises(clew.errors.InvalidUrlError, match=f"a.db{end} .*remove it"):
        clew.open(store, read_only=read_only)

    assert store.read_bytes() == content
    assert victim.read_text() == PRECIOUS
    assert names(store.parent) == ["a.db", f"a.db{end}"]
    assert names(store.parent.parent) == ["store", "victim"]


@pytest.mark.parametrize("end", BESIDE)
@pytest.mark.parametrize("plant", PLANTS)
def test_s06_what_waits_beside_a_store_to_be_made_is_refused(
    tmp_path: Path, end: str, plant: Callable[[Path, Path], None]
) -> None:
    victim = tmp_path / "victim"
    victim.write_text(PRECIOUS)
    plant(tmp_path / f"a.db{end}", victim)

    with pytest.raises(clew.errors.InvalidUrlError, match=f"a.db{end} "):
        clew.open(tmp_path / "a.db")

    assert victim.read_text() == PRECIOUS
    assert names(tmp_path) == [f"a.db{end}", "victim"]


@pytest.mark.parametrize("plant", [fifo, directory])
@pytest.mark.parametrize("read_only", [False, True])
def test_s06_a_store_is_a_regular_file(
    tmp_path: Path, plant: Callable[[Path, Path], None], read_only: bool
) -> None:
    plant(tmp_path / "a.db", tmp_path / "victim")

    with pytest.raises(clew.errors.InvalidUrlError, match="an SQLite store is a file"):
        clew.open(f"sqlite:///{tmp_path}/a.db", read_only=read_only)

    assert names(tmp_path) == ["a.db"]


def test_s06_a_device_is_no_store() -> None:
    with pytest.raises(clew.errors.InvalidUrlError, match="/dev/null is a device"):
        clew.open("/dev/null")


def test_s06_a_link_that_the_user_made_is_followed(tmp_path: Path) -> None:
    """With its files beside the place that it leads to."""
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "a.db").symlink_to("../far/../far/a.db")

    with clew.open(tmp_path / "near" / "a.db") as store:
        store.session("s").append(message("x"))
        assert store.location == str(tmp_path / "far" / "a.db")

    assert names(tmp_path / "near") == ["a.db"]
    assert names(tmp_path / "far") == ["a.db"]


def test_s06_links_that_lead_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.db").symlink_to("b.db")
    (tmp_path / "b.db").symlink_to("a.db")

    with pytest.raises(clew.ClewError):
        clew.open(tmp_path / "a.db")


@pytest.mark.needs("root")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o1775])
@pytest.mark.parametrize("on_the_way", [False, True], ids=["the file", "a directory on the way"])
def test_s06_a_link_of_another_user_in_a_public_directory_is_not_followed(
    store: Path, mode: int, on_the_way: bool
) -> None:
    public = store.parent.parent / "public"
    public.mkdir()
    public.chmod(mode)
    place = public / "planted"
    place.symlink_to(store.parent if on_the_way else store)
    os.lchown(place, NOBODY, NOBODY)
    content = store.read_bytes()

    for read_only in (False, True):
        with pytest.raises(clew.errors.InvalidUrlError, match="a link of another user"):
            clew.open(place / "a.db" if on_the_way else place, read_only=read_only)

    assert store.read_bytes() == content


@pytest.mark.needs("root")
def test_s06_a_link_of_another_user_in_a_directory_that_is_theirs_is_followed(store: Path) -> None:
    theirs = store.parent.parent / "theirs"
    theirs.mkdir(mode=0o755)
    (theirs / "a.db").symlink_to(store)
    os.lchown(theirs / "a.db", NOBODY, NOBODY)

    with clew.open(theirs / "a.db") as opened:
        assert opened.location == str(store)


@pytest.mark.needs("root")
def test_s06_a_store_of_another_user_in_a_public_directory_is_read_and_not_written(store: Path) -> None:
    public = store.parent.parent / "public"
    public.mkdir()
    public.chmod(0o1777)
    moved = store.rename(public / "a.db")
    os.chown(moved, NOBODY, NOBODY)
    moved.chmod(0o666)

    with pytest.raises(clew.errors.InvalidUrlError, match="belongs to another user"):
        clew.open(moved)

    with clew.open(moved, read_only=True) as opened:
        assert len(texts(opened.get("s"))) == 10


@pytest.mark.needs("root")
@pytest.mark.parametrize("end", BESIDE)
def test_s06_a_file_of_another_user_beside_a_store_is_refused(store: Path, end: str) -> None:
    """A log of somebody else would be read as a part of the store."""
    place = Path(f"{store}{end}")
    place.write_text("")
    os.chown(place, NOBODY, NOBODY)

    with pytest.raises(clew.errors.InvalidUrlError, match=f"a.db{end} belongs to another user"):
        clew.open(store)

    store.chmod(0o660)  # it is shared on purpose
    clew.open(store).close()


def test_s49_a_journal_that_names_another_file_is_refused(store: Path) -> None:
    """SQLite removes what the end of a journal names, when it has undone what the journal says."""
    victim = str(store.parent.parent / "victim").encode()
    header = JOURNAL + struct.pack(">5I", 0, 0, store.stat().st_size // 4096, 512, 4096)
    name = struct.pack(">I", 2**30 // 4096 + 1) + victim + struct.pack(">2I", len(victim), sum(victim))
    planted = header.ljust(512, b"\0") + name + JOURNAL
    journal = Path(f"{store}-journal")
    journal.write_bytes(planted)

    with pytest.raises(clew.errors.InvalidUrlError, match="names another file"):
        clew.open(store)

    assert journal.read_bytes() == planted
    assert Path(os.fsdecode(victim)).read_text() == PRECIOUS
