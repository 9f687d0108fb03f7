"""Events, model calls and sums over HTTP, as the library has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import msgspec

import clew
from clew.model import Event, Usage, UsageTotals
from tests.server.conftest import Running
from tests.server.routes.asking import A, assistant, plain, refusal, rows
from tests.support.rows import each_row

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


# -- events


def test_events_are_added_and_read(session: clew.Session, client: httpx.Client) -> None:
    added = client.post(
        f"{A}/events", json={"events": [{"type": "start", "data": {"n": 1}}, {"type": "end", "stream": "s"}]}
    )
    assert added.status_code == 201
    assert added.json()["data"] == plain(session.events())
    assert client.get(f"{A}/events").json() == {"data": plain(session.events()), "cursor": None}
    only = client.get(f"{A}/events", params={"stream": "s"}).json()["data"]
    assert [one["type"] for one in only] == ["end"]
    assert client.get(f"{A}/events", params={"stream": ""}).json()["data"] == plain(session.events(stream=""))
    assert client.get(f"{A}/events/count").json() == plain(session.count_events())


def test_pages_of_events_lead_to_each_other(session: clew.Session, client: httpx.Client) -> None:
    session.add_events([{"type": "tick", "stream": "s" if n % 2 else "", "data": n} for n in range(10)])
    found = rows(client, f"{A}/events", limit=2, stream="s")
    assert msgspec.convert(found, list[Event]) == session.events(stream="s")


def test_an_event_with_an_id_is_kept_once(session: clew.Session, client: httpx.Client) -> None:
    body = {"events": [{"type": "t", "data": 1, "id": "e1"}]}
    first, second = client.post(f"{A}/events", json=body), client.post(f"{A}/events", json=body)
    assert first.json() == second.json()
    body["events"][0]["data"] = 2
    reused = client.post(f"{A}/events", json=body)
    assert (reused.status_code, reused.json()["code"], reused.json()["key"]) == (422, "key_reused", "e1")
    assert session.count_events().added == 1


def test_a_key_makes_a_whole_batch_safe_to_repeat(session: clew.Session, client: httpx.Client) -> None:
    body = {"events": [{"type": "t"}, {"type": "u"}]}
    for _ in range(2):
        answer = client.post(f"{A}/events", json=body, headers={"idempotency-key": "turn-2"})
        assert answer.status_code == 201
    assert [event.type for event in session.events()] == ["t", "u"]


@each_row(
    ("body", "word"),
    [
        ({"events": []}, "events"),
        ({"events": [{"data": 1}]}, "type"),
        ({"events": [{"type": ""}]}, "type"),
        ({"events": [{"type": "t", "kind": "x"}]}, "kind"),
        ({"event": {"type": "t"}}, "event"),
    ],
)
def test_events_that_are_none_are_refused(
    session: clew.Session, client: httpx.Client, body: Any, word: str
) -> None:
    answer = client.post(f"{A}/events", json=body)
    assert answer.status_code == 422
    assert word in answer.json()["detail"]
    assert session.count_events().added == 0


def test_a_batch_of_events_is_bounded(session: clew.Session, client: httpx.Client) -> None:
    assert refusal(client.post(f"{A}/events", json={"events": [{"type": "t"}] * 1001})) == (413, "too_many")
    assert session.count_events().added == 0


# -- model calls


def test_a_call_is_written_down_once(session: clew.Session, client: httpx.Client) -> None:
    (entry,) = session.append(assistant("hi"))
    body = {
        "model": "m", "input_tokens": 100, "output_tokens": 10, "cost": "0.0125", "entry": entry.id,
        "at": "2026-11-15T12:00:00Z", "source": "agent",
    }  # fmt: skip
    for _ in range(2):
        answer = client.post(f"{A}/usage", json=body, headers={"idempotency-key": "call-1"})
        assert answer.status_code == 201, answer.text
    assert answer.json()["cost"] == "0.0125"
    (kept,) = session.usage_records()
    assert (kept.cost, kept.entry, kept.at) == (Decimal("0.0125"), entry.id, NOON)
    assert client.get(f"{A}/usage/records").json() == {"data": [plain(kept)], "cursor": None}


@each_row("cost", [0.5, True, "much", "-1", "NaN"])
def test_money_is_decimal_text(session: clew.Session, client: httpx.Client, cost: Any) -> None:
    answer = client.post(f"{A}/usage", json={"cost": cost})
    assert answer.status_code == 422, answer.text
    assert "cost" in answer.json()["detail"]


def test_pages_of_calls(session: clew.Session, client: httpx.Client) -> None:
    for number in range(5):
        session.add_usage(input_tokens=number)
    first = client.get(f"{A}/usage/records", params={"limit": 3})
    rest = client.get(first.links["next"]["url"]).json()
    assert msgspec.convert(first.json()["data"] + rest["data"], list[Usage]) == session.usage_records()
    assert rest["cursor"] is None


def test_sums_of_a_session(session: clew.Session, client: httpx.Client) -> None:
    for day in range(3):
        session.add_usage(
            model=f"m{day % 2}", input_tokens=10**day, cost=Decimal("0.1"), at=NOON + timedelta(days=day)
        )
    assert client.get(f"{A}/usage").json() == {
        "by": None,
        "totals": plain(session.usage()),
        "groups": [],
        "left_out": 0,
    }
    assert client.get(f"{A}/usage").json()["totals"]["cost"] == "0.3"
    by_day = client.get(f"{A}/usage", params={"by": "day", "since": "2026-11-16"}).json()
    assert [one["group"] for one in by_day["groups"]] == ["2026-11-16", "2026-11-17"]
    assert by_day["totals"] == plain(session.usage(since=NOON + timedelta(hours=12)))
    zone = ZoneInfo("Pacific/Auckland")
    there = client.get(f"{A}/usage", params={"by": "day", "tz": "Pacific/Auckland"}).json()
    assert [(one["group"], one["totals"]) for one in there["groups"]] == [
        (str(day), plain(sums)) for day, sums in session.usage(by="day", tz=zone).items()
    ]


def test_sums_of_the_store(server: Running, client: httpx.Client) -> None:
    for number, (workspace, tags) in enumerate([("/w/shop", ["x"]), (None, ["x", "y"]), ("/w/shop", [])]):
        one = server.store.create(f"s{number}", workspace=workspace, tags=tags, metadata={"agent": "codex"})
        one.add_usage(model="m" if number else None, input_tokens=10**number, cost="0.5")

    def asked(**query: Any) -> Any:
        answer = client.get("/api/v1/usage", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert asked()["totals"] == plain(server.store.usage())
    assert asked(workspace="/w/shop")["totals"]["input_tokens"] == 101
    assert asked(tag=["x", "y"])["totals"]["input_tokens"] == 10
    assert asked(project="shop", agent="codex", model="m")["totals"]["input_tokens"] == 100
    groups = asked(by="model")["groups"]
    assert [(one["group"], one["totals"]["input_tokens"]) for one in groups] == [(None, 1), ("m", 110)]
    assert asked(by="model", since="1h")["totals"] == plain(server.store.usage())
    assert asked(until="1h")["totals"] == plain(UsageTotals())
    assert asked(by="day", until="1h")["totals"] == plain(UsageTotals())
    assert asked(by="day", until="1h")["groups"] == []


@each_row(
    ("query", "word"),
    [
        ({"by": "colour"}, "by"),
        ({"tz": "Mars/Olympus"}, "tz"),
        ({"tz": "America"}, "tz"),
        ({"tz": "../../etc/passwd"}, "tz"),
        ({"since": "soon"}, "since"),
        ({"until": "7 d"}, "until"),
    ],
)
def test_sums_of_what_there_is_not(client: httpx.Client, query: dict[str, str], word: str) -> None:
    answer = client.get("/api/v1/usage", params=query)
    assert answer.status_code == 422
    assert word in answer.json()["detail"]


def test_times_may_have_any_offset_and_a_plus_that_was_not_encoded(
    session: clew.Session, client: httpx.Client
) -> None:
    session.add_usage(input_tokens=1, at=NOON)
    for since in ("2026-11-15T12:00:00Z", "2026-11-15T13:00:00%2B01:00", "2026-11-15T13:00:00+01:00"):
        assert client.get(f"{A}/usage?since={since}").json()["totals"]["calls"] == 1
        assert client.get(f"{A}/usage?until={since}").json()["totals"]["calls"] == 0


def test_a_limit_keeps_the_groups_that_cost_most(server: Running, client: httpx.Client) -> None:
    for number, (cost, tokens) in enumerate([("0.1", 5), ("0.3", 1), ("0.1", 9), ("0", 900)]):
        server.store.create(f"s{number}").add_usage(model="m", cost=cost, input_tokens=tokens)
    report = client.get("/api/v1/usage", params={"by": "session", "limit": 2}).json()
    assert [one["group"] for one in report["groups"]] == ["s1", "s2"]
    assert report["left_out"] == 2
    assert report["totals"] == plain(server.store.usage()), "the totals have all"
    assert client.get("/api/v1/usage", params={"by": "session", "limit": 4}).json()["left_out"] == 0
    assert client.get("/api/v1/usage", params={"by": "session", "limit": 0}).status_code == 422
