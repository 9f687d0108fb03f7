"""A model call as a caller gives it: checked at the door, before any lock is taken."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from clew.core.log.ids import check_id
from clew.core.streams.money import Money, shown, units_of
from clew.errors import InvalidError
from clew.model import microseconds

MOST_TOKENS: Final = 2**53
"""Of one call: what every reader of JSON can still tell exactly."""
_END_OF_TIME: Final = microseconds(datetime.max.replace(tzinfo=UTC))


class Names(msgspec.Struct, frozen=True, gc=False):
    """Who was called."""

    model: str | None
    vendor: str | None
    endpoint: str | None


class Counts(msgspec.Struct, frozen=True, gc=False):
    """The tokens of one call."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int

    def tokens(self) -> dict[str, int]:
        """By the names that the public surface gives them."""
        return {f"{name}_tokens": getattr(self, name) for name in self.__struct_fields__}


class UsageDraft(msgspec.Struct, frozen=True, gc=False):
    """A call that was found good, and has no number yet. None: not given."""

    names: Names
    counts: Counts
    source: str | None
    cost: int | None
    time: int | None
    id: str | None


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """What a price list says that a call cost."""

    names: Names
    """Who was called, as far as it was known when the price was looked up."""
    cost: int
    priced_by: str


def draft_of(
    *,
    names: dict[str, str | None],
    tokens: dict[str, int],
    source: str | None,
    cost: Money | None,
    at: datetime | None,
    id: str | None,
) -> UsageDraft:
    """Check a call. `tokens` has the fields of `Counts`, by the names of the parameters."""
    for name, text in {**names, "source": source, "id": id}.items():
        if text is not None:
            check_id(text, name)
    return UsageDraft(
        Names(**names),
        Counts(*(_checked_count(name, count) for name, count in tokens.items())),
        source,
        None if cost is None else units_of(cost),
        None if at is None else moment(at, "at"),
        id,
    )


def _checked_count(name: str, count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_TOKENS:
        raise InvalidError(f"{name} must be a number from 0 to 2**53, not {shown(count)}")
    return int(count)


def moment(at: datetime, what: str, error: type[InvalidError] = InvalidError) -> int:
    """The microseconds of an aware datetime."""
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise error(f"{what} must be a datetime with a time zone, not {at!r}")
    time = microseconds(at)
    if not 0 <= time <= _END_OF_TIME:
        raise error(f"{what} must lie between the years 1970 and 9999, not {at!r}")
    return time
