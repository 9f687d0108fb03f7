"""Documents: bytes under names, beside the conversation."""

from __future__ import annotations

import pytest

import clew
from clew.errors import InvalidError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import say
from tests.support.rows import each_row

ALL_BYTES = bytes(range(256))
NAMES = ["a", "a/", "a/1", "a/10", "a/2", "a/é", "a/\U0001f600", "a0", "b", "ä"]
"""In the order of their bytes."""


class TestDocuments:
    """Any number of them, exact, in the order of their names."""

    def test_a_document_is_kept_to_the_byte(self, s: Session) -> None:
        """P17: whatever the bytes; none are bytes too."""
        s.set_document("all", ALL_BYTES)
        s.set_document("none", b"")

        assert s.get_document("all") == ALL_BYTES
        assert s.get_document("none") == b""
        assert s.get_document("other") is None

    def test_a_document_is_replaced_and_deleted(self, s: Session) -> None:
        """The last one counts; `delete_document` says whether there was one."""
        s.set_document("d", b"1")
        s.set_document("d", b"2")
        assert s.documents() == [("d", b"2")]
        assert s.delete_document("d") is True
        assert s.delete_document("d") is False
        assert s.documents() == []

    def test_documents_come_in_the_order_of_their_names(self, s: Session) -> None:
        """Of their UTF-8 bytes, on every backend."""
        for name in reversed(NAMES):
            s.set_document(name, name.encode())

        assert [name for name, _ in s.documents()] == NAMES
        assert [name for name, _ in s.documents(newest_first=True)] == NAMES[::-1]
        assert [name for name, _ in s.documents("a/")] == NAMES[1:7]
        assert [name for name, _ in s.documents("a/", newest_first=True, limit=2)] == ["a/\U0001f600", "a/é"]

    @each_row("newest_first", [False, True])
    @each_row("prefix", ["", "a", "a/", "zzz"])
    def test_pages_of_documents_together_are_all_of_them(
        self, s: Session, prefix: str, newest_first: bool
    ) -> None:
        """None twice, none passed over, in both directions."""
        for name in NAMES:
            s.set_document(name, name.encode())
        found: list[tuple[str, bytes]] = []
        after = None
        while page := s.documents(prefix, after=after, limit=3, newest_first=newest_first):
            assert len(page) <= 3
            found += page
            after = page[-1][0]

        assert found == s.documents(prefix, newest_first=newest_first)

    def test_a_page_of_no_documents_is_empty(self, s: Session) -> None:
        """Nothing is nothing."""
        s.set_document("d", b"1")

        assert s.documents(limit=0) == []

    def test_documents_neither_rewind_nor_go_to_forks_nor_are_variables(self, s: Session) -> None:
        """A fork costs the same however many there are."""
        say(s, "a")
        s.set_document("d", b"1")
        s.clear()

        assert s.get_document("d") == b"1"
        assert s.fork("f").documents() == []
        assert s.vars() == {}

    def test_documents_belong_to_one_session(self, store: Store, s: Session) -> None:
        """The same name, other bytes."""
        s.set_document("d", b"mine")
        other = store.create("other")
        other.set_document("d", b"theirs")

        assert s.get_document("d") == b"mine"
        assert other.get_document("d") == b"theirs"

    def test_what_is_no_bytes_is_refused(self, s: Session) -> None:
        """Text has many encodings: the caller chooses."""
        with pytest.raises(InvalidError, match="str"):
            s.set_document("d", "text")  # type: ignore[arg-type]

    def test_documents_go_with_a_copy_and_a_file(self, store: Store, s: Session) -> None:
        """Except where secrets are taken out: nobody can tell what the bytes say."""
        say(s, "a")
        s.set_document("d", ALL_BYTES)
        text = store.export("s", "jsonl")
        with clew.open("memory:") as other:
            clew.copy(store, other)
            assert other.get("s").get_document("d") == ALL_BYTES

        assert '"document"' in text
        assert '"document"' not in store.export("s", "jsonl", redact=True)
        assert store.verify(full=True).ok
