"""F-01: kill -9, on every backend. `make faults` runs it for hundreds of cycles."""

from __future__ import annotations

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.kills import kill_cycles
from tests.faults.subjects import Subject


def test_f01_several_processes_killed_at_any_instant_lose_nothing_that_was_acknowledged(
    subject: Subject,
) -> None:
    """P1, P2, P3, P12, J1-J11: appends, batches, forks, rewinds, compactions, checkpoints, snapshots."""
    result = campaign(kill_cycles, subject, cycles=3, seed=3, longest=80)

    assert result.wrong == []
    assert result.acknowledged > 20


def test_f01_processes_killed_while_they_purge_and_scrub_lose_nothing_else(subject: Subject) -> None:
    """P1, P11, P18: what is purged goes as a whole or stays, and all else is there."""
    result = campaign(kill_cycles, subject, cycles=1, seed=11, purges=True)

    assert result.wrong == []
    assert result.seen["scrub"] + result.seen["purge"] > 1


def test_f01_an_append_killed_before_or_after_its_commit_is_repeated_with_its_key_and_there_once(
    subject: Subject,
) -> None:
    """P2, P4."""
    result = campaign(kill_cycles, subject, cycles=8, seed=2, in_turn=True)

    assert result.wrong == []
    assert result.seen["retried"] > 0
    assert result.seen["an append without an answer is there"] > 0
    assert result.seen["an append without an answer is not there"] > 0


@pytest.mark.parametrize(
    ("planted", "rule"),
    [("acknowledge before commit", "J1"), ("batch in pieces", "P2"), ("keys forgotten", "J1")],
)
def test_the_kills_find_a_planted_bug(subject: Subject, planted: str, rule: str) -> None:
    result = campaign(kill_cycles, subject, cycles=8, seed=2, in_turn=True, planted=planted)

    assert any(rule in line for line in result.wrong)
