"""Usage: tokens and money of one model call, written down once."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pytest

from clew.core.streams import prices
from clew.core.streams.usage import Counts, Names
from clew.errors import (
    EntryNotFoundError,
    InvalidError,
    KeyReusedError,
)
from clew.model import Usage, UsageTotals, utc
from clew.model.source import SourceSession, SourceUsage
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, say, user
from tests.behaviour.rows import each_session
from tests.support.rows import each_row

# Models that no price list knows: what is not given as a cost stays unknown.
MODEL: Final = "no-such-model-1"
OTHER: Final = "no-such-model-2"
NOON: Final = datetime(2025, 6, 1, 12, tzinfo=UTC)

COUNTS: Final = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"
)  # fmt: skip
TOKENS: Final[dict[str, Any]] = dict(zip(COUNTS, (1000, 200, 300, 40, 50), strict=True))


class TestUsage:
    """All that is given comes back; what cannot be is refused; a repeated call is one."""

    # -- one call

    def test_a_call_comes_back(self, s: Session) -> None:
        """All of it, with the id of the entry that it made."""
        [entry] = s.append(user("a"))
        usage = s.add_usage(
            model=MODEL,
            vendor="v",
            endpoint="e",
            source="agent",
            cost="0.0125",
            entry=entry,
            at=NOON,
            id="call-1",
            **TOKENS,
        )

        assert usage == Usage(
            number=1,
            at=NOON,
            model=MODEL,
            vendor="v",
            endpoint="e",
            source="agent",
            entry=entry.id,
            cost=Decimal("0.0125"),
            estimated=False,
            priced_by=None,
            id="call-1",
            **TOKENS,
        )
        assert s.usage_records() == [usage]

    def test_a_call_without_anything_is_a_call(self, s: Session, clock: Ticking) -> None:
        """No tokens, no cost, now."""
        usage = s.add_usage()

        assert (usage.number, usage.model, usage.cost, usage.entry, usage.id) == (1, None, None, None, None)
        assert usage.at <= utc(clock.now)
        assert s.usage() == UsageTotals(calls=1, unpriced=1)

    def test_a_call_goes_to_whom_the_session_names(self, store: Store) -> None:
        """Model, vendor and endpoint of the session at that time, unless others are given."""
        s = store.create("a", model=MODEL, vendor="v", endpoint="e")
        first = s.add_usage()
        s.update(model=OTHER)
        s.add_usage(vendor="w")

        records = s.usage_records()
        assert records[0] == first
        assert [(r.model, r.vendor, r.endpoint) for r in records] == [(MODEL, "v", "e"), (OTHER, "w", "e")]

    @each_session(
        ("cost", "expected"),
        [
            (0, "0"),
            (3, "3"),
            ("0.000000000001", "0.000000000001"),
            (Decimal("0.1"), "0.1"),
            ("1e-3", "0.001"),
            ("999999.999999999999", "999999.999999999999"),
        ],
        ids=repr,
    )
    def test_money_is_exact(self, s: Session, cost: Any, expected: str) -> None:
        """A decimal comes back as itself; 0 is a known cost."""
        usage = s.add_usage(cost=cost)

        assert usage.cost == Decimal(expected)
        assert s.usage_records()[0].cost == s.usage().cost == Decimal(expected)
        assert s.usage().unpriced == 0

    def test_cents_add_up(self, s: Session) -> None:
        """Ten times 0.1 is 1, and the smallest amounts are not lost beside the largest."""
        for _ in range(10):
            s.add_usage(cost="0.1")
        assert s.usage().cost == 1

        s.add_usage(cost="999998.999999999999")
        s.add_usage(cost="0.000000000001")
        assert s.usage().cost == 1_000_000
        assert s.usage(since=utc(0)).cost == 1_000_000

    @each_row(
        "given",
        [
            {"cost": 0.1}, {"cost": True}, {"cost": "NaN"}, {"cost": Decimal("Infinity")}, {"cost": "x"},
            {"cost": -1}, {"cost": "0.0000000000001"}, {"cost": 1_000_000}, {"cost": [1]},
            {"input_tokens": -1}, {"output_tokens": True}, {"cache_read_tokens": 1.0},
            {"cache_write_tokens": "1"}, {"reasoning_tokens": 2**53 + 1}, {"input_tokens": None},
            {"at": NOON.replace(tzinfo=None)}, {"at": date(2025, 1, 1)}, {"at": 0}, {"at": "now"},
            {"at": datetime(1969, 1, 1, tzinfo=UTC)},
            {"model": ""}, {"vendor": 5}, {"endpoint": "a\0"}, {"source": "\ud800"}, {"id": ""},
        ],
        ids=repr,
    )  # fmt: skip
    def test_a_call_that_can_not_be_is_refused(self, s: Session, given: dict[str, Any]) -> None:
        """I-04, I-06: the error names the parameter; nothing is written."""
        with pytest.raises(InvalidError, match=next(iter(given))):
            s.add_usage(**given)

        assert s.usage() == UsageTotals()

    def test_as_many_tokens_as_can_be(self, s: Session) -> None:
        """Up to 2**53 a call; sums go beyond, as far as storage can count, and not one call further."""
        for _ in range(1023):
            s.add_usage(input_tokens=2**53, cost=9000)
        assert s.usage().input_tokens == 1023 * 2**53
        with pytest.raises(InvalidError, match="input_tokens"):
            s.add_usage(input_tokens=2**53)
        with pytest.raises(InvalidError, match="cost"):
            s.add_usage(cost=999_999)

        assert s.usage().calls == 1023

    # -- the entry

    def test_the_entry_of_a_call_may_be_one_that_a_rewind_left(self, s: Session) -> None:
        """It was paid for all the same."""
        first, second = s.append(user("a"), user("b"))
        s.rewind(first)
        assert s.add_usage(entry=second).entry == second.id

    @each_session("point", [5, -1, "nowhere", True, 1.5, []], ids=repr)
    def test_a_call_of_no_entry_is_refused(self, s: Session, point: Any) -> None:
        """EntryNotFoundError names it; nothing is written."""
        empty = s.head
        say(s, "a")
        for wrong in (point, empty):
            with pytest.raises(EntryNotFoundError) as caught:
                s.add_usage(entry=wrong)
            assert caught.value.entry == wrong

        assert s.usage_records() == []

    # -- once

    def test_a_repeated_call_is_counted_once(self, store: Store, s: Session) -> None:
        """P4: the first one comes back, whatever became of the session's model and of the time."""
        say(s, "a")
        first = s.add_usage(input_tokens=5, cost="0.5", source="x", entry=0, id="1")
        s.update(model=OTHER)
        s.clear()
        assert s.add_usage(input_tokens=5, cost="0.50", source="x", entry=0, id="1") == first
        say(s, "another entry at this position")
        assert s.add_usage(input_tokens=5, cost="0.50", source="x", entry=0, id="1") == first

        assert s.usage().calls == 1
        assert store.create("other").add_usage(id="1").number == 1

    @each_row(
        "change",
        [
            {"input_tokens": 6}, {"reasoning_tokens": 1}, {"cost": "0.6"}, {"model": OTHER},
            {"vendor": "w"}, {"endpoint": "e"}, {"source": "y"}, {"at": NOON + timedelta(microseconds=1)},
        ],
        ids=repr,
    )  # fmt: skip
    def test_an_id_stands_for_one_call(self, s: Session, change: dict[str, Any]) -> None:
        """KeyReusedError for anything else under it; nothing is written."""
        call: dict[str, Any] = {"model": MODEL, "input_tokens": 5, "cost": "0.5", "at": NOON, "id": "1"}
        s.add_usage(**call)
        with pytest.raises(KeyReusedError) as caught:
            s.add_usage(**{**call, **change})

        assert caught.value.key == "1"
        assert s.usage().calls == 1

    def test_an_id_stands_for_the_call_of_one_entry(self, s: Session) -> None:
        """Another entry under it is another call."""
        first, second = s.append(user("a"), user("b"))
        s.add_usage(entry=first, id="1")

        assert s.add_usage(entry=first.id, id="1").entry == first.id
        with pytest.raises(KeyReusedError):
            s.add_usage(entry=second, id="1")

    # -- deletion

    def test_usage_of_an_entry_that_was_purged_stays(self, store: Store, s: Session) -> None:
        """The money is spent; only the entry is not there to be named any more."""
        say(s, "a")
        fork = s.fork("f")
        [entry] = fork.append(user("b"))
        s.add_usage(entry=entry, input_tokens=5, id="1")
        store.delete("f", purge=True)

        [record] = s.usage_records()
        assert (record.entry, record.input_tokens) == (None, 5)
        assert s.usage(by="branch")[None].input_tokens == 5
        assert s.add_usage(entry=entry, input_tokens=5, id="1") == record

    # -- calls of other programs

    def test_an_imported_call_without_a_cost_is_estimated_at_its_own_time(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Only a call that a list can price: not one whose cost the source tells, nor a sum of calls."""
        asked = _list_prices(monkeypatch)
        calls = [
            SourceUsage(id="own", model=OTHER, at=NOON, **TOKENS),
            SourceUsage(id="told", model=MODEL, cost="0.5", **TOKENS),
            SourceUsage(id="sum", model=MODEL, is_sum=True, **TOKENS),
            SourceUsage(id="unknown", model="nobody's", **TOKENS),
        ]
        for _ in range(2):
            store.load(SourceSession(id="p:1", entries=(), model=MODEL, vendor="v", usage=lambda: calls))

        records = store.get("p:1").usage_records()
        assert [(call.id, call.cost, call.priced_by) for call in records] == [
            ("own", Decimal("0.001"), "a list"), ("told", Decimal("0.5"), None), ("sum", None, None),
            ("unknown", None, None),
        ]  # fmt: skip
        assert [(call.model, call.vendor) for call in records[:1]] == [(OTHER, "v")]
        assert [time for model, time in asked if model == OTHER] == [NOON]
        totals = store.usage()
        assert (totals.cost, totals.unpriced, totals.estimated) == (Decimal("0.501"), 2, 1)

    def test_an_imported_call_that_grew_costs_what_the_whole_costs(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It was going on when it was first told: the rest is priced with what stands before it."""
        _list_prices(monkeypatch)
        for tokens in (1000, 1000, 5000, 5000):
            told = [SourceUsage(id="c", model=MODEL, input_tokens=tokens, at=NOON)]
            store.load(SourceSession(id="p:1", entries=(), usage=told.copy))

        assert [call.cost for call in store.get("p:1").usage_records()] == [
            Decimal("0.001"),
            Decimal("0.004"),
        ]
        assert (store.usage().input_tokens, store.usage().unpriced) == (5000, 0)


def _list_prices(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, datetime]]:
    """A list by which a million tokens of input cost one dollar; what it was asked for."""
    asked: list[tuple[str | None, datetime]] = []

    def estimate(names: Names, counts: Counts, at: datetime, billing: prices.Billing) -> prices.Price | None:
        asked.append((names.model, at))
        if names.model not in (MODEL, OTHER):
            return None
        return prices.Price(Decimal(counts.input) / 1_000_000, "a list")

    monkeypatch.setattr(prices, "is_loaded", lambda: True)
    monkeypatch.setattr(prices, "estimate", estimate)
    return asked
