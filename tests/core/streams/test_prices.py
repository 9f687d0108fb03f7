"""Costs that nobody gave are estimated by genai-prices, if it is installed, and never stop a call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, localcontext
from typing import Any

import genai_prices
import pytest

import clew
from clew.core.streams import prices
from clew.model import UsageTotals

AT = datetime(2025, 6, 15, tzinfo=UTC)
LIST = f"genai-prices {genai_prices.__version__}"
NO_TOKENS = dict.fromkeys(
    ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"), 0
)


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as store:
        yield store


@pytest.fixture
def s(store: clew.Store) -> clew.Session:
    return store.session("s")


def priced(
    model: str, vendor: str | None = None, endpoint: str | None = None, **tokens: int
) -> Decimal | None:
    found = prices.estimate(model, vendor, endpoint, {**NO_TOKENS, **tokens}, AT)
    return None if found is None else found.cost


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("nobody asked for a price")


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


@pytest.mark.parametrize("model", ["no-such-model", "\U0001f600", "x" * 500, "../..", "*"])
def test_an_unknown_model_has_no_cost(s: clew.Session, model: str) -> None:
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


def test_the_prices_are_those_of_the_time_of_the_call(s: clew.Session) -> None:
    """The price of o3 fell on the 10th of June 2025."""
    before = s.add_usage(model="o3", input_tokens=1_000_000, at=AT - timedelta(days=30))
    after = s.add_usage(model="o3", input_tokens=1_000_000, at=AT)
    assert [before.cost, after.cost] == [Decimal(10), Decimal(2)]


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


@pytest.mark.parametrize("failure", [LookupError, ValueError, ImportError, RuntimeError, UserWarning])
def test_a_list_that_fails_stops_nothing(
    s: clew.Session, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise failure("no")

    monkeypatch.setattr(genai_prices, "calc_price", fail)
    assert s.add_usage(model="gpt-4o", input_tokens=5).cost is None


def test_without_the_list_there_is_no_cost(s: clew.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "is_available", lambda: False)
    monkeypatch.setattr(prices, "_look_up", refuse)
    usage = s.add_usage(model="gpt-4o", input_tokens=5)
    assert (usage.cost, usage.estimated) == (None, False)


def test_the_decimal_context_of_the_caller_has_no_say(s: clew.Session) -> None:
    with localcontext(Context(prec=1, traps=[Inexact])):
        usage = s.add_usage(model="gpt-4o", input_tokens=1234, at=AT)
    assert usage.cost == Decimal("0.003085")


def test_a_repeated_call_keeps_its_first_estimate(s: clew.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: a newer list must not make a retry another call."""
    first = s.add_usage(model="gpt-4o", input_tokens=1000, at=AT, id="1")
    monkeypatch.setattr(prices, "_look_up", lambda *args: Decimal(9))
    monkeypatch.setattr(prices, "_list_name", lambda: "genai-prices 99")

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


def test_the_list_is_loaded_only_when_it_is_needed() -> None:
    """`import clew` stays fast, and a call whose cost or model is not to be looked up does not pay for it."""
    code = """
import sys, clew
s = clew.open("memory:").session("s")
s.add_usage(model="gpt-4o", cost="1")
s.add_usage(input_tokens=5)
assert "genai_prices" not in sys.modules
assert s.add_usage(model="gpt-4o", input_tokens=5).estimated
assert "genai_prices" in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_price_is_asked_of_the_network() -> None:
    """Whoever tries to connect is stopped."""
    code = """
import socket, clew
def refuse(*args, **kwargs):
    raise SystemExit("the network was used")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
s = clew.open("memory:").session("s")
assert s.add_usage(model="gpt-4o", input_tokens=5).estimated
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("face", ["sync", "async"])
def test_the_list_is_not_loaded_while_others_wait_for_a_transaction(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    """A transaction that needs it is done again; nothing is counted twice."""
    inside: list[bool] = []

    def load() -> None:
        inside.append(bool(store._engine.transacting))

    monkeypatch.setattr(prices, "load", load)
    monkeypatch.setattr(prices, "is_loaded", lambda: bool(inside))

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
