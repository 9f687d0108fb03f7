"""Files that appear when they are whole and durable, for their owner only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.core.disk import create_file, name_of_kind, resolve
from clew.errors import InvalidError


def place_of(path: str | os.PathLike[str]) -> Path:
    """The absolute path of a file to be written. Links on the way are followed; one in the place of the file
    is not: it is replaced, not what it leads to."""
    text = os.fspath(path)
    if "\0" in text or os.path.basename(text) in ("", ".", ".."):
        raise InvalidError(f"{text!r} names no file")
    return resolve(os.path.dirname(text) or ".") / os.path.basename(text)


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A place to write to; what is there at the end of the block becomes the file."""
    if not target.parent.is_dir():
        raise InvalidError(f"there is no directory {target.parent}; make it first")
    _refuse_odd(target)
    beside = target.with_name(f"{target.name[:40]}.{os.urandom(8).hex()}.new")
    os.close(create_file(beside))
    try:
        yield beside
        _sync(beside)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    _sync(target.parent)


def write_whole(target: Path, pieces: Iterable[bytes]) -> None:
    if _is_stream(target):
        with open(target, "ab") as file:
            file.writelines(pieces)
        return
    with appearing(target) as place, place.open("wb") as file:
        file.writelines(pieces)


def _is_stream(target: Path) -> bool:
    """/dev/stdout, a FIFO: to be written to as it is, as a shell's `>` does."""
    folder = str(target.parent)
    if folder == "/dev" or folder.startswith("/proc/"):
        return True
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _refuse_odd(target: Path) -> None:
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise InvalidError(f"{target} is a directory; name a file in it")
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise InvalidError(f"{target} is {name_of_kind(mode)}; name a file")


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
