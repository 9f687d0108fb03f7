"""Packs that are large lie in an object store, each under the hash of its bytes.

An object never changes and may be put any number of times, so nothing depends on what else the store of
objects can do: no conditional writes, no listings, no order between requests for different objects.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from clew.errors import BackendUnavailableError, InvalidUrlError

LARGE: Final = 64 * 1024
"""Packs above so many bytes do not go into the database."""
_HTTP: Final = "http://"


class ObjectGoneError(Exception):
    """There is no object of this name."""


def blob_name(blob: bytes) -> bytes:
    return blake3(blob).digest()


def check_blobs(address: str) -> None:
    """Refuse what holds a password: an address is shown. Not repeated here for that reason."""
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or "@" in (parts.netloc if parts.scheme == "file" else address) or parts.query:
        raise InvalidUrlError(
            "blobs is an address such as s3://bucket/prefix or file:///directory, without keys and options:"
            " those are in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL …)"
        )


class Blobs:
    """The objects of one store, in a folder of their own."""

    _first_process: ClassVar[int | None] = None

    def __init__(self, address: str, store: str, timeout: float) -> None:
        self.address = address
        self._folder = store
        self._objects = _open(address, timeout)
        parts = urlsplit(address)
        self._local = Path(unquote(parts.path)) if parts.scheme == "file" else None

    def place(self, name: bytes) -> str:
        """Where an object lies: two levels of folders, for stores that are file systems."""
        text = name.hex()
        return f"{self._folder}/{text[:2]}/{text[2:4]}/{text[4:]}"

    def put(self, name: bytes, blob: bytes) -> None:
        place = self.place(name)
        with self._speaking("write to"):
            self._objects.put(place, blob)
            if self._local is not None:
                _sync(self._local, self._local / place)

    def get(self, name: bytes) -> bytes:
        """Raises ObjectGoneError when it is not there."""
        try:
            with self._speaking("read from"):
                return bytes(self._objects.get(self.place(name)).bytes())
        except FileNotFoundError as exc:
            raise ObjectGoneError(self.place(name)) from exc

    def remove(self, name: bytes) -> None:
        """It need not be there."""
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
        reason = str(exc).partition("\n")[0]  # what follows is for those who write the driver
        return BackendUnavailableError(f"can not {doing} {self.address}: {reason}")

    def _refuse_forked(self) -> None:
        """The driver has threads, which a forked child has not: it would wait for ever."""
        process = os.getpid()
        if Blobs._first_process is None:
            Blobs._first_process = process
        if Blobs._first_process != process:
            raise BackendUnavailableError(
                f"{self.address} can not be used in a process that was forked from one that used it;"
                " start processes with the method 'spawn' or 'forkserver'"
            )


def _open(address: str, timeout: float) -> Any:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url
    except ModuleNotFoundError as exc:
        raise BackendUnavailableError(
            "packs in object storage need a driver that is not installed; pip install 'clew[s3]'"
        ) from exc
    check_blobs(address)
    try:
        if address.startswith("file:"):
            return LocalStore.from_url(address, mkdir=True)
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
        patience = timedelta(seconds=timeout)
        return from_url(
            address,
            # Who names an endpoint without TLS means it.
            client_options={"timeout": patience, "allow_http": endpoint.startswith(_HTTP)},
            retry_config={"max_retries": 3, "retry_timeout": patience},
        )
    except (BaseError, OSError, ValueError) as exc:
        reason = str(exc).partition("\n")[0]
        raise InvalidUrlError(f"blobs={address} is no place for objects: {reason}") from exc


def _sync(root: Path, file: Path) -> None:
    """The driver leaves that to the system, which may lose it with the power."""
    for path in (file, *file.parents):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if path == root:
            return
