"""Objects in a directory, for their owner only, whatever the umask; no link in it is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from clew.backends.private import DIRECTORY, create_file, make_directories, sync_directory
from clew.errors import InvalidUrlError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LocalObjects:
    """What `Blobs` asks of an object store. An error is an OSError; FileNotFoundError: it is not there."""

    def __init__(self, directory: str) -> None:
        self._root = Path(directory)
        if not self._root.is_absolute():
            raise InvalidUrlError(f"blobs=file://{directory}: the path of a directory begins with a slash")
        for made in make_directories(self._root):
            sync_directory(made.parent)

    def put(self, place: str, blob: bytes) -> None:
        """Durable when it returns, with its folders."""
        with self._folder(place, make=True) as (folder, name):
            temporary = f".{name}.{os.urandom(8).hex()}"
            handle = create_file(temporary, dir_fd=folder)
            try:
                with open(handle, "wb") as file:
                    file.write(blob)
                    file.flush()
                    os.fsync(handle)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            os.fsync(folder)

    def get(self, place: str) -> bytes:
        with (
            self._folder(place) as (folder, name),
            open(os.open(name, _FILE, dir_fd=folder), "rb") as file,
        ):
            return file.read()

    def delete(self, place: str) -> None:
        with self._folder(place) as (folder, name):
            os.unlink(name, dir_fd=folder)

    @contextmanager
    def _folder(self, place: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        *folders, name = place.split("/")
        handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                if make:
                    _make(folder, handle)
                inner = os.open(folder, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle, name
        finally:
            os.close(handle)


def _make(name: str, parent: int) -> None:
    try:
        os.mkdir(name, DIRECTORY, dir_fd=parent)
    except FileExistsError:
        return
    os.chmod(name, DIRECTORY, dir_fd=parent)
    os.fsync(parent)
