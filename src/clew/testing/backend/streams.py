"""The storage contract: events, usage, and entries that lose their bodies."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clew.backends.contract import Backend, Transaction
from clew.core.log.rows import (
    ERASED,
    MESSAGE,
    REMOVED,
    SUMMARY,
    EntryRow,
    EventRow,
    UsageColumn,
    UsageRow,
    UsageSum,
)
from clew.testing.backend.base import START, Conformance, add, an_entry

ALL_BYTES = bytes(range(256))
DAY = 86_400_000_000


def an_event(number: int, **changes: Any) -> EventRow:
    """An event without an id, in no stream, unless `changes` says otherwise."""
    fields: dict[str, Any] = {"time": START + number, "stream": "", "type": "t", "id": None, "data": b"{}"}
    return EventRow(number, **{**fields, **changes})


def a_call(number: int, **changes: Any) -> UsageRow:
    """A model call, every number of it another."""
    fields: dict[str, Any] = {"time": START, "branch": 0, "position": -1, "cost": 10**12}
    fields |= dict.fromkeys(("id", "model", "vendor", "endpoint", "source", "priced_by"))
    counted = [name for name in UsageRow.__struct_fields__ if name not in fields and name != "number"]
    fields |= {name: 100 * number + place for place, name in enumerate(counted)}
    return UsageRow(number=number, **{**fields, **changes})


def a_branch(
    tx: Transaction, bodies: list[bytes], kinds: dict[int, int] | None = None, fork: int = -1
) -> int:
    branch = tx.add_branch(f"u{fork}", 1, 1, 0, fork)
    rows = [
        an_entry(fork + 1 + number, body, (kinds or {}).get(fork + 1 + number, MESSAGE))
        for number, body in enumerate(bodies)
    ]
    tx.add_entries(branch, rows)
    return branch


class StreamConformance(Conformance):
    """Events and usage come back as they were put, an erased entry keeps its place."""

    # -- events

    def test_an_event_comes_back_equal(self, backend: Backend) -> None:
        """Every field, any text, any bytes, also after another event of the same call."""
        hostile = "a\0b\u2028\U0010ffff'\";--"
        rows = [an_event(1), an_event(2, time=-5, stream=hostile, type=hostile, id=hostile, data=ALL_BYTES)]
        with backend.write() as tx:
            tx.add_events(1, rows)
            tx.add_events(1, [an_event(3, type="", data=b"")])
            tx.add_events(1, [])

        with backend.read() as reader:
            assert reader.read_events(1, 0, 99) == [*rows, an_event(3, type="", data=b"")]
            assert reader.find_event(1, hostile) == rows[1]
            assert reader.find_event(1, "a") is None
            assert reader.event_bounds(1) == (1, 3)

    def test_a_session_without_events_has_empty_bounds(self, backend: Backend) -> None:
        """(1, 0): as many as there are numbers from the first to the last."""
        with backend.read() as reader:
            assert reader.event_bounds(1) == (1, 0)
            assert reader.read_events(1, 0, 9) == []
            assert reader.read_events(1, 0, 9, "x") == []
            assert reader.find_event(1, "x") is None

    def test_events_are_read_from_a_cursor_on(self, backend: Backend) -> None:
        """Numbers above `after`, in order, at most `limit`; a cursor may be any number."""
        with backend.write() as tx:
            tx.add_events(1, [an_event(number) for number in range(1, 6)])
            tx.add_events(2, [an_event(1)])

            def read(after: int, limit: int = 99) -> list[int]:
                return [row.number for row in tx.read_events(1, after, limit)]

            assert read(0) == read(-1) == [1, 2, 3, 4, 5]
            assert read(2) == [3, 4, 5]
            assert read(2, 2) == [3, 4]
            assert read(5) == read(6) == read(2**32) == read(2**33 + 1) == []

    def test_events_are_read_by_stream(self, backend: Backend) -> None:
        """One stream, that without a name, or all; of this session only."""
        with backend.write() as tx:
            streams = ("", "x", "y", "x", "", "X")
            tx.add_events(1, [an_event(number, stream=name) for number, name in enumerate(streams, 1)])
            tx.add_events(2, [an_event(1, stream="x")])

            def read(stream: str | None, after: int = 0, limit: int = 99) -> list[int]:
                return [row.number for row in tx.read_events(1, after, limit, stream)]

            assert read(None) == [1, 2, 3, 4, 5, 6]
            assert read("") == [1, 5]
            assert read("x") == [2, 4]
            assert read("x", after=2) == [4]
            assert read("x", limit=1) == [2]
            assert read("", after=1) == [5]
            assert read("z") == read("x", after=2**33) == []

    def test_event_ids_belong_to_their_session(self, backend: Backend) -> None:
        """The same id in two sessions is two events; any number have none."""
        with backend.write() as tx:
            for sid in (1, 2):
                tx.add_events(sid, [an_event(1, id="x", data=b"%d" % sid), an_event(2), an_event(3)])

            assert [tx.find_event(sid, "x") for sid in (1, 2)] == [
                an_event(1, id="x", data=b"1"),
                an_event(1, id="x", data=b"2"),
            ]

    def test_the_oldest_events_can_be_dropped(self, backend: Backend) -> None:
        """Up to a number, that one too; their ids are free again; the others stay as they are."""
        with backend.write() as tx:
            for sid in (1, 2):
                tx.add_events(sid, [an_event(n, id=f"{n}", stream="x") for n in range(1, 6)])
            tx.drop_events(1, 0)
            assert tx.event_bounds(1) == (1, 5)
            tx.drop_events(1, 3)

            assert tx.event_bounds(1) == (4, 5)
            assert [row.number for row in tx.read_events(1, 0, 99)] == [4, 5]
            assert [row.number for row in tx.read_events(1, 4, 99, "x")] == [5]
            assert (tx.find_event(1, "3"), tx.find_event(1, "4")) == (None, an_event(4, id="4", stream="x"))
            tx.add_events(1, [an_event(6, id="3")])
            assert tx.find_event(1, "3") == an_event(6, id="3")
            tx.drop_events(1, 99)
            assert tx.event_bounds(1) == (1, 0)
            assert tx.event_bounds(2) == (1, 5)

    def test_a_session_takes_its_events_and_usage_with_it(self, backend: Backend) -> None:
        """P18: dropping it drops both, and neither of any other session."""
        with backend.write() as tx:
            sids = [add(tx, id).sid for id in "abc"]
            for sid in sids:
                tx.add_events(sid, [an_event(1, id="x"), an_event(2, stream="s")])
                tx.add_usage(sid, a_call(1, id="x"))
            tx.drop_session(sids[1])

        with backend.read() as reader:
            assert [reader.event_bounds(sid) for sid in sids] == [(1, 2), (1, 0), (1, 2)]
            assert [reader.find_event(sid, "x") is None for sid in sids] == [False, True, False]
            assert [reader.read_events(sid, 0, 9, "s") == [] for sid in sids] == [False, True, False]
            assert [reader.last_usage(sid) is None for sid in sids] == [False, True, False]
            assert [reader.find_usage(sid, "x") is None for sid in sids] == [False, True, False]
            assert [group.calls for group in reader.sum_usage(None, ["session"])] == [1, 1]

    # -- usage

    def test_a_call_comes_back_equal(self, backend: Backend) -> None:
        """Every field; None where nothing was said is not nought."""
        said = {"id": "ö", "model": "m", "vendor": "v", "endpoint": "e", "source": "s", "priced_by": "p"}
        first = a_call(1, **said, branch=7, position=8, cost=0)
        second = a_call(2, cost=None, time=-1, all_cost=2**62)
        with backend.write() as tx:
            tx.add_usage(1, first)
            tx.add_usage(1, second)
            tx.add_usage(2, a_call(1))

        with backend.read() as reader:
            assert reader.read_usage(1, 0, 99) == [first, second]
            assert (reader.read_usage(1, 0, 1), reader.read_usage(1, 1, 9)) == ([first], [second])
            assert reader.read_usage(1, 2, 9) == reader.read_usage(1, 2**33, 9) == []
            assert reader.last_usage(1) == second
            assert (reader.find_usage(1, "ö"), reader.find_usage(2, "ö")) == (first, None)
            assert (reader.last_usage(3), reader.read_usage(3, 0, 9)) == (None, [])
            assert reader.last_usages([3, 2, 1]) == {1: second, 2: a_call(1)}
            assert reader.last_usages([]) == reader.last_usages([3]) == {}

    def test_sums_add_up_every_column_of_their_own(self, backend: Backend) -> None:
        """Tokens and money of each call once; calls without a price and with an estimate are counted."""
        with backend.write() as tx:
            tx.add_usage(1, _tokens(1, 1, 2, 3, 4, 5, cost=10))
            tx.add_usage(1, _tokens(2, 10, 20, 30, 40, 50, cost=None))
            tx.add_usage(2, _tokens(1, 100, 200, 300, 400, 500, cost=7, priced_by="list"))

        with backend.read() as reader:
            assert reader.sum_usage(1) == [UsageSum((), 2, 11, 22, 33, 44, 55, 10, 1, 0)]
            assert reader.sum_usage(2) == [UsageSum((), 1, 100, 200, 300, 400, 500, 7, 0, 1)]
            assert reader.sum_usage(None) == [UsageSum((), 3, 111, 222, 333, 444, 555, 17, 1, 1)]
            assert reader.sum_usage(3) == reader.sum_usage(3, ["session", "day"]) == []
            assert reader.sum_usage(3, ["model"]) == []

    def test_sums_of_money_are_exact_beyond_64_bits(self, backend: Backend) -> None:
        """No overflow, no rounding, whatever the sign."""
        costs = [2**63 - 1, 2**63 - 1, 2**63 - 1, 999_999, -1, -(2**62) - 7]
        with backend.write() as tx:
            for number, cost in enumerate(costs, 1):
                tx.add_usage(1, a_call(number, cost=cost))

            assert [group.cost for group in tx.sum_usage(1)] == [sum(costs)]

    def test_sums_take_a_stretch_of_time(self, backend: Backend) -> None:
        """`since` is in it, `until` is not."""
        with backend.write() as tx:
            for number in range(1, 6):
                tx.add_usage(1, a_call(number, time=number))

            def calls(since: int | None = None, until: int | None = None) -> int:
                return sum(group.calls for group in tx.sum_usage(None, (), since, until))

            assert (calls(), calls(2), calls(None, 4), calls(2, 4), calls(4, 4)) == (5, 4, 3, 2, 0)

    @pytest.mark.parametrize("by", ["model", "vendor", "endpoint", "source"])
    def test_sums_are_grouped_by_what_was_said_of_a_call(self, backend: Backend, by: UsageColumn) -> None:
        """Equal text, nothing more; in the order of the bytes, None first and apart from the empty text."""
        with backend.write() as tx:
            for number, name in enumerate(("é", "b", None, "B", "", "b", "\U0001f600", "\uffee"), 1):
                tx.add_usage(1, a_call(number, **{by: name}))

            found = [(*group.group, group.calls) for group in tx.sum_usage(None, [by])]

        assert found == [(None, 1), ("", 1), ("B", 1), ("b", 2), ("é", 1), ("\uffee", 1), ("\U0001f600", 1)]

    def test_sums_are_grouped_by_day(self, backend: Backend) -> None:
        """In UTC, from midnight on, before 1970 and in leap years too."""
        leap = 19_782 * DAY  # 2024-02-29
        days = {
            "1969-12-30": [-DAY - 1],
            "1969-12-31": [-DAY, -1_000_000, -999_999, -1],
            "1970-01-01": [0, DAY - 1],
            "1970-01-02": [DAY],
            "2024-02-29": [leap, leap + DAY - 1],
            "2024-03-01": [leap + DAY],
        }
        with backend.write() as tx:
            for number, time in enumerate((time for times in days.values() for time in times), 1):
                tx.add_usage(1, a_call(number, time=time))

            found = {group.group: group.calls for group in tx.sum_usage(None, ["day"])}

        assert found == {(day,): len(times) for day, times in days.items()}
        assert [day for (day,) in found] == sorted(days)

    def test_sums_are_grouped_by_quarters_of_an_hour(self, backend: Backend) -> None:
        """From which the days of every time zone can be put together."""
        quarter = 900_000_000
        numbers = {-2: [-quarter - 1], -1: [-quarter, -1], 0: [0, quarter - 1], 1: [quarter]}
        numbers[1_988_640] = [1_988_640 * quarter, 1_988_641 * quarter - 1]
        with backend.write() as tx:
            for number, time in enumerate((time for times in numbers.values() for time in times), 1):
                tx.add_usage(1, a_call(number, time=time))

            found = {group.group: group.calls for group in tx.sum_usage(None, ["quarter"])}

        assert found == {(str(number),): len(times) for number, times in numbers.items()}

    def test_sums_are_grouped_by_several_columns(self, backend: Backend) -> None:
        """In the order of the first, then of the second; the sums of a session too."""
        with backend.write() as tx:
            a, b = (add(tx, id, workspace="/w").sid for id in "ab")
            for number, (model, time) in enumerate((("x", 0), (None, 0), ("x", DAY), ("x", 1)), 1):
                tx.add_usage(a, a_call(number, model=model, time=time))
            tx.add_usage(b, a_call(1, model="x", time=0))

            def sums(sid: int | None, *by: UsageColumn) -> list[tuple[tuple[str | None, ...], int]]:
                return [(group.group, group.calls) for group in tx.sum_usage(sid, by)]

            assert sums(None, "model", "day") == [
                ((None, "1970-01-01"), 1), (("x", "1970-01-01"), 3), (("x", "1970-01-02"), 1)
            ]  # fmt: skip
            assert sums(None, "session", "workspace", "model") == [
                (("a", "/w", None), 1), (("a", "/w", "x"), 3), (("b", "/w", "x"), 1)
            ]  # fmt: skip
            assert sums(b, "day", "session") == [(("1970-01-01", "b"), 1)]

    def test_sums_are_grouped_by_session_workspace_and_branch(self, backend: Backend) -> None:
        """Those in the trash too; a call of no entry belongs to no branch."""
        with backend.write() as tx:
            a = add(tx, "a", workspace="/w").sid
            b = add(tx, "b", workspace=None).sid
            trashed = add(tx, "trashed", workspace="/w", deleted=START).sid
            branch = tx.add_branch("uid", 1, a, 0, -1)
            tx.add_usage(a, a_call(1, branch=branch, position=0))
            tx.add_usage(a, a_call(2))
            tx.add_usage(b, a_call(1))
            tx.add_usage(trashed, a_call(1, branch=branch, position=0))

            def sums(by: UsageColumn, sid: int | None = None) -> list[tuple[str | None, int]]:
                return [(group.group[0], group.calls) for group in tx.sum_usage(sid, [by])]

            assert sums("session") == [("a", 2), ("b", 1), ("trashed", 1)]
            assert sums("workspace") == [(None, 1), ("/w", 3)]
            assert sums("branch") == [(None, 2), ("uid", 2)]
            assert sums("branch", a) == [(None, 1), ("uid", 1)]
            tx.drop_branch(branch)
            assert sums("branch") == [(None, 4)], "what a purged branch cost is not forgotten"

    # -- entries that are counted and erased

    def test_entries_are_counted_by_kind(self, backend: Backend) -> None:
        """Between two positions, both included, whatever lies beside them."""
        with backend.write() as tx:
            a_branch(tx, [b"{}"] * 9)
            branch = a_branch(tx, [b"{}"] * 5, {4: SUMMARY}, fork=1)  # positions 2 to 6
            a_branch(tx, [b"{}"] * 9, fork=0)

            assert tx.count_entries(branch, 0, 99, MESSAGE) == 4
            assert tx.count_entries(branch, 0, 99, SUMMARY) == 1
            assert tx.count_entries(branch, 3, 5, MESSAGE) == 2
            assert tx.count_entries(branch, 4, 4, SUMMARY) == 1
            assert tx.count_entries(branch, -1, 99, MESSAGE) == 4
            assert tx.count_entries(branch, 5, 4, MESSAGE) == 0
            assert tx.count_entries(10**6, 0, 99, MESSAGE) == 0

    def test_an_erased_entry_keeps_all_but_its_message(self, backend: Backend) -> None:
        """Its place, time, flags, digest, counters and epoch stay; its body is gone, however large it was."""
        large = b'{"a":"' + b"x" * 100_000 + b'"}'
        with backend.write() as tx:
            branch = a_branch(tx, [b'{"n":2}', large, b'{"n":4}'], fork=1)
            tx.erase_entries(branch, [3, 2, 0, 99])
            tx.erase_entries(branch, [3])
            tx.erase_entries(branch, [])
        expected = [_erased(an_entry(2)), _erased(an_entry(3)), an_entry(4, b'{"n":4}')]

        with backend.read() as reader:
            assert reader.read_entries(branch, 2, 4) == expected
            assert [reader.get_entry(branch, position) for position in (2, 3, 4)] == expected
            assert reader.read_messages(branch, 2, 4) == [(4, {"n": 4})]
            assert reader.get_tip(branch, 3) == an_entry(3).tip(branch)
            assert reader.count_entries(branch, 0, 9, REMOVED) == 2
            assert reader.last_position(branch) == 4

    def test_totals_count_what_was_erased_as_the_path_does(self, backend: Backend) -> None:
        """An erased entry stays in the counters of all that follow it, and so in the totals."""
        with backend.write() as tx:
            branch = a_branch(tx, [b'{"n":1}', b'{"n":2}'])
            before = tx.totals(0)
            tx.erase_entries(branch, [0])

            assert tx.totals(0) == before


def _erased(row: EntryRow) -> EntryRow:
    return msgspec.structs.replace(row, kind=REMOVED, body=ERASED)


def _tokens(number: int, *tokens: int, **changes: Any) -> UsageRow:
    names = ("input", "output", "cache_read", "cache_write", "reasoning")
    return a_call(number, **dict(zip(names, tokens, strict=True)), **changes)
