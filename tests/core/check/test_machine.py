"""After whatever the state machine of clew.testing did to a store, `verify` has nothing to say."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from clew.backends.contract import Backend
from clew.backends.memory import MemoryBackend
from clew.backends.sqlite import SqliteBackend
from clew.store import Store
from clew.testing.machine import base as machine_base
from clew.testing.machine import make_machine
from tests.support.effort import usually

EXAMPLES = settings().max_examples // 4
ON_DISK = usually(EXAMPLES, quick=EXAMPLES // 2, thorough=EXAMPLES)


def on_disk(directory: Path) -> Callable[[], Backend]:
    return lambda: SqliteBackend(Path(tempfile.mkdtemp(dir=directory)) / "clew.db", durability="process")


@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_j11_a_store_that_was_only_used_has_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The file takes more than a second: all that the machine does is done to it."""
    looked: list[int] = []

    def check(store: Store) -> None:
        reports = store.verify(full=False), store.verify()
        assert [report.problems for report in reports] == [(), ()]
        assert reports[0].entries == reports[1].entries == store.stats().entries
        looked.append(reports[1].entries)

    monkeypatch.setattr(machine_base, "check_store", check)
    case = make_machine(MemoryBackend if where == "memory" else on_disk(tmp_path))
    case.settings = settings(  # type: ignore[attr-defined]
        max_examples=EXAMPLES if where == "memory" else ON_DISK,
        stateful_step_count=40,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    case("runTest").runTest()  # type: ignore[attr-defined]
    assert sum(looked) > 0
