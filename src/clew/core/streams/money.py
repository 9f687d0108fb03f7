"""Money: exact decimals outside, whole numbers of millionths of a millionth inside.

Whole numbers add up exactly on every backend. Nothing here depends on the decimal context of the
caller's thread, which may round, or raise.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

from clew.core.messages.validate import clipped
from clew.errors import InvalidError

Money: TypeAlias = Decimal | int | str
"""An amount as a caller may give it."""

PLACES: Final = 12
MOST: Final = 1_000_000
"""Every amount is below this one."""
_DIGITS_BEFORE_POINT: Final = 6


def units_of(amount: Money, what: str = "cost") -> int:
    """The amount in units of 10^-12; `what` names it in errors."""
    if isinstance(amount, bool) or not isinstance(amount, Money):
        raise InvalidError(f"{what}: money is a Decimal, an int or a text, never a float: {shown(amount)}")
    value = _decimal(amount, what)
    if not value.is_finite():
        raise InvalidError(f"{what} must be a finite amount, not {shown(amount)}")
    if not value:
        return 0
    if value.is_signed():
        raise InvalidError(f"{what} must not be negative: {shown(amount)}")
    if value.adjusted() >= _DIGITS_BEFORE_POINT:
        raise InvalidError(f"{what} must be below {MOST:,}, not {shown(amount)}")
    _, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits))
    written = text.rstrip("0")
    places = len(text) - len(written) + int(exponent)
    if places < -PLACES:
        raise InvalidError(f"{what} has more than {PLACES} decimal places: {shown(amount)}")
    return int(written + "0" * (places + PLACES))


def amount_of(units: int) -> Decimal:
    """The amount, exactly, without needless zeros behind the point."""
    exponent = -PLACES
    while exponent < 0 and units % 10 == 0:
        units //= 10
        exponent += 1
    return Decimal((0, tuple(map(int, str(units))), exponent))


def _decimal(amount: Money, what: str) -> Decimal:
    if isinstance(amount, str):
        try:
            return Decimal(amount)
        except InvalidOperation as exc:
            raise InvalidError(f"{what} is not a number: {shown(amount)}") from exc
    if isinstance(amount, int) and not -MOST < amount < MOST:
        raise InvalidError(f"{what} must be below {MOST:,}, not {shown(amount)}")
    return Decimal(amount)


def shown(value: object) -> str:
    """A value that was refused, for the message: short, and whatever it is."""
    if isinstance(value, int) and value.bit_length() > 200:
        return clipped(hex(value))  # Python refuses to print integers of very many digits otherwise
    return clipped(repr(value))
