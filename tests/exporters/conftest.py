from __future__ import annotations

from collections.abc import Iterator

import pytest

import clew


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as opened:
        yield opened
