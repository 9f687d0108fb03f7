"""What a server leaves in the user's state directory: its own token, and where it runs.

    <state>/servers/<hash of the store's address>.token    32 random bytes as text, the same after a restart
    <state>/servers/<hash of the store's address>.json     {"url": …, "pid": …, …} of the server that runs

Programs of the same user on this machine find both by the address of the store; no other user can read them.
"""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec
from blake3 import blake3

from clew.core.disk import NotPrivateError, read_private, write_private
from clew.errors import BackendUnavailableError
from clew.files.roots import VARIABLE, KeyRefusedError, servers_directory
from clew.server.access.secret import OWN, new_secret, parsed

_MOST = 4096


class Running(msgspec.Struct, frozen=True):
    """A server that runs, or that was killed before it could take this away."""

    url: str
    """Where people reach it."""
    pid: int
    local: str | None = None
    """Where programs of this machine reach it."""
    page: bool = True
    """It has a page for browsers."""


def own_token(location: str) -> str:
    """The token of the owner of a store, made at the first need. BackendUnavailableError: it can neither be
    read nor made in a place that is this user's alone."""
    path = token_path(location)
    found = _read_token(path)
    if found is None:
        _write(path, new_secret(OWN), replace=False)
        found = _read_token(path)  # another process may have been faster
    if found is None:
        raise BackendUnavailableError(f"the token {path} cannot be kept: set {VARIABLE}")
    return found


def new_own_token(location: str) -> str:
    """Another one: the one before, and all cookies that were made by it, are worth nothing any more."""
    token = new_secret(OWN)
    _write(token_path(location), token, replace=True)
    return token


def token_path(location: str) -> str:
    """Where the token of a store is kept."""
    return path_of(location, "token")


def set_running(location: str, url: str, *, local: str | None = None, page: bool = True) -> None:
    """Tell other programs of this user where the store is served."""
    said = msgspec.json.encode(Running(url, os.getpid(), local, page))
    _write(path_of(location, "json"), said.decode(), replace=True)


def forget_running(location: str) -> None:
    """The server ends; what another process said meanwhile stays."""
    found = running(location, alive=False)
    if found is not None and found.pid == os.getpid():
        with suppress(OSError):
            os.unlink(path_of(location, "json"))


def running(location: str, *, alive: bool = True) -> Running | None:
    """The server of this store on this machine; None: there is none. `alive`: and its process is there."""
    try:
        found = msgspec.json.decode(read_private(path_of(location, "json"), _MOST), type=Running)
        if alive:
            os.kill(found.pid, 0)
    except (OSError, NotPrivateError, BackendUnavailableError, msgspec.MsgspecError, OverflowError):
        return None
    return found


def path_of(location: str, ending: str) -> str:
    """The place of a file of the server of this store."""
    try:
        directory = servers_directory()
    except KeyRefusedError as exc:
        raise BackendUnavailableError(f"there is no place for the token of a server: {exc}") from exc
    return os.path.join(directory, f"{blake3(location.encode()).hexdigest(16)}.{ending}")


def _read_token(path: str) -> str | None:
    try:
        text = read_private(path, _MOST).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except NotPrivateError as exc:
        raise BackendUnavailableError(f"the token of this server is no secret: {exc}") from exc
    except OSError as exc:
        raise BackendUnavailableError(f"the token {path} cannot be read: {exc.strerror or exc}") from exc
    if (found := parsed(text)) is None or found.id != OWN:
        raise BackendUnavailableError(f"the token {path} is damaged: remove it, and a new one is made")
    return text


def _write(path: str, text: str, *, replace: bool) -> None:
    try:
        write_private(path, text.encode(), replace=replace)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise BackendUnavailableError(f"{path} cannot be written ({reason}): set {VARIABLE}") from exc
