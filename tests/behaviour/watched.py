"""A backend that tells a test what storage is asked for."""

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
