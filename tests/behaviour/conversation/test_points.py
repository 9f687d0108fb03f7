"""Points in time: checkpoints, rewind, undo and redo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clew.errors import CheckpointNotFoundError, NothingToUndoError
from clew.model import Entry, Head, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, assistant, said, say, state, texts, user
from clew.testing.chain import check_chain
from tests.behaviour.rows import each_session


class TestPoints:
    """Going back is one step, costs nothing and loses nothing."""

    # -- checkpoints

    def test_a_checkpoint_names_the_head(self, s: Session, clock: Ticking) -> None:
        """With its session, its time and any JSON state; it comes back as it was set."""
        say(s, "a", "b")
        state = {"files": ["x"], "n": 10**30, "\0": None, "deep": {"f": 1.5}}
        made = s.checkpoint("turn-1", state=state)

        assert (made.name, made.session, made.head, made.position) == ("turn-1", "s", s.head, 1)
        assert made.created_at == utc(clock.now)
        assert made.state == state
        assert s.get_checkpoint("turn-1") == made
        assert s.checkpoints() == [made]
        assert s.checkpoint("plain").state is None

    def test_setting_a_checkpoint_again_moves_it(self, s: Session) -> None:
        """There is one of a name: at the new place, with the new state."""
        say(s, "a")
        s.checkpoint("c", state=1)
        say(s, "b")
        s.checkpoint("c", state=2)
        (found,) = s.checkpoints()

        assert (found.position, found.state) == (1, 2)
        s.rewind("c")
        assert said(s) == ["a", "b"]

    def test_checkpoints_are_listed_by_time(self, s: Session, clock: Ticking) -> None:
        """Oldest first; those of one moment by name; a moved one at its new place."""
        for name in ("z", "y", "x"):
            s.checkpoint(name)
        s.checkpoint("z")
        assert [found.name for found in s.checkpoints()] == ["y", "x", "z"]
        clock.now, clock.step = clock.now + 1, 0
        for name in ("b", "a", "ä"):
            s.checkpoint(name)
        assert [found.name for found in s.checkpoints()] == ["y", "x", "z", "a", "b", "ä"]

    def test_a_deleted_checkpoint_is_forgotten(self, s: Session) -> None:
        """`delete_checkpoint` says whether there was one; the entries stay."""
        say(s, "a")
        s.checkpoint("c")

        assert s.delete_checkpoint("c") is True
        assert s.delete_checkpoint("c") is False
        assert s.checkpoints() == []
        assert said(s) == ["a"]
        for lookup in (s.get_checkpoint, s.rewind):
            with pytest.raises(CheckpointNotFoundError) as caught:
                lookup("c")
            assert (caught.value.session, caught.value.checkpoint) == ("s", "c")

    def test_an_empty_session_can_be_gone_back_to(self, s: Session) -> None:
        """A checkpoint before the first message leads to the empty path."""
        s.checkpoint("start")
        say(s, "a")
        head = s.rewind("start")

        assert head.position == -1
        assert (said(s), s.info.user_turns) == ([], 0)

    def test_checkpoints_survive_all_moves(self, s: Session) -> None:
        """Rewinding, clearing, replacing: a name leads to its place from everywhere."""
        say(s, "a", "b")
        s.checkpoint("c")
        say(s, "d")
        for move in (lambda: s.rewind(0), s.clear, lambda: s.replace([user("x")]), lambda: s.compact("y")):
            move()
            s.rewind("c")
            assert said(s) == ["a", "b"]

    # -- rewind

    @each_session("kind", ["checkpoint", "name", "entry", "id", "position", "head"])
    def test_a_point_may_be_given_in_every_way(self, store: Store, s: Session, kind: str) -> None:
        """A checkpoint, its name, an entry, its id, a position, a head: all lead to the same place."""
        s.append(user("a"), assistant("b"))
        checkpoint = s.checkpoint("here")
        (entry,) = s.entries(last=1)
        s.append(user("c"), assistant("d"))
        s.set_summary("later")
        points: dict[str, Any] = {
            "checkpoint": checkpoint,
            "name": "here",
            "entry": entry,
            "id": entry.id,
            "position": 1,
            "head": checkpoint.head,
        }
        point = points[kind]

        assert texts(s.messages(after=point)) == ["c", "d"]
        assert texts(s.messages(before=point)) == ["a"]
        assert texts(s.messages(at=point)) == texts(s.context(at=point)) == ["a", "b"]
        assert [entry.position for entry in s.entries(after=point)] == [2, 3, 4]
        assert s.annotate(point, note=kind).id == s.add_usage(entry=point).entry == entry.id
        fork = s.fork(at=point)
        assert said(fork) == texts(fork.context()) == ["a", "b"]
        assert (fork.info.user_turns, fork.info.preview, fork.summary) == (1, "a", None)
        head = s.rewind(point)
        assert head == s.head == checkpoint.head
        assert said(s) == ["a", "b"]
        assert (s.info.messages, s.info.user_turns, s.info.entries) == (2, 1, 2)
        s.undo()
        assert said(s) == ["a", "b", "c", "d"]
        check_chain(store, s)

    def test_an_append_after_a_rewind_leaves_the_old_branch_alone(self, store: Store, s: Session) -> None:
        """P11: the new branch starts at the point; every old entry can still be gone to."""
        a, b, c = s.append(*map(user, "abc"))
        s.rewind(a)
        (d,) = s.append(user("d"))
        assert (said(s), d.position) == (["a", "d"], 1)

        s.rewind(c)
        assert said(s) == ["a", "b", "c"]
        say(s, "e")
        assert said(s) == ["a", "b", "c", "e"]
        s.rewind(d)
        say(s, "f")
        assert said(s) == ["a", "d", "f"]
        s.rewind(b)
        assert said(s) == ["a", "b"]
        check_chain(store, s)

    def test_a_rewind_to_the_head_is_a_step_too(self, s: Session) -> None:
        """It changes nothing, and undo takes it back."""
        say(s, "a")
        s.rewind(0)
        say(s, "b")
        assert said(s) == ["a", "b"]
        s.undo()
        assert said(s) == ["a"]

    def test_the_user_turn_counter_rewinds(self, s: Session) -> None:
        """It counts the user's messages on the path, no more and no fewer."""
        s.append(user("a"), assistant("b"), user("c"), user("d"))
        assert s.info.user_turns == 3
        s.rewind(1)
        assert s.info.user_turns == 1
        say(s, "e")
        assert s.info.user_turns == 2
        s.undo()
        assert s.info.user_turns == 3

    def test_rewind_to_the_unknown_is_refused(self, store: Store, s: Session) -> None:
        """CheckpointNotFoundError, and the head stays where it is."""
        say(s, "a", "b")
        other = store.create("other")
        (foreign,) = other.append(user("x"))
        checkpoint = other.checkpoint("theirs")
        before = s.info
        uid = s.head.branch
        unknown: list[Any] = [
            "unknown", "", "x.0", f"{uid}.9", f"{uid}.00", f"{uid}.-1", f"{uid}.1x", 2, -1, -2, 2**40, 2**80,
            True, 1.5, b"a", foreign, foreign.id, checkpoint, "theirs", checkpoint.head, Head("x", 0),
            Head(uid, 2), Head(uid, -2), Head(uid, 2**32), Head(uid, 2**70), Head("", 0), None,
        ]  # fmt: skip
        for point in unknown:
            with pytest.raises(CheckpointNotFoundError):
                s.rewind(point)
        for point in unknown[:-1]:
            with pytest.raises(CheckpointNotFoundError):
                s.fork(at=point)

        assert s.info == before
        with pytest.raises(NothingToUndoError):
            s.undo()

    def test_a_point_beyond_its_branch_leads_to_no_other_branch(self, store: Store, s: Session) -> None:
        """S-19: no position, however large, reaches the entries of another session."""
        say(s, "mine")
        other = store.create("other")
        say(other, "theirs", "secret")
        for step in (1, 2, 3):
            for position in range(2):
                with pytest.raises(CheckpointNotFoundError):
                    s.rewind(Head(s.head.branch, (step << 32) + position))

        assert said(s) == ["mine"]

    # -- undo and redo

    def test_undo_and_redo_go_over_all_moves(self, store: Store, s: Session) -> None:
        """Every operation that is no append is one step; back to the first and forth to the last."""
        say(s, "a", "b", "c")
        steps: list[Callable[[], Any]] = [
            lambda: s.rewind(1),
            lambda: s.compact("short"),
            lambda: s.set_summary("sum"),
            lambda: s.replace([user("x"), user("y")]),
            lambda: s.truncate(1),
            s.clear,
            lambda: s.rewind(Head(s.head.branch, -1)),
        ]
        states = [state(s)]
        for step in steps:
            step()
            states.append(state(s))

        for expected in reversed(states[:-1]):
            s.undo()
            assert state(s) == expected
        with pytest.raises(NothingToUndoError):
            s.undo()
        for expected in states[1:]:
            s.redo()
            assert state(s) == expected
        with pytest.raises(NothingToUndoError):
            s.redo()
        check_chain(store, s)

    def test_the_history_of_moves_says_what_took_back_what(self, s: Session) -> None:
        """Each operation, undo and redo is listed once, newest first, with what comes next."""
        s.append(user("one"), user("two"), user("three"))
        assert s.moves() == []
        s.rewind(1)
        s.rewind(0)
        s.undo()
        s.undo()
        s.redo()

        told = [
            (
                move.number,
                move.kind,
                move.takes_back,
                move.came_from.position,
                move.went_to.position,
                move.next,
            )
            for move in s.moves()
        ]

        assert told == [
            (5, "redo", 4, 2, 1, "undo"),
            (4, "undo", 1, 1, 2, None),
            (3, "undo", 2, 0, 1, "redo"),
            (2, "rewind", None, 1, 0, None),
            (1, "rewind", None, 2, 1, None),
        ]
        assert s.moves()[0].root is None
        s.undo()
        s.clear()
        s.undo()
        assert [(move.number, move.takes_back, move.next) for move in s.moves()[:3]] == [
            (8, 7, "redo"),
            (7, None, None),
            (6, 5, None),
        ]

    def test_undo_takes_back_what_was_appended_since(self, s: Session) -> None:
        """The messages after a rewind go with it; redo brings them back with it."""
        say(s, "a", "b")
        s.rewind(0)
        say(s, "c", "d")
        s.undo()
        assert said(s) == ["a", "b"]
        s.redo()
        assert said(s) == ["a", "c", "d"]
        s.undo()
        say(s, "e")
        assert said(s) == ["a", "b", "e"]
        s.redo()
        assert said(s) == ["a", "c", "d"]
        s.undo()
        assert said(s) == ["a", "b", "e"]

    def test_a_new_move_ends_redo(self, s: Session) -> None:
        """After undo, another move starts anew; what could be redone is not lost, it can be gone to."""
        say(s, "a", "b")
        s.rewind(0)
        (c,) = s.append(user("c"))
        s.undo()
        s.clear()
        with pytest.raises(NothingToUndoError):
            s.redo()
        s.rewind(c)
        assert said(s) == ["a", "c"]

    def test_undo_is_refused_when_there_is_nothing(self, s: Session) -> None:
        """Appends are no steps; the error names the session."""
        say(s, "a")
        for call in (s.undo, s.redo):
            with pytest.raises(NothingToUndoError) as caught:
                call()
            assert caught.value.session == "s"

        assert said(s) == ["a"]

    def test_undo_does_not_touch_what_belongs_to_the_session(self, s: Session) -> None:
        """Title, variables, tags and checkpoints do not rewind."""
        say(s, "a", "b")
        s.rewind(0)
        s.set_var("v", 1)
        s.update(title="mine", tags=["t"])
        s.checkpoint("c")
        s.undo()

        assert (s.get_var("v"), s.info.title, s.info.tags) == (1, "mine", ("t",))
        assert s.get_checkpoint("c").position == 0

    def test_an_entry_never_changes(self, store: Store, s: Session) -> None:
        """P11: after all moves every entry ever returned reads the same, with the same hash."""
        kept: list[Entry] = s.append(*map(user, "abc"))
        s.rewind(0)
        kept += s.append(user("d"))
        kept += [s.compact("x"), s.set_summary("y")]
        kept += s.replace([user("z")], user_turns=9)
        s.clear()

        for entry in kept:
            s.rewind(entry)
            assert list(s.entries(last=1)) == [entry]
        check_chain(store, s)


def test_a_dry_run_of_a_rewind_says_where_it_would_go(store: Store, s: Session) -> None:
    """The session stays where it is."""
    s.append(user("a"), user("b"), user("c"))
    s.checkpoint("c")
    s.rewind(0)
    before = state(s)
    assert s.rewind("c", dry_run=True).position == 2
    assert s.rewind(0, dry_run=True) == s.head
    assert s.rewind(Head("", -1), dry_run=True).position == -1
    with pytest.raises(CheckpointNotFoundError):
        s.rewind(7, dry_run=True)
    assert state(s) == before
    assert store.read(lambda inside: inside.get(s.id).head) == s.head
