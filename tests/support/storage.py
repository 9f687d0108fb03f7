"""Backends that tell a test what they are asked for, or count it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from clew.backends.contract import Backend, Reader


class Watched:
    """A backend that tells of every read before it happens."""

    def __init__(self, backend: Backend, tell: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._backend = backend
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    @contextmanager
    def _reading(self) -> Iterator[Reader]:
        with self._backend.read() as reader:
            yield cast("Reader", _WatchedReader(reader, self._tell))

    def read(self) -> AbstractContextManager[Reader]:
        return self._reading()


class _WatchedReader:
    def __init__(self, reader: Reader, tell: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._reader = reader
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._reader, name)

        def told(*args: Any, **kwargs: Any) -> Any:
            self._tell(name, args)
            return method(*args, **kwargs)

        return told


class Counting:
    """A backend that counts questions, and the rows that it answers with."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def read(self) -> AbstractContextManager[Any]:
        return self._counted(self._backend.read())

    def write(self, certain: bool = True) -> AbstractContextManager[Any]:
        return self._counted(self._backend.write(certain))

    @contextmanager
    def _counted(self, opened: AbstractContextManager[Any]) -> Iterator[Any]:
        with opened as reader:
            yield _Counted(reader, self)

    def answered(self, answer: object) -> None:
        self.count += 1 + (len(answer) if isinstance(answer, list) else 0)


class _Counted:
    def __init__(self, reader: Any, counting: Counting) -> None:
        self._reader = reader
        self._counting = counting

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._reader, name)
        return self._call(found) if callable(found) else found

    def _call(self, found: Callable[..., object]) -> Callable[..., object]:
        def call(*args: Any, **named: Any) -> object:
            answer = found(*args, **named)
            self._counting.answered(answer)
            return answer

        return call
