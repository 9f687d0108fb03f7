"""What is left when a session was written where an agent looks for it, and how such a file is made.

An exporter with `write_session` puts a session into the place of its agent, under a new id, and says with
what command the agent goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from clew.errors import ConflictError


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A session that an agent can go on with."""

    id: str
    """The agent's own id of it."""
    command: list[str]
    """The program and its arguments."""
    directory: str
    """Where to run it."""
    paths: list[Path] = []
    """The files that were written, the session's own first."""
    notes: list[str] = []
    """What is different in the agent, a sentence each: what was left out, what could not be mapped."""


def write_new(path: Path, pieces: Iterable[bytes]) -> Path:
    """Write a file that is not there yet, with the directories above it, private to the user.

    A file that is there is never touched: ConflictError. One that could not be written whole is removed.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise ConflictError(f"{path} exists already; nothing was written") from error
    try:
        with open(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path
