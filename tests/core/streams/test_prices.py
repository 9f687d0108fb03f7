"""Costs that were not given are estimated by the list of prices, and never stop a call."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, localcontext
from typing import Any

import pytest

import clew
from clew.core.streams import price_list, prices
from clew.core.streams.price_list import Mode, PriceList
from clew.core.streams.usage import Counts, Names
from clew.model import UsageTotals
from tests.support.rows import each_row

AT = datetime(2025, 6, 15, tzinfo=UTC)
LIST = prices.load().name


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as store:
        yield store


@pytest.fixture
def s(store: clew.Store) -> clew.Session:
    return store.session("s")


def priced(
    model: str,
    vendor: str | None = None,
    endpoint: str | None = None,
    at: datetime = AT,
    mode: Mode | None = None,
    **tokens: int,
) -> Decimal | None:
    """By the names of the public surface; `cache_write_1h_tokens` are a part of those written to a cache."""
    counts = Counts(*(tokens.get(f"{name}_tokens", 0) for name in Counts.__struct_fields__))
    billing = prices.Billing(tokens.get("cache_write_1h_tokens", 0), mode)
    found = prices.estimate(Names(model, vendor, endpoint), counts, at, billing)
    return None if found is None else found.cost


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("nobody asked for this")


def test_a_cost_that_was_not_given_is_estimated(s: clew.Session) -> None:
    """2.50 dollars for a million tokens of input, 10 for a million of output, 1.25 for cached input."""
    usage = s.add_usage(model="gpt-4o", input_tokens=1000, cache_read_tokens=400, output_tokens=100, at=AT)

    assert usage.cost == Decimal("0.003")
    assert (usage.estimated, usage.priced_by) == (True, LIST)
    assert s.usage_records() == [usage]
    assert (s.usage().cost, s.usage().estimated, s.usage().unpriced) == (Decimal("0.003"), 1, 0)


def test_a_cost_that_was_given_is_kept(s: clew.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "estimate", refuse)
    for cost in ("7", 0):
        usage = s.add_usage(model="gpt-4o", input_tokens=1000, cost=cost)
        assert (usage.cost, usage.estimated, usage.priced_by) == (Decimal(cost), False, None)


def test_the_model_of_the_session_is_priced(store: clew.Store) -> None:
    s = store.create("priced", model="gpt-4o", vendor="openai")
    usage = s.add_usage(input_tokens=1_000_000, at=AT)
    assert (usage.model, usage.cost) == ("gpt-4o", Decimal("2.5"))


@each_row("model", ["no-such-model", "\U0001f600", "x" * 500, "../..", "*"])
def test_an_unknown_model_has_no_cost(store: clew.Store, model: str) -> None:
    s = store.create()
    usage = s.add_usage(model=model, input_tokens=5)
    assert (usage.cost, usage.estimated, usage.priced_by) == (None, False, None)
    assert s.usage() == UsageTotals(calls=1, input_tokens=5, unpriced=1)


def test_a_seller_that_was_named_is_not_replaced_by_a_guess() -> None:
    """The same model may cost something else there, or nothing."""
    tokens: dict[str, Any] = {"input_tokens": 1000}
    assert priced("gpt-4o", **tokens) == priced("gpt-4o", "openai", **tokens) == Decimal("0.0025")
    assert priced("gpt-4o", None, "https://api.openai.com/v1", **tokens) == Decimal("0.0025")
    assert priced("gpt-4o", None, "eu-west", **tokens) == Decimal("0.0025")
    assert priced("gpt-4o", "my own proxy", "https://api.openai.com/v1", **tokens) == Decimal("0.0025")
    assert priced("gpt-4o", "my own proxy", **tokens) is None
    assert priced("gpt-4o", None, "http://127.0.0.1:8000/v1", **tokens) is None


def test_a_name_may_begin_with_that_of_its_seller() -> None:
    tokens: dict[str, Any] = {"input_tokens": 1_000_000}
    assert priced("anthropic/claude-sonnet-4-0", **tokens) == priced("openai/o3", **tokens) * 3 / 2 == 3  # type: ignore[operator]
    assert priced("gemini/gemini-2.5-pro", **tokens) == priced("gemini-2.5-pro", **tokens) == Decimal("2.5")
    assert priced("ollama/claude-sonnet-4-0", **tokens) is None
    assert priced("anthropic/claude-sonnet-4-0", "my own proxy", **tokens) is None


def test_the_prices_are_those_of_the_time_of_the_call(s: clew.Session) -> None:
    """The price of o3 fell on the 10th of June 2025."""
    before = s.add_usage(model="o3", input_tokens=1_000_000, at=AT - timedelta(days=30))
    after = s.add_usage(model="o3", input_tokens=1_000_000, at=AT)
    assert [before.cost, after.cost] == [Decimal(10), Decimal(2)]


def test_what_stays_in_a_cache_for_an_hour_costs_more() -> None:
    """Claude Sonnet 4: 3 dollars for a million tokens, 3.75 into a cache for 5 minutes, 6 for an hour."""
    written: dict[str, Any] = {"input_tokens": 1_000_000, "cache_write_tokens": 1_000_000}
    assert priced("claude-sonnet-4-20250514", **written) == Decimal("3.75")
    assert priced("claude-sonnet-4-20250514", **written, cache_write_1h_tokens=1_000_000) == 6
    assert priced("claude-sonnet-4-20250514", **written, cache_write_1h_tokens=400_000) == Decimal("4.65")
    assert priced("gpt-4o", **written, cache_write_1h_tokens=1_000_000) == Decimal("2.5")


def test_a_long_prompt_has_the_price_of_its_tier_for_all_its_tokens() -> None:
    """Claude Sonnet 4.5 above 200,000 tokens, whether a cache had them or not."""
    read: dict[str, Any] = {"cache_read_tokens": 150_000, "output_tokens": 1_000_000}
    assert priced("claude-sonnet-4-5", input_tokens=200_000, **read) == Decimal("15.195")
    assert priced("claude-sonnet-4-5", input_tokens=200_001, **read) == Decimal("22.890006")


def test_a_mode_has_its_own_price_or_none() -> None:
    """The usual price of a call that was served faster, or later, would be wrong."""
    at = datetime(2026, 11, 1, tzinfo=UTC)
    tokens: dict[str, Any] = {"input_tokens": 1_000_000}
    assert priced("claude-opus-4-6", at=at, **tokens) == 5
    assert priced("claude-opus-4-6", at=at, mode="fast", **tokens) == 30
    assert priced("claude-opus-4-6", at=at, mode="batch", **tokens) == Decimal("2.5")
    # The price of a batch was not listed, and that of a long prompt was.
    before = datetime(2026, 1, 1, tzinfo=UTC)
    assert priced("claude-opus-4-6", at=before, mode="batch", **tokens) == 5
    assert priced("claude-opus-4-6", at=at, mode="flex", **tokens) is None
    assert [priced("o3", at=at, mode=mode, **tokens) for mode in (None, "fast", "flex")] == [2, 3.5, 1]


def test_counts_that_contradict_each_other_have_no_cost(s: clew.Session) -> None:
    """More tokens from a cache than there were tokens: which of the two is wrong nobody can say."""
    usage = s.add_usage(model="gpt-4o", input_tokens=10, cache_read_tokens=11)
    assert (usage.cost, usage.cache_read_tokens) == (None, 11)


def test_an_estimate_that_no_money_can_be_is_none() -> None:
    assert priced("gpt-4o", output_tokens=2**53) is None
    assert priced("gpt-4o") == 0


def test_an_estimate_is_rounded_to_what_is_kept(s: clew.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "_look_up", lambda *args: Decimal(1) / 3)
    usage = s.add_usage(model="gpt-4o")
    assert usage.cost == Decimal("0.333333333333")


@each_row("failure", [LookupError, ValueError, OSError, RuntimeError, UserWarning])
def test_a_list_that_fails_stops_nothing(
    s: clew.Session, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise failure("no")

    monkeypatch.setattr(price_list, "cost_of", fail)
    assert s.add_usage(model="gpt-4o", input_tokens=5).cost is None


def test_the_decimal_context_of_the_caller_has_no_say(s: clew.Session) -> None:
    with localcontext(Context(prec=1, traps=[Inexact])):
        usage = s.add_usage(model="gpt-4o", input_tokens=1234, at=AT)
    assert usage.cost == Decimal("0.003085")


def test_a_repeated_call_keeps_its_first_estimate(s: clew.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: a newer list must not make a retry another call."""
    first = s.add_usage(model="gpt-4o", input_tokens=1000, at=AT, id="1")
    monkeypatch.setattr(prices, "_look_up", lambda *args: Decimal(9))

    assert s.add_usage(model="gpt-4o", input_tokens=1000, at=AT, id="1") == first
    with pytest.raises(clew.KeyReusedError):
        s.add_usage(model="gpt-4o", input_tokens=1000, at=AT, id="1", cost=first.cost)


def test_a_price_stays_with_the_model_that_it_is_of(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when somebody gives the session another model between the look at the list and the write."""
    s = store.create("a", model="gpt-4o")

    def look_up(*args: Any) -> Decimal:
        s.update(model="other")
        return Decimal(3)

    monkeypatch.setattr(prices, "_look_up", look_up)
    usage = s.add_usage(input_tokens=5)
    assert (usage.model, usage.cost) == ("gpt-4o", Decimal(3))


def test_a_task_gets_an_estimate_too() -> None:
    """In a thread: the loop goes on while the list is loaded."""

    async def work() -> clew.Usage:
        async with clew.open_async("memory:") as store:
            s = await store.session("s")
            return await s.add_usage(model="gpt-4o", input_tokens=1000, at=AT)

    usage = asyncio.run(work())
    assert (usage.cost, usage.estimated) == (Decimal("0.0025"), True)


def test_no_price_is_asked_of_the_network(s: clew.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in ((socket.socket, "connect"), (socket, "create_connection"), (socket, "getaddrinfo")):
        monkeypatch.setattr(owner, name, refuse)
    prices.load.cache_clear()
    assert s.add_usage(model="gpt-4o", input_tokens=5).estimated


@pytest.mark.parametrize("face", ["sync", "async"])
def test_the_list_is_not_loaded_while_others_wait_for_a_transaction(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    """A transaction that needs it is done again; nothing is counted twice."""
    inside: list[bool] = []
    read = price_list.read

    def watched(content: bytes) -> PriceList:
        inside.append(bool(store._engine.transacting))
        return read(content)

    monkeypatch.setattr(price_list, "read", watched)
    prices.load.cache_clear()

    def work(tx: clew.Store) -> None:
        s = tx.session("s")
        s.append({"role": "user", "content": "hello"})
        s.add_usage(model="gpt-4o", input_tokens=1000, at=AT)

    if face == "sync":
        store.transact(work)
    else:
        asyncio.run(transacted(clew.AsyncStore.over(store), work))

    assert inside == [False]
    assert len(store.get("s").messages()) == store.get("s").usage().calls == 1
    assert store.get("s").usage().cost == Decimal("0.0025")


async def transacted(store: clew.AsyncStore, work: Any) -> None:
    await store.transact(work)
