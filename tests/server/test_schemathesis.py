"""Requests made up from the description of the API find no answer that the description does not have."""

from __future__ import annotations

from pathlib import Path

from tests.server.fuzzing import fuzz
from tests.support.effort import usually

FEW = ("--phases=fuzzing", "--max-examples=1", "--include-method=POST", "--include-path-regex=/sessions/")


def test_a_few_made_up_requests_find_nothing(tmp_path: Path) -> None:
    """One or two of each that changes a session. Most of its two seconds is the start of schemathesis."""
    done = fuzz(tmp_path, "--seed", "18", "--no-shrink", *FEW)
    assert done.returncode == 0, done.stdout + done.stderr


def test_made_up_requests_find_nothing(tmp_path: Path) -> None:
    """`python -m tests.server.fuzzing --max-examples 1000` is a long run."""
    many = usually("10", thorough="100")
    done = fuzz(tmp_path, "--seed", "18", "--no-shrink", "--max-examples", many)
    assert done.returncode == 0, done.stdout + done.stderr
