"""Requests made up from the description of the API find no answer that the description does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.fuzzing import fuzz
from tests.support.effort import usually

READ = [f"--exclude-method={method}" for method in ("POST", "PUT", "PATCH", "DELETE")]


@pytest.mark.parametrize(
    "some",
    [
        (*READ, "--include-path-regex=/sessions"),
        (*READ, "--include-path-regex=^(?!.*/sessions)"),
        ("--include-method=POST",),
        ("--exclude-method=GET", "--exclude-method=POST"),
    ],
    ids=["read sessions", "read others", "post", "change"],
)
def test_a_few_made_up_requests_find_nothing(tmp_path: Path, some: tuple[str, ...]) -> None:
    """One or two of each operation: that takes two seconds, the most of it in schemathesis."""
    few = ("--phases", "fuzzing", "--max-examples", "1", *some)
    done = fuzz(tmp_path, "--seed", "18", "--no-shrink", *few)
    assert done.returncode == 0, done.stdout + done.stderr


def test_made_up_requests_find_nothing(tmp_path: Path) -> None:
    """`python -m tests.server.fuzzing --max-examples 1000` is a long run."""
    many = usually("10", thorough="100")
    done = fuzz(tmp_path, "--seed", "18", "--no-shrink", "--max-examples", many)
    assert done.returncode == 0, done.stdout + done.stderr
