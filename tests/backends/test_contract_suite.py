"""The suite for backends finds a bug in any method of the contract: each is broken in turn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from clew.backends.contract import (
    Backend,
    LogRows,
    ObjectRows,
    RecordRows,
    SessionRows,
    StreamRows,
    Transaction,
)
from clew.backends.memory import MemoryBackend
from clew.testing.backend.listing import ListingConformance
from clew.testing.backend.log import LogConformance
from clew.testing.backend.objects import ObjectConformance
from clew.testing.backend.records import RecordConformance
from clew.testing.backend.sessions import SessionConformance
from clew.testing.backend.streams import StreamConformance
from clew.testing.backend.transactions import TransactionConformance

PARTS = (
    SessionConformance,
    ListingConformance,
    LogConformance,
    RecordConformance,
    StreamConformance,
    ObjectConformance,
    TransactionConformance,
)
ELSEWHERE = {
    "damaged_sessions": "a storage that cannot be damaged has none; tests/behaviour/sessions/test_damage.py",
    "add_texts": "the memory backend keeps no index; it is tested through searches",
    "set_searched": "the same",
}


def methods(*protocols: type) -> set[str]:
    return {
        name
        for protocol in protocols
        for name, found in vars(protocol).items()
        if inspect.isfunction(found) and not name.startswith("_")
    } - set(ELSEWHERE)


READS = methods(SessionRows, LogRows, RecordRows, StreamRows, ObjectRows)
WRITES = methods(Transaction)


class Broken:
    """A backend one of whose methods does nothing, or answers wrongly."""

    def __init__(self, backend: Backend, name: str) -> None:
        self._backend = backend
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def read(self) -> AbstractContextManager[Any]:
        return self._opened(self._backend.read())

    def write(self, certain: bool = True) -> AbstractContextManager[Any]:
        return self._opened(self._backend.write(certain))

    @contextmanager
    def _opened(self, opened: AbstractContextManager[Any]) -> Iterator[Any]:
        with opened as inside:
            yield _BrokenRows(inside, self._name)


class _BrokenRows:
    def __init__(self, rows: Any, name: str) -> None:
        self._rows = rows
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._rows, name)
        if name != self._name:
            return found
        return _wrong(found) if name in READS else _idle(found)


def _wrong(method: Callable[..., Any]) -> Callable[..., Any]:
    def answer(*args: Any, **named: Any) -> Any:
        match method(*args, **named):
            case list() | range() | bytes() as some:
                return some[:-1]
            case dict() as some:
                return dict(list(some.items())[:-1])
            case int() as number:
                return number + 1
            case (int() as first, int() as last):
                return first, last + 1
            case _:
                return None

    return answer


def _idle(method: Callable[..., Any]) -> Callable[..., Any]:
    """Writes nothing. What gives out a number gives out the same one for ever."""

    def answer(*args: Any, **named: Any) -> Any:
        return 1 if inspect.signature(method).return_annotation in (int, "int") else None

    return answer


def fails(name: str) -> bool:
    """Does any test of the contract fail, with this method broken?"""
    for part in PARTS:
        for called, test in vars(part).items():
            if called.startswith("test_") and list(inspect.signature(test).parameters) == ["self", "backend"]:
                try:
                    test(part(), Broken(MemoryBackend(), name))
                except Exception:  # noqa: BLE001 (a bug may show as any error)
                    return True
    return False


def test_a_backend_without_a_bug_passes() -> None:
    assert not fails("none")


@pytest.mark.parametrize("name", sorted(READS | WRITES))
def test_a_bug_in_any_method_is_found(name: str) -> None:
    assert fails(name)
