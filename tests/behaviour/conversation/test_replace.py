"""Replacing the history: what both begin with is kept, the rest is written, nothing is removed."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import HeadMovedError, InvalidError, NothingToUndoError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import assistant, said, say, texts, user
from clew.testing.chain import check_store


class TestReplace:
    """After it the path holds the messages that were given, and no others."""

    def test_replace_puts_a_new_history_in_the_place_of_the_old(self, s: Session) -> None:
        """It starts at position 0; the entries come back; what follows is appended to it."""
        s.append(user("a"), assistant("b"))
        entries = s.replace([user("x"), '{"role": "user",  "content": "y"}'])

        assert [entry.position for entry in entries] == [0, 1]
        assert entries[1].raw == b'{"role": "user",  "content": "y"}'
        assert list(s.entries()) == entries
        say(s, "z")
        assert said(s) == ["x", "y", "z"]
        assert s.info.preview == "z"

    def test_replace_starts_with_a_clean_view(self, s: Session) -> None:
        """No compaction or truncation of the old history has a say in the new one; the summary stays."""
        say(s, "a", "b")
        s.compact("short")
        s.set_summary("sum")
        s.replace([user("x")])

        assert texts(s.context()) == ["x"]
        assert s.summary == "sum"
        s.replace([])
        assert (said(s), s.summary) == ([], "sum")
        s.undo()
        s.undo()
        assert (said(s), texts(s.context()), s.summary) == (["a", "b"], ["short"], "sum")

    @pytest.mark.parametrize("mark", ["compact", "truncate"])
    def test_replace_shows_the_model_what_was_hidden_from_it(
        self, store: Store, s: Session, mark: str
    ) -> None:
        """The same messages again are in view again, and no message before the cut is written anew."""
        say(s, *"abc")
        s.compact("short") if mark == "compact" else s.truncate(1)
        say(s, "d")
        old = list(s.entries(before=3))
        entries = s.replace([user(text) for text in "abcd"])

        assert said(s) == texts(s.context()) == [*"abcd"]
        assert entries[:3] == old
        s.undo()
        assert texts(s.context())[-1] == "d"
        assert len(s.context()) == 2
        check_store(store)

    def test_replace_keeps_what_both_begin_with(self, store: Store, s: Session) -> None:
        """Those entries stay as they are; only the rest is written, on a new branch."""
        first, second, third = s.append(user("a"), assistant("b"), user("c"))
        s.annotate(first, note="kept")
        before = store.stats().entries
        entries = s.replace([user("a"), assistant("b"), user("x"), user("y")])

        assert [entry.id for entry in entries[:2]] == [first.id, second.id]
        assert entries[0].annotations == {"note": "kept"}
        assert [entry.position for entry in entries] == [0, 1, 2, 3]
        assert list(s.entries()) == entries
        assert (store.stats().entries - before, s.info.user_turns, s.info.preview) == (2, 3, "y")
        s.undo()
        assert said(s) == ["a", "b", "c"]
        s.redo()
        assert said(s) == ["a", "b", "x", "y"]
        s.rewind(third)
        assert said(s) == ["a", "b", "c"]
        check_store(store)

    def test_a_growing_history_is_stored_once(self, store: Store, s: Session) -> None:
        """However often it is saved as a whole; `undo` goes back save by save."""
        messages = [user(f"{number}") for number in range(50)]
        s.set_summary("sum")
        for length in range(1, 51):
            s.replace(messages[:length])

        assert s.messages() == messages
        assert store.stats().entries == 51
        assert (s.info.user_turns, s.info.messages, s.summary) == (50, 50, "sum")
        s.undo()
        s.undo()
        assert s.messages() == messages[:48]
        s.replace(messages)
        assert s.messages() == messages
        check_store(store)

    def test_replace_with_a_shorter_history_writes_nothing(self, store: Store, s: Session) -> None:
        """It is a rewind then, with the counts of that place."""
        say(s, *"abc")
        before = store.stats().entries
        entries = s.replace([user("a")])

        assert (said(s), [entry.position for entry in entries]) == (["a"], [0])
        assert (store.stats().entries, s.info.user_turns, s.info.preview) == (before, 1, "a")
        say(s, "d")
        assert said(s) == ["a", "d"]
        s.undo()
        assert said(s) == ["a", "b", "c"]
        check_store(store)

    def test_to_replace_a_history_by_itself_changes_nothing(self, s: Session) -> None:
        """The head stays where it is, and there is nothing to undo."""
        entries = s.append(user("a"), assistant("b"))
        before = s.info
        assert s.replace([user("a"), assistant("b")]) == entries
        assert s.info == before
        with pytest.raises(NothingToUndoError):
            s.undo()

    def test_messages_are_the_same_only_byte_for_byte(self, s: Session) -> None:
        """Another spelling, another order of keys or a replaced surrogate is another message."""
        s.append('{"role": "user", "content": "a"}')
        (entry,) = s.replace([user("a")])
        assert entry.raw == b'{"role":"user","content":"a"}'
        (entry,) = s.replace([{"content": "a", "role": "user"}])
        assert entry.raw == b'{"content":"a","role":"user"}'
        (entry,) = s.replace([user("\ud800")])
        (clean,) = s.replace([user("\ufffd")])
        assert (entry.replaced, clean.replaced, entry.raw == clean.raw) == (True, False, True)

    def test_a_key_of_a_kept_message_is_still_known(self, s: Session) -> None:
        """And one of a message that was replaced is free; `expect` knows the new head."""
        (first,) = s.append(user("a"), key="first")
        s.append(user("b"), key="second")
        old = s.head
        s.replace([user("a"), user("x")])

        assert s.append(user("a"), key="first") == [first]
        with pytest.raises(HeadMovedError):
            s.append(user("y"), expect=old)
        s.append(user("b"), key="second", expect=s.head)
        assert said(s) == ["a", "x", "b"]

    def test_a_fork_that_replaces_leaves_its_base_alone(self, store: Store, s: Session) -> None:
        """What it shares with its base is not its own to append to."""
        say(s, "a", "b")
        fork = s.fork()
        fork.replace([user("a"), user("b"), user("c")])
        fork.replace([user("a"), user("d")])

        assert (said(s), said(fork)) == (["a", "b"], ["a", "d"])
        say(s, "e")
        assert (said(s), said(fork)) == (["a", "b", "e"], ["a", "d"])
        check_store(store)

    def test_replace_counts_user_turns_or_takes_the_count(self, s: Session) -> None:
        """Without `user_turns` those in the messages; with it, that number, from which counting goes on."""
        say(s, "a", "b", "c")
        s.replace([user("x"), assistant("y"), user("z")])
        assert s.info.user_turns == 2
        s.replace([user("x")], user_turns=40)
        assert (s.info.user_turns, s.info.messages) == (40, 1)
        say(s, "next")
        assert s.info.user_turns == 41
        s.replace([user("x"), user("next")])
        assert s.info.user_turns == 2
        s.replace([], user_turns=3)
        assert (s.info.user_turns, s.messages()) == (3, [])

    @pytest.mark.parametrize("bad", ["text", b"{}", {"role": "user"}], ids=repr)
    def test_replace_takes_a_list(self, s: Session, bad: Any) -> None:
        """A single message or text is refused: it would be taken for a list of its parts."""
        with pytest.raises(InvalidError):
            s.replace(bad)
