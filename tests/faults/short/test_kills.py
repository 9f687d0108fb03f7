"""F-01: kill -9 at random instants, on every backend. `make faults` runs it for hundreds of cycles."""

from __future__ import annotations

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.kills import kill_cycles
from tests.faults.subjects import Subject
from tests.support.effort import usually

CYCLES = usually(8, thorough=15)


def test_f01_several_processes_killed_at_any_instant_lose_nothing_that_was_acknowledged(
    subject: Subject,
) -> None:
    """P1, P2, P3, P12, J1-J11: appends, batches, forks, rewinds, compactions, checkpoints, snapshots; what
    was repeated with its key is there once."""
    result = campaign(kill_cycles, subject, cycles=CYCLES, seed=1, longest=0.06)

    assert result.wrong == []
    assert result.acknowledged > 5 * CYCLES  # else the kills came too early to prove anything
    assert result.seen.get("retried", 0) > 0


def test_f01_processes_killed_while_they_purge_and_scrub_lose_nothing_else(subject: Subject) -> None:
    """P1, P11, P18: what is purged goes as a whole or stays, and all else is there."""
    result = campaign(kill_cycles, subject, cycles=usually(4, thorough=15), seed=1, purges=True)

    assert result.wrong == []
    assert result.seen.get("scrub", 0) + result.seen.get("purge", 0) > 3


@pytest.mark.parametrize(
    ("planted", "rule"),
    [("acknowledge before commit", "J1"), ("batch in pieces", "P2"), ("keys forgotten", "J1")],
)
def test_the_kills_find_a_planted_bug(subject: Subject, planted: str, rule: str) -> None:
    """A kill has to come at the right moment: so it is tried for a while."""
    found: list[str] = []
    for seed in range(2, 12):
        found += campaign(kill_cycles, subject, cycles=30, seed=seed, planted=planted).wrong
        if any(rule in line for line in found):
            break

    assert any(rule in line for line in found)
