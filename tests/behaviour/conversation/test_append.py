"""Appending: whole batches or nothing, once for each key, at the expected head, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.errors import (
    HeadMovedError,
    InvalidEntryError,
    KeyReusedError,
)
from clew.model import Head, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, assistant, said, say, user
from clew.testing.chain import check_chain
from tests.behaviour.rows import each_session
from tests.support.rows import each_row

ODD_TEXT = ' {"b" :1.0, "a":\t[1e2,-0.0, 1E+2,"\\u00fc\\/"],"n":\n123456789012345678901234567890} '


class TestAppend:
    """An append that returned is there, as it was given, exactly once."""

    # -- what comes back

    def test_an_append_returns_its_entries(self, s: Session, clock: Ticking) -> None:
        """One for each message, with id, position, time and hash; the same that reading gives."""
        first = s.append(user("a"))
        second = s.append(user("b"), assistant("c"))
        entries = [*first, *second]

        assert [entry.position for entry in entries] == [0, 1, 2]
        assert [entry.kind for entry in entries] == ["message"] * 3
        assert [entry.message for entry in entries] == [user("a"), user("b"), assistant("c")]
        assert len({entry.id for entry in entries}) == len({entry.hash for entry in entries}) == 3
        assert second[0].time == second[1].time == utc(clock.now)
        assert all(len(entry.hash) == 64 for entry in entries)
        assert list(s.entries()) == entries
        assert str(s.head) == second[-1].id

    def test_an_append_of_nothing_writes_nothing(self, s: Session) -> None:
        """I-10: an empty batch is no error and no entry, whatever else is asked of it."""
        say(s, "a")
        before = s.info

        assert s.append() == []
        assert s.append(key="k") == []
        assert s.append(expect=Head("elsewhere", 7)) == []
        s.append_nowait()
        assert s.info == before

    def test_appends_follow_each_other(self, store: Store, s: Session) -> None:
        """P3: positions have no gap and no repetition, however the messages are spread over batches."""
        for size in (1, 3, 2, 5):
            s.append(*[user(f"{size}.{number}") for number in range(size)])

        assert [entry.position for entry in s.entries()] == list(range(11))
        check_chain(store, s)

    # -- byte for byte

    @each_session(
        "as_what",
        [str, str.encode, lambda t: bytearray(t.encode()), lambda t: memoryview(t.encode())],
        ids=["str", "bytes", "bytearray", "memoryview"],
    )
    def test_json_text_is_kept_byte_for_byte(self, s: Session, as_what: Any) -> None:
        """P17, I-05, I-07: spaces, escapes, the order of keys, the way numbers are written."""
        (entry,) = s.append(as_what(ODD_TEXT))

        assert entry.raw == ODD_TEXT.encode()
        assert [found.raw for found in s.entries()] == [ODD_TEXT.encode()]
        assert s.messages() == [json.loads(ODD_TEXT)]

    def test_a_dict_comes_back_equal(self, s: Session) -> None:
        """P17: the same types, the same order of keys, at every depth."""
        message = {
            "role": "user",
            "content": [{"z": None, "a": True, "m": False}, 1, 1.0, -0.0, 10**300, "", "\0", "ü\U0001f600"],
            "\0": {"": []},
        }
        (entry,) = s.append(message)

        assert repr(s.messages()) == repr([message])
        assert repr(entry.message) == repr(message)

    def test_any_object_is_a_message(self, s: Session) -> None:
        """I-10, I-16: empty, without a role, of a shape that nobody knows: stored as given."""
        odd: list[dict[str, Any]] = [
            {},
            {"role": None},
            {"role": "user", "content": ""},
            {"role": "user", "content": None},
            {"role": "user", "content": []},
            {"role": "martian", "version": 99, "payload": {"deep": [[[]]]}},
            {"type": "reasoning", "encrypted_content": "gAAA/+==", "signature": "x\u0000\u2028"},
        ]
        s.append(*odd)

        assert s.messages() == odd

    # -- all or nothing

    @each_row("bad", [{"a": float("nan")}, "[1]", "{", b"\xff", 5, None, {"a": {1, 2}}], ids=repr)
    @each_session("place", [0, 1, 2])
    def test_one_bad_message_refuses_the_whole_batch(self, s: Session, bad: Any, place: int) -> None:
        """P2: nothing is written, and the error says which message it was."""
        say(s, "before")
        before = s.info
        batch: list[Any] = [user("a"), user("b")]
        batch.insert(place, bad)
        with pytest.raises(InvalidEntryError) as caught:
            s.append(*batch)

        assert caught.value.path.startswith(f"messages[{place}]")
        assert s.info == before

    # -- keys

    def test_a_repeated_append_is_one(self, store: Store, s: Session) -> None:
        """P4: the same key and the same messages: nothing is written, the first entries come back."""
        first = s.append(user("a"), assistant("b"), key="turn-1")
        say(s, "later")
        before = s.info

        assert s.append(user("a"), assistant("b"), key="turn-1") == first
        assert s.info == before
        check_chain(store, s)

    @pytest.mark.parametrize(
        "other",
        [[user("b")], [user("a"), user("a")], ['{"content":"a","role":"user"}']],
        ids=["text", "more", "order"],
    )
    def test_a_key_stands_for_its_messages_alone(self, s: Session, other: list[Any]) -> None:
        """P4: the same key with other messages raises KeyReusedError and writes nothing."""
        s.append(user("a"), key="k")
        before = s.info
        with pytest.raises(KeyReusedError) as caught:
            s.append(*other, key="k")

        assert (caught.value.session, caught.value.key) == ("s", "k")
        assert s.info == before

    def test_a_key_is_free_again_when_its_entries_are_off_the_path(self, s: Session) -> None:
        """After a rewind the turn is done anew: with other words, or the same."""
        say(s, "start")
        (first,) = s.append(user("a"), key="k")
        s.rewind(0)
        (second,) = s.append(user("b"), key="k")
        assert said(s) == ["start", "b"]
        assert s.append(user("b"), key="k") == [second]

        s.rewind(0)
        (third,) = s.append(user("b"), key="k")
        assert said(s) == ["start", "b"]
        assert third.id not in (first.id, second.id)

    def test_a_key_is_known_again_when_its_entries_are_back(self, s: Session) -> None:
        """P4: undo brings back the first batch, and with it what the key stood for."""
        first = s.append(user("a"), key="k")
        s.clear()
        second = s.append(user("b"), key="k")
        s.undo()
        assert s.append(user("a"), key="k") == first
        with pytest.raises(KeyReusedError):
            s.append(user("b"), key="k")
        s.redo()
        assert s.append(user("b"), key="k") == second
        assert said(s) == ["b"]

    def test_a_key_belongs_to_one_session(self, store: Store, s: Session) -> None:
        """Another session, or a fork, may use the same one."""
        s.append(user("a"), key="k")
        other, fork = store.create("other"), s.fork()
        other.append(user("b"), key="k")
        fork.append(user("c"), key="k")

        assert (said(s), said(other), said(fork)) == (["a"], ["b"], ["a", "c"])

    # -- expected heads

    def test_an_append_may_expect_a_head(self, s: Session) -> None:
        """It is written if the head is that one, the empty one at the start."""
        s.append(user("a"), expect=s.head)
        s.append(user("b"), expect=s.head)

        assert said(s) == ["a", "b"]

    def test_an_append_at_a_moved_head_is_refused(self, s: Session) -> None:
        """HeadMovedError names both heads; nothing was written."""
        empty = s.head
        say(s, "a")
        with pytest.raises(HeadMovedError) as caught:
            s.append(user("b"), expect=empty)

        assert (caught.value.expected, caught.value.actual) == (empty, s.head)
        assert said(s) == ["a"]
        s.rewind(0)
        s.append(user("b"), expect=s.head)
        assert said(s) == ["a", "b"]

    def test_the_head_moves_with_every_change_of_the_path(self, s: Session) -> None:
        """Rewind, undo, marks: whoever expected the head of before is refused."""
        say(s, "a", "b")
        for change in (lambda: s.rewind(0), s.undo, lambda: s.set_summary("x"), s.clear):
            before = s.head
            change()
            with pytest.raises(HeadMovedError):
                s.append(user("late"), expect=before)

        assert said(s) == []

    def test_a_head_at_an_equal_position_of_another_branch_is_another_head(self, s: Session) -> None:
        """A branch that was left is as long as the one that took its place: who expected it is refused."""
        say(s, "a", "b")
        before = s.head
        s.rewind(0)
        say(s, "c")
        assert s.head.position == before.position
        with pytest.raises(HeadMovedError):
            s.append(user("late"), expect=before)

        assert said(s) == ["a", "c"]

    def test_a_repeated_append_does_not_mind_its_own_success(self, s: Session) -> None:
        """With `key` and `expect`, the retry of an append that had succeeded succeeds."""
        head = s.head
        first = s.append(user("a"), key="k", expect=head)

        assert s.append(user("a"), key="k", expect=head) == first
