"""F-08: the Nth write or sync fails, once or from then on, for every N: never an ack without data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.sqlite.failing_calls import fail_at_every_call
from tests.support.children import call


@pytest.mark.needs("strace")
@pytest.mark.parametrize("mode", ["once", "once, then killed", "for good"])
@pytest.mark.parametrize(("syscall", "every"), [("fdatasync", 1), ("pwrite64", 3)])
def test_f08_a_failed_system_call_is_told_and_costs_no_acknowledged_entry(
    tmp_path: Path, syscall: str, every: int, mode: str
) -> None:
    """What was refused stays away, also after a crash (else its outcome is unknown, and said to be)."""
    result = call(fail_at_every_call, str(tmp_path), syscall, every, mode)

    assert result["wrong"] == {}
    assert result["refused"] > 0
