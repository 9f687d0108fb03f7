"""Files of other programs: read, and replaced as a whole or not at all.

A link stays a link, and what it leads to is replaced. Permissions and owner stay. A change that another
program makes meanwhile is noticed, and not overwritten.

A file of a project stays inside the project: a repository that was cloned may hold links. Where links lead is
looked up once; from then on directories are opened one name after the other, and no link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from clew.core.disk import DIRECTORY_FLAGS, FILE_FLAGS, create_file, make_directories, open_directory
from clew.errors import InvalidError

LARGEST: Final = 16 * 1024 * 1024
_SHARED_DIRECTORY: Final = 0o755
"""The mode of a new directory in a project: others read it, too."""


class Found(NamedTuple):
    """What is at a path."""

    path: Path
    """Where its links lead."""
    data: bytes | None
    """None: there is no file."""
    mode: int
    owner: tuple[int, int] | None
    project: Path | None = None
    """The directory that it must not lead out of. None: it may be anywhere."""

    @property
    def text(self) -> str:
        """InvalidError: it is no text."""
        try:
            return (self.data or b"").decode("utf-8")
        except UnicodeDecodeError as exc:
            line = (self.data or b"").count(b"\n", 0, exc.start) + 1
            raise InvalidError(f"{self.path}:{line}: it is not UTF-8; correct it, then try again") from exc


def read(path: Path, project: Path | None = None) -> Found:
    """Read the file, or that there is none.

    Raises:
        InvalidError: It cannot be read as a file, or a link leads out of the project.
    """
    target = Path(os.path.realpath(path))
    if project is not None:
        _refuse_outside(path, target, project)
        project = Path(os.path.realpath(project))
    try:
        with _directory(target, project) as directory:
            return _read(path, target, project, directory)
    except FileNotFoundError as exc:
        if os.path.islink(path):
            raise InvalidError(f"{path} is a link, and {target} is not there; make it first") from exc
        return Found(target, None, 0o600, None, project)
    except OSError as exc:
        raise InvalidError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def _read(path: Path, target: Path, project: Path | None, directory: int) -> Found:
    with open(os.open(target.name, FILE_FLAGS, dir_fd=directory), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise InvalidError(f"{path} cannot be read: it is not a file")
        if about.st_size > LARGEST:
            raise InvalidError(f"{path} is larger than {LARGEST >> 20} MiB: that is no file of settings")
        return Found(target, file.read(LARGEST + 1), stat.S_IMODE(about.st_mode), _owner(about), project)


def replace(found: Found, data: bytes) -> list[Path]:
    """Write other bytes to it; return the directories that were made for it, the deepest first.

    Raises:
        InvalidError: It was changed since it was read, or cannot be written; then it is as it was.
    """
    target = found.path
    new = f".{target.name}.clew-{os.getpid()}"
    try:
        made = _make_directories(found)
        with _directory(target, found.project) as directory:
            _unlink(new, directory)
            try:
                with open(create_file(new, dir_fd=directory), "wb") as file:
                    file.write(data)
                    if found.owner is not None and found.owner != _owner(os.fstat(file.fileno())):
                        os.fchown(file.fileno(), *found.owner)
                    os.fchmod(file.fileno(), found.mode)
                    file.flush()
                    os.fsync(file.fileno())
                refuse_changed(found)
                os.replace(new, target.name, src_dir_fd=directory, dst_dir_fd=directory)
            finally:
                _unlink(new, directory)
            os.fsync(directory)
    except OSError as exc:
        raise InvalidError(f"{target} cannot be written: {exc.strerror or exc}; it is as it was") from exc
    return made


def remove(found: Found) -> None:
    """Remove it. InvalidError: as `replace`."""
    refuse_changed(found)
    try:
        with _directory(found.path, found.project) as directory:
            _unlink(found.path.name, directory)
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise InvalidError(f"{found.path} cannot be removed: {exc.strerror or exc}") from exc


def remove_directories(found: Found, places: list[Path]) -> None:
    """Remove directories that were made for it, the deepest first, as far as they are empty."""
    try:
        for place in places:
            with _directory(place, found.project) as directory:
                os.rmdir(place.name, dir_fd=directory)
    except (OSError, ValueError):
        return


def refuse_changed(found: Found) -> None:
    """InvalidError: it is not as it was when it was read."""
    if read(found.path, found.project).data != found.data:
        raise InvalidError(f"another program changed {found.path} just now; nothing was done; try again")


# -- the directory of a file


def _refuse_outside(path: Path, target: Path, project: Path) -> None:
    real = os.path.realpath(project)
    if target.is_relative_to(real):
        return
    way = [place for place in (path, *path.parents) if place.is_relative_to(project) and place.is_symlink()]
    outside = [place for place in way if not Path(os.path.realpath(place)).is_relative_to(real)]
    link = outside[-1] if outside else path
    raise InvalidError(
        f"{link} is a link that leads out of the project, to {os.path.realpath(link)}; nothing was changed; "
        "remove the link, or install without --project"
    )


@contextmanager
def _directory(target: Path, project: Path | None) -> Iterator[int]:
    """Yield the descriptor of the directory that holds a file. Links in `target` are resolved already: what
    has become one meanwhile is not followed."""
    if project is None:
        handle = os.open(target.parent, DIRECTORY_FLAGS)
    else:
        root = os.open(project, DIRECTORY_FLAGS)
        try:
            handle = open_directory(root, _below(target.parent, project))
        finally:
            os.close(root)
    try:
        yield handle
    finally:
        os.close(handle)


def _make_directories(found: Found) -> list[Path]:
    if found.project is None:
        return make_directories(found.path.parent)
    made: list[Path] = []
    handle = os.open(found.project, DIRECTORY_FLAGS)
    place = found.project
    try:
        for name in found.path.parent.relative_to(found.project).parts:
            place /= name
            try:
                os.mkdir(name, _SHARED_DIRECTORY, dir_fd=handle)
                made.insert(0, place)
            except FileExistsError:
                pass
            below = os.open(name, DIRECTORY_FLAGS, dir_fd=handle)
            os.close(handle)
            handle = below
            if made[:1] == [place]:
                os.fchmod(handle, _SHARED_DIRECTORY)  # whatever the umask
    finally:
        os.close(handle)
    return made


def _below(place: Path, project: Path) -> bytes:
    return os.fsencode(place.relative_to(project)) if place != project else b""


def _unlink(name: str, directory: int) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass


def _owner(about: os.stat_result) -> tuple[int, int]:
    return about.st_uid, about.st_gid
