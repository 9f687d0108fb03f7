"""What a session notes at an entry is its own: sessions that share the entry share no note.

What an import stored with an entry is part of the entry, and is the same for all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.backends.contract import STORE_WIDE, Backend, RecordKind
from clew.model import Json
from clew.model.source import SourceEntry, SourceSession
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import say, user
from clew.testing.chain import check_store


def notes(session: Session) -> list[dict[str, Json]]:
    return [dict(entry.annotations) for entry in session.entries()]


def labelled(session: Session, label: str) -> list[int]:
    return [entry.position for entry in session.entries(label=label)]


def found(store: Store, query: str, **options: Any) -> list[tuple[str, int]]:
    return [(hit.session, hit.position) for hit in store.search(query, **options)]


def imported(store: Store, count: int = 2, id: str = "p:1") -> Session:
    """A session of another program, of which each entry came with a note."""
    entries = [
        SourceEntry(
            uid=str(number),
            parent=str(number - 1) if number else None,
            message=user(f"n{number}"),
            notes={"note": f"came {number}", "source": {"line": number}},
        )
        for number in range(count)
    ]
    store.load(SourceSession(id=id, entries=tuple(entries)))
    return store.get(id)


def records(backend: Backend, sid: int, kind: RecordKind) -> list[str]:
    with backend.read() as reader:
        return [name for name, _ in reader.scan_records(sid, kind)]


def old_annotation(backend: Backend, s: Session, position: int, fields: dict[str, Json]) -> None:
    """What `annotate` wrote before annotations were of a session: one for all that share the entry."""
    with backend.write() as tx:
        row = tx.get_session(s._sid)
        assert row is not None
        branch = tx.get_branch(row.head.branch)
        entry = tx.get_entry(branch.branch, position)
        assert entry is not None
        name = f"{branch.uid}.{position:010d}"
        tx.put_record(STORE_WIDE, "annotation", name, msgspec.json.encode(fields))
        if "note" in fields:
            value = msgspec.json.encode([entry.time, branch.branch, fields["note"]])
            tx.put_record(STORE_WIDE, "note", name, value)
        if "label" in fields:
            label = f"{row.tree}:{fields['label']}"
            tx.put_record(STORE_WIDE, "label", label, msgspec.json.encode([name]))


class TestForks:
    """A fork begins with the notes of its base, and from there on each has its own."""

    def test_a_fork_takes_along_the_notes_and_labels_of_its_path(self, store: Store, s: Session) -> None:
        """Those of the entries before it, as they are at that moment; not those of what it does not have."""
        say(s, "one", "two", "three")
        s.annotate(0, note="word", label="l", stars=5)
        s.annotate(2, note="later word", label="l")

        fork = s.fork("fork", at=1)

        assert notes(fork) == [{"note": "word", "label": "l", "stars": 5}, {}]
        assert labelled(fork, "l") == [0]
        assert found(store, "word", session="fork") == [("fork", 0)]
        assert store.verify().ok
        check_store(store)

    def test_later_notes_and_labels_cross_in_neither_direction(self, store: Store, s: Session) -> None:
        """Neither are they read, nor found, nor replaced."""
        say(s, "one", "two")
        s.annotate(0, note="word first", label="l")
        fork = s.fork("fork")

        s.annotate(0, note="word of the base", label="base")
        s.annotate(1, note="word of the base", label="base")
        fork.annotate(0, note="word of the fork", label="fork")

        assert notes(s) == [{"note": "word of the base", "label": "base"}] * 2
        assert notes(fork) == [{"note": "word of the fork", "label": "fork"}, {}]
        assert (labelled(s, "base"), labelled(s, "fork"), labelled(s, "l")) == ([0, 1], [], [])
        assert (labelled(fork, "base"), labelled(fork, "fork"), labelled(fork, "l")) == ([], [0], [])
        assert found(store, "base", session="fork") == []
        assert found(store, "fork", session="s") == []
        assert [(hit.session, hit.snippet) for hit in store.search("word", session="fork")] == [
            ("fork", "word of the fork")
        ]
        assert store.verify().ok
        check_store(store)

    def test_a_removal_does_not_cross(self, store: Store, s: Session) -> None:
        """What one of them takes away stays with the other."""
        say(s, "one")
        s.annotate(0, note="word", label="l")
        fork, other = s.fork("fork"), s.fork("other")

        s.annotate(0, note=None, label=None)
        other.annotate(0, label=None)

        assert (notes(s), notes(fork), notes(other)) == (
            [{}],
            [{"note": "word", "label": "l"}],
            [{"note": "word"}],
        )
        assert (labelled(s, "l"), labelled(fork, "l"), labelled(other, "l")) == ([], [0], [])
        assert found(store, "word", session="s") == []
        assert store.verify().ok

    def test_a_note_at_an_entry_of_the_fork_s_past_is_not_of_the_base(self, store: Store, s: Session) -> None:
        """A search that could show the entry in both shows the note where it is."""
        say(s, "one")
        fork = s.fork("fork")
        fork.annotate(0, note="word")

        assert found(store, "word") == [("fork", 0)]
        store.delete("fork")
        assert found(store, "word") == []
        store.restore_deleted("fork")
        assert found(store, "word") == [("fork", 0)]

    def test_a_note_counts_only_for_the_session_that_shows_the_hit(self, store: Store, s: Session) -> None:
        """A note of another session makes a hit no better."""
        say(s, "word one", "word")
        fork = s.fork("fork")
        assert [hit.position for hit in store.search("word", order="best")] == [1, 0]

        fork.annotate(0, note="word word word")

        assert [hit.position for hit in store.search("word", order="best", session="s")] == [1, 0]
        assert [hit.position for hit in store.search("word", order="best", session="fork")] == [0, 1]
        assert [hit.in_note for hit in store.search("word", session="fork")] == [False, False]

    def test_a_fork_in_a_transaction_that_fails_leaves_nothing(
        self, store: Store, backend: Backend, s: Session
    ) -> None:
        """The notes are copied in the transaction of the fork."""
        say(s, "one")
        s.annotate(0, note="word", label="l")
        before = records(backend, STORE_WIDE, "note")

        def fork_and_fail(tx: Store) -> None:
            tx.get("s").fork("fork")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.transact(fork_and_fail)
        assert records(backend, STORE_WIDE, "note") == before
        assert store.find("fork") is None

    def test_a_note_on_what_was_rewound_stays_with_its_session(self, store: Store, s: Session) -> None:
        """Also where the entry is one of the base that the fork no longer has on its path."""
        say(s, "one", "two")
        fork = s.fork("fork")
        fork.annotate(1, note="word")
        fork.rewind(0)

        assert found(store, "word", session="fork") == [("fork", 1)]
        assert found(store, "word", session="s") == []
        fork.undo()
        assert notes(fork) == [{}, {"note": "word"}]


class TestImported:
    """What came with an entry is part of it."""

    def test_a_fork_of_an_imported_session_copies_none_of_its_notes(
        self, store: Store, backend: Backend
    ) -> None:
        """They stay where they are, however many there are; both have them."""
        session = imported(store, 300)
        before = records(backend, STORE_WIDE, "annotation"), records(backend, STORE_WIDE, "note")

        fork = session.fork("fork")

        assert (len(before[0]), len(before[1])) == (300, 300)
        assert (records(backend, STORE_WIDE, "annotation"), records(backend, STORE_WIDE, "note")) == before
        assert records(backend, fork._sid, "annotation") == []
        assert notes(fork) == notes(session)
        assert found(store, '"came 7"', session="fork") == [("fork", 7)]

    def test_an_annotation_overrides_what_came_for_its_session_only(self, store: Store) -> None:
        """It is the whole annotation: what came and was not changed is in it."""
        session = imported(store)
        fork = session.fork("fork")

        fork.annotate(0, note="changed word", label="l")

        assert notes(fork)[0] == {"note": "changed word", "label": "l", "source": {"line": 0}}
        assert notes(session)[0] == {"note": "came 0", "source": {"line": 0}}
        assert (found(store, "came", session="fork"), found(store, "changed", session="fork")) == (
            [("fork", 1)],
            [("fork", 0)],
        )
        assert (found(store, "came", session="p:1"), found(store, "changed", session="p:1")) == (
            [("p:1", 1), ("p:1", 0)],
            [],
        )
        assert store.verify().ok
        check_store(store)

    def test_what_came_can_be_taken_away_for_one_session(self, store: Store) -> None:
        """For the others it is there; a fork of that session has none either."""
        session = imported(store, 1)
        other = session.fork("other")

        session.annotate(0, note=None, source=None)
        fork = session.fork("fork")

        assert (notes(session), notes(fork)) == ([{}], [{}])
        assert notes(other) == [{"note": "came 0", "source": {"line": 0}}]
        assert [hit.session for hit in store.search("came")] == ["other"]
        session.annotate(0, note="back")
        assert notes(session) == [{"note": "back"}]
        assert store.verify().ok

    def test_what_is_as_it_came_again_needs_no_record(self, store: Store, backend: Backend) -> None:
        """A field that was added and taken away leaves nothing behind."""
        session = imported(store, 1)
        session.annotate(0, stars=5)
        assert len(records(backend, session._sid, "annotation")) == 1
        session.annotate(0, stars=None)
        assert records(backend, session._sid, "annotation") == []
        assert notes(session) == [{"note": "came 0", "source": {"line": 0}}]

    def test_a_fork_that_an_import_finds_has_what_came_and_nothing_else(self, store: Store) -> None:
        """What its base noted here since stays with the base."""
        session = imported(store, 2)
        session.annotate(0, note="mine", label="l")
        entries = [
            SourceEntry(
                uid=f"copy-{number}",
                parent=f"copy-{number - 1}" if number else None,
                message=user(f"n{number}"),
                notes={"note": f"came {number}", "source": {"line": number}} if number < 2 else {},
            )
            for number in range(3)
        ]
        store.load(SourceSession(id="p:2", entries=tuple(entries), parent="p:1", is_copy=True))
        fork = store.get("p:2")

        assert fork.info.forked_from is not None
        assert [one.get("note") for one in notes(fork)] == ["came 0", "came 1", None]
        assert labelled(fork, "l") == []
        assert [one.get("note") for one in notes(session)] == ["mine", "came 1"]

    def test_the_file_of_an_import_comes_back_whatever_was_noted_since(self, store: Store) -> None:
        """More of the file is loaded behind it, and changes nothing of what the session noted."""
        session = imported(store, 1)
        session.annotate(0, note="mine")
        imported(store, 2)

        assert [one.get("note") for one in notes(session)] == ["mine", "came 1"]


class TestOfAnOlderStore:
    """An annotation of a store that was written before says not whose it is: it is the entry's."""

    def test_old_annotations_are_read_found_and_resolved_in_all_that_share_the_entry(
        self, store: Store, backend: Backend, s: Session
    ) -> None:
        """As they were then."""
        say(s, "one", "two")
        old_annotation(backend, s, 0, {"note": "word", "label": "l"})
        fork = s.fork("fork")

        assert notes(s) == notes(fork) == [{"note": "word", "label": "l"}, {}]
        assert labelled(s, "l") == labelled(fork, "l") == [0]
        assert found(store, "word", session="fork") == [("fork", 0)]
        assert store.verify().ok

    def test_a_session_changes_an_old_annotation_for_itself(
        self, store: Store, backend: Backend, s: Session
    ) -> None:
        """The label too: it names nothing any more in this session, and the entry in the other."""
        say(s, "one", "two")
        old_annotation(backend, s, 0, {"note": "word", "label": "l"})
        fork = s.fork("fork")

        fork.annotate(0, note=None, label="mine")
        s.annotate(1, label="l")

        assert (notes(fork)[0], notes(s)[0]) == ({"label": "mine"}, {"note": "word", "label": "l"})
        assert (labelled(fork, "l"), labelled(fork, "mine")) == ([], [0])
        assert (labelled(s, "l"), labelled(s, "mine")) == ([0, 1], [])
        assert store.verify().ok
        check_store(store)


class TestCopies:
    """Who said what stays so, wherever a family of sessions goes."""

    def family(self, store: Store) -> None:
        base = imported(store, 3, "base")
        base.annotate(0, note="of the base", label="l")
        fork = base.fork("fork")
        fork.annotate(0, note="of the fork")
        fork.annotate(1, note=None, label="fork")
        base.annotate(2, label="base")
        base.append(user("more"))
        base.annotate(3, note="of the base")

    def told(self, store: Store) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for id in ("base", "fork"):
            session = store.get(id)
            labels = {label: labelled(session, label) for label in ("l", "fork", "base")}
            told[id] = notes(session), labels, found(store, "of", session=id)
        return told

    def test_a_copy_says_what_its_source_says(self, store: Store, tmp_path: Path) -> None:
        """So does one that is brought up to date, with what was changed and taken away since."""
        self.family(store)
        with clew.open(tmp_path / "copy.db") as other:
            clew.copy(store, other)
            assert self.told(other) == self.told(store)
            store.get("fork").annotate(0, note="changed")
            store.get("fork").annotate(1, label=None)
            store.get("base").annotate(0, note=None, source=None, label=None)
            clew.copy(store, other)
            assert self.told(other) == self.told(store)
            assert other.verify().ok
            check_store(other)

    def test_an_exported_session_has_its_own_notes_and_no_others(self, store: Store, tmp_path: Path) -> None:
        """Imported elsewhere, it says what it said; what its base noted is not in the file."""
        self.family(store)
        store.export("fork", "jsonl", path=tmp_path / "fork.jsonl")
        assert "of the base" not in (tmp_path / "fork.jsonl").read_text()
        with clew.open("memory:") as other:
            other.import_path(tmp_path / "fork.jsonl")
            assert self.told_of(other, "fork") == self.told_of(store, "fork")
            assert other.verify().ok
            check_store(other)

    def told_of(self, store: Store, id: str) -> Any:
        session = store.get(id)
        labels = {label: labelled(session, label) for label in ("l", "fork", "base")}
        return notes(session), labels, found(store, "of", session=id)

    def test_an_exported_file_again_changes_nothing(self, store: Store, tmp_path: Path) -> None:
        """And one that has new notes brings them."""
        self.family(store)
        base = store.get("base")
        store.export("base", "jsonl", path=tmp_path / "1.jsonl")
        base.annotate(1, note="of the base, new")
        store.export("base", "jsonl", path=tmp_path / "2.jsonl")
        with clew.open("memory:") as other:
            for number in (1, 1, 2, 2):
                other.import_path(tmp_path / f"{number}.jsonl")
            assert self.told_of(other, "base") == self.told_of(store, "base")
            assert other.verify().ok

    def test_a_repair_keeps_who_said_what(self, store: Store, tmp_path: Path) -> None:
        """All of it can be read, so all of it is there."""
        self.family(store)
        report = store.repair(to=tmp_path / "repaired.db")
        assert report.lost == ()
        with clew.open(tmp_path / "repaired.db") as other:
            assert self.told(other) == self.told(store)
            assert other.verify().ok
            check_store(other)

    def test_a_backup_keeps_who_said_what(self, store: Store, tmp_path: Path) -> None:
        """It is the store as it was."""
        self.family(store)
        before = self.told(store)
        store.backup(tmp_path / "backup.db")
        store.get("fork").annotate(0, note="of the fork, later")
        with clew.open(tmp_path / "backup.db") as other:
            assert self.told(other) == before
            assert other.verify().ok

    def test_a_damaged_annotation_costs_itself(self, store: Store, backend: Backend, tmp_path: Path) -> None:
        """Neither a fork nor a repair nor a purge fails for it, and verify names it."""
        self.family(store)
        fork = store.get("fork")
        name = records(backend, fork._sid, "annotation")[0]
        with backend.write() as tx:
            tx.put_record(fork._sid, "annotation", name, b"{")
            tx.put_record(fork._sid, "annotation", "nonsense", b"{}")

        told = "\n".join(store.verify().problems)
        assert f"the annotation {name!r} of session 'fork'" in told
        assert "the annotation 'nonsense' of session 'fork'" in told
        again = fork.fork("again")
        assert [len(note) for note in notes(again)][1:] == [2, 2]
        store.repair(to=tmp_path / "repaired.db")
        with clew.open(tmp_path / "repaired.db") as other:
            assert self.told_of(other, "base") == self.told_of(store, "base")
            assert labelled(other.get("fork"), "fork") == [1]
            assert other.verify().ok
        store.delete("fork", purge=True)
        assert found(store, "fork", session="base") == []
        assert all(
            "@" not in key or not key.startswith(f"{fork._sid}@")
            for key in records(backend, STORE_WIDE, "note")
        )
        store.delete("base", purge=True)
        assert [dict(one) for one in notes(again)][1] == {"label": "fork", "source": {"line": 1}}

    def test_exports_tell_of_a_session_s_own_notes(self, store: Store, tmp_path: Path) -> None:
        """The documents that people read, of the path and of all branches."""
        self.family(store)
        for form in ("markdown", "json", "html"):
            for whole in (False, True):
                path = tmp_path / f"fork-{whole}.{form}"
                store.export("fork", form, path=path, whole=whole)
                text = path.read_text()
                assert "of the fork" in text, (form, whole)
                assert "of the base" not in text, (form, whole)


class TestPurge:
    """A purge takes the notes of its session, and those of no other."""

    def test_a_purge_of_the_base_leaves_the_notes_of_the_fork(
        self, store: Store, backend: Backend, s: Session
    ) -> None:
        """And nothing of its own is left."""
        say(s, "one", "two")
        s.annotate(0, note="word first", label="l")
        fork = s.fork("fork", at=0)
        s.annotate(0, note="secret word", label="secret")
        s.annotate(1, note="secret word")

        store.delete("s", purge=True)

        assert notes(fork) == [{"note": "word first", "label": "l"}]
        assert labelled(fork, "l") == [0]
        assert found(store, "word") == [("fork", 0)]
        with backend.read() as reader:
            assert all(b"secret" not in value for _, value in reader.scan_records(STORE_WIDE, "note"))
        assert store.verify().ok
        check_store(store)

    def test_a_purge_of_the_fork_leaves_the_notes_of_the_base(
        self, store: Store, backend: Backend, s: Session
    ) -> None:
        """Then all of them go with the base."""
        say(s, "one")
        s.annotate(0, note="word first", label="l")
        s.fork("fork").annotate(0, note="word of the fork")

        store.delete("fork", purge=True)
        assert (notes(s), labelled(s, "l")) == ([{"note": "word first", "label": "l"}], [0])
        assert found(store, "word") == [("s", 0)]
        store.delete("s", purge=True)
        assert records(backend, STORE_WIDE, "note") == records(backend, STORE_WIDE, "annotation") == []

    def test_a_note_at_an_entry_that_goes_with_another_session_goes_too(
        self, store: Store, backend: Backend, s: Session
    ) -> None:
        """A session may note something at any entry of its tree: that entry is not kept for it."""
        say(s, "one")
        fork = s.fork("fork")
        (entry,) = s.append(user("two"))
        fork.annotate(entry, note="word", label="l")
        fork.annotate(0, note="word", label="l")

        store.delete("s", purge=True)

        assert (notes(fork), labelled(fork, "l")) == ([{"note": "word", "label": "l"}], [0])
        assert len(records(backend, STORE_WIDE, "note")) == 1
        assert store.verify().ok
        check_store(store)
