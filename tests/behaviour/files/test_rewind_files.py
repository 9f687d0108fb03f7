"""Files: a directory goes back to what it was at a checkpoint, and forward again."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.errors import (
    InvalidError,
    NotFoundError,
    RestoreConflictError,
    RootRefusedError,
    SnapshotNotFoundError,
)
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, say
from tests.behaviour.files.trees import NOW, THEN, kept_by, read, write
from tests.behaviour.values import HOUR


class TestRewindFiles:
    """One checkpoint is enough: the files come back whoever changed them, and nothing is lost by it."""

    # -- as in the checkpoint

    def test_p13_a_rewind_makes_the_files_what_they_were_and_undo_and_redo_move_them_too(
        self, worked: Session, root: Path
    ) -> None:
        """What was edited or deleted since comes back, what came since goes; undo brings back each byte."""
        assert read(root) == NOW
        worked.rewind("start", files=True)
        assert (read(root), worked.info.messages) == (THEN, 1)
        worked.undo()
        assert (read(root), worked.info.messages) == (NOW, 2)
        worked.redo()
        assert (read(root), worked.info.messages) == (THEN, 1)

    def test_the_plan_of_a_rewind_is_what_is_then_done(self, worked: Session, root: Path) -> None:
        """A dry run names exactly the files that the rewind changes."""
        there = worked.head
        plan = worked.rewind("start", files=True, dry_run=True)
        assert (read(root), worked.head, worked.moves()) == (NOW, there, [])
        done = worked.rewind("start", files=True)
        assert plan == done == worked.head
        assert plan.files is not None
        assert done.files is not None
        assert (plan.files.dry_run, plan.files.id) == (True, None)
        assert plan.files.changes == done.files.changes

    def test_p13_files_are_restored_without_the_conversation_in_the_same_way(
        self, store: Store, worked: Session, root: Path
    ) -> None:
        """The plan of a dry run is what is then done, and it can be taken back."""
        plan = worked.restore_files("start", dry_run=True)
        assert read(root) == NOW
        report = worked.restore_files("start")

        assert (report.changes, report.kept) == (plan.changes, plan.kept)
        assert (read(root), worked.info.messages) == (THEN, 2)
        store.undo_restore(report)
        assert read(root) == NOW

    def test_a_rewind_says_what_became_of_the_files(self, worked: Session) -> None:
        """It gives back the head, which knows what was restored and deleted; so do undo and redo."""
        moved = worked.rewind("start", files=True)
        back = worked.undo()

        assert (moved, back) == (worked.get_checkpoint("start").head, worked.head)
        assert moved.files is not None
        assert moved.files.restored == ("deleted", "edited")
        assert moved.files.deleted == ("created", "more", "more/created")
        assert (moved.files.kept, moved.files.failed) == ((), ())
        assert back.files is not None
        assert back.files.restored == ("created", "edited", "more", "more/created")
        assert back.files.deleted == ("deleted",)
        assert worked.rewind("start").files is None

    def test_only_the_paths_that_were_asked_for_are_restored(self, worked: Session, root: Path) -> None:
        """Files, and directories with what came in them."""
        worked.restore_files("start", paths=["edited", "more"])
        assert read(root) == {"edited": "one", "folder/same": "same", "created": "new"}

    def test_one_file_is_read_out_of_a_snapshot(self, store: Store, root: Path) -> None:
        """Its exact bytes, without a restore; of a link where it leads."""
        large = b"\0\xff" * 3_000_000
        (root / "folder/large\udcff").write_bytes(large)
        (root / "link").symlink_to("edited")
        snapshot = store.snapshot(root)
        write(root, {"edited": "two"})

        assert store.read_file(snapshot, "edited") == store.read_file(snapshot.id, "./edited") == b"one"
        assert store.read_file(snapshot, "folder/large\udcff") == large
        assert store.read_file(snapshot, "link") == b"edited"
        for missing in ("none", "folder", "folder/none", "edited/none", ""):
            with pytest.raises(NotFoundError):
                store.read_file(snapshot, missing)
        for bad in ("/edited", "../edited", "a\0b"):
            with pytest.raises(InvalidError):
                store.read_file(snapshot, bad)
        with pytest.raises(SnapshotNotFoundError):
            store.read_file("none", "edited")

    def test_parts_of_a_file_are_read_out_of_a_snapshot(self, store: Store, root: Path) -> None:
        """Whether it lies in one piece or in chunks."""
        content = {"edited": b"one", "large": bytes(range(256)) * 20_000}
        (root / "large").write_bytes(content["large"])
        snapshot = store.snapshot(root)
        for name, whole in content.items():
            size = len(whole)
            for start, length in ((0, 1), (1, None), (size - 1, 5), (size, 5), (size + 9, None), (2, 0)):
                end = size if length is None else start + length
                assert store.read_file(snapshot, name, start=start, length=length) == whole[start:end]
        middle = store.read_file(snapshot, "large", start=999_999, length=2_000_000, max_bytes=2_000_000)
        assert middle == content["large"][999_999:2_999_999]
        with pytest.raises(InvalidError, match="in parts"):
            store.read_file(snapshot, "large", max_bytes=1_000_000)

    def test_what_a_snapshot_holds_is_listed_page_by_page(self, store: Store, root: Path) -> None:
        """In the order of a walk, from any path on; what is empty is listed itself."""
        write(root, {"folder/b/c": "x", "folder/b.d": "y", "folder.txt": "z"})
        (root / "run").write_text("#!")
        (root / "run").chmod(0o755)
        (root / "link").symlink_to("edited")
        (root / "odd\udcff").write_bytes(b"")
        (root / "none/at/all").mkdir(parents=True)
        snapshot = store.snapshot(root)
        found = store.list_files(snapshot)
        assert [(one.path, one.kind, one.size, one.executable) for one in found] == [
            ("deleted", "file", 10, False),
            ("edited", "file", 3, False),
            ("folder/b/c", "file", 1, False),
            ("folder/b.d", "file", 1, False),
            ("folder/same", "file", 4, False),
            ("folder.txt", "file", 1, False),
            ("link", "link", 6, False),
            ("none/at/all", "directory", 0, False),
            ("odd\udcff", "file", 0, False),
            ("run", "file", 2, True),
        ]
        for number in range(len(found) + 1):
            after = found[number - 1].path if number else None
            assert store.list_files(snapshot.id, after=after, limit=3) == found[number : number + 3]
        assert store.list_files(snapshot, after="folder/b") == found[2:]
        assert store.list_files(snapshot, after="folder/bb") == found[4:]
        assert store.list_files(snapshot, "folder") == found[2:5]
        assert store.list_files(snapshot, "folder", after="folder/b/c") == found[3:5]
        assert store.list_files(snapshot, "run") == found[-1:]
        assert store.list_files(snapshot, "run", after="run") == []
        assert store.list_files(snapshot, "none/at/all") == []
        top = store.list_files(snapshot, deep=False)
        assert [(one.path, one.kind) for one in top][1:6] == [
            ("edited", "file"),
            ("folder", "directory"),
            ("folder.txt", "file"),
            ("link", "link"),
            ("none", "directory"),
        ]
        assert store.list_files(snapshot, deep=False, after="folder/b", limit=2) == top[3:5]
        inside = store.list_files(snapshot, "folder", deep=False)
        assert [one.path for one in inside] == ["folder/b", "folder/b.d", "folder/same"]
        with pytest.raises(NotFoundError):
            store.list_files(snapshot, "nothing")

    def test_snapshots_are_listed_page_by_page(self, store: Store, root: Path) -> None:
        """A long list is read in parts, and nothing is left out or told twice."""
        taken = [store.snapshot(root).id for _ in range(5)][::-1]
        assert [one.id for one in store.snapshots(limit=2, before=taken[1])] == taken[2:4]
        assert store.snapshots(before=taken[-1]) == []

    def test_the_sessions_of_a_snapshot_are_those_whose_checkpoints_name_it(
        self, store: Store, root: Path
    ) -> None:
        """Who may see a session may see the files of its checkpoints, and no others."""
        s = store.session("a")
        say(s, "x")
        named = s.checkpoint("files", files=root).snapshot
        assert named is not None
        s.fork("b")
        early = s.fork("c")
        early.delete_checkpoint("files")
        store.delete(s.fork("d").id)
        assert [one.id for one in store.sessions_with_snapshot(named)] == ["a", "b"]
        assert store.sessions_with_snapshot(store.snapshot(root).id) == []
        with pytest.raises(SnapshotNotFoundError):
            store.sessions_with_snapshot("none")

    # -- other choices

    def test_work_since_the_last_snapshot_is_kept_if_that_is_asked_for_and_told(
        self, worked: Session, root: Path
    ) -> None:
        """What changed, and what came; the rest becomes what it was."""
        moved = worked.rewind("start", files=True, on_conflict="keep")

        assert read(root) == {**NOW, "deleted": "still here"}
        assert kept_by(moved.files) == {"edited": "changed", "created": "changed", "more": "changed"}

    def test_work_since_the_last_snapshot_is_a_reason_to_refuse_if_that_is_asked_for(
        self, worked: Session, root: Path
    ) -> None:
        """Then neither a file nor the head moves."""
        head = worked.head
        with pytest.raises(RestoreConflictError) as refused:
            worked.rewind("start", files=True, on_conflict="refuse")

        assert refused.value.conflicts == ("created", "edited", "more")
        assert (read(root), worked.head) == (NOW, head)

    def test_an_empty_path_is_not_the_present_directory(
        self, store: Store, worked: Session, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither to keep nor to restore: who gives one may not know that it is empty."""
        monkeypatch.chdir(root)
        snapshot = worked.get_checkpoint("start").snapshot or ""
        for work in (
            lambda: store.snapshot(""),
            lambda: store.snapshots(root=""),
            lambda: store.restore(snapshot, ""),
            lambda: store.diff(snapshot, ""),
            lambda: store.watch_files(""),
            lambda: worked.checkpoint("empty", files=""),
            lambda: worked.rewind("start", files=""),
            lambda: worked.restore_files("start", ""),
        ):
            with pytest.raises(RootRefusedError, match="empty"):
                work()

        assert (read(root), worked.info.messages, len(worked.checkpoints())) == (NOW, 2, 1)

    # -- which came later

    def test_f25_a_snapshot_is_the_last_one_though_the_clock_went_back(
        self, s: Session, root: Path, clock: Ticking
    ) -> None:
        """So what it holds is nobody else's work: it is no conflict."""
        s.checkpoint("start", files=root)
        (root / "edited").write_text("two")
        clock.now -= HOUR
        s.checkpoint("end", files=root)

        assert s.restore_files("start", dry_run=True, on_conflict="refuse").restored == ("edited",)
        clock.now -= HOUR
        s.rewind("start", files=True, on_conflict="refuse")
        assert read(root) == THEN

    def test_f25_a_restore_is_later_than_a_snapshot_though_the_clock_went_back(
        self, store: Store, root: Path, clock: Ticking
    ) -> None:
        """What it wrote is known, and what was changed before is not taken for what stands there now."""
        first = store.snapshot(root)
        (root / "edited").write_text("two")
        second = store.snapshot(root)
        clock.now -= HOUR
        store.restore(first, on_conflict="refuse")
        clock.now -= HOUR
        store.restore(second, on_conflict="refuse")
        assert (root / "edited").read_text() == "two"
        (root / "edited").write_text("of somebody")

        with pytest.raises(RestoreConflictError):
            store.restore(first, on_conflict="refuse")

    def test_f25_of_two_checkpoints_of_one_place_the_one_that_was_set_last_has_its_files(
        self, s: Session, root: Path, clock: Ticking
    ) -> None:
        """Also when the clock went back; newest first is newest first."""
        say(s, "first")
        s.checkpoint("one", files=root)
        (root / "edited").write_text("two")
        clock.now -= HOUR
        s.checkpoint("two", files=root)
        (root / "edited").write_text("three")
        s.restore_files(s.head)

        assert (root / "edited").read_text() == "two"
        assert [version.checkpoint for version in s.file_history("edited")] == ["one", "two"]

    def test_f25_snapshots_are_listed_as_they_were_taken(
        self, store: Store, root: Path, clock: Ticking
    ) -> None:
        """The newest first, by whatever clock."""
        taken = []
        for step in (0, -HOUR, HOUR, -2 * HOUR, 0):
            clock.now += step
            taken.append(store.snapshot(root).id)

        assert [one.id for one in store.snapshots()] == taken[::-1]

    # -- what no snapshot holds

    def test_p14_ignored_files_stay_and_are_told(self, s: Session, root: Path) -> None:
        """Those that a rule ignores now; also in a directory that came since."""
        write(root, {".gitignore": "*.log\n", "a.log": "mine", ".git/HEAD": "ref"})
        s.checkpoint("start", files=root)
        write(root, {"a.log": "mine still", "more/b.log": "mine", "more/new": "agent's"})
        moved = s.rewind("start", files=True)

        assert kept_by(moved.files) == {"a.log": "ignored", "more/b.log": "ignored", ".git": "repository"}
        assert read(root) == {
            **THEN, ".gitignore": "*.log\n", "a.log": "mine still", "more/b.log": "mine", ".git/HEAD": "ref",
        }  # fmt: skip

    def test_p14_what_the_snapshot_ignored_stays_though_nothing_ignores_it_now(
        self, s: Session, root: Path
    ) -> None:
        """It may have been there all the time. That a snapshot since holds it does not matter."""
        write(root, {".gitignore": "/local.ini\n/keys/\n", "local.ini": "secret", "keys/a": "secret"})
        s.checkpoint("start", files=root)
        (root / ".gitignore").unlink()
        first = s.rewind("start", files=True)
        (root / ".gitignore").unlink()
        s.checkpoint("later", files=root)
        second = s.rewind("start", files=True)

        assert kept_by(first.files) == kept_by(second.files) == {"local.ini": "ignored", "keys": "ignored"}
        assert read(root) == {
            **THEN, ".gitignore": "/local.ini\n/keys/\n", "local.ini": "secret", "keys/a": "secret"
        }  # fmt: skip

    def test_s09_what_by_its_name_holds_secrets_is_listed_not_kept_and_stays(
        self, store: Store, s: Session, root: Path
    ) -> None:
        """Unless it is included: then it is a file as any other."""
        write(root, {".env": "then", ".ssh/config": "then", "k.pem": "then"})
        without = s.checkpoint("without", files=root)
        with_it = s.checkpoint("with", files=root, include=[".env"])
        write(root, {".env": "now", ".ssh/config": "now", "k.pem": "now"})
        secrets = {one.path: one.reason for one in store.get_snapshot(str(without.snapshot)).skipped}
        assert secrets == {".env": "secret", ".ssh": "secret", "k.pem": "secret"}
        assert ".env" not in {one.path for one in store.get_snapshot(str(with_it.snapshot)).skipped}

        moved = s.rewind("without", files=True)
        assert kept_by(moved.files) == secrets
        assert read(root) == {**THEN, ".env": "now", ".ssh/config": "now", "k.pem": "now"}
        s.rewind("with", files=True)
        assert read(root) == {**THEN, ".env": "then", ".ssh/config": "now", "k.pem": "now"}
        s.undo()
        assert read(root)[".env"] == "now"

    def test_p14_what_the_snapshot_had_to_skip_stays(self, store: Store, root: Path) -> None:
        """Such as a file that was too large for it, and is small by now."""
        write(root, {"large": "x" * 1000})
        snapshot = store.snapshot(root, max_file_bytes=100)
        write(root, {"large": "small", "created": "new", "too/large": "y" * 1000})
        report = store.restore(snapshot)

        assert read(root) == {**THEN, "large": "small", "too/large": "y" * 1000}
        assert kept_by(report) == {"large": "too large", "too/large": "too large"}

    def test_p14_a_repository_that_came_since_stays_whole(self, s: Session, root: Path) -> None:
        """Its `.git` cannot be kept, and what is in it would be worth little without."""
        s.checkpoint("start", files=root)
        clone = {"clone/.git/HEAD": "ref", "clone/code": "theirs"}
        write(root, {**clone, "created": "new"})
        moved = s.rewind("start", files=True)

        assert read(root) == {**THEN, **clone}
        assert kept_by(moved.files)["clone"] == "nested repository"

    def test_p14_what_is_in_a_directory_that_no_snapshot_knows_stays(
        self, store: Store, root: Path, tmp_path: Path
    ) -> None:
        """Files that are restored elsewhere come beside what is there."""
        snapshot = store.snapshot(root)
        write(tmp_path / "other", {"thesis": "mine", "edited": "mine"})
        report = store.restore(snapshot, tmp_path / "other")

        assert read(tmp_path / "other") == {**THEN, "thesis": "mine"}
        assert kept_by(report) == {"thesis": "unknown"}
        assert report.safety is not None
        store.undo_restore(report)
        assert read(tmp_path / "other") == {"thesis": "mine", "edited": "mine"}
