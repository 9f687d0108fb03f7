"""F-01: kill -9 at random instants, hundreds of times; nothing that was acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.crash.kills import kill_cycles
from tests.support.children import call
from tests.support.effort import usually

CYCLES = usually(30, thorough=100)


@pytest.mark.parametrize("seed", [1, 2])
def test_f01_every_acknowledged_entry_is_there_after_kill_9_at_any_instant(tmp_path: Path, seed: int) -> None:
    """P1, P2, P3: unchanged and in its place; batches whole; at most the unacknowledged batch more."""
    result = call(kill_cycles, str(tmp_path), CYCLES, seed, timeout=100)

    assert result["wrong"] == []
    assert result["acknowledged"] > CYCLES  # else the kills came too early to prove anything


def test_the_kills_find_an_append_that_acknowledges_before_it_commits(tmp_path: Path) -> None:
    """A planted bug."""
    result = call(kill_cycles, str(tmp_path), 10, 3, "acknowledges too early")

    assert any("J1" in line for line in result["wrong"])


def test_the_kills_find_a_batch_that_is_committed_in_pieces(tmp_path: Path) -> None:
    """A planted bug."""
    result = call(kill_cycles, str(tmp_path), 30, 4, "batch in pieces")

    assert any("P2" in line for line in result["wrong"])
