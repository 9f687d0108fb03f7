"""F-11, F-12: damage. `make faults` flips thousands of bits and tears tails at every byte."""

from __future__ import annotations

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.flips import flip_bits, tear_tails
from tests.faults.crash.common import quick_directory
from tests.faults.subjects import JsonlSubject, Subject

FLIPS = 16


def test_f12_a_flipped_bit_in_any_file_is_found_or_harmless(subject: Subject) -> None:
    """P6, P7: on reading, or by verify(full=True); never does anything else come back silently."""
    result = campaign(flip_bits, subject, samples=FLIPS, seed=2)

    assert result.wrong == []
    assert result.seen.get("found on reading: corrupt_entry", 0) > 0
    assert result.seen.get("harmless", 0) < FLIPS


def test_f11_a_torn_tail_costs_what_was_torn_and_the_store_goes_on(subject: Subject) -> None:
    """P5."""
    result = campaign(tear_tails, subject, every=19, few=True)

    assert result.wrong == []
    assert result.seen == {"cut": result.cycles // 2, "tail": result.cycles // 2}


@pytest.mark.parametrize("bug", ["glued tail", "torn batch accepted"])
def test_the_torn_tails_find_a_planted_bug(bug: str) -> None:
    with quick_directory() as directory:
        subject = JsonlSubject(directory / "subject")
        result = campaign(tear_tails, subject, every=19, few=True, planted=f"jsonl: {bug}")

    assert result.wrong != []
