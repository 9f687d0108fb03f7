"""Places for stores: in memory where there is one, because these tests open hundreds."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def fast_path() -> Iterator[Path]:
    """A directory where a sync costs nothing."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    place = Path(tempfile.mkdtemp(prefix="clew-jsonl-", dir=MEMORY if usable else None))
    yield place
    shutil.rmtree(place)
