from __future__ import annotations

import pytest

from clew.importers.follow import watcher


@pytest.fixture(autouse=True)
def memory_given_back(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """How often a watcher gave memory back. Collecting the garbage of a whole test run takes seconds."""
    calls: list[None] = []
    monkeypatch.setattr(watcher, "_give_back_memory", lambda: calls.append(None))
    return calls
