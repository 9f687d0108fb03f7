"""Files that appear when they are whole and durable, for their owner only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.errors import InvalidError


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A place to write to; what is there at the end of the block becomes the file."""
    if not target.parent.is_dir():
        raise InvalidError(f"there is no directory {target.parent}; make it first")
    if target.is_dir():
        raise InvalidError(f"{target} is a directory; name a file in it")
    beside = target.with_name(f"{target.name[:40]}.{os.getpid()}.{os.urandom(4).hex()}.new")
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        yield beside
        _sync(beside)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    _sync(target.parent)


def write_whole(target: Path, pieces: Iterable[bytes]) -> None:
    with appearing(target) as place, place.open("wb") as file:
        file.writelines(pieces)


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
