"""What a model call costs by the list of prices that comes with Clew, or by that of a newer genai-prices.

Nothing is asked of the network. A call that the list cannot price has no cost, whatever the reason:
bookkeeping must not stop an agent.
"""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from clew.core.conversation.history import look
from clew.core.streams import price_list
from clew.core.streams.price_list import Mode, Tokens
from clew.core.streams.usage import MOST, PLACES, Counts, Estimate, Names, UsageDraft, names_of, units_of
from clew.model import utc

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

_EXACT: Final = Context(prec=60, rounding=ROUND_HALF_EVEN)
_SMALLEST: Final = Decimal((0, (1,), -PLACES))
_FILE: Final = Path(__file__).with_name("price_list.json")


class Price(NamedTuple):
    """What a call costs, and who says so."""

    cost: Decimal
    priced_by: str


class Billing(NamedTuple):
    """What the price of a call depends on besides its tokens; it is not kept."""

    cache_write_1h: int = 0
    """Of the tokens that were written to a cache, those that stay there for an hour."""
    mode: Mode | None = None


_USUAL: Final = Billing()


@cache
def load() -> price_list.PriceList:
    """Read the list: some milliseconds, or some tenths of a second if a newer package is installed."""
    shipped = price_list.read(_FILE.read_bytes())
    try:
        return _newer_than(shipped) or shipped
    except Exception:  # noqa: BLE001 (another module has this name, a package of another shape: ours is good)
        return shipped


def _newer_than(shipped: price_list.PriceList) -> price_list.PriceList | None:
    if find_spec("genai_prices") is None:
        return None
    from clew.core.streams import price_source

    version = price_source.installed()
    return price_source.converted() if version is not None and version > shipped.version else None


def is_loaded() -> bool:
    return load.cache_info().currsize > 0


def price_of(
    engine: EngineLike, names: Names, counts: Counts, time: int, billing: Billing = _USUAL
) -> Estimate | None:
    """What a call costs by the price list; None: it does not know."""
    if names.model is None:
        return None
    if not is_loaded():
        engine.prepare(load)
    found = estimate(names, counts, utc(time), billing)
    return None if found is None else Estimate(names, units_of(found.cost), found.priced_by)


def estimate_call(engine: EngineLike, sid: int, id: str, draft: UsageDraft, now: int) -> Estimate | None:
    """The price of a call without a cost, before any lock is taken: loading the list may take long."""
    if draft.cost is not None:
        return None
    with look(engine, sid, id) as (reader, _):
        names = names_of(reader, sid, draft.names)
    return price_of(engine, names, draft.counts, now if draft.time is None else draft.time)


def estimate(names: Names, counts: Counts, at: datetime, billing: Billing = _USUAL) -> Price | None:
    """The cost by the prices in force at a time; None: the list does not know."""
    try:
        # The caller's own decimal context might round, or raise.
        with localcontext(_EXACT):
            cost = _look_up(names, counts, at, billing)
            if cost is None or not 0 <= (rounded := cost.quantize(_SMALLEST)) < MOST:
                return None
        return Price(rounded, load().name)
    except Exception:  # noqa: BLE001 (odd names and counts, a list that does not load: no price)
        return None


def _look_up(names: Names, counts: Counts, at: datetime, billing: Billing) -> Decimal | None:
    model = _model(names.model or "", names.vendor, names.endpoint)
    if model is None:
        return None
    tokens = Tokens(
        counts.input,
        counts.output,
        counts.cache_read,
        counts.cache_write,
        counts.reasoning,
        min(billing.cache_write_1h, counts.cache_write),
    )
    return price_list.cost_of(model, tokens, at, billing.mode)


@lru_cache(maxsize=1000)
def _model(model: str, vendor: str | None, endpoint: str | None) -> price_list.Model | None:
    found = price_list.find(load(), model, vendor, endpoint)
    seller, slash, name = model.partition("/")
    if found is None and slash and vendor is None and endpoint is None:
        return price_list.find(load(), name, seller, None)  # "anthropic/claude-sonnet-4-5"
    return found
