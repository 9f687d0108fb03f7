"""F-01: kill -9 of the watcher while agents write. `make faults` runs it for 300 kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.watching import kill_watchers
from tests.faults.subjects import SqliteSubject

CYCLES = 6


def test_f01_a_watcher_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    result = campaign(kill_watchers, SqliteSubject(tmp_path / "s"), cycles=CYCLES, seed=1)

    assert result.wrong == []
    assert result.cycles == CYCLES
    assert result.acknowledged > 5 * CYCLES
    assert result.seen["written during a commit"] > 0


@pytest.mark.parametrize(
    "planted",
    ["watch: half a line is a line", "watch: deaf during a pass", "watch: new directories are not watched"],
)
def test_the_campaign_finds_a_planted_bug(tmp_path: Path, planted: str) -> None:
    subject = SqliteSubject(tmp_path / "s")
    lines = campaign(kill_watchers, subject, cycles=CYCLES, seed=2, planted=planted).wrong

    assert any("lost" in line or "beginning" in line for line in lines), lines
