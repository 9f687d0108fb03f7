"""Money in exports is told as in lists of the command line."""

from __future__ import annotations

from decimal import Decimal

from clew.cli.text import money
from clew.exporters.facts import dollars

AMOUNTS = {
    "0": "$0.00",
    "0.00003": "<$0.0001",
    "0.0042": "$0.0042",
    "0.06": "$0.06",
    "0.75": "$0.75",
    "0.1984": "$0.1984",
    "1": "$1.00",
    "1204.5": "$1,204.50",
}


def test_an_amount_has_the_same_format_everywhere() -> None:
    assert {text: dollars(Decimal(text)) for text in AMOUNTS} == AMOUNTS
    for text in AMOUNTS:
        column = money(Decimal(text))
        padding = column.removeprefix(dollars(Decimal(text)))
        assert padding.strip("0") == "", "a column fills up with zeros"
