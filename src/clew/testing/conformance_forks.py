"""Forks and the tree they make."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import CheckpointNotFoundError, InvalidError, NothingToUndoError, SessionExistsError
from clew.model import ForkPoint, Head
from clew.session import Session
from clew.store import Store
from clew.testing.conformance_base import Conformance, Ticking, assistant, said, say, texts, user
from clew.testing.conformance_chain import check_chain, check_store


class ForkConformance(Conformance):
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

    @pytest.mark.parametrize("kind", ["checkpoint", "name", "entry", "id", "position", "head"])
    def test_a_fork_may_start_at_any_point(self, s: Session, kind: str) -> None:
        """With the counts, the view and the preview of that point."""
        s.append(user("a"), assistant("b"))
        checkpoint = s.checkpoint("here")
        (entry,) = s.entries(last=1)
        say(s, "c")
        s.set_summary("later")
        points: dict[str, Any] = {
            "checkpoint": checkpoint,
            "name": "here",
            "entry": entry,
            "id": entry.id,
            "position": 1,
            "head": checkpoint.head,
        }
        fork = s.fork(at=points[kind])

        assert said(fork) == texts(fork.context()) == ["a", "b"]
        assert (fork.info.user_turns, fork.info.preview, fork.summary) == (1, "a", None)
        assert said(s) == ["a", "b", "c"]

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

    def test_an_existing_id_is_refused(self, store: Store, s: Session) -> None:
        """SessionExistsError; neither session is changed."""
        say(s, "a")
        other = store.create("other")
        for taken in ("other", "s"):
            with pytest.raises(SessionExistsError):
                s.fork(taken)
        for bad in ("", "x" * 513, "a\0b", "\ud800"):
            with pytest.raises(InvalidError):
                s.fork(bad)

        assert said(other) == []
        assert len(store.list()) == 2

    def test_a_fork_takes_over_what_the_session_has(self, s: Session) -> None:
        """Title, workspace, tags, metadata and variables are copied; aliases are not."""
        s.update(title="t", workspace="/w", tags=["x"], vendor="v", model="m", metadata={"k": 1})
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

    # -- checkpoints of the base

    def test_a_fork_inherits_the_checkpoints_before_its_point(self, s: Session) -> None:
        """Those of the base that lie on the shared path, and no others."""
        s.checkpoint("empty")
        say(s, "a")
        s.checkpoint("a", state="A")
        say(s, "b")
        s.checkpoint("b")
        fork = s.fork(at=0)
        second = fork.fork()

        for session in (fork, second):
            assert [found.name for found in session.checkpoints()] == ["empty", "a"]
            assert (session.get_checkpoint("a").session, session.get_checkpoint("a").state) == ("s", "A")
            with pytest.raises(CheckpointNotFoundError):
                session.get_checkpoint("b")
        say(fork, "x")
        fork.rewind("a")
        assert said(fork) == ["a"]

    def test_a_fork_of_a_fork_inherits_what_lies_on_its_own_path(self, s: Session) -> None:
        """A checkpoint that the first fork sees, but that lies behind the second one's point, is not seen."""
        say(s, *"abc")
        s.checkpoint("late")
        fork = s.fork()
        second = fork.fork(at=0)

        assert [found.name for found in fork.checkpoints()] == ["late"]
        assert second.checkpoints() == []
        with pytest.raises(CheckpointNotFoundError):
            second.get_checkpoint("late")

    def test_a_name_that_the_base_moved_away_is_not_inherited(self, s: Session) -> None:
        """A fork sees the checkpoints that its base has, not those that its base once had."""
        say(s, "a")
        s.checkpoint("c")
        fork = s.fork()
        second = fork.fork()
        say(fork, "b")
        fork.checkpoint("c")

        assert (s.get_checkpoint("c").position, fork.get_checkpoint("c").position) == (0, 1)
        assert second.checkpoints() == []

    def test_a_fork_deletes_a_checkpoint_for_itself(self, s: Session) -> None:
        """The base keeps its own; a fork of the fork does not see it either; it can be set again."""
        say(s, "a")
        s.checkpoint("c")
        fork = s.fork()
        assert fork.delete_checkpoint("c") is True
        assert fork.delete_checkpoint("c") is False
        assert fork.checkpoints() == fork.fork().checkpoints() == []
        assert [found.name for found in s.checkpoints()] == ["c"]

        say(fork, "b")
        fork.checkpoint("c")
        assert fork.get_checkpoint("c").position == 1
        assert s.get_checkpoint("c").position == 0

    def test_a_fork_moves_a_checkpoint_for_itself(self, s: Session) -> None:
        """One of the same name in the fork goes before that of the base; deleting it deletes both for it."""
        say(s, "a")
        s.checkpoint("c")
        fork = s.fork()
        say(fork, "b")
        fork.checkpoint("c")
        assert (fork.get_checkpoint("c").position, s.get_checkpoint("c").position) == (1, 0)
        assert [found.session for found in fork.checkpoints()] == [fork.id]
        fork.delete_checkpoint("c")
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
