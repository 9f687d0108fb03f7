"""The copies of files that Claude Code made come over as snapshots of checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.app import described
from clew.cli.ui.moves import file_lines, file_plan
from clew.core.load.load import Loading
from clew.errors import RootNotNamedError
from clew.importers.run import TRIES
from clew.importers.sync import Sync
from tests.importers.hostile.forged_files import store_of
from tests.importers.programs.claude_code.test_reader import ID, SESSION, Log
from tests.support.rows import named

WORK = "/srv/shop"


@pytest.fixture
def store(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[clew.Store]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with store_of(backend, tmp_path) as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "claude")


class Home:
    """A directory of Claude Code with one session and the copies of its files."""

    def __init__(self, config: Path) -> None:
        self.log = Log(config / "projects" / "-srv-shop" / f"{SESSION}.jsonl", cwd=WORK)
        self.copies = config / "file-history" / SESSION
        self.copies.mkdir(parents=True)

    def copy(self, name: str, content: str) -> Home:
        (self.copies / name).write_text(content)
        return self

    def snapshot(self, message: str, *, update: bool = False, **copies: str | None) -> Home:
        tracked = {path.replace("__", "/"): {"backupFileName": name} for path, name in copies.items()}
        return self.snapshot_of(message, tracked, update=update)

    def snapshot_of(self, message: str, tracked: dict[str, Any], *, update: bool = False) -> Home:
        told = {"messageId": message, "trackedFileBackups": tracked, "timestamp": "2025-06-01T10:00:01Z"}
        self.log.raw(
            {
                "type": "file-history-snapshot",
                "messageId": message,
                "snapshot": told,
                "isSnapshotUpdate": update,
            }
        )
        return self

    def delta(self, message: str, path: str, name: str | None) -> Home:
        record = {"type": "file-history-delta", "messageId": "x", "snapshotMessageId": message}
        self.log.raw({**record, "trackingPath": path, "backup": {"backupFileName": name, "version": 1}})
        return self

    def talk(self) -> Home:
        """Two turns; in the second one a file is changed again, and another for the first time."""
        self.copy("aa@v1", "a, first").copy("aa@v2", "a, second").copy("bb@v1", "b, first")
        self.log.user("u1")
        self.snapshot("u1", src__a="aa@v1")
        self.log.model("a1").user("u2")
        self.snapshot("u2", src__a="aa@v2", b="bb@v1")
        self.log.model("a2")
        return self


def bring(store: clew.Store, home: Home) -> clew.Session:
    report = store.import_path(home.log.path)
    assert report.problems == ()
    return store.get(ID)


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def restored(s: clew.Session, name: str | clew.Head, to: Path) -> dict[str, str]:
    s.restore_files(name, to)
    return content(to)


def test_each_moment_can_be_restored_as_it_was(store: clew.Store, home: Home, tmp_path: Path) -> None:
    s = bring(store, home.talk())
    assert restored(s, "file-history:u2", tmp_path / "two") == {"src/a": "a, second", "b": "b, first"}
    # The copy of b was made before its first change: it was the same at the first moment.
    assert restored(s, "file-history:u1", tmp_path / "one") == {"src/a": "a, first", "b": "b, first"}
    assert [v.verb for v in s.file_history("src/a")] == ["created", "changed"]
    assert store.verify().ok


def test_what_is_added_to_a_snapshot_belongs_to_its_message_not_to_the_one_that_added_it(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    home.copy("aa@v1", "a, first").snapshot("u1")
    home.log.user("u1").model("a1")
    told = {"messageId": "u1", "trackedFileBackups": {"src/a": {"backupFileName": "aa@v1"}}}
    home.log.raw(
        {"type": "file-history-snapshot", "messageId": "a1", "snapshot": told, "isSnapshotUpdate": True}
    )
    s = bring(store, home)
    assert [checkpoint.name for checkpoint in s.checkpoints()] == ["file-history:u1"]
    assert restored(s, "file-history:u1", tmp_path / "one") == {"src/a": "a, first"}


def test_a_prompt_before_the_first_change_has_the_files_as_they_were(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    home.copy("aa@v1", "a, first").snapshot("u1")
    home.log.user("u1").model("a1").user("u2")
    home.snapshot("u2", src__a="aa@v1")
    home.log.model("a2").user("u3")
    home.snapshot("u3")
    s = bring(store, home)
    assert restored(s, "file-history:u1", tmp_path / "one") == {"src/a": "a, first"}
    assert "file-history:u3" not in [checkpoint.name for checkpoint in s.checkpoints()]


def test_a_file_that_was_not_there_is_deleted_by_a_restore_and_nothing_else_is(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    home.copy("cc@v2", "c, made").copy("dd@v1", "d")
    home.log.user("u1")
    home.delta("u1", "c", None)
    s = bring(store, home)
    assert s.get_checkpoint("file-history:u1").snapshot is None
    home.log.model("a1").user("u2")
    home.snapshot("u2", c="cc@v2", d="dd@v1", deep__e=None)
    bring(store, home)
    out = tmp_path / "out"
    (out / "deep" / "er").mkdir(parents=True)
    for path in ("deep/e", "deep/f", "g"):
        (out / path).write_text("mine")
    s.restore_files("file-history:u2", out, on_conflict="keep")
    assert content(out).keys() == {"c", "d", "deep/e", "deep/f", "g"}
    report = s.restore_files("file-history:u2", out)
    assert content(out) == {"c": "c, made", "d": "d", "deep/f": "mine", "g": "mine"}
    assert (out / "deep" / "er").is_dir()
    assert restored(s, "file-history:u1", out).keys() == {"d", "deep/f", "g"}
    store.undo_restore(str(report.id), out)
    assert (out / "deep" / "e").read_text() == "mine"


def test_again_adds_nothing_also_when_the_copies_were_cleaned_up_since(store: clew.Store, home: Home) -> None:
    bring(store, home.talk())
    before = [(one.id, one.kind) for one in store.snapshots()]
    assert [kind for _, kind in before] == ["checkpoint", "checkpoint"]
    assert store.import_path(home.log.path).unchanged == 1
    for copy in home.copies.iterdir():
        copy.unlink()
    for dry_run in (True, False):
        report = store.import_path(home.log.path, dry_run=dry_run)
        assert (report.unchanged, report.problems) == (1, ())
    assert [(one.id, one.kind) for one in store.snapshots()] == before


def restarted(home: Home) -> Home:
    """Two turns that change `a`, then a restart that begins the list of files anew, and two more turns; `c`
    is made in the first of them."""
    home.copy("aa@v1", "a, first").copy("aa@v2", "a, second").copy("bb@v1", "b, first").copy("cc@v2", "c")
    home.log.user("u1")
    home.snapshot("u1", a="aa@v1", d=None).log.model("a1").user("u2")
    home.snapshot("u2", a="aa@v2", d=None).log.model("a2").user("u3")
    home.snapshot("u3").snapshot("u3", update=True, b="bb@v1", c=None).log.model("a3").user("u4")
    home.snapshot("u4", b=None, c="cc@v2").log.model("a4")
    return home


def seen(store: clew.Store) -> dict[str, list[tuple[str, str]]]:
    """What comparisons and histories say of the files, by what was asked."""
    s = store.get(ID)
    kept = {one.name.removeprefix("file-history:"): str(one.snapshot) for one in s.checkpoints()}
    said: dict[str, list[tuple[str, str]]] = {
        f"{a} {b}": [(one.status, one.path) for one in store.diff(kept[a], kept[b])]
        for a, b in [("u1", "u2"), ("u2", "u3"), ("u3", "u2"), ("u3", "u4")]
    }
    said |= {path: [(one.verb, one.checkpoint[-2:]) for one in s.file_history(path)] for path in "abcd"}
    return said


SEEN = {
    "u1 u2": [("modified", "a")],
    "u2 u3": [("unrecorded", "a")],
    "u3 u2": [("unrecorded", "a")],
    "u3 u4": [("removed", "b"), ("added", "c")],
    "a": [("created", "u1"), ("changed", "u2")],
    "b": [("created", "u1"), ("deleted", "u4")],
    "c": [("created", "u4")],
    "d": [],
}


def test_a_file_that_is_not_tracked_after_a_restart_is_unrecorded_not_deleted(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    s = bring(store, restarted(home))
    assert seen(store) == SEEN
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "a").write_text("a, third")
    assert restored(s, "file-history:u3", shop) == {"a": "a, third", "b": "b, first"}
    assert store.import_path(home.log.path, again=True).unchanged == 1
    assert seen(store) == SEEN
    for copy in home.copies.iterdir():
        copy.unlink()
    store.import_path(home.log.path, again=True)
    assert seen(store) == SEEN


def test_a_file_that_is_ignored_now_is_not_said_to_be_deleted(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    s = bring(store, home.talk())
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "b").write_text("b, first")
    (shop / ".gitignore").write_text("b\n")
    snapshot = str(s.get_checkpoint("file-history:u1").snapshot)
    assert [(one.status, one.path) for one in store.diff(snapshot, shop)] == [
        ("unrecorded", "b"), ("removed", "src/a")
    ]  # fmt: skip


def test_files_after_a_restart_are_the_same_however_the_file_was_followed(tmp_path: Path) -> None:
    home = restarted(Home(tmp_path / "claude"))
    content = home.log.path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(content) if byte == 10]
    ways = {"one by one": ends, "in two parts": [ends[len(ends) // 2], ends[-1]], "in a line": [ends[5] + 9]}
    for way, cuts in ways.items():
        with named(way), clew.open("memory:") as store:
            home.log.path.write_bytes(b"")
            sync = Sync(lambda writes, store=store: store, [home.log.path])
            for start, end in pairwise([0, *cuts, len(content)]):
                with home.log.path.open("ab") as file:
                    file.write(content[start:end])
                sync.some([home.log.path])
            assert seen(store) == SEEN


def test_a_session_that_grew_gets_what_is_new(store: clew.Store, home: Home, tmp_path: Path) -> None:
    s = bring(store, home.talk())
    home.copy("cc@v1", "c, first").log.user("u3")
    home.snapshot("u3", src__a="aa@v2", b="bb@v1", c="cc@v1")
    assert store.import_path(home.log.path).grown == 1
    assert restored(s, "file-history:u3", tmp_path / "3")["c"] == "c, first"
    assert restored(s, "file-history:u1", tmp_path / "1")["c"] == "c, first"
    store.gc()
    assert restored(s, "file-history:u2", tmp_path / "2") == {
        "src/a": "a, second", "b": "b, first", "c": "c, first"
    }  # fmt: skip


def test_a_snapshot_that_is_told_again_with_more_is_one_checkpoint(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    home.copy("aa@v1", "a").copy("bb@v1", "b").log.user("u1")
    home.snapshot("u1", a="aa@v1").snapshot("u1", update=True, a="aa@v1", b="bb@v1")
    s = bring(store, home)
    assert [c.name for c in s.checkpoints()] == ["file-history:u1"]
    assert restored(s, "file-history:u1", tmp_path / "out") == {"a": "a", "b": "b"}


def test_each_moment_has_the_version_of_its_time(store: clew.Store, home: Home, tmp_path: Path) -> None:
    """Records repeat what those before them said; one adds to a moment that is not the last."""
    versions = ["aa@v1", "aa@v1", "aa@v2", "aa@v2", "aa@v1"]
    home.copy("aa@v1", "first").copy("aa@v2", "second").copy("bb@v1", "b")
    for number, version in enumerate(versions):
        home.log.user(f"u{number}")
        home.snapshot(f"u{number}", a=version)
    home.snapshot("u2", update=True, a="aa@v1", b="bb@v1")
    home.log.user("u5")
    home.snapshot("u5", a="aa@v1", b=None)
    s = bring(store, home)
    found = [restored(s, f"file-history:u{number}", tmp_path / str(number)) for number in range(6)]
    assert [one["a"] for one in found] == ["first", "first", "first", "second", "first", "first"]
    assert [one.get("b") for one in found] == ["b", "b", "b", None, None, None]


def test_no_empty_directories_come_with_a_file_that_was_not_there(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    home.copy("aa@v1", "a").copy("bb@v1", "b").log.user("u1")
    home.snapshot("u1", a="aa@v1", deep__er__b=None)
    home.log.user("u2")
    home.snapshot("u2", a="aa@v1", deep__er__b="bb@v1")
    s = bring(store, home)
    restored(s, "file-history:u1", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["a"]


def test_moments_between_which_nothing_changed_share_a_snapshot(store: clew.Store, home: Home) -> None:
    home.copy("aa@v1", "a")
    for number in range(4):
        home.log.user(f"u{number}")
        home.snapshot(f"u{number}", a="aa@v1")
    s = bring(store, home)
    assert len({c.snapshot for c in s.checkpoints()}) == 1
    assert len(store.snapshots()) == 1
    store.gc()
    assert store.verify().ok


def test_missing_copies_are_told_once_and_the_rest_is_kept(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    home.talk()
    (home.copies / "aa@v1").unlink()
    with pytest.raises(clew.InvalidError, match="copies of files are missing"):
        store.import_path(home.log.path, strict=True)
    (problem,) = store.import_path(home.log.path, dry_run=True).problems
    assert store.find(ID) is None
    (again,) = store.import_path(home.log.path).problems
    assert again == problem
    assert "1 of 3 copies of files are missing, as one of 'src/a'" in problem.reason
    s = store.get(ID)
    assert restored(s, "file-history:u1", tmp_path / "one") == {"b": "b, first"}
    assert restored(s, "file-history:u2", tmp_path / "two") == {"src/a": "a, second", "b": "b, first"}


def test_without_the_directory_of_copies_nothing_is_amiss(store: clew.Store, home: Home) -> None:
    home.talk()
    for copy in home.copies.iterdir():
        copy.unlink()
    home.copies.rmdir()
    s = bring(store, home)
    assert [c.snapshot for c in s.checkpoints()] == [None, None]
    assert store.snapshots() == []


def test_a_restore_without_a_place_is_refused_and_touches_nothing(
    store: clew.Store, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = bring(store, home.talk())
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for attempt in (
        lambda: s.restore_files("file-history:u1"),
        lambda: s.rewind("file-history:u1", files=True),
        lambda: store.restore(str(s.get_checkpoint("file-history:u1").snapshot)),
    ):
        with pytest.raises(RootNotNamedError, match="name a directory") as refused:
            attempt()
        assert "root=" not in described(refused.value)
    shown = " ".join(
        line.plain for line in file_lines(file_plan(s, s.get_checkpoint("file-history:u1").head))
    )
    assert "clew rewind --files --root DIRECTORY" in shown
    assert "root=" not in shown
    assert list(here.iterdir()) == []
    assert s.info.messages == 4


def test_a_restore_leaves_all_other_files_alone_also_those_that_a_snapshot_knows(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    s = bring(store, home.talk())
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    for path in ("src/a", "b", "src/other", "more"):
        (shop / path).write_text("of today")
    before = store.snapshot(shop)
    (shop / "more").write_text("of now")
    store.snapshot(shop)
    s.restore_files("file-history:u1", shop)
    assert content(shop) == {
        "src/a": "a, first", "b": "b, first", "src/other": "of today", "more": "of now"
    }  # fmt: skip
    # Nor does the next restore take that for all that is known of the directory.
    store.restore(before, paths=["more"], on_conflict="refuse")
    assert (shop / "more").read_text() == "of today"


def test_files_outside_of_the_workspace_have_a_checkpoint_of_their_own(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    home.copy("aa@v1", "in").copy("bb@v1", "out").copy("cc@v1", "above").log.user("u1")
    paths = {f"{WORK}/a": "aa@v1", "/etc/hosts": "bb@v1", "../c": "cc@v1"}
    home.snapshot_of("u1", {path: {"backupFileName": name} for path, name in paths.items()})
    s = bring(store, home)
    assert restored(s, "file-history:u1", tmp_path / "in") == {"a": "in"}
    assert restored(s, s.head, tmp_path / "here") == {"a": "in"}
    assert restored(s, "file-history:u1:outside", tmp_path / "out") == {"etc/hosts": "out", "srv/c": "above"}


ODD = [
    "*.py",
    "[a]",
    "!b",
    "#c",
    "sp ace ",
    "build/x",
    ".gitignore",
    "node_modules/y",
    "tief/ü/z",
    "back\\slash",
]


def test_odd_names_and_ignored_ones_come_back(store: clew.Store, home: Home, tmp_path: Path) -> None:
    home.copy("aa@v1", "*\n").log.user("u1")
    home.snapshot_of("u1", {path: {"backupFileName": "aa@v1"} for path in ODD})
    s = bring(store, home)
    assert restored(s, "file-history:u1", tmp_path / "out") == dict.fromkeys(ODD, "*\n")


def test_hostile_records_reach_nothing_outside_of_the_copies(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    os.symlink(secret, home.copies / "ff@v1")
    home.copy("aa@v1", "fine").log.user("u1")
    names: dict[str, Any] = {"a": "../../../secret", "b": str(secret), "c": 7, "d": "ff@v1", "e": "aa@v1"}
    tracked: dict[str, Any] = {path: {"backupFileName": name} for path, name in names.items()}
    home.snapshot_of(
        "u1", tracked | {"f": None, "g\0": {"backupFileName": "aa@v1"}, "": {"backupFileName": "aa@v1"}}
    )
    home.snapshot_of("u1", {"x" * 300: {"backupFileName": "aa@v1"}, "e/e": {"backupFileName": "aa@v1"}})
    report = store.import_path(home.log.path)
    assert len(report.problems) == 1
    found = restored(store.get(ID), "file-history:u1", tmp_path / "out")
    assert found.keys() <= {"e", "e/e"}
    assert set(found.values()) == {"fine"}


def test_a_purged_session_takes_its_files_with_it(store: clew.Store, home: Home) -> None:
    bring(store, home.talk())
    assert len(store.snapshots()) == 2
    store.delete(ID, purge=True)
    assert store.snapshots() == []
    assert store.gc().snapshots == 0


def test_a_load_that_fails_leaves_no_snapshot(
    store: clew.Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.talk()
    taken: list[int] = []

    def fail(*_: Any) -> str:
        taken.append(len(store.snapshots()))
        raise clew.StoreBusyError("no")

    monkeypatch.setattr(Loading, "finish", fail)
    monkeypatch.setattr(time, "sleep", lambda _: None)  # between two tries
    with pytest.raises(clew.StoreBusyError):
        store.import_path(home.log.path)
    assert taken == [2] * TRIES
    assert store.snapshots() == []


def test_copies_survive_a_copy_of_the_store(store: clew.Store, home: Home, tmp_path: Path) -> None:
    bring(store, home.talk())
    with clew.open("memory:") as other:
        clew.copy(store, other)
        assert restored(other.get(ID), "file-history:u1", tmp_path / "out")["src/a"] == "a, first"
        assert other.verify().ok


def test_what_the_store_has_is_not_replaced_by_less(store: clew.Store, home: Home, tmp_path: Path) -> None:
    s = bring(store, home.talk())
    (home.copies / "aa@v1").unlink()
    (home.copies / "bb@v1").unlink()
    home.copy("cc@v1", "c, first").log.user("u3")
    home.snapshot("u3", c="cc@v1")
    store.import_path(home.log.path)
    assert restored(s, "file-history:u1", tmp_path / "1") == {"src/a": "a, first", "b": "b, first"}
    assert restored(s, "file-history:u3", tmp_path / "3") == {"c": "c, first"}


def test_a_checkpoint_that_the_user_set_there_stays(store: clew.Store, home: Home, tmp_path: Path) -> None:
    home.talk()
    copies = home.copies.rename(home.copies.with_name("elsewhere"))
    s = bring(store, home)
    s.rewind(0)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "x").write_text("mine")
    own = s.checkpoint("file-history:u1", files=tmp_path / "own")
    copies.rename(home.copies)
    bring(store, home)
    assert s.get_checkpoint("file-history:u1") == own


def test_files_of_an_import_come_beside_what_is_there_and_replace_only_what_they_name(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    s = bring(store, home.talk())
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "b").write_text("mine")
    (shop / "c").write_text("mine too")
    kept = s.restore_files("file-history:u1", shop, on_conflict="keep").kept
    assert [(one.path, one.reason) for one in kept] == [("b", "changed"), ("c", "ignored")]
    assert content(shop) == {"src/a": "a, first", "b": "mine", "c": "mine too"}
    store.snapshot(shop)
    s.restore_files("file-history:u1", shop)
    assert content(shop) == {"src/a": "a, first", "b": "b, first", "c": "mine too"}
