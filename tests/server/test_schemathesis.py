"""Requests made up from the description of the API find no answer that the description does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.fuzzing import fuzz
from tests.support.effort import usually


@pytest.mark.timeout(600)
def test_made_up_requests_find_nothing(tmp_path: Path) -> None:
    """A short run. `python -m tests.server.fuzzing --max-time 1200` is the long one."""
    seconds = usually("30", thorough="300")
    done = fuzz(tmp_path, "--seed", "18", "--max-time", seconds, "--no-shrink")
    assert done.returncode == 0, done.stdout + done.stderr
