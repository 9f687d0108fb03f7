"""F-31: many threads, one store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.crash.threads import readers_and_writer, thread_storm
from tests.faults.subjects import SUBJECTS, available
from tests.support.forks import call_in_fork


@pytest.mark.parametrize("where", ["memory:", *available()])
def test_f31_a_storm_of_threads_keeps_order_and_loses_nothing(tmp_path: Path, where: str) -> None:
    """32 threads on 20 sessions: no gap, no duplicate, nothing in the wrong session (J1-J7, P2)."""
    url = where if where == "memory:" else SUBJECTS[where](tmp_path / "store").url

    result = call_in_fork(thread_storm, url, 32, 25, 20)

    assert (result["raised"], result["violations"], result["wrong"]) == ([], "", [])
    assert len(set(result["counts"])) == 1
    assert result["operations"] >= 32 * 25


@pytest.mark.parametrize("where", ["memory:", *available()])
def test_j7_reads_during_appends_are_prefixes_and_never_go_backwards(tmp_path: Path, where: str) -> None:
    """Nor does a read ever see half a batch, in whatever way it is made."""
    url = where if where == "memory:" else SUBJECTS[where](tmp_path / "store").url

    result = call_in_fork(readers_and_writer, url, 80)

    assert (result["raised"], result["violations"], result["wrong"]) == ([], "", [])
    assert result["sizes"][0] == 160
    assert result["sizes"][1] >= 6
