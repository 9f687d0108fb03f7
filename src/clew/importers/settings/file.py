"""Files of other programs: read, and replaced as a whole or not at all.

A link stays a link, and what it leads to is replaced. Permissions and owner stay. A change that another
program makes meanwhile is noticed, and not overwritten.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from clew.core.disk import create_file, make_directories, open_file, sync_directory
from clew.errors import InvalidError

LARGEST: Final = 16 * 1024 * 1024


class Found(NamedTuple):
    """What is at a path."""

    path: Path
    """Where its links lead."""
    data: bytes | None
    """None: there is no file."""
    mode: int
    owner: tuple[int, int] | None

    @property
    def text(self) -> str:
        """InvalidError: it is no text."""
        try:
            return (self.data or b"").decode("utf-8")
        except UnicodeDecodeError as exc:
            line = (self.data or b"").count(b"\n", 0, exc.start) + 1
            raise InvalidError(f"{self.path}:{line}: it is not UTF-8; correct it, then try again") from exc


def read(path: Path) -> Found:
    """The file, or that there is none. InvalidError: it cannot be read as a file."""
    target = Path(os.path.realpath(path))
    try:
        with open_file(target) as file:
            about = os.fstat(file.fileno())
            if about.st_size > LARGEST:
                raise InvalidError(f"{path} is larger than {LARGEST >> 20} MiB: that is no file of settings")
            return Found(target, file.read(LARGEST + 1), stat.S_IMODE(about.st_mode), _owner(about))
    except FileNotFoundError as exc:
        if os.path.islink(path):
            raise InvalidError(f"{path} is a link, and {target} is not there; make it first") from exc
        return Found(target, None, 0o600, None)
    except OSError as exc:
        raise InvalidError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def replace(found: Found, data: bytes) -> list[Path]:
    """Write other bytes to it; the directories that were made for it. InvalidError: it was changed since it
    was read, or cannot be written; then it is as it was."""
    target = found.path
    new = target.with_name(f".{target.name}.clew-{os.getpid()}")
    try:
        made = make_directories(target.parent)
        new.unlink(missing_ok=True)
        try:
            with open(create_file(new), "wb") as file:
                file.write(data)
                if found.owner is not None and found.owner != _owner(os.fstat(file.fileno())):
                    os.fchown(file.fileno(), *found.owner)
                os.fchmod(file.fileno(), found.mode)
                file.flush()
                os.fsync(file.fileno())
            refuse_changed(found)
            os.replace(new, target)
        finally:
            new.unlink(missing_ok=True)
        sync_directory(target.parent)
    except OSError as exc:
        raise InvalidError(f"{target} cannot be written: {exc.strerror or exc}; it is as it was") from exc
    return made


def remove(found: Found) -> None:
    """Remove it. InvalidError: as `replace`."""
    refuse_changed(found)
    try:
        found.path.unlink(missing_ok=True)
    except OSError as exc:
        raise InvalidError(f"{found.path} cannot be removed: {exc.strerror or exc}") from exc


def refuse_changed(found: Found) -> None:
    """InvalidError: it is not as it was when it was read."""
    if read(found.path).data != found.data:
        raise InvalidError(f"another program changed {found.path} just now; nothing was done; try again")


def _owner(about: os.stat_result) -> tuple[int, int]:
    return about.st_uid, about.st_gid
