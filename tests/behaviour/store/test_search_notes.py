"""Search finds notes: the text that somebody wrote beside an entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.contract import STORE_WIDE, Backend
from clew.model import Json, Retention, utc
from clew.model.source import SourceEntry, SourceSession
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import START, Ticking, assistant, say, user
from clew.testing.backend.search import marked, positions
from clew.testing.chain import check_store


def _places(store: Store, query: str, **options: Any) -> list[tuple[str, int, bool]]:
    return [(hit.session, hit.position, hit.in_note) for hit in store.search(query, **options)]


class TestSearchNotes:
    """What is true of messages that are found is true of notes."""

    # -- what is found

    def test_an_entry_is_found_by_its_note(self, store: Store, s: Session) -> None:
        """The snippet is then that of the note; all else is that of the entry."""
        say(s, "one")
        (entry,) = s.append(assistant("two"))
        say(s, "three")
        s.annotate(entry, note="Here the Cookie was lost", noted_by="me", label="bug")

        (hit,) = store.search("cookie")

        assert (hit.session, hit.entry_id, hit.position) == ("s", entry.id, 1)
        assert (hit.role, hit.at, hit.on_path) == ("assistant", entry.time, True)
        assert (hit.snippet, marked(hit)) == ("Here the Cookie was lost", ["Cookie"])
        assert (hit.in_note, hit.in_tool) == (True, False)

    def test_an_entry_found_by_its_text_and_its_note_is_one_hit(self, store: Store, s: Session) -> None:
        """It shows the text."""
        say(s, "the word is here", "nothing")
        s.annotate(0, note="a word on this")
        s.annotate(1, note="a word on that")

        assert [(hit.position, hit.in_note, hit.snippet) for hit in store.search("word")] == [
            (1, True, "a word on that"), (0, False, "the word is here")
        ]  # fmt: skip

    def test_a_note_is_searched_for_itself(self, store: Store, s: Session) -> None:
        """A query is not put together from a note and the text beside it."""
        say(s, "The login page")
        s.annotate(0, note="getUserName fails: 500, at the Café")

        for query in ("getusername", "user name 500", "caf*", '"at the cafe"', "500 -login"):
            assert _places(store, query) == [("s", 0, True)], query
        for query in ("login 500", '"fails 500 at cafe"', "caf", "500 -fails"):
            assert _places(store, query) == [], query

    @pytest.mark.parametrize(
        "fields", [{"summary": "word"}, {"label": "word"}, {"note": ["word"]}, {"note": ""}]
    )
    def test_only_a_note_that_is_text_is_searched(
        self, store: Store, s: Session, fields: dict[str, Json]
    ) -> None:
        """Importers keep whole records of programs in annotations: those are not what anybody looks for."""
        say(s, "one")
        s.annotate(0, **fields, source={"note": "word"})

        assert _places(store, "word") == []
        assert store.verify().ok

    def test_a_note_is_found_as_it_is_now(self, store: Store, s: Session) -> None:
        """A note that was changed or taken away is not found by what it was."""
        say(s, "one", "two")
        s.annotate(0, note="old word", summary="x")
        assert _places(store, "old") == [("s", 0, True)]
        s.annotate(0, note="new word")
        assert (_places(store, "old"), _places(store, "new")) == ([], [("s", 0, True)])
        s.annotate(0, note=None)
        assert _places(store, "word") == []
        s.annotate(1, note="word")
        s.annotate(1, note=7)
        assert _places(store, "word") == []
        s.annotate(1, note="word")
        s.annotate(1, note=None)
        assert _places(store, "word") == []

    def test_a_note_beside_a_mark_is_found(self, store: Store, s: Session) -> None:
        """A compaction has no speaker: its role is `other`."""
        say(s, "one")
        mark = s.compact("short")
        s.annotate(mark, note="word")

        assert [(hit.entry_id, hit.role) for hit in store.search("word")] == [(mark.id, "other")]

    def test_different_notes_beside_copies_of_a_message_are_all_shown(self, store: Store) -> None:
        """Copies of a message are one hit, because they say the same. Two notes do not."""
        for id, base, note in (("a", None, "word one"), ("b", "a", "word two"), ("c", "a", "word two")):
            metadata: dict[str, Json] = (
                {"agent": "x"} if base is None else {"agent": "x", "copied_from": base}
            )
            session = store.create(id, metadata=metadata)
            session.append(user("the same"))
            session.annotate(0, note=note)

        assert [(hit.snippet, hit.copies) for hit in store.search("word")] == [
            ("word two", 1),
            ("word one", 0),
        ]

    # -- who can show it

    def test_who_shares_an_entry_shows_its_note(self, store: Store, s: Session) -> None:
        """As for messages: its own session first, else a fork; a note on what was rewound is found too."""
        say(s, "one", "two")
        s.annotate(0, note="word")
        s.annotate(1, note="word")
        s.fork("fork", at=0)
        s.rewind(0)

        found = [(hit.session, hit.position, hit.on_path) for hit in store.search("word")]
        assert found == [("s", 1, False), ("s", 0, True)]
        assert _places(store, "word", session="fork") == [("fork", 0, True)]
        store.delete("s")
        assert _places(store, "word") == [("fork", 0, True)]
        store.restore_deleted("s")
        assert _places(store, "word") == [("s", 1, True), ("s", 0, True)]

    def test_the_note_of_what_was_purged_is_gone(self, backend: Backend, store: Store, s: Session) -> None:
        """What a fork shares stays; of the rest nothing is kept."""
        say(s, "one")
        s.annotate(0, note="word shared")
        s.fork("fork")
        say(s, "two")
        s.annotate(1, note="word mine")

        store.delete("s", purge=True)

        assert _places(store, "word") == [("fork", 0, True)]
        store.delete("fork", purge=True)
        assert _places(store, "word") == []
        with backend.read() as reader:
            assert reader.scan_records(STORE_WIDE, "note") == []
            assert reader.scan_records(STORE_WIDE, "annotation") == []

    def test_the_note_of_what_a_rule_removed_is_not_found(self, store: Store, s: Session) -> None:
        """The others still are."""
        say(s, *(f"n{number}" for number in range(6)))
        for number in range(6):
            s.annotate(number, note="word")
        store.set_retention(Retention(max_messages=2))
        store.sweep()

        assert positions(store.search("word")) == [5, 4]

    # -- filters

    def test_filters_are_those_of_the_entry(self, store: Store, clock: Ticking) -> None:
        """Role, session, workspace, tag, metadata and time; when a note was written does not matter."""
        clock.step = 0
        for number, (id, tags) in enumerate((("a", ["x"]), ("b", []), ("c", ["x"]))):
            clock.now = START + 1000 * number
            session = store.create(
                id, workspace=f"/w/{id}", tags=tags, metadata={"n": number}, model=f"m{id}"
            )
            session.append(user("one"), assistant("two"))
        clock.now = START + 1_000_000
        for id, position in (("a", 0), ("b", 1), ("c", 1)):
            store.get(id).annotate(position, note="word")

        def found(**filters: Any) -> str:
            return "".join(hit.session for hit in store.search("word", **filters))

        assert found() == "cba"
        assert (found(role="user"), found(role="assistant"), found(role="tool")) == ("a", "cb", "")
        assert (found(session="b"), found(session=["a", "b"])) == ("b", "ba")
        assert (found(workspace="/w/b"), found(project="c"), found(model="ma")) == ("b", "c", "a")
        assert (found(tag="x"), found(where={"n": 1})) == ("ca", "b")
        assert (found(since=utc(START + 1000)), found(until=utc(START + 1000))) == ("cb", "a")
        assert found(since=utc(START + 2001)) == ""
        assert found(tag="x", role="user", tools=True) == "a"

    # -- order and pages

    @pytest.mark.parametrize("order", ["newest", "best"])
    def test_pages_of_texts_and_notes_give_each_hit_once(self, store: Store, order: Any) -> None:
        """Some entries are found by their text, some by their note, some by both, some at one time."""
        for number in range(24):
            session = store.session("abc"[number % 3])
            first, second = session.append(user(f"{'word ' * (number % 3)} n{number}"), user("beside"))
            if number % 2:
                session.annotate(first, note="word " * (number % 5 + 1) + "other " * (number % 4))
            if number % 4 == 0:
                session.annotate(second, note="a word")
        hits = store.search("word", order=order, limit=100).hits
        assert len({hit.entry_id for hit in hits}) == len(hits) == 16 + 4 + 6
        assert sum(hit.in_note for hit in hits) == 4 + 6
        if order == "newest":
            assert [hit.at for hit in hits] == sorted((hit.at for hit in hits), reverse=True)

        for limit in (1, 4, 25, 26):
            page = store.search("word", order=order, limit=limit)
            found = list(page)
            while page.cursor is not None:
                assert len(page) == limit
                page = store.search("word", order=order, limit=limit, cursor=page.cursor)
                found += page
            assert found == list(hits)

    def test_the_best_count_their_notes(self, store: Store, s: Session) -> None:
        """A note beside a long message is no worse for it; text and note together are better than either."""
        say(s, "word", "much else " * 400, "word", "much else", "word " + "much else " * 40)
        s.annotate(1, note="word word")
        s.annotate(2, note="word")
        s.annotate(3, note="word and " + "much more " * 400)

        assert positions(store.search("word", order="best")) == [2, 1, 0, 4, 3]

    # -- what is kept

    def test_a_copy_finds_the_notes_that_its_source_has(
        self, store: Store, s: Session, tmp_path: Path
    ) -> None:
        """A note that was changed or taken away since the last copy is not found there any more."""
        say(s, "one", "two", "three")
        for position in range(3):
            s.annotate(position, note=f"word n{position}", summary="x")
        with clew.open(tmp_path / "copy.db") as other:
            clew.copy(store, other)
            assert positions(other.search("word")) == [2, 1, 0]
            s.annotate(0, note=None)
            s.annotate(1, note="changed")
            s.annotate(2, note=None, summary=None)
            clew.copy(store, other)
            assert (positions(other.search("word")), positions(other.search("changed"))) == ([], [1])
            check_store(other)
            assert other.verify().ok

    def test_a_note_that_was_loaded_is_found(self, store: Store) -> None:
        """A program may keep notes of its own."""
        entry = SourceEntry(uid="1", parent=None, message=user("one"), notes={"note": "word"})
        store.load(SourceSession(id="p:1", entries=(entry,)))

        assert _places(store, "word") == [("p:1", 0, True)]
        check_store(store)
        assert store.verify().ok

    def test_an_exported_session_brings_its_notes(self, store: Store, s: Session, tmp_path: Path) -> None:
        """Where it is imported they are found."""
        say(s, "one")
        s.annotate(0, note="word")
        store.export("s", "jsonl", path=tmp_path / "s.jsonl")
        with clew.open("memory:") as other:
            other.import_path(tmp_path / "s.jsonl")
            assert [hit.snippet for hit in other.search("word")] == ["word"]
            check_store(other)

    def test_verify_finds_a_note_that_is_not_in_step(
        self, backend: Backend, store: Store, s: Session
    ) -> None:
        """One that a search would miss, and one that it would find though its entry does not bear it."""
        say(s, "one", "two")
        s.annotate(0, note="word")
        with backend.write() as tx:
            ((name, value),) = tx.scan_records(STORE_WIDE, "note")
            tx.drop_record(STORE_WIDE, "note", name)
            tx.put_record(STORE_WIDE, "note", name[:-1] + "1", value)
        place = name.partition("@")[2]

        first, second = store.verify().details

        missed = "a search does not find its note; set the note again, or copy the store"
        assert first.text == f"the annotation {place!r} of session 's': {missed}"
        assert second.text == f"the note {name[:-1] + '1'!r}: its entry does not bear it"
        with clew.open("memory:") as other:
            clew.copy(store, other)
            assert positions(other.search("word")) == [0]
            assert other.verify().ok
        s.annotate(0, note="word")
        assert len(store.verify().details) == 1

    def test_a_record_that_leads_elsewhere_is_not_believed(
        self, backend: Backend, store: Store, s: Session
    ) -> None:
        """It hides no message, and shows no note beside an entry that has none. The others are found."""
        say(s, "word one", "two", "three")
        s.annotate(0, note="word")
        s.annotate(1, note="word")
        s.annotate(2, note="word")
        other = store.session("other")
        say(other, "four")
        with backend.write() as tx:
            (first, value), (second, _), _ = tx.scan_records(STORE_WIDE, "note")
            tx.put_record(STORE_WIDE, "note", second, value.replace(b"[", b"[1"))
            tx.put_record(STORE_WIDE, "note", f"{other.head.branch}.0000000000", value)
            tx.put_record(STORE_WIDE, "note", "nonsense", b"[]")
            tx.put_record(STORE_WIDE, "note", first, b"{")

        for order in ("newest", "best"):
            assert _places(store, "word", order=order) == [("s", 2, True), ("s", 0, False)]
