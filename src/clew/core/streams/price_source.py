"""The prices of the package genai-prices, as a list of `price_list.py`.

`tools/price_list.py` writes the list that is shipped with it. At run time it is used when a package is
installed that is newer than that list.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, get_args

from clew.core.streams.price_list import Amount, Mode, Model, PriceList, Rates, Rule, Seller, When

PACKAGE: Final = "genai-prices"
_RATES: Final = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_mtok": "output",
    "output_reasoning_mtok": "reasoning",
    "requests_kcount": "call",
}
_KINDS: Final = {"equals": "=", "starts_with": "^", "ends_with": "$", "contains": "*", "regex": "~"}


def installed() -> tuple[int, ...] | None:
    """The version of the package; None: it is not there."""
    try:
        return numbers(version(PACKAGE))
    except (PackageNotFoundError, ValueError):
        return None


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def converted() -> PriceList:
    """The prices of the package that is installed; it takes some tenths of a second to load."""
    from genai_prices.data_snapshot import get_snapshot

    here = version(PACKAGE)
    sellers = [_seller(provider) for provider in get_snapshot().providers]
    return PriceList(f"{PACKAGE} {here}", numbers(here), _with_fast(sellers))


def _seller(provider: Any) -> Seller:
    return Seller(
        id=provider.id,
        url=provider.api_pattern,
        names=None if provider.provider_match is None else _rule(provider.provider_match),
        makes=None if provider.model_match is None else _rule(provider.model_match),
        resells=provider.fallback_model_providers or [],
        models=[_model(model) for model in provider.models],
    )


def _rule(clause: Any) -> Rule:
    for name, sign in _KINDS.items():
        if hasattr(clause, name):
            text: str = getattr(clause, name)
            return sign + (text if sign == "~" else text.lower())
    if hasattr(clause, "or_"):
        return [_rule(one) for one in clause.or_]
    return {"all": [_rule(one) for one in clause.and_]}


def _model(model: Any) -> Model:
    given = model.prices if isinstance(model.prices, list) else [None]
    told = [(None, model.prices) if one is None else (_when(one.constraint), one.prices) for one in given]
    return Model(
        match=_rule(model.match),
        prices=None if any(_is_sold_otherwise(prices) for _, prices in told) else _list_of(told),
        modes=_modes(model.price_variants or ()),
    )


def _list_of(told: list[tuple[When, Any]]) -> list[tuple[When, Rates]]:
    return [(when, _rates(prices)) for when, prices in told]


def _modes(variants: Any) -> dict[Mode, list[tuple[When, Rates]]]:
    found: dict[Mode, list[tuple[When, Rates]]] = {}
    for variant in variants:
        named = variant.when.get("processing") or variant.when.get("service_tier")
        if len(variant.when) == 1 and named in get_args(Mode):
            found.setdefault(named, []).append((_when(variant.constraint), _rates(variant.prices)))
    return found


def _is_sold_otherwise(prices: Any) -> bool:
    """By hours or pages: tokens do not tell what it costs."""
    told = {name for name, value in vars(prices).items() if value is not None}
    return bool(told) and not told & set(_RATES)


def _rates(prices: Any) -> Rates:
    told = {name: value for name, value in vars(prices).items() if value is not None and name in _RATES}
    return Rates(**{_RATES[name]: _amount(value, name) for name, value in told.items()})


def _amount(value: Any, name: str) -> Amount:
    thousand = 1000 if name.endswith("_kcount") else 1
    if not hasattr(value, "tiers"):
        return format(value / thousand, "f")
    return format(value.base, "f"), [(tier.start, format(tier.price, "f")) for tier in value.tiers]


def _when(constraint: Any) -> When:
    if constraint is None:
        return None
    if hasattr(constraint, "start_date"):
        return str(constraint.start_date)
    return "-".join(_utc(one).strftime("%H:%M:%S") for one in (constraint.start_time, constraint.end_time))


def _utc(moment: Any) -> datetime:
    combined = datetime.combine(date(1970, 1, 2), moment)
    return combined if combined.tzinfo is None else combined.astimezone(UTC)


def _with_fast(sellers: list[Seller]) -> list[Seller]:
    """Claude's fast mode has a price of its own. The package knows it only of a gateway, which asks what the
    vendor asks, and for which it is another model: anthropic/claude-opus-5-fast."""
    gateway = next((one for one in sellers if one.id == "openrouter"), None)
    fast: dict[str, Model] = {}
    for model in gateway.models if gateway else ():
        for rule in model.match if isinstance(model.match, list) else [model.match]:
            if isinstance(rule, str) and rule.startswith("=anthropic/") and rule.endswith("-fast"):
                fast[rule.removeprefix("=anthropic/").removesuffix("-fast")] = model
    return [_add_fast(one, fast) if one.id == "anthropic" else one for one in sellers]


def _add_fast(seller: Seller, fast: dict[str, Model]) -> Seller:
    from clew.core.streams.price_list import fits

    models = list(seller.models)
    for name, sold in fast.items():
        for at, model in enumerate(models):
            if fits(model.match, name) and sold.prices and not model.modes.get("fast"):
                rates = _with_long_writes(sold.prices[-1][1])
                models[at] = Model(model.match, model.prices, {**model.modes, "fast": [(None, rates)]})
                break
    return Seller(seller.id, seller.url, models, seller.names, seller.makes, seller.resells)


def _with_long_writes(rates: Rates) -> Rates:
    """Anthropic asks twice the price of input for what stays in the cache for an hour."""
    from decimal import Decimal

    import msgspec

    if rates.cache_write_1h is not None or not isinstance(rates.input, str):
        return rates
    return msgspec.structs.replace(rates, cache_write_1h=format(2 * Decimal(rates.input), "f"))
