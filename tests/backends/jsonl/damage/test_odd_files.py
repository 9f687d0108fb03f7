"""S-06, S-49: links, pipes and the like in a store are not followed; one costs at most what it stands for."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import clew
from clew.backends.jsonl import JsonlBackend, disk
from clew.backends.jsonl.disk import Directory, File, NotOursError
from clew.errors import ClewError, CorruptError, ReadOnlyError
from clew.testing.backend.base import user
from clew.testing.chain import check_store
from tests.backends.jsonl.conftest import MEMORY
from tests.backends.jsonl.damage.planted import (
    PLANTS,
    folder,
    hard_link,
    link_to_file,
    link_to_folder,
    link_to_nothing,
    listening_socket,
    make_outside,
    make_store,
    pipe,
    plant,
    state,
    use,
)
from tests.backends.jsonl.stores import said
from tests.faults.requirements import NOBODY

Plant = Callable[[Path, Path], None]

FILES = (
    "clew.json", "journal.jsonl", "store.jsonl", "sessions/a.jsonl", "sessions/new.jsonl", "locks/store.lock",
    "locks/snapshot.lock", "index.db", "index.db-wal", "index.db-shm", "index.db-journal",
)  # fmt: skip
FOLDERS = ("sessions", "packs", "locks", "quarantine")
ODD = (link_to_file, link_to_nothing, link_to_folder, folder, pipe, listening_socket)


@pytest.fixture(scope="module")
def model() -> Iterator[Path]:
    """A store to be copied: making one takes longer."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(prefix="clew-jsonl-", dir=MEMORY if usable else None) as directory:
        make_store(Path(directory, "store"))
        yield Path(directory, "store")


@pytest.fixture
def place(model: Path, fast_path: Path) -> Path:
    shutil.copytree(model, fast_path / "store")
    make_outside(fast_path)
    return fast_path / "store"


@pytest.fixture
def outside(place: Path) -> Path:
    return place.parent / "outside"


# -- nothing outside is touched


@pytest.mark.parametrize("how", PLANTS)
@pytest.mark.parametrize("name", FILES)
def test_s06_nothing_outside_changes_by_what_is_planted_for_a_file(
    place: Path, outside: Path, name: str, how: Plant
) -> None:
    """Whatever is done with the store, errors of ours are all that comes of it."""
    before = state(outside)
    plant(how, place / name, outside)
    use(place)
    assert state(outside) == before


@pytest.mark.parametrize("how", [link_to_folder, link_to_file, link_to_nothing, pipe, listening_socket])
@pytest.mark.parametrize("name", FOLDERS)
def test_s06_nothing_outside_changes_by_what_is_planted_for_a_folder(
    place: Path, outside: Path, name: str, how: Plant
) -> None:
    before = state(outside)
    plant(how, place / name, outside)
    refused = use(place)
    assert any(str(place / name) in str(error) for error in refused)
    assert state(outside) == before


def test_s06_a_store_of_links_only_harms_nobody(place: Path, outside: Path) -> None:
    before = state(outside)
    for name in FILES:
        plant(link_to_nothing if "new" in name else link_to_file, place / name, outside)
    use(place)
    assert state(outside) == before


def test_s06_a_link_that_comes_while_the_store_is_open_is_not_followed(place: Path, outside: Path) -> None:
    before = state(outside)
    with clew.open(f"jsonl:///{place}") as store:
        for name in ("sessions/a.jsonl", "journal.jsonl", "index.db"):
            plant(link_to_file, place / name, outside)
            with pytest.raises(CorruptError, match="is a link"):
                store.get("a").append(user("more"))
        (place / "sessions").rename(place / "sessions.old")
        (place / "sessions").symlink_to(outside / "folder")
        with pytest.raises(CorruptError, match="is a link"):
            store.get("b").append(user("more"))
    assert state(outside) == before


# -- the user is told, and what can be read is read


@pytest.mark.parametrize("how", [*ODD, hard_link])
@pytest.mark.parametrize("name", ["journal.jsonl", "store.jsonl", "locks/store.lock", "locks/snapshot.lock"])
def test_s06_a_store_with_something_odd_that_it_would_write_is_only_read(
    place: Path, outside: Path, name: str, how: Plant
) -> None:
    before = state(place)
    plant(how, place / name, outside)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]
        assert [info.id for info in store.list().sessions] != []
        with pytest.raises(ReadOnlyError) as caught:
            store.get("a").append(user("more"))
        assert str(place / name) in str(caught.value)
    for file in ("sessions/a.jsonl", "clew.json"):
        assert state(place)[file] == before[file]


@pytest.mark.parametrize("how", ODD)
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_s06_something_odd_in_place_of_the_index_is_set_aside(
    place: Path, outside: Path, end: str, how: Plant
) -> None:
    """The index is a cache: another one is made."""
    plant(how, place / f"index.db{end}", outside)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]
        store.get("a").append(user("more"))
    assert stat.S_ISREG((place / "index.db").lstat().st_mode)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a", "more"]
        check_store(store)


def test_s06_what_the_store_is_named_by_may_be_a_link(place: Path, fast_path: Path) -> None:
    (fast_path / "link").symlink_to(place)
    with clew.open(f"jsonl:///{fast_path}/link") as store:
        store.get("a").append(user("more"))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a", "more"]


@pytest.mark.parametrize("how", [link_to_file, link_to_nothing, pipe, folder, listening_socket])
def test_s06_something_odd_in_place_of_clew_json_is_named(place: Path, outside: Path, how: Plant) -> None:
    before = state(place)
    plant(how, place / "clew.json", outside)
    for read_only in (False, True):
        with pytest.raises(CorruptError, match=r"clew\.json is a"):
            clew.open(f"jsonl:///{place}", read_only=read_only)
    now = state(place)
    assert {name: now[name] for name in before if name != "clew.json"} == {
        name: before[name] for name in before if name != "clew.json"
    }


def test_s06_a_clew_json_without_end_is_not_read_into_memory(place: Path) -> None:
    with (place / "clew.json").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(CorruptError, match=r"clew\.json"):
        clew.open(f"jsonl:///{place}")


def test_s49_a_pack_without_end_is_not_read_into_memory(place: Path) -> None:
    (pack,) = (place / "packs").iterdir()
    with pack.open("r+b") as file:
        file.truncate(1 << 42)
    damaged = pytest.raises(CorruptError, match="pack 1 is damaged")
    with closing(JsonlBackend(place)) as backend, backend.read() as reader, damaged:
        reader.get_pack(1)


# -- hard links


def test_s06_a_copy_of_links_is_read_and_says_why_it_is_not_written(place: Path, fast_path: Path) -> None:
    """As `cp -al` makes them: whoever wrote one would change the other."""
    copy = fast_path / "copy"
    shutil.copytree(place, copy, copy_function=os.link)
    before = state(copy)
    for one in (place, copy):
        with clew.open(f"jsonl:///{one}") as store:
            assert said(store, "a") == ["word a"]
            with pytest.raises(ReadOnlyError, match="hard links"):
                store.get("a").append(user("more"))
    assert {n: v for n, v in state(copy).items() if "index" not in n} == {
        n: v for n, v in before.items() if "index" not in n
    }
    shutil.rmtree(copy)
    with clew.open(f"jsonl:///{place}") as store:
        store.get("a").append(user("more"))


def test_s06_a_log_with_two_names_costs_the_writes_of_its_session(place: Path, fast_path: Path) -> None:
    (fast_path / "twin").hardlink_to(place / "sessions" / "a.jsonl")
    content = (fast_path / "twin").read_bytes()
    with clew.open(f"jsonl:///{place}") as store:
        store.get("b").append(user("more"))
        with pytest.raises(ReadOnlyError, match=r"a\.jsonl has 2 names"):
            store.get("a").append(user("more"))
        assert said(store, "a") == ["word a"]
        assert said(store, "b") == ["word b", "more"]
    assert (fast_path / "twin").read_bytes() == content


def test_s06_a_torn_log_with_two_names_is_left_as_it_is(place: Path, fast_path: Path) -> None:
    with (place / "sessions" / "a.jsonl").open("ab") as log:
        log.write(b'{"x":"0')
    (fast_path / "twin").hardlink_to(place / "sessions" / "a.jsonl")
    content = (fast_path / "twin").read_bytes()
    with clew.open(f"jsonl:///{place}") as store:
        store.get("b").append(user("more"))
        assert said(store, "a") == ["word a"]
    assert (fast_path / "twin").read_bytes() == content


# -- one odd thing among the logs


@pytest.mark.parametrize("how", ODD)
def test_p6_something_odd_in_place_of_a_log_costs_its_session(place: Path, outside: Path, how: Plant) -> None:
    plant(how, place / "sessions" / "a.jsonl", outside)
    for _ in range(2):
        with clew.open(f"jsonl:///{place}") as store:
            assert {info.id for info in store.list().sessions} >= {"b", "c"}
            store.get("b").append(user("more"))
            with pytest.raises(ClewError, match=r"a\.jsonl"):
                store.session("a").append(user("more"))
            problems = store.verify(full=False).problems
            assert any("a.jsonl" in problem for problem in problems)


@pytest.mark.parametrize("how", ODD)
def test_p6_something_odd_beside_the_logs_costs_nothing(place: Path, outside: Path, how: Plant) -> None:
    for name in ("sessions/odd.jsonl", "packs/9-0123456789abcdef.pack", "quarantine/odd.torn", "packs/x"):
        plant(how, place / name, outside)
    with clew.open(f"jsonl:///{place}") as store:
        assert {info.id for info in store.list().sessions} == {"a", "b", "c"}
        store.get("a").append(user("more"))
        problems = "\n".join(store.verify(full=False).problems)
        for name in ("odd.jsonl", "9-0123456789abcdef.pack", "odd.torn", "packs/x"):
            assert name in problems
        store.delete("c", purge=True)
        store.gc()
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a", "more"]


@pytest.mark.parametrize(
    "name",
    [
        b"\xff\xfe.jsonl",
        b"a\nb.jsonl",
        b"\x1b[31m.jsonl",
        b".jsonl",
        b"...jsonl",
        b"\xe2\x80\xae.jsonl",
        b"a\\b.jsonl",
    ],
)
def test_p6_a_log_with_a_name_that_cannot_be_shown_is_let_alone_and_told(place: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(place), b"sessions", name)
    shutil.copyfile(place / "sessions" / "a.jsonl", path)
    os.unlink(place / "sessions" / "a.jsonl")
    with clew.open(f"jsonl:///{place}") as store:
        assert {info.id for info in store.list().sessions} == {"b", "c"}
        store.get("b").append(user("more"))
        problems = [one for one in store.verify(full=False).problems if "no log has such a name" in one]
        assert len(problems) == 1
        assert problems[0].isprintable()
    os.rename(path, place / "sessions" / "a.jsonl")
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]


def test_p6_what_the_journal_has_for_a_log_that_is_no_file_is_kept(place: Path, outside: Path) -> None:
    """The store can be used; and nothing that was acknowledged is thrown away."""
    from tests.backends.jsonl.damage.test_hostile_names import intent

    log = place / "sessions" / "a.jsonl"
    other = (place / "sessions" / "b.jsonl").read_bytes()
    (place / "sessions" / "b.jsonl").write_bytes(other[:-9])
    (place / "journal.jsonl").write_bytes(
        intent(
            ("sessions/a.jsonl", log.stat().st_size, b"line\n"),
            ("sessions/b.jsonl", len(other) - 9, other[-9:]),
        )
    )
    plant(link_to_file, log, outside)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "b") == ["word b"]
    (kept,) = (place / "quarantine").iterdir()
    assert kept.read_bytes() == b"line\n"


# -- other users


def become_nobody(path: Path) -> None:
    for one in (path, *path.parents):
        if one.stat().st_mode & 0o001 == 0:
            one.chmod(one.stat().st_mode | 0o011)
    os.seteuid(NOBODY)


def give(path: Path, owner: int) -> None:
    for one in (path, *path.rglob("*")):
        os.chown(one, owner, owner, follow_symlinks=False)


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    "name", ["sessions/a.jsonl", "index.db", "packs/9-0123456789abcdef.pack", "quarantine/x"]
)
def test_p6_a_file_that_must_not_be_read_costs_its_session(place: Path, name: str) -> None:
    give(place, NOBODY)
    (place / name).touch()
    (place / name).chmod(0)
    become_nobody(place)
    try:
        with clew.open(f"jsonl:///{place}") as store:
            store.get("b").append(user("more"))
            assert said(store, "b") == ["word b", "more"]
            assert {info.id for info in store.list().sessions} >= {"b", "c"}
            problems = store.verify(full=False).problems
            assert any("a.jsonl" in problem for problem in problems) == (name == "sessions/a.jsonl")
            if name != "sessions/a.jsonl":  # a purge tells that it could not look into that
                store.delete("c", purge=True)
    finally:
        os.seteuid(0)


@pytest.mark.needs("root")
def test_s06_a_store_of_somebody_else_is_read(place: Path) -> None:
    for one in (place, *place.rglob("*")):
        one.chmod(0o755 if one.is_dir() else 0o644)
    become_nobody(place)
    try:
        with clew.open(f"jsonl:///{place}") as store:
            assert said(store, "a") == ["word a"]
            with pytest.raises(ReadOnlyError):
                store.get("a").append(user("more"))
    finally:
        os.seteuid(0)


@pytest.mark.needs("root")
def test_s06_root_writes_a_store_of_a_user(place: Path) -> None:
    """In a container, or to repair it."""
    give(place, NOBODY)
    with clew.open(f"jsonl:///{place}") as store:
        store.get("a").append(user("more"))
        assert said(store, "a") == ["word a", "more"]


@pytest.mark.needs("root")
def test_s06_a_store_of_another_user_in_a_public_place_is_only_read(place: Path, fast_path: Path) -> None:
    """As one in /tmp that somebody made for us to find."""
    give(place, NOBODY)
    fast_path.chmod(0o1777)
    before = state(place / "sessions")
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]
        with pytest.raises(ReadOnlyError, match="all users may write"):
            store.get("a").append(user("more"))
    assert state(place / "sessions") == before


@pytest.mark.needs("root")
def test_s06_a_file_of_another_user_in_a_store_of_ours_is_not_written(place: Path) -> None:
    os.chown(place / "sessions" / "a.jsonl", NOBODY, NOBODY)
    content = (place / "sessions" / "a.jsonl").read_bytes()
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a"]
        with pytest.raises(ReadOnlyError, match=f"belongs to user {NOBODY}"):
            store.get("a").append(user("more"))
        store.get("b").append(user("more"))
    assert (place / "sessions" / "a.jsonl").read_bytes() == content


@pytest.mark.needs("root")
def test_s06_a_folder_of_another_user_in_a_store_of_ours_is_not_written(place: Path) -> None:
    os.chown(place / "sessions", NOBODY, NOBODY)
    with clew.open(f"jsonl:///{place}") as store, pytest.raises(ReadOnlyError, match="belongs to user"):
        store.get("a").append(user("more"))


def an_owned_file(place: Path, **changes: int) -> tuple[Directory, os.stat_result]:
    """A directory of user 7 and group 8, and a file in it of user 9 and group 8, unless changed."""
    values = {"mode": 0o40770, "directory_uid": 7, "uid": 9, "gid": 8, **changes}
    directory = Directory(place, held=True)
    opened = directory.opened()
    opened.found = os.stat_result((values["mode"], 1, 1, 1, values["directory_uid"], 8, 0, 0, 0, 0))
    return directory, os.stat_result((0o100600, 1, 1, 1, values["uid"], values["gid"], 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"gid": 10}, False),
        ({"mode": 0o40750}, False),
        ({"mode": 0o40777}, False),
        ({"mode": 0o41777}, False),
        ({"uid": 7, "mode": 0o40700}, True),
        ({"uid": 0, "mode": 0o40700}, True),
        ({"uid": os.geteuid(), "mode": 0o41777}, True),
    ],
)
def test_s06_who_may_own_a_file_that_is_written(fast_path: Path, changes: dict[str, int], may: bool) -> None:
    """Us, root, the owner of the store; and the group, if it is shared with that and with nobody else."""
    directory, found = an_owned_file(fast_path, **changes)
    file = directory.file("x")
    file.check(found, writes=False)
    if may:
        file.check(found, writes=True)
    else:
        with pytest.raises(NotOursError):
            file.check(found, writes=True)


# -- the layer below


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0b"])
def test_s49_what_is_no_name_is_no_file(fast_path: Path, name: str) -> None:
    """A second wall: whatever was not checked before."""
    with pytest.raises(ValueError, match="no name"):
        Directory(fast_path, held=False).file(name)


def test_s06_a_new_file_has_a_name_that_nobody_knows_before(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    real = disk.create

    def create(file: File) -> int:
        made.append(file.name)
        return real(file)

    monkeypatch.setattr(disk, "create", create)
    for _ in range(2):
        with clew.open(f"jsonl:///{place}") as store:
            store.delete(store.session("gone").id, purge=True)
        (place / "index.db").unlink()
    assert len(made) == len(set(made)) > 2


def test_a_folder_that_is_put_in_place_of_another_is_used(place: Path) -> None:
    """Whoever brings back the logs of a backup while the store is open loses nothing that is written then."""
    with clew.open(f"jsonl:///{place}") as store:
        store.get("a").append(user("more"))
        (place / "sessions").rename(place / "before")
        shutil.copytree(place / "before", place / "sessions")
        shutil.rmtree(place / "before")
        store.get("a").append(user("and more"))
        store.session("new").append(user("first"))
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store, "a") == ["word a", "more", "and more"]
        assert said(store, "new") == ["first"]


def test_where_there_are_no_descriptors_files_are_opened_by_path(
    place: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows; links are refused there, too."""
    from clew.backends.jsonl import disk as directory

    monkeypatch.setattr(directory, "HAS_DESCRIPTORS", False)
    monkeypatch.setattr(disk, "NO_LINK", 0)
    with clew.open(f"jsonl:///{place}") as store:
        store.get("a").append(user("more"))
        store.delete("c", purge=True)
        assert said(store, "a") == ["word a", "more"]
    plant(link_to_file, place / "sessions" / "a.jsonl", outside)
    before = state(outside)
    use(place)
    assert state(outside) == before
