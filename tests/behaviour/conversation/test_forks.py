"""Forks and the tree they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.backends.contract import Backend
from clew.errors import CheckpointNotFoundError, InvalidError, NothingToUndoError, SessionExistsError
from clew.model import ForkPoint, Head
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, assistant, said, say, user
from clew.testing.chain import check_chain, check_store


class TestForks:
    """A fork shares everything before its point, and nothing after it."""

    def test_a_fork_starts_at_the_head(self, store: Store, s: Session) -> None:
        """The same history, the same hash; from then on each goes its own way."""
        say(s, "a", "b")
        fork = s.fork("try-b")
        assert (fork.id, said(fork), fork.head) == ("try-b", ["a", "b"], s.head)
        assert fork.info.hash == s.info.hash

        say(s, "base")
        say(fork, "fork")
        say(s, "base again")

        assert said(s) == ["a", "b", "base", "base again"]
        assert said(fork) == ["a", "b", "fork"]
        check_store(store)

    def test_a_fork_may_start_where_its_base_is_no_more(self, s: Session) -> None:
        """At an entry of a branch that the base has left."""
        _, b = s.append(user("a"), user("b"))
        s.clear()
        fork = s.fork(at=b)

        assert said(fork) == ["a", "b"]
        assert said(s) == []

    def test_an_empty_session_can_be_forked(self, s: Session) -> None:
        """The two then have nothing in common but their tree."""
        fork = s.fork()
        say(fork, "a")

        assert said(s) == []
        assert said(fork) == ["a"]

    def test_forks_are_numbered(self, store: Store, s: Session) -> None:
        """`<base>#fork-<n>`, n counted for each base, never used again, passing over ids in use."""
        assert [s.fork().id, s.fork().id] == ["s#fork-1", "s#fork-2"]
        store.create("s#fork-4")
        assert s.fork("named").id == "named"
        assert [s.fork().id, s.fork().id] == ["s#fork-3", "s#fork-5"]
        store.delete("s#fork-5")
        store.delete("s#fork-3", purge=True)
        assert s.fork().id == "s#fork-6"
        assert store.get("s#fork-1").fork().id == "s#fork-1#fork-1"
        assert store.create("other").fork().id == "other#fork-1"

    def test_an_id_can_be_had_without_a_fork(self, store: Store, s: Session) -> None:
        """Each call counts like a fork: no id comes twice, and those in use are passed over."""
        store.create("s#fork-2")

        assert [s.new_fork_id(), s.new_fork_id()] == ["s#fork-1", "s#fork-3"]
        assert store.find("s#fork-1") is None
        assert s.fork(s.new_fork_id()).id == "s#fork-4"
        assert [s.fork().id, s.new_fork_id()] == ["s#fork-5", "s#fork-6"]

    def test_a_fork_can_take_along_checkpoints_ahead_of_it(self, store: Store, s: Session) -> None:
        """Those that a rewind left, on any branch: the fork goes on to them, though its base is gone."""
        say(s, "a")
        s.checkpoint("one")
        say(s, "b")
        s.checkpoint("two", state={"n": 2})
        s.rewind("one")
        say(s, "other")
        s.checkpoint("three")
        s.rewind("one")
        plain, clone = s.fork("plain"), s.fork("clone", checkpoints="all")

        assert [one.name for one in plain.checkpoints()] == ["one"]
        assert [one.name for one in clone.checkpoints()] == ["one", "two", "three"]
        assert said(clone) == ["a"]
        store.delete("plain", purge=True)
        store.delete("s", purge=True)
        clone.rewind("two")
        assert (said(clone), clone.get_checkpoint("two").state) == (["a", "b"], {"n": 2})
        clone.rewind("three")
        assert said(clone) == ["a", "other"]
        check_store(store)
        with pytest.raises(InvalidError, match="'path' or 'all'"):
            clone.fork(checkpoints="none")  # type: ignore[arg-type]

    def test_an_existing_id_is_refused(self, store: Store, s: Session) -> None:
        """SessionExistsError; neither session is changed."""
        say(s, "a")
        other = store.create("other")
        for taken in ("other", "s"):
            with pytest.raises(SessionExistsError):
                s.fork(taken)

        assert said(other) == []
        assert len(store.list()) == 2

    def test_a_fork_takes_over_what_the_session_has(self, s: Session) -> None:
        """Title, workspace, tags, metadata and variables are copied; aliases and the star are not."""
        s.update(title="t", workspace="/w", tags=["x", "starred"], vendor="v", model="m", metadata={"k": 1})
        s.set_var("v", [1])
        s.add_alias("alias")
        fork = s.fork()
        info = fork.info

        assert (info.title, info.workspace, info.tags, info.vendor, info.model) == (
            "t",
            "/w",
            ("x",),
            "v",
            "m",
        )
        assert (info.metadata, fork.vars(), info.aliases) == ({"k": 1}, {"v": [1]}, ())
        fork.set_var("v", 2)
        fork.update(title="other")
        assert (s.get_var("v"), s.info.title) == ([1], "t")
        assert s.info.tags == ("x", "starred")

    def test_an_automatic_title_is_that_of_the_path_of_the_fork(self, store: Store, s: Session) -> None:
        """P18: words behind the point, or on a path that was left, are not the fork's to tell."""
        s.append(assistant("hello"))
        greeted = s.fork("greeted")
        say(s, "secret words")
        early, late = s.fork("early", at=0), s.fork("late")
        s.clear()
        say(s, "other words")
        moved = s.fork("moved")
        store.delete("s", purge=True)

        assert [fork.info.title for fork in (greeted, early, late, moved)] == [
            None,
            None,
            "secret words",
            "other words",
        ]
        assert (early.info.preview, moved.info.preview) == ("", "other words")
        say(early, "its own")
        assert early.info.title == "its own"

    def test_a_title_that_was_set_stays_with_the_fork(self, s: Session) -> None:
        """It does not come from a message."""
        say(s, "a", "b")
        s.update(title="set")
        fork = s.fork(at=0)

        assert (fork.info.title, fork.info.title_is_auto) == ("set", False)
        s.update(title=None)
        assert (s.fork().info.title, s.fork().info.title_is_auto) == ("a", True)

    def test_a_fork_knows_where_it_came_from(self, s: Session, clock: Ticking) -> None:
        """`forked_from` is the base and the point; the base has none; the fork is new."""
        say(s, "a", "b")
        fork = s.fork(at=0)

        assert fork.info.forked_from == ForkPoint("s", Head(s.head.branch, 0))
        assert s.info.forked_from is None
        assert fork.info.created_at > s.info.created_at

    def test_a_fork_has_an_undo_of_its_own(self, store: Store, s: Session) -> None:
        """It starts with nothing to undo; neither can undo what the other did."""
        say(s, "a", "b")
        s.rewind(0)
        fork = s.fork()
        with pytest.raises(NothingToUndoError):
            fork.undo()
        fork.clear()
        s.undo()
        assert (said(s), said(fork)) == (["a", "b"], [])
        fork.undo()
        assert said(fork) == ["a"]
        check_chain(store, fork)

    def test_fork_and_base_may_rewind_into_each_other(self, store: Store, s: Session) -> None:
        """They are one tree: an entry of the one is a point for the other, and stays the one's own."""
        say(s, "a")
        fork = s.fork()
        (b,) = fork.append(user("b"))
        s.rewind(b)
        say(s, "c")
        say(fork, "d")

        assert said(s) == ["a", "b", "c"]
        assert said(fork) == ["a", "b", "d"]
        check_chain(store, s)

    # -- checkpoints

    def test_a_fork_takes_along_the_checkpoints_before_its_point(self, s: Session) -> None:
        """Copies of those of the base that lie on the shared path, and no others."""
        s.checkpoint("empty")
        say(s, "a")
        s.checkpoint("a", state="A")
        say(s, "b")
        s.checkpoint("b")
        fork = s.fork(at=0)
        second = fork.fork()

        for session in (fork, second):
            assert [found.name for found in session.checkpoints()] == ["empty", "a"]
            copied, original = session.get_checkpoint("a"), s.get_checkpoint("a")
            assert (copied.session, copied.state) == (session.id, "A")
            assert (copied.head, copied.created_at) == (original.head, original.created_at)
            with pytest.raises(CheckpointNotFoundError):
                session.get_checkpoint("b")
        say(fork, "x")
        fork.rewind("a")
        assert said(fork) == ["a"]

    def test_a_fork_of_a_fork_takes_along_what_lies_on_its_own_path(self, s: Session) -> None:
        """A checkpoint that the first fork has, but that lies behind the second one's point, is not taken."""
        say(s, *"abc")
        s.checkpoint("late")
        fork = s.fork()
        second = fork.fork(at=0)

        assert [found.name for found in fork.checkpoints()] == ["late"]
        assert second.checkpoints() == []
        with pytest.raises(CheckpointNotFoundError):
            second.get_checkpoint("late")

    def test_a_checkpoint_on_a_branch_that_the_base_left_is_not_taken_along(self, s: Session) -> None:
        """It has a position of the shared path, and is not on it; to fork there takes it along."""
        say(s, "a", "b")
        s.checkpoint("left")
        s.rewind(0)
        say(s, "c", "d")
        s.checkpoint("here")

        assert [found.name for found in s.fork().checkpoints()] == ["here"]
        assert [found.name for found in s.fork(at="left").checkpoints()] == ["left"]

    @pytest.mark.parametrize("change", ["move", "delete", "purge"])
    def test_the_checkpoints_of_a_fork_are_its_own(self, store: Store, s: Session, change: str) -> None:
        """Whatever the base does to its own later: the fork and its forks have them as they were."""
        say(s, "a")
        s.checkpoint("good", state="kept")
        fork = s.fork("f")
        second = fork.fork("g")
        say(s, "b")
        match change:
            case "move":
                s.checkpoint("good")
            case "delete":
                s.delete_checkpoint("good")
            case _:
                store.delete("s", purge=True)
        say(fork, "c")

        for session in (fork, second):
            assert [(c.name, c.position, c.state) for c in session.checkpoints()] == [("good", 0, "kept")]
        fork.rewind("good")
        assert said(fork) == ["a"]
        check_store(store)

    def test_a_damaged_checkpoint_costs_itself_and_not_the_fork(self, backend: Backend, s: Session) -> None:
        """The others are taken along; the base keeps what is left of it."""
        say(s, "a")
        s.checkpoint("good")
        with backend.write() as tx:
            tx.put_record(s._sid, "checkpoint", "damaged", b'{"uid": 1')
        assert [found.name for found in s.fork("f").checkpoints()] == ["good"]

    def test_the_files_of_a_fork_stay_whatever_its_base_does(
        self, store: Store, s: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """P11: `gc` must not remove the snapshot of a checkpoint that a fork took along."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        file = tmp_path / "work" / "file"
        file.parent.mkdir()
        file.write_text("good")
        say(s, "a")
        s.checkpoint("good", files=file.parent)
        fork = s.fork("f")
        say(s, "b")
        file.write_text("bad")
        s.checkpoint("good", files=file.parent)
        store.gc()
        say(fork, "c")
        fork.rewind("good", files=True, on_conflict="overwrite")

        assert (said(fork), file.read_text()) == (["a"], "good")

    def test_checkpoints_that_the_base_sets_later_are_not_in_the_fork(self, s: Session) -> None:
        """Not even before the point where they parted."""
        say(s, "a", "b")
        fork = s.fork()
        s.rewind(0)
        s.checkpoint("later")

        assert fork.checkpoints() == []
        with pytest.raises(CheckpointNotFoundError):
            fork.rewind("later")

    def test_a_fork_deletes_and_moves_checkpoints_for_itself(self, s: Session) -> None:
        """The base keeps its own."""
        say(s, "a")
        s.checkpoint("c")
        s.checkpoint("d")
        fork = s.fork()
        assert fork.delete_checkpoint("c") is True
        assert fork.delete_checkpoint("c") is False
        assert [found.name for found in fork.checkpoints()] == ["d"]
        say(fork, "b")
        fork.checkpoint("d")

        assert fork.get_checkpoint("d").position == 1
        assert [(found.name, found.position) for found in s.checkpoints()] == [("c", 0), ("d", 0)]
        assert fork.delete_checkpoint("d") is True
        assert fork.checkpoints() == []

    # -- the tree

    def test_the_tree_shows_branches_forks_checkpoints_and_heads(self, s: Session) -> None:
        """From any of its sessions the same, but for the name of the one that was asked."""
        say(s, "a", "b", "c")
        s.checkpoint("c1")
        fork = s.fork("f", at=1)
        say(fork, "d")
        fork.checkpoint("c2")
        s.rewind(0)
        say(s, "e")
        tree = s.tree()
        main, of_fork, after_rewind = tree.branches

        assert tree.session == "s"
        assert dict(tree.heads) == {"s": s.head, "f": fork.head}
        assert dict(tree.forks) == {"f": ForkPoint("s", Head(main.id, 1))}
        assert [(found.session, found.name) for found in tree.checkpoints] == [("s", "c1"), ("f", "c2")]
        assert (main.session, main.parent, main.first, main.last) == ("s", None, 0, 2)
        assert (of_fork.session, of_fork.parent, of_fork.first, of_fork.last) == ("f", Head(main.id, 1), 2, 2)
        assert after_rewind.parent == Head(main.id, 0)
        assert s.head == Head(after_rewind.id, 1)
        assert (fork.tree().branches, fork.tree().session) == (tree.branches, "f")

    def test_the_tree_of_an_empty_session_is_empty(self, s: Session) -> None:
        """But for its head."""
        tree = s.tree()

        assert (tree.branches, dict(tree.heads), dict(tree.forks)) == ((), {"s": Head("", -1)}, {})

    def test_sessions_in_the_trash_are_not_in_the_tree(self, store: Store, s: Session) -> None:
        """Their entries are, as long as they are stored."""
        say(s, "a")
        fork = s.fork()
        say(fork, "b")
        store.delete("s")
        tree = fork.tree()

        assert list(tree.heads) == [fork.id]
        assert len(tree.branches) == 2
