"""The list of prices that is shipped is that of genai-prices, and says the same of every model."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
import msgspec
import pytest
from genai_prices.data import providers

from clew.core.streams import price_list, price_source, prices
from clew.core.streams.price_list import Tokens, fits
from tests.support.effort import spread
from tests.support.rows import each_row, named

ROOT = Path(__file__).parents[3]
SHIPPED = price_list.read((Path(price_list.__file__).with_suffix(".json")).read_bytes())
TIMES = [
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2025, 7, 1, 3, tzinfo=UTC),
    datetime(2026, 2, 1, 17, 30, tzinfo=UTC),
    datetime(2026, 11, 10, 20, tzinfo=UTC),
]


def test_the_list_that_is_shipped_is_what_the_tool_writes() -> None:
    """After an update of the package: python tools/price_list.py."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import price_list as tool"
    check = "raise SystemExit(tool.PLACE.read_bytes() != tool.written())"
    done = subprocess.run([sys.executable, "-c", f"{code}; {check}"], check=False)
    assert done.returncode == 0


def names_in(clause: Any) -> Iterator[str]:
    for kind in ("equals", "starts_with", "ends_with", "contains"):
        if hasattr(clause, kind):
            yield getattr(clause, kind)
            yield getattr(clause, kind).upper() + "-20251211"
    for part in (*getattr(clause, "or_", ()), *getattr(clause, "and_", ())):
        yield from names_in(part)


def test_every_model_costs_what_the_package_says() -> None:
    """By all names of each model, with and without the name of its seller. It takes a second: ten thousand
    questions, of which the package answers half."""
    for provider in providers:
        asked = [
            (name, at)
            for model in provider.models
            for name in (model.id, *names_in(model.match))
            for at in TIMES
        ]
        with named(provider.id):
            check_prices(provider.id, spread(asked, 200, quick=100))


def check_prices(provider: str, asked: list[tuple[str, datetime]]) -> None:
    choice = random.Random(provider)
    for name, at in asked:
        prompt = choice.choice([1_000, 150_000, 250_000, 500_000])
        tokens = Tokens(prompt, 777, prompt // 3, prompt // 5, 20, prompt // 9)
        for vendor in (provider, None):
            model = price_list.find(SHIPPED, name, vendor, None)
            told = None if model is None else price_list.cost_of(model, tokens, at, None)
            expected = said_by_package(name, vendor, tokens, at)
            if told is None and expected == 0:
                assert model is not None
                assert model.prices is None  # sold by hours or pages
            else:
                assert told == expected, (name, vendor, at, tokens)


def said_by_package(name: str, vendor: str | None, tokens: Tokens, at: datetime) -> Decimal | None:
    usage = genai_prices.Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
        cache_write_1h_tokens=tokens.cache_write_1h,
        output_reasoning_tokens=tokens.reasoning,
    )
    try:
        return genai_prices.calc_price(
            usage, name, provider_id=vendor, genai_request_timestamp=at
        ).total_price
    except LookupError:
        return None


@each_row(
    ("rule", "yes", "no"),
    [
        ("=gpt", "gpt", "gpt-4"),
        ("^gpt", "gpt-4", "a gpt"),
        ("$gpt", "a gpt", "gpt-4"),
        ("*gpt", "a gpt-4", "claude"),
        ("~^gpt-\\d$", "gpt-4", "gpt-4o"),
        (["=a", ["=b"]], "b", "c"),
        ({"all": ["^a", "$z"]}, "a to z", "a to y"),
    ],
)
def test_rules(rule: price_list.Rule, yes: str, no: str) -> None:
    assert fits(rule, yes)
    assert not fits(rule, no)


@pytest.fixture
def loaded_anew() -> Iterator[None]:
    prices.load.cache_clear()
    yield
    prices.load.cache_clear()


@pytest.mark.usefixtures("loaded_anew")
def test_a_newer_package_is_asked_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = msgspec.structs.replace(SHIPPED, name="genai-prices 99.0", version=(99, 0))
    monkeypatch.setattr(price_source, "installed", lambda: (99, 0))
    monkeypatch.setattr(price_source, "converted", lambda: newer)
    assert prices.load().name == "genai-prices 99.0"


@pytest.mark.usefixtures("loaded_anew")
@each_row("version", [None, (0, 1), SHIPPED.version])
def test_an_older_package_is_not(monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...] | None) -> None:
    prices.load.cache_clear()
    monkeypatch.setattr(price_source, "installed", lambda: version)
    monkeypatch.setattr(price_source, "converted", lambda: pytest.fail("it was asked"))
    assert prices.load() == SHIPPED


@pytest.mark.usefixtures("loaded_anew")
def test_a_newer_package_of_another_shape_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise AttributeError("providers")

    monkeypatch.setattr(price_source, "installed", lambda: (99, 0))
    monkeypatch.setattr(price_source, "converted", fail)
    assert prices.load() == SHIPPED


def test_the_version_of_the_package_is_found() -> None:
    assert price_source.installed() == SHIPPED.version
    assert price_source.numbers("1.20.3rc1") == (1, 20)


def test_a_name_beyond_all_measure_has_no_price() -> None:
    """The expressions of the list were not made for texts of others."""
    assert price_list.find(SHIPPED, "claude-sonnet-4-5", None, None) is not None
    assert price_list.find(SHIPPED, "claude-sonnet-4-5" + "-x" * 200, None, None) is None
