"""F-01: kill -9 of `clew serve` while clients append with keys and follow. `make faults` runs it for five
minutes, with 500 clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.serving import kill_servers
from tests.faults.subjects import PostgresSubject, SqliteSubject, Subject
from tests.support.effort import usually

SECONDS = usually(10.0, thorough=30.0)
KILLS = usually(3, thorough=10)


@pytest.fixture
def postgres(tmp_path: Path, postgres_url: str) -> Subject:
    (tmp_path / "server").write_text(postgres_url)
    return PostgresSubject(tmp_path / "subject")


def test_f01_a_server_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    result = campaign(kill_servers, SqliteSubject(tmp_path / "s"), kills=KILLS, seed=1, seconds=SECONDS)

    assert result.wrong == []
    assert result.cycles == KILLS
    assert result.acknowledged > 20 * SECONDS
    assert result.seen["appends that no answer came to"] >= KILLS
    assert result.seen["appends of remote stores"] > SECONDS
    assert result.seen["streams"] >= 5 * (KILLS + 1)


def test_f01_f35_a_server_on_postgresql_killed_again_and_again_loses_and_doubles_nothing(
    postgres: Subject,
) -> None:
    result = campaign(kill_servers, postgres, kills=KILLS, seed=2, seconds=SECONDS)

    assert result.wrong == []
    assert result.cycles == KILLS
    assert result.acknowledged > 20 * SECONDS
    assert result.seen["appends that no answer came to"] >= KILLS


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("server: answers before the commit", "lost"),
        ("server: keys forgotten", "doubled"),
        ("server: streams begin anew", "seen twice"),
    ],
)
def test_the_campaign_finds_a_planted_bug(tmp_path: Path, planted: str, found: str) -> None:
    """It has to come at the right moment: so it is tried for a while."""
    lines: list[str] = []
    for seed in range(2, 12):
        subject, options = SqliteSubject(tmp_path / f"{seed}"), {"seconds": 2.0, "patience": 2.0}
        lines += campaign(kill_servers, subject, kills=3, seed=seed, planted=planted, **options).wrong
        if any(found in line for line in lines):
            break

    assert any(found in line for line in lines), lines[:10]
