"""Whether the files of a database are files that SQLite may open: looked at before it does.

SQLite follows no links beside a database, but it takes whatever else lies there for its own: it writes over
the content of a hard link, and removes a file that a journal names.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from clew.backends.private_files import is_in_public, kind_of
from clew.errors import InvalidUrlError

BESIDE: Final = ("-wal", "-shm", "-journal")
"""How the names of the files end that SQLite keeps beside a database."""
_MAGIC: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_REMOVE: Final = "if no program uses the store, remove it"


def refuse_planted(path: Path, *, writing: bool = False) -> None:
    """Raises InvalidUrlError if the database, or a file beside it, is not what it has to be."""
    name = str(path)
    own = _look(name)
    if own is not None:
        _check_database(path, own, writing=writing)
    for end in BESIDE:
        found = _look(name + end)
        if found is not None:
            _check_beside(name + end, found, own)
            if end == "-journal" and found.st_size:
                _refuse_naming(name + end)


def _look(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_database(path: Path, found: os.stat_result, *, writing: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidUrlError(f"{path} is {kind_of(found.st_mode)}: an SQLite store is a file")
    if writing and _is_of_another(found) and is_in_public(path):
        raise InvalidUrlError(
            f"{path} belongs to another user, and lies where all users may write: what is written there is"
            " theirs to read; open it with read_only=True, or copy it to a directory of your own"
        )


def _check_beside(place: str, found: os.stat_result, own: os.stat_result | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidUrlError(
            f"{place} is {kind_of(found.st_mode)}, where SQLite keeps a file of its own; {_REMOVE}"
        )
    if found.st_nlink > 1:
        raise InvalidUrlError(
            f"{place} has a second name elsewhere, and what SQLite writes would change that file too;"
            f" {_REMOVE}"
        )
    if own is None:
        strange = _is_of_another(found)
    else:  # who may write the database may own what lies beside it
        is_shared = own.st_mode & _OTHERS_WRITE
        strange = _is_of_another(found) and found.st_uid != own.st_uid and not is_shared
    if strange:
        raise InvalidUrlError(f"{place} belongs to another user than the database; {_REMOVE}")


def _is_of_another(found: os.stat_result) -> bool:
    return os.name == "posix" and found.st_uid not in (os.geteuid(), 0)


def _refuse_naming(journal: str) -> None:
    """A journal may end with the name of another file, of a transaction over several databases. SQLite
    removes that file when it is done. A store is one database, and its journals name none."""
    try:
        handle = os.open(journal, _READ)
    except FileNotFoundError:  # its writer is done
        return
    try:
        size = os.fstat(handle).st_size
        os.lseek(handle, max(size - len(_MAGIC), 0), os.SEEK_SET)
        tail = os.read(handle, len(_MAGIC))
    finally:
        os.close(handle)
    if tail == _MAGIC and size > len(_MAGIC):
        raise InvalidUrlError(
            f"{journal} names another file, which SQLite would remove; no journal of a store does: {_REMOVE}"
        )
