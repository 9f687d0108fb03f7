"""Objects that are on their way to the store, read as if they were there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clew.files.objects.packing import Pack
from clew.files.objects.store import ObjectReader


class Overlay(ObjectReader):
    """Another reader, and what was laid over it: a restore is planned before its safety snapshot is
    stored, so that both are written down at once."""

    def __init__(self, base: ObjectReader) -> None:
        self._base = base
        self._contents: dict[bytes, bytes] = {}

    def lay(self, packs: Iterable[Pack]) -> None:
        for pack in packs:
            self._contents.update(pack.contents())

    def get(self, name: bytes) -> bytes:
        content = self._contents.get(name)
        return self._base.get(name) if content is None else content

    def get_many(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        yield from self._base.get_many([name for name in names if name not in self._contents])
        yield from ((name, self._contents[name]) for name in dict.fromkeys(names) if name in self._contents)

    def check_there(self, names: Sequence[bytes]) -> None:
        self._base.check_there([name for name in names if name not in self._contents])
