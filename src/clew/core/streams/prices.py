"""What a model call costs by the price list of genai-prices, if that is installed: `clew[prices]`.

The list is part of that package; nothing is asked of the network. A call that the list cannot price
has no cost, whatever the reason: bookkeeping must not stop an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clew.core.conversation.history import look
from clew.core.streams.usage import MOST, PLACES, Counts, Estimate, Names, UsageDraft, names_of, units_of
from clew.model import utc

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

_EXACT: Final = Context(prec=60, rounding=ROUND_HALF_EVEN)
_SMALLEST: Final = Decimal((0, (1,), -PLACES))


class Price(NamedTuple):
    """What a call costs, and who says so."""

    cost: Decimal
    priced_by: str


@cache
def is_available() -> bool:
    """Whether there is a price list, without the cost of loading it."""
    try:
        return find_spec("genai_prices") is not None
    except ValueError:  # another module has this name
        return False


@cache
def load() -> None:
    """Read the list, which takes about half a second."""
    try:
        from genai_prices.data_snapshot import get_snapshot

        get_snapshot()
    except Exception:  # noqa: BLE001 (as when it is asked: no price)
        pass


def is_loaded() -> bool:
    return load.cache_info().currsize > 0


def price_of(engine: EngineLike, names: Names, counts: Counts, time: int) -> Estimate | None:
    """What a call costs by the price list; None: there is none, or it does not know."""
    if names.model is None or not is_available():
        return None
    if not is_loaded():
        engine.prepare(load)
    found = estimate(names.model, names.vendor, names.endpoint, counts.tokens(), utc(time))
    return None if found is None else Estimate(names, units_of(found.cost), found.priced_by)


def estimate_call(engine: EngineLike, sid: int, id: str, draft: UsageDraft, now: int) -> Estimate | None:
    """The price of a call without a cost, before any lock is taken: loading the list takes long."""
    if draft.cost is not None or not is_available():
        return None
    with look(engine, sid, id) as (reader, _):
        names = names_of(reader, sid, draft.names)
    return price_of(engine, names, draft.counts, now if draft.time is None else draft.time)


def estimate(
    model: str | None, vendor: str | None, endpoint: str | None, tokens: Mapping[str, int], at: datetime
) -> Price | None:
    """The cost by the prices in force at a time; None: the list does not know."""
    if model is None or not is_available():
        return None
    try:
        # The caller's own decimal context might round, or raise.
        with localcontext(_EXACT):
            cost = _look_up(model, vendor, endpoint, tokens, at)
            if cost is None or not 0 <= (rounded := cost.quantize(_SMALLEST)) < MOST:
                return None
        return Price(rounded, _list_name())
    except Exception:  # noqa: BLE001 (an unknown model, odd counts, a list that does not load: no price)
        return None


def _look_up(
    model: str, vendor: str | None, endpoint: str | None, tokens: Mapping[str, int], at: datetime
) -> Decimal | None:
    import genai_prices

    seller = _seller(vendor, endpoint)
    if seller is None:
        return None
    usage = genai_prices.Usage(
        input_tokens=tokens["input_tokens"],
        output_tokens=tokens["output_tokens"],
        cache_read_tokens=tokens["cache_read_tokens"],
        cache_write_tokens=tokens["cache_write_tokens"],
        output_reasoning_tokens=tokens["reasoning_tokens"],
    )
    return genai_prices.calc_price(usage, model, genai_request_timestamp=at, **seller).total_price


def _seller(vendor: str | None, endpoint: str | None) -> dict[str, Any] | None:
    """The name of the vendor in the price list; None: the list has no prices of this vendor.

    The same model costs something else elsewhere, and nothing on one's own machine: a seller that was
    named is not replaced by the one whom the model's name suggests.
    """
    from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

    if vendor is not None and find_provider_by_id(get_snapshot().providers, vendor):
        return {"provider_id": vendor}
    if endpoint is not None and "://" in endpoint:
        return {"provider_api_url": endpoint}
    return {} if vendor is None else None


@cache
def _list_name() -> str:
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"
