"""F-25, P22: sweeps with a wrong clock remove nothing early; a killed sweep leaves nothing half done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.retention.sweepers import kill_sweeps, prepare, sweep
from tests.support.children import call

needs_faketime = pytest.mark.needs("faketime")

UNTOUCHED = {"verbs": [], "sessions": ["silent", "spoken"], "trash": ["trashed"], "messages": 2}


def faketime(offset: str) -> list[str]:
    return ["faketime", "-f", offset]


@needs_faketime
@pytest.mark.parametrize(("offset", "days"), [("+1d", 1), ("-1d", -1), ("+400d", 400)])
def test_f25_a_wrong_clock_removes_nothing_early(tmp_path: Path, offset: str, days: int) -> None:
    """The clock that tells is the machine's own, which all processes share and nobody can set."""
    path = str(tmp_path / "a.db")
    call(prepare, path)

    found = call(sweep, path, under=faketime(offset))

    assert found.pop("off_by") == pytest.approx(days * 86400, abs=60)
    assert found == UNTOUCHED
    assert call(sweep, path) == {**UNTOUCHED, "off_by": 0.0}


@needs_faketime
def test_a_sweep_that_believed_the_clock_removes_all(tmp_path: Path) -> None:
    """A planted bug: without the time that is kept in the store, the jump is believed."""
    path = str(tmp_path / "a.db")
    call(prepare, path)

    found = call(sweep, path, True, under=faketime("+1d"))

    assert found["verbs"] == ["expire", "purge", "remove_messages", "trash"]
    assert (found["sessions"], found["off_by"]) == ([], 0.0)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_sweep_leaves_every_session_whole(tmp_path: Path, seed: int) -> None:
    """kill -9 between any two steps: the next sweep may start at once, and finishes the work."""
    result = call(kill_sweeps, str(tmp_path), 8, seed)

    assert result["wrong"] == []
    assert result["half"] >= 4  # else the kills came too early or too late to prove anything
