"""Files that appear when they are whole, for their owner only."""

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
    beside = target.with_name(f"{target.name[:200]}.{os.getpid()}.{os.urandom(4).hex()}.new")
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def write_privately(target: Path, pieces: Iterable[bytes]) -> None:
    with appearing(target) as place, place.open("wb") as file:
        file.writelines(pieces)
