"""F-01: kill -9 of `clew serve` while clients append with keys and follow. `make faults` has 500 clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.serving import kill_servers
from tests.faults.subjects import SqliteSubject

KILLS = 3


def test_f01_a_server_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Five processes that serve, one after the other: the test takes a second."""
    result = campaign(kill_servers, SqliteSubject(tmp_path / "s"), kills=KILLS, seed=1)

    assert result.wrong == []
    assert result.acknowledged >= 2 * 22
    assert result.seen["appends that no answer came to"] >= KILLS - 1
    assert result.seen["appends of remote stores"] >= 2 * 2
    assert result.seen["streams"] >= 2 * 5


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("server: answers before the commit", "lost"),
        ("server: keys forgotten", "doubled"),
        ("server: streams begin anew", "seen twice"),
    ],
)
def test_the_campaign_finds_a_planted_bug(tmp_path: Path, planted: str, found: str) -> None:
    few = {"clients": 1, "stores": 0, "followers": 1}
    lines = campaign(
        kill_servers, SqliteSubject(tmp_path / "s"), kills=KILLS, seed=1, planted=planted, **few
    ).wrong

    assert any(found in line for line in lines), lines[:10]
