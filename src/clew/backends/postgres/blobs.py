"""Large packs in an object store, each named by the hash of its bytes, and removed when no row needs it.

An object never changes and may be put any number of times, so nothing depends on other abilities of the
object store: no conditional writes, no listings, no order between requests for different objects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from clew.backends.postgres import sql
from clew.backends.postgres.address import check_blobs
from clew.backends.postgres.connection import ServerConnection
from clew.backends.postgres.rows import lock_key
from clew.core.disk import DIRECTORY, create_file, make_directories, sync_directory
from clew.errors import BackendUnavailableError, CorruptError, InvalidUrlError

LARGE: Final = 64 * 1024
"""Packs above this many bytes go to the object store."""
_HTTP: Final = "http://"
_STORE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
STRAYS_AT_ONCE: Final = 100
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ObjectGoneError(Exception):
    """There is no object of this name."""


def blob_name(blob: bytes) -> bytes:
    return blake3(blob).digest()


class Blobs:
    """The objects of one store, in a folder of their own."""

    _first_process: ClassVar[int | None] = None

    def __init__(self, address: str, store: str, timeout: float) -> None:
        if not _STORE.fullmatch(store):  # it is read from the database, and becomes a part of paths
            raise CorruptError(f"{store[:80]!r} is not the id of a store; the table meta was changed")
        self.address = address
        self._folder = store
        self._objects = _open(address, timeout)

    def place(self, name: bytes) -> str:
        """The path of an object: two levels of folders, for stores that are file systems."""
        text = name.hex()
        return f"{self._folder}/{text[:2]}/{text[2:4]}/{text[4:]}"

    def put(self, name: bytes, blob: bytes) -> None:
        place = self.place(name)
        with self._speaking("write to"):
            self._objects.put(place, blob)

    def get(self, name: bytes) -> bytes:
        """Raises ObjectGoneError when it is not there."""
        try:
            with self._speaking("read from"):
                found = self._objects.get(self.place(name))
                return found if isinstance(found, bytes) else bytes(found.bytes())
        except FileNotFoundError as exc:
            raise ObjectGoneError(self.place(name)) from exc

    def remove(self, name: bytes) -> None:
        """No error if it is not there."""
        try:
            with self._speaking("remove from"):
                self._objects.delete(self.place(name))
        except FileNotFoundError:
            pass

    @contextmanager
    def _speaking(self, doing: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        self._refuse_forked()
        try:
            yield
        except FileNotFoundError as exc:
            if doing != "write to" and "NoSuchBucket" not in str(exc):
                raise
            raise self._unavailable(doing, exc) from exc
        except (BaseError, OSError, ValueError) as exc:
            raise self._unavailable(doing, exc) from exc

    def _unavailable(self, doing: str, exc: Exception) -> BackendUnavailableError:
        reason = str(exc).partition("\n")[0]  # the rest is about the insides of the driver
        return BackendUnavailableError(f"cannot {doing} {self.address}: {reason}")

    def _refuse_forked(self) -> None:
        """The driver has threads, which a forked child does not have: it would wait for ever."""
        process = os.getpid()
        if Blobs._first_process is None:
            Blobs._first_process = process
        if Blobs._first_process != process:
            raise BackendUnavailableError(
                f"{self.address} cannot be used in a process that was forked from one that used it;"
                " start processes with the method 'spawn' or 'forkserver'"
            )


def _directory_of(address: str) -> str:
    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost"):
        raise InvalidUrlError(
            f"blobs={address}: write a directory of this machine with three slashes, file:///…"
        )
    return unquote(parts.path)


def _open(address: str, timeout: float) -> Any:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError as exc:
        raise BackendUnavailableError(
            "packs in object storage need a driver that is not installed; pip install 'obstore>=0.8'"
        ) from exc
    check_blobs(address)
    try:
        if address.startswith("file:"):
            return LocalObjects(_directory_of(address))
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
        patience = timedelta(seconds=timeout)
        return from_url(
            address,
            # An endpoint without TLS is allowed only if its address says so.
            client_options={"timeout": patience, "allow_http": endpoint.startswith(_HTTP)},
            retry_config={"max_retries": 3, "retry_timeout": patience},
        )
    except (BaseError, OSError, ValueError) as exc:
        reason = str(exc).partition("\n")[0]
        raise InvalidUrlError(f"blobs={address} cannot hold objects: {reason}") from exc


class LocalObjects:
    """The calls of an object store that `Blobs` makes, on a directory that only its owner can read, whatever
    the umask is. Links in it are not followed. Errors are OSErrors; FileNotFoundError: there is no such
    object."""

    def __init__(self, directory: str) -> None:
        self._root = Path(directory)
        if not self._root.is_absolute():
            raise InvalidUrlError(
                f"blobs=file://{directory}: the path of a directory must begin with a slash"
            )
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


# -- strays: objects that perhaps no row names
#
# An object in doubt (about to be put, or about to lose a row) is noted in the table `strays` first, in a
# transaction of its own, and held by a shared lock until the transaction in question has ended. A sweep
# removes noted objects that no transaction holds and no row names. A process killed at any step leaves a
# note, never a row without its object.


def stray_key(schema: sql.Schema, blob: bytes) -> int:
    """The lock of a transaction that has an object in doubt."""
    return lock_key(schema.name, "blob", blob.hex())


def snapshot_key(schema: sql.Schema) -> int:
    """The lock of a reader of an older moment of the store: no object is removed meanwhile."""
    return lock_key(schema.name, "still")


def sweep_strays(connection: ServerConnection, schema: sql.Schema, blobs: Blobs) -> int:
    """Remove noted objects that no row names; how many were removed."""
    removed, after = 0, b""
    while True:
        rows = connection.ask(schema[sql.LIST_STRAYS], (after, STRAYS_AT_ONCE))
        for (blob,) in rows:
            removed += _settle(connection, schema, blobs, blob)
        if len(rows) < STRAYS_AT_ONCE:
            return removed
        after = rows[-1][0]


def _settle(connection: ServerConnection, schema: sql.Schema, blobs: Blobs, blob: bytes) -> bool:
    with connection.transacting():
        for key in (snapshot_key(schema), stray_key(schema, blob)):
            ((is_free,),) = connection.ask(sql.TRY_LOCK, (key,))
            if not is_free:
                return False
        ((is_named,),) = connection.ask(schema[sql.IS_NAMED], (blob,))
        if not is_named:
            blobs.remove(blob)
        connection.run([(schema[sql.DROP_STRAY], (blob,))])
        return not is_named
