"""The memory backend keeps the contract."""

from __future__ import annotations

import pytest

from clew.backends.memory import MemoryBackend
from clew.testing.backend import BackendConformance


class TestMemory(BackendConformance):
    @pytest.fixture
    def backend(self) -> MemoryBackend:
        return MemoryBackend()
