"""Money is exact, whatever the decimal context of the caller, and never a float."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.streams.usage import amount_of, units_of
from clew.errors import InvalidError
from tests.support.rows import each_row

AMOUNTS = st.integers(0, 10**18 - 1)


@each_row(
    ("amount", "units"),
    [
        (0, 0),
        (1, 10**12),
        (999_999, 999_999 * 10**12),
        ("0.000000000001", 1),
        ("999999.999999999999", 10**18 - 1),
        ("1e-3", 10**9),
        ("1E5", 10**17),
        (Decimal("0.10"), 10**11),
        (Decimal("-0"), 0),
        (Decimal("0E+500"), 0),
        ("0." + "0" * 40, 0),
        ("0.5" + "0" * 5000, 5 * 10**11),
        (" 2.5 ", 25 * 10**11),
    ],
)
def test_an_amount_is_a_whole_number_of_units(amount: Any, units: int) -> None:
    assert units_of(amount) == units


@given(AMOUNTS)
def test_an_amount_comes_back_exactly(units: int) -> None:
    amount = amount_of(units)
    assert units_of(amount) == units_of(str(amount)) == units
    assert amount * 10**12 == units


@given(st.lists(AMOUNTS, max_size=50))
def test_sums_beyond_the_largest_amount_are_exact(parts: list[int]) -> None:
    _, digits, exponent = amount_of(sum(parts)).as_tuple()
    assert int("".join(map(str, digits))) * 10 ** (12 + int(exponent)) == sum(parts)


@each_row(
    ("units", "text"),
    [(0, "0"), (10**12, "1"), (5 * 10**11, "0.5"), (12 * 10**12, "12"), (100 * 10**12, "100"), (1, "1E-12")],
)
def test_an_amount_is_shown_without_needless_zeros(units: int, text: str) -> None:
    assert str(amount_of(units)) == text


@each_row("amount", [0.1, 1.0, float("nan"), True, False, None, b"1", [1], 1j])
def test_a_float_is_no_money(amount: Any) -> None:
    """Nor is a bool, nor anything else that is no Decimal, int or text."""
    with pytest.raises(InvalidError, match="never a float") as caught:
        units_of(amount)
    assert repr(amount) in str(caught.value)


@each_row(
    "amount",
    [
        "NaN", "sNaN", "Infinity", "-Infinity", Decimal("NaN"), Decimal("-Infinity"),
        "", "x", "1,5", "0x10", "\ud800",
        -1, "-0.01", Decimal(-3),
        "0.0000000000001", Decimal("1e-13"), "0.1234567890123",
        1_000_000, -1_000_000, "1e6", Decimal("1000000.0"), "1E+99999999", Decimal("Infinity"),
    ],
)  # fmt: skip
def test_an_amount_that_can_not_be_kept_is_refused(amount: Any) -> None:
    """I-04: not a number, negative, finer than a unit, too large; the message names it."""
    with pytest.raises(InvalidError) as caught:
        units_of(amount, "price")
    assert str(caught.value).startswith("price")
    assert repr(amount) in str(caught.value)


@each_row("amount", [10**5000, -(10**5000), "9" * 5000, "0." + "1" * 5000])
def test_an_endless_amount_is_refused_with_a_short_message(amount: Any) -> None:
    """I-06: Python would not even print it."""
    with pytest.raises(InvalidError) as caught:
        units_of(amount)
    assert len(str(caught.value)) < 200


def test_the_decimal_context_of_the_caller_has_no_say() -> None:
    with localcontext(Context(prec=1, traps=[Inexact])):
        units = units_of("123456.789012345678")
        amount = amount_of(units)
    with localcontext(Context(traps=[])), pytest.raises(InvalidError):
        units_of("no number")  # there a wrong text is no error but not a number
    assert units == 123456789012345678
    assert str(amount) == "123456.789012345678"
