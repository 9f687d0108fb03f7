"""The storage contract: small named values."""

from __future__ import annotations

from clew.backends.contract import STORE_WIDE, Backend
from clew.testing.backend.base import ALL_BYTES, Conformance


class RecordConformance(Conformance):
    """Records are kept by owner, kind and name, and scanned in the order of their names."""

    def test_a_record_comes_back_byte_for_byte(self, backend: Backend) -> None:
        """Any bytes, none at all too."""
        with backend.write() as tx:
            tx.put_record(1, "var", "all", ALL_BYTES)
            tx.put_record(1, "var", "none", b"")

        with backend.read() as reader:
            assert reader.get_record(1, "var", "all") == ALL_BYTES
            assert reader.get_record(1, "var", "none") == b""
            assert reader.get_record(1, "var", "other") is None

    def test_put_record_replaces(self, backend: Backend) -> None:
        """There is one value under a name: the last one."""
        with backend.write() as tx:
            tx.put_record(1, "var", "n", b"1")
            tx.put_record(1, "var", "n", b"2")

            assert tx.get_record(1, "var", "n") == b"2"
            assert tx.scan_records(1, "var") == [("n", b"2")]

    def test_records_of_other_owners_and_kinds_are_others(self, backend: Backend) -> None:
        """The same name under another session or kind is another record."""
        with backend.write() as tx:
            tx.put_record(1, "var", "n", b"1")
            tx.put_record(2, "var", "n", b"2")
            tx.put_record(1, "key", "n", b"3")
            tx.put_record(STORE_WIDE, "var", "n", b"4")
            tx.drop_record(2, "var", "n")

            assert tx.get_record(1, "var", "n") == b"1"
            assert tx.get_record(2, "var", "n") is None
            assert tx.get_record(1, "key", "n") == b"3"
            assert tx.scan_records(STORE_WIDE, "var") == [("n", b"4")]

    def test_drop_record_says_whether_there_was_one(self, backend: Backend) -> None:
        """True the first time, False the second."""
        with backend.write() as tx:
            tx.put_record(1, "var", "n", b"1")

            assert tx.drop_record(1, "var", "n") is True
            assert tx.drop_record(1, "var", "n") is False

    def test_records_are_scanned_in_the_order_of_their_bytes(self, backend: Backend) -> None:
        """By the UTF-8 of their names: no locale, no case folding, no normal form."""
        names = ["", " ", "A", "B", "a", "a ", "a.9", "a/", "aa", "e\u0301", "é", "\uffee", "\U0001f600"]
        with backend.write() as tx:
            for name in reversed(names):
                tx.put_record(1, "var", name, name.encode())

        with backend.read() as reader:
            assert [name for name, _ in reader.scan_records(1, "var")] == names
            assert [value.decode() for _, value in reader.scan_records(1, "var")] == names

    def test_a_scan_includes_both_its_ends(self, backend: Backend) -> None:
        """`first` and `last` may be names that exist, and names that do not."""
        with backend.write() as tx:
            for name in ("a", "b", "c", "d"):
                tx.put_record(1, "var", name, b"")

            def scan(first: str, last: str | None = None) -> str:
                return "".join(name for name, _ in tx.scan_records(1, "var", first, last))

            assert scan("b", "c") == "bc"
            assert scan("b") == "bcd"
            assert scan("", "b") == "ab"
            assert scan("aa", "cc") == "bc"
            assert scan("b", "b") == "b"
            assert scan("c", "b") == ""
            assert scan("e") == ""

    def test_a_scan_may_go_backwards_and_stop(self, backend: Backend) -> None:
        """`reverse` begins at the last name; `limit` counts from where the scan begins."""
        with backend.write() as tx:
            for name in ("a", "b", "c", "d"):
                tx.put_record(1, "var", name, name.encode())

            def scan(*ends: str, **how: int) -> str:
                return "".join(name for name, _ in tx.scan_records(1, "var", *ends, **how))  # type: ignore[arg-type]

            assert scan(reverse=True) == "dcba"
            assert scan(reverse=True, limit=1) == "d"
            assert scan(limit=2) == "ab"
            assert scan("b", "c", reverse=True) == "cb"
            assert scan("b", "d", limit=2) == "bc"
            assert scan("b", "d", reverse=True, limit=2) == "dc"
            assert scan("b", reverse=True, limit=9) == "dcb"
            assert scan(limit=0) == ""
            assert tx.scan_records(1, "var", reverse=True, limit=1) == [("d", b"d")]
