"""F-01: kill -9 of the watcher while agents write. `make faults` runs it for 300 kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.watching import kill_watchers
from tests.faults.subjects import JsonlSubject, SqliteSubject, Subject
from tests.support.effort import usually

CYCLES = usually(25, thorough=100)


@pytest.mark.parametrize("kind", usually([SqliteSubject], thorough=[SqliteSubject, JsonlSubject]))
def test_f01_a_watcher_killed_again_and_again_loses_and_doubles_nothing(
    tmp_path: Path, kind: type[Subject]
) -> None:
    result = campaign(kill_watchers, kind(tmp_path / "s"), cycles=CYCLES, seed=1, longest=0.15, timeout=300)

    assert result.wrong == []
    assert result.cycles == CYCLES
    assert result.acknowledged > 20 * CYCLES
    assert result.seen["killed while it followed"] >= CYCLES // 3


@pytest.mark.parametrize(
    "planted",
    ["watch: half a line is a line", "watch: deaf during a pass", "watch: new directories are not watched"],
)
def test_the_campaign_finds_a_planted_bug(tmp_path: Path, planted: str) -> None:
    """It has to come at the right moment: so it is tried for a while."""
    lines: list[str] = []
    for seed in range(2, 14):
        subject, options = SqliteSubject(tmp_path / f"{seed}"), {"longest": 0.3, "patience": 1.5}
        lines += campaign(kill_watchers, subject, cycles=4, seed=seed, planted=planted, **options).wrong
        if lines:
            break

    assert any("lost" in line or "beginning" in line for line in lines), lines
