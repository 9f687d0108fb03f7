"""Requests made up from the description of the API find no answer that the description does not have."""

from __future__ import annotations

from pathlib import Path

from tests.server.fuzzing import fuzz
from tests.support.effort import usually


def test_made_up_requests_find_nothing(tmp_path: Path) -> None:
    """A short run, the same every time. `python -m tests.server.fuzzing --max-time 1200` is the long one."""
    many = usually("3", thorough="50")
    done = fuzz(tmp_path, "--seed", "18", "--max-examples", many, "--no-shrink")
    assert done.returncode == 0, done.stdout + done.stderr
