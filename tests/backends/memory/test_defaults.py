"""What the contract derives by default is right: memory passes with it, too, instead of its own ways."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from clew.backends import contract
from clew.backends.memory import MemoryBackend, MemoryReader, MemoryTransaction, _Read, _Write
from clew.testing.backend import BackendConformance

PARTS: tuple[Any, ...] = (contract.Reader, *contract.Reader.__bases__, contract.Transaction)


def defaults() -> dict[str, Any]:
    """The methods of the contract that are not abstract."""
    return {
        name: value
        for part in PARTS
        for name, value in vars(part).items()
        if inspect.isfunction(value) and not name.startswith("_") and name not in part.__abstractmethods__
    }


READING = {name: value for name, value in defaults().items() if hasattr(contract.Reader, name)}
BareReader: Any = type("BareReader", (MemoryReader,), READING)
BareTransaction: Any = type("BareTransaction", (MemoryTransaction,), defaults())


class BareWrite(_Write):
    def __enter__(self) -> MemoryTransaction:
        self._transaction = super().__enter__()
        self._transaction.__class__ = BareTransaction
        return self._transaction


class BareRead(_Read):
    def __enter__(self) -> MemoryReader:
        reader = super().__enter__()
        reader.__class__ = BareReader
        return reader


class BareBackend(MemoryBackend):
    def write(self, certain: bool = True) -> BareWrite:
        return BareWrite(self)

    def read(self) -> BareRead:
        return BareRead(self)


class TestDefaults(BackendConformance):
    @pytest.fixture
    def backend(self) -> BareBackend:
        return BareBackend()


def test_the_defaults_are_used() -> None:
    """All that memory does in its own way, and could do without."""
    assert {"find_event", "read_messages", "find_usage", "last_usage"} <= READING.keys()
    assert BareTransaction.set_head is contract.Transaction.set_head
    assert BareReader.read_messages is contract.LogRows.read_messages
    assert not BareTransaction.__abstractmethods__


def test_a_backend_that_lacks_a_method_cannot_be_made() -> None:
    class Incomplete(MemoryReader):
        get_branch = contract.LogRows.get_branch

    with pytest.raises(TypeError, match="get_branch"):
        Incomplete(None)  # type: ignore[arg-type]
