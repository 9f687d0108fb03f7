"""Reading: the history and its entries, forwards, backwards, in part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from clew.backends.contract import Backend
from clew.errors import CorruptEntryError, EntryNotFoundError, InvalidQueryError, SessionDeletedError
from clew.model import Head
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import assistant, said, say, texts, user
from clew.testing.chain import check_chain
from tests.support.rows import named
from tests.support.storage import Watched

PARTS: Final[list[tuple[dict[str, Any], range]]] = [
    ({}, range(10)),
    ({"last": 3}, range(7, 10)),
    ({"last": 0}, range(0)),
    ({"last": 99}, range(10)),
    ({"before": 3}, range(3)),
    ({"after": 7}, range(8, 10)),
    ({"after": 2, "before": 6}, range(3, 6)),
    ({"after": 2, "before": 6, "last": 2}, range(4, 6)),
    ({"after": 9}, range(0)),
    ({"before": 0}, range(0)),
    ({"after": 5, "before": 5}, range(0)),
    ({"after": 6, "before": 3}, range(0)),
    ({"after": Head("", -1)}, range(10)),
    ({"before": Head("", -1)}, range(0)),
]
"""Of ten entries: what is asked for, and where it lies."""


class TestHistory:
    """`messages()` is the full history on the path; `entries()` the same with the marks, one by one."""

    @pytest.fixture
    def ten(self, s: Session) -> Session:
        """Ten messages, "0" to "9", at positions 0 to 9."""
        say(s, *(f"{number}" for number in range(10)))
        return s

    def test_the_path_can_be_read_in_part(self, ten: Session) -> None:
        """The last few, those before a point, those after one; the points are left out. Messages and entries
        alike, and the other way round."""
        for options, positions in PARTS:
            expected = [str(position) for position in positions]
            with named(repr(options)):
                assert texts(ten.messages(**options)) == expected
                assert texts(ten.messages(**options, newest_first=True)) == expected[::-1]
                assert [entry.position for entry in ten.entries(**options)] == [*positions]
                backwards = [entry.position for entry in ten.entries(**options, newest_first=True)]
                assert backwards == [*positions][::-1]

    def test_a_point_off_the_path_is_not_found(self, store: Store, ten: Session) -> None:
        """EntryNotFoundError for what is not there, in another session, or on a branch left behind."""
        (left,) = list(ten.entries(last=1))
        ten.rewind(4)
        other = store.create("other")
        (foreign,) = other.append(user("x"))
        unknown: list[Any] = [5, 99, -1, True, None, 1.5, "name", left, left.id, foreign.id, Head("u", 0), ""]
        for point in unknown:
            if point is None:
                continue
            for call in (ten.messages, lambda **where: list(ten.entries(**where))):
                with pytest.raises(EntryNotFoundError) as caught:
                    call(before=point)
                assert caught.value.session == "s"
                with pytest.raises(EntryNotFoundError):
                    call(after=point)

    def test_what_comes_out_is_the_callers(self, ten: Session) -> None:
        """I-14: changing it changes nothing stored, nor what the next caller gets."""
        messages = ten.messages()
        messages[0]["content"] = "changed"
        messages.pop()
        (entry,) = list(ten.entries(last=1))
        entry.message["content"] = "changed"

        assert said(ten) == [f"{number}" for number in range(10)]
        assert entry.message == user("9")

    # -- entries

    def test_entries_are_messages_and_marks(self, s: Session) -> None:
        """In their order; `last` counts both."""
        s.append(user("a"), assistant("b"))
        s.set_summary("so far")
        s.compact("short")
        say(s, "c")
        s.truncate(1)
        kinds = [entry.kind for entry in s.entries()]

        assert kinds == ["message", "message", "summary", "compaction", "message", "truncation"]
        assert [entry.kind for entry in s.entries(last=2)] == ["message", "truncation"]
        assert [entry.kind for entry in s.entries(newest_first=True)] == kinds[::-1]

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_long_histories_are_read_across_branches(
        self, store: Store, s: Session, newest_first: bool
    ) -> None:
        """A path runs through several branches; no page or branch boundary loses or repeats an entry."""
        s.append(*[user(f"{number}") for number in range(150)])
        s.rewind(99)
        s.append(*[user(f"{number}") for number in range(100, 131)])
        fork = s.fork(at=127)
        fork.append(*[user(f"{number}") for number in range(128, 260)])
        fork.rewind(255)
        fork.append(*[user(f"{number}") for number in range(256, 300)])
        expected = [f"{number}" for number in range(300)]
        if newest_first:
            expected.reverse()

        assert texts(fork.messages(newest_first=newest_first)) == expected
        assert [e.message["content"] for e in fork.entries(newest_first=newest_first)] == expected
        assert texts(fork.messages(after=95, before=135)) == [f"{n}" for n in range(96, 135)]
        assert texts(fork.messages(last=50)) == [f"{n}" for n in range(250, 300)]
        check_chain(store, fork)

    def test_entries_are_read_as_they_are_needed(self, backend: Backend, s: Session) -> None:
        """P16: the first entry of a long history costs a page, not the history."""
        s.append(*[user(f"{number}") for number in range(500)])
        read = 0

        def count(name: str, args: tuple[Any, ...]) -> None:
            nonlocal read
            if name == "read_entries":
                read += args[2] - args[1] + 1

        watched = Store(Watched(backend, count)).get("s")
        for newest_first in (False, True):
            read = 0
            next(watched.entries(newest_first=newest_first))
            assert 0 < read <= 100

    def test_an_iteration_shows_the_path_as_it_was(self, s: Session) -> None:
        """What is appended, rewound or replaced while one iterates is not part of it."""
        s.append(*[user(f"{number}") for number in range(100)])
        found = []
        for entry in s.entries():
            if entry.position == 10:
                say(s, "while iterating")
            if entry.position == 70:
                s.rewind(3)
                say(s, "elsewhere")
            found.append(entry.message["content"])

        assert found == [f"{number}" for number in range(100)]

    @pytest.mark.parametrize("purge", [False, True])
    def test_an_iteration_ends_when_the_session_is_deleted(
        self, store: Store, s: Session, purge: bool
    ) -> None:
        """In the trash its entries can still be read to the end; a purge ends the iteration with
        SessionDeletedError, never with a history that is silently shorter."""
        s.append(*[user(f"{number}") for number in range(200)])
        entries = s.entries()
        next(entries)
        store.delete("s", purge=purge)
        if purge:
            with pytest.raises(SessionDeletedError):
                list(entries)
        else:
            try:
                assert len(list(entries)) == 199
            except SessionDeletedError:
                pass

    def test_a_missing_entry_costs_one_entry(self, backend: Backend, store: Store, s: Session) -> None:
        """P6: who reads it is told which one it is; the others can be read, and so can other sessions."""
        say(s, "a", "b", "c")
        other = store.create("other")
        say(other, "unharmed")
        with backend.write() as tx:
            branch = tx.find_branch(s.head.branch)
            assert branch is not None
            tx.drop_entries(branch.branch, 1)

        whole: list[Callable[[], Any]] = [s.messages, lambda: list(s.entries())]
        newest: list[Callable[[], Any]] = [lambda: s.messages(last=1), lambda: list(s.entries(last=1))]
        for read in (*whole, *newest):
            with pytest.raises(CorruptEntryError) as caught:
                read()
            assert (caught.value.source, caught.value.position) == (branch.uid, 2)
        assert [entry.position for entry in s.entries(damaged="skip")] == [0, 1]
        assert [entry.position for entry in s.entries(damaged="skip", newest_first=True)] == [1, 0]
        told: list[CorruptEntryError] = []
        assert len(list(s.entries(damaged="skip", on_damage=told.append))) == 2
        assert [(one.source, one.position) for one in told] == [(branch.uid, 2)]
        assert texts(s.messages(before=1)) == ["a"]
        assert s.info.messages == 3
        assert said(other) == ["unharmed"]
        s.rewind(1)
        assert said(s) == ["a", "b"]

    def test_unknown_options_are_refused(self, s: Session) -> None:
        """`damaged` is "raise" or "skip"."""
        with pytest.raises(InvalidQueryError):
            s.entries(damaged="ignore")  # type: ignore[arg-type]

        assert list(s.entries(damaged="skip")) == []

    def test_an_empty_session_has_nothing_to_read(self, s: Session) -> None:
        """And says so without an error."""
        calls: list[Callable[[], Any]] = [s.messages, lambda: s.messages(last=5), lambda: list(s.entries())]
        for call in [*calls, lambda: list(s.entries(newest_first=True)), s.context, s.checkpoints]:
            assert call() == []
