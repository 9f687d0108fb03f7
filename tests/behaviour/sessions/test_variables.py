"""What stands beside the conversation: variables of a session, annotations of an entry."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import EntryNotFoundError
from clew.model import Entry
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import assistant, say, user
from clew.testing.chain import check_chain


class TestVariables:
    """Neither variables nor annotations are part of the path; both are kept as exactly as messages."""

    # -- variables

    def test_variables_are_set_replaced_and_deleted(self, s: Session) -> None:
        """An unknown one gives the default; `delete_var` says whether there was one."""
        assert s.get_var("v") is None
        assert s.get_var("v", 5) == 5
        s.set_var("v", 1)
        s.set_var("v", 2)
        s.set_var("ä w", 3)
        assert s.vars() == {"v": 2, "ä w": 3}
        assert s.delete_var("v") is True
        assert s.delete_var("v") is False
        assert s.vars() == {"ä w": 3}

    def test_variables_do_not_rewind(self, s: Session) -> None:
        """They belong to the session, not to the conversation."""
        say(s, "a")
        s.set_var("v", 1)
        s.clear()
        s.set_var("v", 2)
        s.undo()

        assert s.get_var("v") == 2

    def test_variables_of_other_sessions_are_others(self, store: Store, s: Session) -> None:
        """The same name, another value."""
        other = store.create("other")
        s.set_var("v", 1)
        other.set_var("v", 2)
        other.delete_var("v")

        assert (s.vars(), other.vars()) == ({"v": 1}, {})

    # -- annotations

    def test_an_annotation_stands_beside_its_entry(self, store: Store, s: Session) -> None:
        """It comes with the entry wherever that is read, and changes neither message nor hash."""
        first, second = s.append(user("a"), assistant("b"))
        before = s.info
        note = {"summary": "short", "label": "bug", "note": {"n": [1, None]}}
        annotated = s.annotate(first, **note)

        assert annotated.annotations == note
        assert _plain(annotated) == _plain(first)
        assert [dict(entry.annotations) for entry in s.entries()] == [note, {}]
        assert [dict(entry.annotations) for entry in s.entries(newest_first=True)] == [{}, note]
        assert s.messages() == [user("a"), assistant("b")]
        assert s.info == before
        assert list(s.entries())[1] == second
        check_chain(store, s)

    def test_fields_are_set_one_by_one(self, s: Session) -> None:
        """What is not named stays; None takes a field away; the last one takes the annotation away."""
        (entry,) = s.append(user("a"))
        s.annotate(entry, summary="x", note=1)
        s.annotate(entry, note=2, label="l")
        assert _notes(s) == [{"summary": "x", "note": 2, "label": "l"}]
        s.annotate(entry, summary=None, label=None)
        assert _notes(s) == [{"note": 2}]
        s.annotate(entry, note=None, never=None)
        assert _notes(s) == [{}]

    def test_entries_are_found_by_label(self, s: Session) -> None:
        """In the order of the path; a label may be on several entries and be taken away."""
        a, b, c = s.append(*map(user, "abc"))
        s.annotate(c, label="bug")
        s.annotate(a, label="bug")
        s.annotate(b, label="other")

        assert _labelled(s, "bug") == ["a", "c"]
        assert _labelled(s, "bug", newest_first=True) == ["c", "a"]
        assert _labelled(s, "bug", last=2) == ["c"]
        assert _labelled(s, "unknown") == []
        s.annotate(a, label="other")
        assert (_labelled(s, "bug"), _labelled(s, "other")) == (["c"], ["a", "b"])
        s.annotate(c, label=None)
        assert _labelled(s, "bug") == []
        s.rewind(a)
        assert _labelled(s, "other") == ["a"]

    def test_marks_can_be_annotated(self, s: Session) -> None:
        """A compaction or a summary is an entry too."""
        say(s, "a")
        s.annotate(s.compact("short"), label="cut")

        assert [entry.kind for entry in s.entries(label="cut")] == ["compaction"]

    def test_an_annotation_is_of_the_session_and_the_entry(self, s: Session) -> None:
        """Base and fork have each their own, also when the entry is off the path and back again."""
        (a, b) = s.append(user("a"), user("b"))
        fork = s.fork()
        s.annotate(a, label="shared")
        fork.annotate(b, label="shared")
        s.annotate(b, label="shared")
        s.rewind(0)
        assert (_labelled(s, "shared"), _labelled(fork, "shared")) == (["a"], ["b"])
        s.undo()
        assert _labelled(s, "shared") == ["a", "b"]

    def test_a_label_is_not_one_that_begins_alike(self, s: Session) -> None:
        """Whatever is in it: a colon, a dot, letters of any script."""
        labels = ["a", "a:b", "a:b:c", "a.1", "ä", ":", "a:", "\U0010ffff", "a\U0010ffff:"]
        for label in labels:
            s.annotate(*s.append(user(label)), label=label)

        assert [_labelled(s, label) for label in labels] == [[label] for label in labels]

    def test_labels_of_other_sessions_are_others(self, store: Store, s: Session) -> None:
        """The same label in a session of another tree finds its own entries only."""
        other = store.create("other")
        s.annotate(*s.append(user("a")), label="l")
        other.annotate(*other.append(user("b")), label="l")

        assert (_labelled(s, "l"), _labelled(other, "l")) == (["a"], ["b"])

    def test_an_unknown_entry_can_not_be_annotated(self, store: Store, s: Session) -> None:
        """EntryNotFoundError: not there, of another session, or the empty beginning."""
        empty = s.head
        say(s, "a")
        other = store.create("other")
        (foreign,) = other.append(user("b"))
        for point in (5, "name", foreign, foreign.id, empty):
            with pytest.raises(EntryNotFoundError):
                s.annotate(point, note=1)
        assert _notes(other) == [{}]


def _notes(s: Session) -> list[dict[str, Any]]:
    return [dict(entry.annotations) for entry in s.entries()]


def _labelled(s: Session, label: str, **options: Any) -> list[str]:
    return [entry.message["content"] for entry in s.entries(label=label, **options)]


def _plain(entry: Entry) -> tuple[Any, ...]:
    """An entry without what stands beside it."""
    return entry.id, entry.position, entry.kind, entry.raw, entry.stamp, entry.digest, entry.replaced
