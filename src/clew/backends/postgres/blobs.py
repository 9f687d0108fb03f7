"""Packs that are large lie in an object store, each under the hash of its bytes.

An object never changes and may be put any number of times, so nothing depends on what else the store of
objects can do: no conditional writes, no listings, no order between requests for different objects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from clew.backends.postgres.local_objects import LocalObjects
from clew.errors import BackendUnavailableError, CorruptError, InvalidUrlError

LARGE: Final = 64 * 1024
"""Packs above so many bytes do not go into the database."""
_HTTP: Final = "http://"
_STORE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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
        if not _STORE.fullmatch(store):  # it is read from the database, and becomes a part of paths
            raise CorruptError(f"{store[:80]!r} is not the id of a store; the table meta was changed")
        self.address = address
        self._folder = store
        self._objects = _open(address, timeout)

    def place(self, name: bytes) -> str:
        """Where an object lies: two levels of folders, for stores that are file systems."""
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


def _directory_of(address: str) -> str:
    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost"):
        raise InvalidUrlError(f"blobs={address}: a directory of this machine has three slashes, file:///…")
    return unquote(parts.path)


def _open(address: str, timeout: float) -> Any:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError as exc:
        raise BackendUnavailableError(
            "packs in object storage need a driver that is not installed; pip install 'clew[s3]'"
        ) from exc
    check_blobs(address)
    try:
        if address.startswith("file:"):
            return LocalObjects(_directory_of(address))
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
