"""Exported files: their names, and how they appear, whole and durable, for their owner only."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from blake3 import blake3

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


# ── Names, from the titles of sessions ────────────────────────────────────────────────────────────

MOST_OF_TITLE: Final = 40
"""Letters of a title in a name."""
_LONGEST: Final = 120
"""Letters of a name."""
_BETWEEN: Final = re.compile(r"[^a-z0-9]+")
_READABLE: Final = re.compile(r"(?a)[A-Za-z0-9][\w .#=,;@+-]{0,63}")
_MADE: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_RESERVED: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(10))}
)
"""Windows takes these for devices, whatever follows a dot."""


def file_stem(id: str, title: str | None, short: str | None = None) -> str:
    """Return a name without its ending. An id that a person can read is the name; else the title is, and the
    beginning of the id. `short`: the text that is shown for the id, which no other session has."""
    if _is_readable(id):
        return id
    own = _slug(short or id.rpartition(":")[2][:8])
    return "-".join(part for part in (_slug(title or "", MOST_OF_TITLE), own) if part) or "session"


def free_stem(stem: str, id: str, taken: set[str]) -> str:
    """Return a stem that no other file has, and add it to `taken`. Disks may not tell `A` from `a`."""
    if len(stem) > _LONGEST or stem.casefold() in taken or stem.partition(".")[0].upper() in _RESERVED:
        stem = f"{stem[:_LONGEST]}~{blake3(id.encode()).hexdigest()[:16]}"
    taken.add(stem.casefold())
    return stem


def _is_readable(id: str) -> bool:
    return (
        _READABLE.fullmatch(id) is not None
        and _MADE.fullmatch(id) is None
        and id[-1] not in " ."
        and id.partition(".")[0].upper() not in _RESERVED
    )


def _slug(text: str, most: int = 64) -> str:
    return _BETWEEN.sub("-", text.casefold())[:most].strip("-")
