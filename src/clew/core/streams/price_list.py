"""The list of prices: who sells which model, and what a call of it costs. Pure.

`price_list.json` holds the facts of genai-prices (MIT licence): names, rules that match names, prices with
their dates and tiers, in the form of this file. `tools/price_list.py` writes it, with `converted` of
`price_source.py`. It is read in a few milliseconds and needs no package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

Mode: TypeAlias = Literal["batch", "fast", "flex", "priority"]
"""How a vendor served a call, where that has a price of its own."""

Rule: TypeAlias = str | list[Any] | dict[str, list[Any]]
"""Which names are meant: "=x" is x, "^x" begins with it, "$x" ends with it, "*x" contains it, "~x" is found
by this regular expression. A list: one of its rules; {"all": [...]}: each of them."""

Amount: TypeAlias = str | tuple[str, list[tuple[int, str]]]
"""Dollars for a million tokens; with tiers: those below the first one, and [tokens, dollars] of each. For a
prompt of more tokens than that, all tokens of the call have the price of the tier."""

When: TypeAlias = str | None
"""The date from which a price is in force, or the times of day (UTC) between which it is. None: always."""


class Rates(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What a million tokens cost. None: there is no price of its own, and that of the whole applies."""

    input: Amount | None = None
    cache_read: Amount | None = None
    cache_write: Amount | None = None
    cache_write_1h: Amount | None = None
    output: Amount | None = None
    reasoning: Amount | None = None
    call: Amount | None = None
    """A call, whatever its tokens; in dollars."""


class Model(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    match: Rule
    prices: list[tuple[When, Rates]] | None = None
    """The last one that is in force counts; if none is, the first. None: it is sold by something other than
    tokens."""
    modes: dict[Mode, list[tuple[When, Rates]]] = {}
    """What differs for calls that are served otherwise: the first that is in force, price by price."""


class Seller(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    id: str
    url: str
    """A regular expression: the beginning of the addresses of its API."""
    models: list[Model]
    names: Rule | None = None
    """What it is called besides its id."""
    makes: Rule | None = None
    """Models that are bought here when it is not said where."""
    resells: list[str] = []
    """Other sellers, whose prices are asked for a model that is not among its own."""


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    name: str
    """Who says so, such as "genai-prices 0.2.1"."""
    version: tuple[int, ...]
    sellers: list[Seller]


class Tokens(NamedTuple):
    """Of one call; each is the whole, with what is told apart of it below."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cache_write_1h: int = 0


def read(content: bytes) -> PriceList:
    return msgspec.json.decode(content, type=PriceList)


# -- who sells it

LONGEST: Final = 300
"""No name or address is longer: the expressions of the list were not made for texts of others."""


def find(prices: PriceList, model: str, vendor: str | None, endpoint: str | None) -> Model | None:
    """The same model costs something else elsewhere, and nothing on one's own machine: a seller that was
    named is not replaced by the one whom the model's name suggests."""
    if any(text is not None and len(text) > LONGEST for text in (model, vendor, endpoint)):
        return None
    name = model.lower()
    seller = None if vendor is None else _called(prices, vendor.lower().strip())
    if seller is None and endpoint is not None and "://" in endpoint:
        seller = next((one for one in prices.sellers if re.match(one.url, endpoint)), None)
    elif seller is None and vendor is None:
        seller = next((one for one in prices.sellers if one.makes and fits(one.makes, name)), None)
    if seller is None:
        return None
    dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", name)
    spellings = [name] if dashed == name else [name, dashed]
    return next((found for one in spellings for found in _sold(prices, seller, one)), None)


_COMPACT_DATE: Final = re.compile(r"-(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")
"""Gateways write gpt-5.2-20251211 for gpt-5.2-2025-12-11."""


def _called(prices: PriceList, name: str) -> Seller | None:
    same = (one for one in prices.sellers if one.id == name)
    like = (one for one in prices.sellers if one.names and fits(one.names, name))
    return next(same, None) or next(like, None)


def _sold(prices: PriceList, seller: Seller, name: str) -> Iterator[Model]:
    sellers = {one.id: one for one in prices.sellers}
    for one in (seller, *(sellers[id] for id in seller.resells if id in sellers)):
        yield from (model for model in one.models if fits(model.match, name))


def fits(rule: Rule, name: str) -> bool:
    """Whether a rule means a name, which is in small letters."""
    if isinstance(rule, list):
        return any(fits(one, name) for one in rule)
    if isinstance(rule, dict):
        return all(fits(one, name) for one in rule["all"])
    kind, text = rule[0], rule[1:]
    match kind:
        case "=":
            return name == text
        case "^":
            return name.startswith(text)
        case "$":
            return name.endswith(text)
        case "*":
            return text in name
        case _:
            return re.search(text, name) is not None


# -- what it costs


def cost_of(model: Model, tokens: Tokens, at: datetime, mode: Mode | None) -> Decimal | None:
    """In dollars; None: the list does not tell, or the counts cannot be right."""
    at = at.astimezone(UTC)
    usual = _sum(_standard(model, at), tokens)
    if mode is None or usual is None:
        return usual
    listed = model.modes.get(mode)
    if not listed:
        return None  # it costs more, or less: the usual price would be wrong
    if any(_is_in(when, at) for when, _ in listed):
        return _sum(_special(model, listed, at), tokens)
    # Before it was listed: as much more, or less, than usual as it was when it was listed first.
    first = datetime.fromisoformat(listed[0][0] or "2020-01-01")
    then = _sum(_standard(model, first), tokens)
    special = _sum(_special(model, listed, first), tokens)
    return usual * special / then if special and then else usual


def _standard(model: Model, at: datetime) -> Rates | None:
    if not model.prices:
        return None
    return next((rates for when, rates in reversed(model.prices) if _is_in(when, at)), model.prices[0][1])


def _special(model: Model, listed: list[tuple[When, Rates]], at: datetime) -> Rates:
    told: dict[str, Amount] = {}
    for rates in (*(rates for when, rates in listed if _is_in(when, at)), _standard(model, at)):
        told = {**(_told(rates) if rates else {}), **told}
    return Rates(**told)


def _sum(rates: Rates | None, tokens: Tokens) -> Decimal | None:
    shares = None if rates is None else _shares(rates, tokens)
    if shares is None:
        return None
    return sum((_at(price, tokens.input) * count for price, count in shares), Decimal(0)) / 1_000_000


def _told(rates: Rates) -> Mapping[str, Amount]:
    return {name: value for name in rates.__struct_fields__ if (value := getattr(rates, name)) is not None}


def _is_in(when: When, at: datetime) -> bool:
    if when is None:
        return True
    if ":" not in when:
        return at.date() >= date.fromisoformat(when)
    start, end = (time.fromisoformat(part) for part in when.split("-"))
    now = at.time()
    return start <= now < end if start <= end else now >= start or now < end


def _shares(rates: Rates, tokens: Tokens) -> list[tuple[Amount, int]] | None:
    """Each price with the number of tokens that have it: a part with a price of its own is not counted with
    the whole again."""
    long = tokens.cache_write_1h if rates.cache_write_1h is not None else 0
    written = tokens.cache_write - long if rates.cache_write is not None else 0
    cached = tokens.cache_read if rates.cache_read is not None else 0
    thought = tokens.reasoning if rates.reasoning is not None else 0
    counts = (
        (rates.input, tokens.input - cached - written - long),
        (rates.cache_read, cached),
        (rates.cache_write, written),
        (rates.cache_write_1h, long),
        (rates.output, tokens.output - thought),
        (rates.reasoning, thought),
        (rates.call, 1_000_000),
    )
    shares = [(price, count) for price, count in counts if price is not None]
    return shares if all(count >= 0 for _, count in shares) else None


def _at(price: Amount, prompt: int) -> Decimal:
    if isinstance(price, str):
        return Decimal(price)
    found, tiers = price
    for start, above in tiers:
        if prompt > start:
            found = above
    return Decimal(found)
