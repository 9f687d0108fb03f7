"""P21: a migration killed at any point leaves the old schema or the new one, never between."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.testing.faults import call
from tests.crash.root import needs_strace
from tests.sqlite.failing import kill_migrations


@needs_strace
@pytest.mark.parametrize("kind", ["new", "step"])
@pytest.mark.parametrize(("syscall", "every"), [("fdatasync", 1), ("pwrite64", 4)])
def test_p21_a_killed_migration_leaves_the_old_or_the_new_schema_and_can_be_finished(
    tmp_path: Path, kind: str, syscall: str, every: int
) -> None:
    result = call(kill_migrations, str(tmp_path), kind, syscall, every, timeout=100)

    assert result["wrong"] == {}
    assert result["old"] > 0
