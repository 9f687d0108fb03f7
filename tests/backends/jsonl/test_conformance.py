"""The JSONL backend keeps the contract, and keeps it across restarts, with and without its index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from clew.backends.contract import STORE_WIDE, Backend
from clew.backends.jsonl import JsonlBackend
from clew.core.log.rows import Details, ObjectPlace
from clew.testing.backend import BackendConformance, DurableConformance
from clew.testing.backend.base import a_session, add, an_entry
from clew.testing.backend.streams import a_call, an_event
from tests.backends.jsonl.stores import without_index


class TestJsonl(BackendConformance, DurableConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[JsonlBackend]:
        with closing(JsonlBackend(tmp_path / "store")) as backend:
            yield backend

    def reopen(self, backend: JsonlBackend) -> JsonlBackend:  # type: ignore[override]
        backend.close()
        return JsonlBackend(backend.location)

    def files(self, backend: Backend) -> list[Path]:
        return [file for file in Path(backend.location).rglob("*") if file.is_file()]


class TestJsonlWithoutItsIndex(DurableConformance):
    """The same, with the index deleted at every restart: the logs alone hold everything."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[JsonlBackend]:
        with closing(JsonlBackend(tmp_path / "store")) as backend:
            yield backend

    def reopen(self, backend: JsonlBackend) -> JsonlBackend:  # type: ignore[override]
        backend.close()
        without_index(backend.layout.root)
        return JsonlBackend(backend.location)

    def files(self, backend: Backend) -> list[Path]:
        return [file for file in Path(backend.location).rglob("*") if file.is_file()]

    def test_all_that_is_stored_is_there_after_a_restart(self, backend: JsonlBackend) -> None:  # type: ignore[override]
        """Equal to what was put. Only when a session is due is not in the logs: a sweep looks at it anew."""
        with backend.write() as tx:
            row = add(tx, "a", Details(tags=("t",)), due=207)
            branch = tx.add_branch("u", row.tree, row.sid, 0, -1)
            tx.add_entries(branch, [an_entry(0, b'{"a":1}'), an_entry(1, b"\x00\xff\n")])
            tx.put_record(STORE_WIDE, "var", "n", b"1")
            tx.add_events(row.sid, [an_event(1, id="x"), an_event(2)])
            tx.add_usage(row.sid, a_call(1, id="x"))
            pack = tx.add_pack(0, b"xy", 2, [(b"n" * 32, 0, 1)])
        with backend.write() as tx:
            gone = tx.add_session(a_session("gone"), Details())
            tx.drop_session(gone)
            tx.put_record(STORE_WIDE, "var", "dropped", b"1")
            tx.drop_record(STORE_WIDE, "var", "dropped")
        backend.scrub()
        with closing(self.reopen(backend)) as again, again.write() as tx:
            assert tx.find_session("a") == msgspec.structs.replace(row, due=0)
            assert tx.get_details(row.sid) == Details(tags=("t",))
            assert tx.read_entries(branch, 0, 1) == [an_entry(0, b'{"a":1}'), an_entry(1, b"\x00\xff\n")]
            assert tx.get_record(STORE_WIDE, "var", "n") == b"1"
            assert tx.read_events(row.sid, 0, 9) == [an_event(1, id="x"), an_event(2)]
            assert tx.read_usage(row.sid, 0, 9) == [a_call(1, id="x")]
            assert tx.get_pack(pack) == b"xy"
            assert tx.find_objects([b"n" * 32]) == {b"n" * 32: ObjectPlace(pack, 0, 1)}
            assert tx.add_session(a_session("new"), Details()) not in (row.sid, gone)
