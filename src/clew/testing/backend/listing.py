"""The storage contract: listing sessions by activity, filters and pages."""

from __future__ import annotations

import msgspec
import pytest

from clew.backends.contract import Backend
from clew.core.log.rows import (
    CLOSED,
    COMPLETED,
    FAILED,
    PENDING,
    RUNNING,
    Details,
    SessionColumn,
    SessionQuery,
)
from clew.testing.backend.base import ALL_BYTES, Conformance, a_tip, add, query
from clew.testing.backend.streams import a_call


def with_metadata(text: bytes, *tags: str) -> Details:
    return Details(metadata=msgspec.Raw(text), tags=tags)


class ListingConformance(Conformance):
    """Newest activity first; every filter is exact; a page begins after what was seen."""

    def test_sessions_are_listed_newest_activity_first(self, backend: Backend) -> None:
        """By `updated`, not by creation; ties by the bytes of the id."""
        with backend.write() as tx:
            for id, updated in (("d", 1), ("b", 3), ("ä", 2), ("Z", 2), ("a", 2), ("\U0001f600", 2)):
                add(tx, id, updated=updated)

        assert _ids(backend) == ["b", "Z", "a", "ä", "\U0001f600", "d"]

    def test_a_page_begins_after_what_was_seen(self, backend: Backend) -> None:
        """(updated, id) of the last one leads to the next page, also between ties, also if it is gone."""
        with backend.write() as tx:
            rows = {
                id: add(tx, id, updated=updated) for id, updated in (("a", 2), ("b", 2), ("c", 2), ("d", 1))
            }

        assert _ids(backend, limit=2) == ["a", "b"]
        assert _ids(backend, limit=2, after=(2, "b")) == ["c", "d"]
        with backend.write() as tx:
            tx.drop_session(rows["b"].sid)
        assert _ids(backend, limit=2, after=(2, "b")) == ["c", "d"]
        assert _ids(backend, after=(1, "d")) == []
        assert _ids(backend, after=(3, "")) == ["a", "c", "d"]

    def test_the_trash_is_listed_by_the_time_of_deletion(self, backend: Backend) -> None:
        """By `deleted`, ties by id; its pages too."""
        with backend.write() as tx:
            for id, updated, deleted in (("a", 9, 1), ("c", 1, 3), ("b", 2, 3), ("live", 9, None)):
                add(tx, id, updated=updated, deleted=deleted)

        assert _ids(backend, deleted=True) == ["b", "c", "a"]
        with backend.read() as reader:
            assert reader.count_sessions() == 1
        assert _ids(backend, deleted=True, after=(3, "b")) == ["c", "a"]
        assert _ids(backend) == ["live"]

    def test_sessions_are_listed_by_the_time_of_their_activity(self, backend: Backend) -> None:
        """From a time on, and before another one; of the trash by the time of deletion; pages keep to it."""
        minute = 60_000_000
        with backend.write() as tx:
            for number in range(6):
                add(tx, f"s{number}", updated=number * minute)
            add(tx, "gone", updated=0, deleted=3 * minute)

        assert _ids(backend, since=2 * minute, until=4 * minute) == ["s3", "s2"]
        assert _ids(backend, since=4 * minute + 1) == ["s5"]
        assert _ids(backend, until=minute + 1) == ["s1", "s0"]
        assert _ids(backend, since=minute, after=(3 * minute, "s3"), limit=1) == ["s2"]
        assert _ids(backend, since=3 * minute, deleted=True) == ["gone"]
        assert _ids(backend, until=3 * minute, deleted=True) == []

    def test_sessions_are_counted_with_and_without_subagents(self, backend: Backend) -> None:
        """A subagent whose parent is not here counts as any other; a backend may not know without a look."""
        with backend.write() as tx:
            add(tx, "p")
            add(tx, "gone", deleted=5)
            for id, parent in (("1", b'"p"'), ("2", b'"p"'), ("3", b'"gone"'), ("4", b"7"), ("5", b'"5"')):
                add(tx, id, with_metadata(b'{"parent":%s}' % parent))
            add(tx, "6", with_metadata(b'{"parent":"p"}'), deleted=5)

        with backend.read() as reader:
            assert reader.count_sessions() == 6
            assert reader.count_sessions(subagents=False) in (4, None)

    def test_ids_are_scanned_in_the_order_of_their_bytes(self, backend: Backend) -> None:
        """From a text on, in the trash or not; a limit cuts the end off. A transaction sees its own."""
        with backend.write() as tx:
            rows = [add(tx, id) for id in ("b", "a:2", "ä", "a:1/x", "a:1", "\U0001f600")]
            gone = add(tx, "a:1", deleted=5)
            assert [name.id for name in tx.scan_ids("a", 2)] == ["a:1", "a:1"]

        with backend.read() as reader:
            found = reader.scan_ids("a:", 100)
            assert [name.id for name in found] == ["a:1", "a:1", "a:1/x", "a:2", "b", "ä", "\U0001f600"]
            assert {(name.sid, name.deleted) for name in found[:2]} == {
                (rows[4].sid, False),
                (gone.sid, True),
            }
            assert [name.id for name in reader.scan_ids("a:1/", 2)] == ["a:1/x", "a:2"]
            assert reader.scan_ids("\U0001f601", 5) == []

    def test_ids_are_scanned_by_what_follows_their_first_colon(self, backend: Backend) -> None:
        """Those without a colon are left out; the trash is not."""
        with backend.write() as tx:
            for id in ("x:b", "y:a:c", "b", "z:", "y:ö"):
                add(tx, id)
            add(tx, "y:b", deleted=5)

        with backend.read() as reader:
            assert [name.id for name in reader.scan_ids("", 9, own=True)] == [
                "z:",
                "y:a:c",
                "x:b",
                "y:b",
                "y:ö",
            ]
            assert [(name.id, name.deleted) for name in reader.scan_ids("b", 2, own=True)] == [
                ("x:b", False),
                ("y:b", True),
            ]

    def test_sessions_are_listed_by_workspace(self, backend: Backend) -> None:
        """Equal text, nothing more."""
        with backend.write() as tx:
            for id, workspace in (("a", "/w"), ("b", "/w/x"), ("c", None), ("d", "/W")):
                add(tx, id, workspace=workspace)

        assert _ids(backend, workspace="/w") == ["a"]
        assert _ids(backend, workspace="/%") == []

    def test_sessions_are_listed_by_all_of_several_tags(self, backend: Backend) -> None:
        """A session must bear every tag that is asked for."""
        with backend.write() as tx:
            add(tx, "a", Details(tags=("x", "y")))
            add(tx, "b", Details(tags=("y",)))

        assert _ids(backend, tags=("y",)) == ["a", "b"]
        assert _ids(backend, tags=("x", "y")) == ["a"]
        assert _ids(backend, tags=("x", "z")) == []

    def test_sessions_are_listed_by_metadata_values(self, backend: Backend) -> None:
        """By the scalars at the top of the metadata, as JSON text: 1, 1.0, "1" and true are four values."""
        values = {"int": b"1", "float": b"1.0", "text": b'"1"', "true": b"true", "null": b"null"}
        with backend.write() as tx:
            for id, value in values.items():
                add(tx, id, with_metadata(b'{"k":%s}' % value))
            add(tx, "missing", with_metadata(b'{"other":1}'))
            add(tx, "nested", with_metadata(b'{"k":[1],"n":{"k":1}}'))

        for id, value in values.items():
            assert _ids(backend, where=(("k", value.decode()),)) == [id]
        assert _ids(backend, where=(("k", "[1]"),)) == []

    def test_a_tag_is_no_metadata(self, backend: Backend) -> None:
        """Neither is found by way of the other."""
        with backend.write() as tx:
            add(tx, "tagged", Details(tags=('"x"', "x")))
            add(tx, "described", with_metadata(b'{"tags":"x","x":"x"}'))

        assert _ids(backend, tags=("x",)) == ["tagged"]
        assert _ids(backend, where=(("x", '"x"'),)) == ["described"]

    def test_filters_are_combined(self, backend: Backend) -> None:
        """Workspace, tags, metadata, the page and emptiness: all of them hold."""
        with backend.write() as tx:
            wanted = with_metadata(b'{"k":"v"}', "t")
            add(tx, "a", wanted, updated=5, workspace="/w", head=a_tip(1, 0, messages=1))
            add(tx, "b", wanted, updated=4, workspace="/w")
            add(tx, "c", wanted, updated=3, workspace="/x", head=a_tip(1, 0, messages=1))
            add(tx, "d", Details(tags=("t",)), updated=2, workspace="/w", head=a_tip(1, 0, messages=1))
            add(tx, "e", wanted, updated=1, workspace="/w", head=a_tip(1, 0, messages=1))
        query = SessionQuery(limit=9, workspace="/w", tags=("t",), where=(("k", '"v"'),), nonempty=True)

        with backend.read() as reader:
            assert [found.row.id for found in reader.list_sessions(query)] == ["a", "e"]
            after = msgspec.structs.replace(query, after=(5, "a"))
            assert [found.row.id for found in reader.list_sessions(after)] == ["e"]

    @pytest.mark.parametrize("deleted", [None, 7], ids=["live", "trash"])
    def test_rows_are_listed_by_status(self, backend: Backend, deleted: int | None) -> None:
        """Every status, with every other filter, in the same order and by the same pages."""
        with backend.write() as tx:
            for status in range(PENDING, CLOSED + 1):
                for updated, id in ((1, "old"), (3, "b"), (3, "a"), (2, "there")):
                    workspace = "/there" if id == "there" else "/here"
                    details = Details(tags=("t",) if id == "a" else ())
                    name = f"{id}{status}"
                    gone = None if deleted is None else updated
                    add(tx, name, details, updated=updated, deleted=gone, workspace=workspace, status=status)
        trash = deleted is not None

        for status in range(PENDING, CLOSED + 1):
            expected = [f"a{status}", f"b{status}", f"there{status}", f"old{status}"]
            assert _ids(backend, deleted=trash, status=status) == expected
            assert _ids(backend, deleted=trash, status=status, limit=2) == expected[:2]
            assert _ids(backend, deleted=trash, status=status, after=(3, expected[0])) == expected[1:]
            assert _ids(backend, deleted=trash, status=status, workspace="/there") == [expected[2]]
            assert _ids(backend, deleted=trash, status=status, tags=("t",)) == [expected[0]]
            assert _ids(backend, deleted=not trash, status=status) == []

    def test_a_session_that_changes_its_status_is_listed_under_the_new_one_only(
        self, backend: Backend
    ) -> None:
        """And an append to it moves it to the front there, whatever the status."""
        with backend.write() as tx:
            row = add(tx, "a", updated=1, status=PENDING)
            add(tx, "b", updated=2, status=RUNNING)
            add(tx, "c", updated=2, status=COMPLETED)
        for status, other in ((RUNNING, "b"), (COMPLETED, "c")):
            with backend.write() as tx:
                tx.set_session(msgspec.structs.replace(row, status=status))
            assert _ids(backend, status=status) == [other, "a"]
            with backend.write() as tx:
                tx.set_head(row.sid, a_tip(1, 1), 9, None, "")
            assert _ids(backend, status=status) == ["a", other]
            assert _ids(backend, status=PENDING) == []

        assert _ids(backend, status=RUNNING) == ["b"]

    def test_the_run_of_a_session_is_listed_with_it(self, backend: Backend) -> None:
        """The record of kind "run" with the empty name, and no other; None where there is none."""
        with backend.write() as tx:
            first, second = add(tx, "a", status=RUNNING), add(tx, "b", status=FAILED)
            third = add(tx, "c", status=FAILED)
            tx.put_record(first.sid, "run", "", ALL_BYTES)
            tx.put_record(second.sid, "run", "", b"")
            tx.put_record(second.sid, "run", "other", b"other")
            tx.put_record(third.sid, "run", "other", b"other")
            tx.put_record(third.sid, "lease", "", b"lease")

        with backend.read() as reader:
            assert [found.run for found in reader.list_sessions(query())] == [ALL_BYTES, b"", None]
            assert [found.run for found in reader.list_sessions(query(status=RUNNING))] == [ALL_BYTES]

    def test_sessions_are_counted_by_what_they_have(self, backend: Backend) -> None:
        """Each value of a column with its sessions, the trash apart; who has none is not counted."""
        both = Details(model="m", tags=("t", "ü"), metadata=msgspec.Raw(b'{"agent":"a\\"b","tag":"no"}'))
        one = Details(model="other", tags=("t",), metadata=msgspec.Raw(b'{"framework":"x","model":"no"}'))
        with backend.write() as tx:
            for number in range(3):
                add(tx, f"a{number}", both, workspace="/ö/p", status=COMPLETED)
            add(tx, "b", one, workspace="/q", status=RUNNING)
            add(tx, "c", workspace=None, status=PENDING)
            add(tx, "gone", both, workspace="/ö/p", status=FAILED, deleted=5)
            add(tx, "gone too", workspace="/trash", status=PENDING, deleted=6)

        with backend.read() as reader:
            assert reader.count_by("workspace") == {"/ö/p": 3, "/q": 1}
            assert reader.count_by("tag") == {"t": 4, "ü": 3}
            assert reader.count_by("agent") == {'a"b': 3, "x": 1}
            assert reader.count_by("model") == {"m": 3, "other": 1}
            assert reader.count_by("status") == {str(COMPLETED): 3, str(RUNNING): 1, str(PENDING): 1}
            assert reader.count_by("workspace", deleted=True) == {"/ö/p": 1, "/trash": 1}
            assert reader.count_by("tag", deleted=True) == {"t": 1, "ü": 1}
            assert reader.count_by("status", deleted=True) == {str(FAILED): 1, str(PENDING): 1}
            assert sorted(reader.workspaces()) == ["/q", "/ö/p"]
            assert sorted(reader.workspaces(deleted=True)) == ["/trash", "/ö/p"]

    def test_what_is_counted_follows_what_is_written(self, backend: Backend) -> None:
        """Though counts may be remembered: each commit is seen, and within a transaction its own writes."""

        def counts() -> list[dict[str, int]]:
            with backend.read() as reader:
                return [reader.count_by(column) for column in ("tag", "status", "workspace", "model")]

        assert counts() == counts() == [{}] * 4
        for number in range(1, 4):
            with backend.write() as tx:
                row = add(tx, f"s{number}", Details(tags=("t",), model="m"), workspace="/w", status=FAILED)
                assert tx.count_by("tag") == {"t": number}
            assert (
                counts() == counts() == [{"t": number}, {str(FAILED): number}, {"/w": number}, {"m": number}]
            )
        with backend.write() as tx:
            tx.set_details(row.sid, Details(tags=("u",)))
            tx.set_session(msgspec.structs.replace(row, status=CLOSED, workspace=None))
        assert counts() == [{"t": 2, "u": 1}, {str(FAILED): 2, str(CLOSED): 1}, {"/w": 2}, {"m": 2}]
        with backend.write() as tx:
            tx.set_session(msgspec.structs.replace(row, deleted=9))
        assert counts()[0] == {"t": 2}
        with backend.write() as tx:
            tx.drop_session(row.sid)
        with backend.read() as reader:
            assert (reader.count_by("tag"), reader.count_by("tag", deleted=True)) == ({"t": 2}, {})

    def test_nothing_is_counted_in_an_empty_store(self, backend: Backend) -> None:
        """No value stands there with nought."""
        with backend.read() as reader:
            columns: list[SessionColumn] = ["workspace", "status", "tag", "agent", "model"]
            assert [reader.count_by(column) for column in columns] == [{}] * 5
            assert (reader.workspaces(), reader.find_subagents(["p"])) == ([], [])

    def test_the_subagents_of_several_sessions_are_found_at_once(self, backend: Backend) -> None:
        """Each with the parent that it names, those in the trash too; by names that JSON writes otherwise."""
        parents = ["p", 'q"\\\n\x01', "ü/1", "none"]
        with backend.write() as tx:
            rows = {}
            for number, parent in enumerate([*parents[:3], "p", "other"]):
                metadata = msgspec.json.encode({"parent": parent})
                rows[number] = add(
                    tx,
                    f"s{number}",
                    Details(metadata=msgspec.Raw(metadata)),
                    deleted=7 if number == 3 else None,
                )
            add(tx, "no", Details(metadata=msgspec.Raw(b'{"parent":1}'), tags=("p",)))

        with backend.read() as reader:
            found = reader.find_subagents(parents)
            assert reader.find_subagents(["none"]) == reader.find_subagents([]) == []
        assert sorted((parent, name.id, name.sid, name.deleted) for parent, name in found) == sorted(
            [
                ("p", "s0", rows[0].sid, False),
                (parents[1], "s1", rows[1].sid, False),
                ("ü/1", "s2", rows[2].sid, False),
                ("p", "s3", rows[3].sid, True),
            ]
        )

    def test_a_bound_of_cost_leaves_out_none_that_may_cost_as_much(self, backend: Backend) -> None:
        """By the sums of the last call; one with subagents may cost more with them, whatever its id is."""
        with backend.write() as tx:
            for id, cost in (("cheap", 1), ("dear", 10), ('pa"rent', 1), ("parent", 1), ("free", None)):
                row = add(tx, id)
                if cost is not None:
                    tx.add_usage(row.sid, a_call(1, all_cost=99))
                    tx.add_usage(row.sid, a_call(2, all_cost=cost))
            for id, parent in (("x", "parent"), ("y", 'pa"rent')):
                add(tx, id, Details(metadata=msgspec.Raw(msgspec.json.encode({"parent": parent}))))

        found = _ids(backend, min_cost=10)
        assert {"dear", "parent", 'pa"rent'} <= set(found)
        assert found == [id for id in _ids(backend) if id in found]

    def test_empty_sessions_can_be_left_out(self, backend: Backend) -> None:
        """`nonempty` looks at the messages on the path, not at the entries."""
        with backend.write() as tx:
            add(tx, "empty", head=a_tip(1, 3, messages=0))
            add(tx, "full", head=a_tip(1, 3, messages=1))

        assert _ids(backend, nonempty=True) == ["full"]

    @pytest.mark.parametrize("count", [1, 60])
    def test_listing_gives_the_details_of_each(self, backend: Backend, count: int) -> None:
        """Row and details belong together, however many there are."""
        with backend.write() as tx:
            for number in range(count):
                add(tx, f"{number:03}", Details(model=f"m{number:03}"))

        with backend.read() as reader:
            found = reader.list_sessions(query())

        assert [one.row.id for one in found] == [f"{number:03}" for number in range(count)]
        assert all(one.details.model == f"m{one.row.id}" for one in found)


def _ids(backend: Backend, **filters: object) -> list[str]:
    with backend.read() as reader:
        return [found.row.id for found in reader.list_sessions(query(**filters))]  # type: ignore[arg-type]
