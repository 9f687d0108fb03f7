"""Sums of usage: exact, by what a user asks for, whatever happens to the conversation."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from clew.backends.contract import Backend
from clew.core.streams import totals as sums_of_calls
from clew.errors import InvalidQueryError
from clew.model import UsageTotals, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import user
from tests.behaviour.streams.test_usage import MODEL, NOON, OTHER, TOKENS
from tests.support.rows import each_row
from tests.support.storage import Watched


def inputs(of: Session | Store, **query: Any) -> dict[Any, int]:
    """The tokens of input of each group."""
    return {group: sums.input_tokens for group, sums in of.usage(**query).items()}


class TestUsageSums:
    """What was spent stays spent, and is counted once: usage belongs to the session, and does not rewind."""

    # -- sums

    def test_a_session_sums_its_calls(self, s: Session) -> None:
        """Calls, tokens and money; how many calls the money lacks."""
        assert s.usage() == UsageTotals()
        s.add_usage(cost="0.25", **TOKENS)
        s.add_usage(cost=1, **TOKENS)
        s.add_usage(model=MODEL, **TOKENS)

        expected = UsageTotals(
            calls=3,
            cost=Decimal("1.25"),
            unpriced=1,
            estimated=0,
            **{name: 3 * count for name, count in TOKENS.items()},
        )
        assert s.usage() == s.usage(since=utc(0)) == expected

    def test_the_sum_over_all_calls_reads_one(self, backend: Backend, s: Session) -> None:
        """However many there are: the sums stand beside the last."""
        for _ in range(10):
            s.add_usage(input_tokens=1)
        asked: list[str] = []
        with Store(Watched(backend, lambda name, args: asked.append(name))) as watched:
            again = watched.get("s")
            asked.clear()
            assert again.usage().input_tokens == 10
            assert [name for name in asked if "usage" in name] == ["last_usage"]

    def test_calls_are_grouped(self, store: Store) -> None:
        """By model, vendor, endpoint, source, workspace, session; None where nothing was said."""
        s = store.create("a", workspace="/w/x")
        s.add_usage(model=MODEL, vendor="v", endpoint="e", source="agent", input_tokens=1, cost=1)
        s.add_usage(model=OTHER, vendor="v", input_tokens=2)
        s.add_usage(model=MODEL, input_tokens=4, cost=2)

        assert inputs(s, by="model") == {MODEL: 5, OTHER: 2}
        assert inputs(s, by="vendor") == {None: 4, "v": 3}
        assert inputs(s, by="endpoint") == {None: 6, "e": 1}
        assert inputs(s, by="source") == {None: 6, "agent": 1}
        assert inputs(s, by="workspace") == {s.info.workspace: 7}
        assert inputs(s, by="session") == {"a": 7}
        assert s.usage(by="model")[MODEL] == UsageTotals(calls=2, input_tokens=5, cost=Decimal(3))
        assert s.usage(by="model")[OTHER] == UsageTotals(calls=1, input_tokens=2, unpriced=1)

    def test_calls_are_grouped_by_day(self, s: Session) -> None:
        """Days begin at midnight UTC, wherever the caller is; they come in order."""
        midnight = datetime(2025, 6, 2, tzinfo=UTC)
        for at, tokens in (
            (midnight, 1),
            (midnight - timedelta(microseconds=1), 2),
            (midnight.astimezone(timezone(timedelta(hours=-11))), 4),
            (datetime(1970, 1, 1, tzinfo=UTC), 8),
        ):
            s.add_usage(at=at, input_tokens=tokens)

        by_day = s.usage(by="day")
        assert list(by_day) == [date(1970, 1, 1), date(2025, 6, 1), date(2025, 6, 2)]
        assert [totals.input_tokens for totals in by_day.values()] == [8, 2, 5]

    def test_calls_are_grouped_by_week_and_month(self, s: Session) -> None:
        """A week is named by its Monday, a month by its first day."""
        days = [date(2024, 12, 29), date(2024, 12, 30), date(2025, 1, 5), date(2025, 1, 6), date(2025, 2, 1)]
        for number, day in enumerate(days):
            s.add_usage(at=datetime(day.year, day.month, day.day, 23, tzinfo=UTC), input_tokens=10**number)

        weeks = inputs(s, by="week")
        assert list(weeks.items()) == [
            (date(2024, 12, 23), 1), (date(2024, 12, 30), 110), (date(2025, 1, 6), 1000),
            (date(2025, 1, 27), 10_000),
        ]  # fmt: skip
        months = inputs(s, by="month")
        assert list(months.items()) == [
            (date(2024, 12, 1), 11), (date(2025, 1, 1), 1100), (date(2025, 2, 1), 10_000)
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("zone", "days"),
        [
            ("Asia/Kathmandu", {date(2025, 3, 9): 1, date(2025, 3, 10): 110}),  # 5:45 before
            ("America/New_York", {date(2025, 3, 9): 111}),  # its clock is set forward on this day
            ("Pacific/Kiritimati", {date(2025, 3, 9): 1, date(2025, 3, 10): 110}),
        ],
    )
    def test_days_are_those_of_a_time_zone(self, s: Session, zone: str, days: dict[date, int]) -> None:
        """Those of UTC, unless another one is asked for; weeks and months follow them."""
        for number, minutes in enumerate((0, 13 * 60 + 15, 22 * 60)):
            at = datetime(2025, 3, 9, 5, 0, tzinfo=UTC) + timedelta(minutes=minutes)
            s.add_usage(at=at, input_tokens=10**number)

        tz = ZoneInfo(zone)
        assert inputs(s, by="day", tz=tz) == days
        assert list(s.usage(by="week", tz=tz)) == sorted(
            {date(2025, 3, 3) if day.day < 10 else day for day in days}
        )
        assert list(s.usage(by="month", tz=tz)) == [date(2025, 3, 1)]
        assert (
            list(s.usage(by="day", tz=UTC))
            == list(s.usage(by="day"))
            == [date(2025, 3, 9), date(2025, 3, 10)]
        )

    def test_calls_of_sessions_with_a_tag_or_in_a_workspace(self, store: Store) -> None:
        """As `list` chooses sessions; those in the trash count, as ever."""
        for number, (id, tags, workspace) in enumerate(
            [("a", ["x"], "/w"), ("b", ["x", "y"], "/w"), ("c", ["y"], None), ("d", ["x"], "/w")]
        ):
            store.create(id, tags=tags, workspace=workspace).add_usage(
                model=MODEL if number else OTHER, input_tokens=10**number, at=NOON
            )
        store.delete("d")
        assert store.usage(tag="x").input_tokens == 1011
        assert store.usage(tag=["x", "y"]).input_tokens == 10
        assert store.usage(workspace="/w", tag="y").input_tokens == 10
        assert store.usage(workspace="/v") == UsageTotals()
        assert inputs(store, by="session", workspace="/w") == {
            "a": 1,
            "b": 10,
            "d": 1000,
        }
        assert store.usage(workspace="/w", model=OTHER).calls == 1

    @pytest.mark.parametrize("few", [0, 300])
    def test_calls_are_grouped_by_agent_and_project(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, few: int
    ) -> None:
        """The agent of the session, and the last part of the path of its workspace."""
        monkeypatch.setattr(sums_of_calls, "_FEW", few)
        for number, (id, agent, workspace) in enumerate(
            [
                ("a", "codex", "/w/shop"),
                ("b", "claude-code", "/v/shop"),
                ("c", None, None),
                ("d", "codex", "/x/y"),
            ]
        ):
            metadata = {} if agent is None else {"agent": agent}
            store.create(id, metadata=metadata, workspace=workspace).add_usage(
                model=MODEL if number else OTHER, input_tokens=10**number, at=NOON
            )
        store.delete("d")

        assert inputs(store, by="agent") == {None: 100, "claude-code": 10, "codex": 1001}
        assert inputs(store, by="project") == {None: 100, "shop": 11, "y": 1000}
        assert inputs(store, by="project", agent="codex") == {"shop": 1, "y": 1000}
        assert inputs(store, by="agent", project="shop") == {"claude-code": 10, "codex": 1}
        assert inputs(store, by="day", model=MODEL) == {NOON.date(): 1110}
        assert inputs(store, by="model", model=OTHER, agent="codex", project="shop") == {OTHER: 1}
        assert store.usage(agent="codex", project="shop") == store.get("a").usage()
        assert store.usage(agent="nobody") == UsageTotals()
        assert store.get("a").usage(by="agent")["codex"].input_tokens == 1

    @pytest.mark.parametrize("few", [0, 300])
    def test_subagents_count_for_the_session_that_they_work_for(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, few: int
    ) -> None:
        """Those of subagents too; a circle of parents, or one that is not there, ends nowhere else."""
        monkeypatch.setattr(sums_of_calls, "_FEW", few)
        parents = [
            ("top", None), ("sub", "top"), ("below", "sub"), ("trashed", "top"), ("lost", "nowhere"),
            ("x", "y"), ("y", "x"),
        ]  # fmt: skip
        for number, (id, parent) in enumerate(parents):
            metadata = {} if parent is None else {"parent": parent}
            store.create(id, metadata=metadata).add_usage(input_tokens=10**number)
        store.delete("trashed")

        assert list(store.usage(by="session")) == sorted(id for id, _ in parents)
        folded = inputs(store, by="session", subagents=True)
        assert folded.pop("top") == 1111
        assert folded.pop("lost") == 10_000
        assert sum(folded.values()) == 1_100_000
        assert store.get("top").usage(subagents=True).input_tokens == 1111
        assert store.get("top").usage().input_tokens == 1
        by_session = store.get("sub").usage(by="session", subagents=True)
        assert {id: sums.input_tokens for id, sums in by_session.items()} == {"below": 100, "sub": 10}
        assert store.get("x").usage(subagents=True).input_tokens == 1_100_000

    def test_calls_are_summed_between_two_times(self, s: Session) -> None:
        """From `since` on, before `until`; by the time of the call, not of its being written down."""
        for hours in (2, 0, 1):
            s.add_usage(at=NOON + timedelta(hours=hours), input_tokens=10**hours)
        hour = timedelta(hours=1)

        assert s.usage(since=NOON + hour).input_tokens == 110
        assert s.usage(until=NOON + hour).input_tokens == 1
        assert s.usage(since=NOON, until=NOON + 2 * hour).input_tokens == 11
        assert s.usage(since=NOON, until=NOON) == UsageTotals()
        assert s.usage(by="model", since=NOON + 3 * hour) == {}
        assert s.usage(by="model", until=NOON + hour)[None].calls == 1

    @each_row(
        "query",
        [
            {"by": "colour"}, {"by": 5}, {"by": []}, {"since": NOON.replace(tzinfo=None)}, {"until": 0},
            {"since": date(2025, 1, 1)}, {"until": "2025"}, {"tz": "UTC"}, {"tz": 5},
        ],
        ids=repr,
    )  # fmt: skip
    def test_a_sum_that_means_nothing_is_refused(self, s: Session, query: dict[str, Any]) -> None:
        """The error names the parameter and the value."""
        [(name, value)] = query.items()
        with pytest.raises(InvalidQueryError, match=name) as caught:
            s.usage(**query)
        assert repr(value) in str(caught.value)

    def test_records_of_usage_are_read_on(self, s: Session) -> None:
        """After a record or its number, at most `limit`."""
        records = [s.add_usage(input_tokens=number) for number in range(4)]

        assert s.usage_records(limit=2) == records[:2]
        assert s.usage_records(after=records[1]) == s.usage_records(after=2) == records[2:]
        assert s.usage_records(after=4) == s.usage_records(after=10**30) == []

    # -- what does not change it

    def test_usage_survives_what_happens_to_the_conversation(self, s: Session) -> None:
        """Rewind, undo, compaction, truncation, replacement and clearing: the money is spent."""
        entries = s.append(user("a"), user("b"), user("c"))
        for entry in entries:
            s.add_usage(entry=entry, input_tokens=1, cost="0.1")
        before = s.usage(), s.usage_records()
        s.rewind(0)
        s.undo()
        s.truncate(1)
        s.compact("short")
        s.replace([user("new")])
        s.clear()

        assert (s.usage(), s.usage_records()) == before

    def test_a_fork_begins_at_nothing(self, store: Store, s: Session) -> None:
        """What it inherits is counted where it was spent, and nowhere twice."""
        [entry] = s.append(user("a"))
        s.add_usage(entry=entry, input_tokens=5, cost=1)
        fork = s.fork()
        assert fork.usage() == UsageTotals()
        assert fork.usage_records() == []

        mine = fork.add_usage(entry=entry, input_tokens=7)
        assert (mine.number, mine.entry) == (1, entry.id)
        assert (s.usage().input_tokens, fork.usage().input_tokens) == (5, 7)

    def test_calls_are_grouped_by_branch(self, s: Session) -> None:
        """The branch of the entry that each call made: what every attempt cost."""
        first, second = s.append(user("a"), user("b"))
        s.add_usage(entry=first, input_tokens=1)
        s.add_usage(entry=second, input_tokens=2)
        s.rewind(first)
        [retry] = s.append(user("c"))
        s.add_usage(entry=retry, input_tokens=4)
        s.add_usage(input_tokens=8)

        by_branch = inputs(s, by="branch")
        before, after = first.id.rpartition(".")[0], retry.id.rpartition(".")[0]
        assert by_branch == {before: 3, after: 4, None: 8}

    # -- the whole store

    def test_a_store_sums_the_calls_of_all_sessions(self, store: Store, s: Session) -> None:
        """Those in the trash too, those of a purged one not; a shared history is paid for once."""
        assert store.usage() == UsageTotals()
        [entry] = s.append(user("a"))
        s.add_usage(model=MODEL, entry=entry, input_tokens=1, cost="0.1", at=NOON)
        fork = s.fork("f")
        fork.add_usage(model=OTHER, input_tokens=2, cost="0.2", at=NOON + timedelta(days=1))
        gone = store.create("gone", workspace="/w/x")
        gone.add_usage(model=OTHER, input_tokens=4)

        assert (store.usage().calls, store.usage().cost) == (3, Decimal("0.3"))
        assert inputs(store, by="model") == {
            MODEL: 1,
            OTHER: 6,
        }
        assert list(store.usage(by="session")) == ["f", "gone", "s"]
        assert store.usage(by="workspace")[None].input_tokens == 3
        assert store.usage(by="day", until=NOON + timedelta(hours=1)).keys() == {NOON.date()}
        assert store.usage(since=NOON, until=NOON + timedelta(days=2)).input_tokens == 3

        store.delete("gone")
        assert store.usage().input_tokens == 7
        store.delete("f", purge=True)
        assert store.usage().input_tokens == 5

    @each_row("query", [{"by": "colour"}, {"since": NOON.replace(tzinfo=None)}, {"until": 5}], ids=repr)
    def test_a_sum_over_a_store_that_means_nothing_is_refused(
        self, store: Store, query: dict[str, Any]
    ) -> None:
        """As for a session."""
        with pytest.raises(InvalidQueryError, match=next(iter(query))):
            store.usage(**query)
