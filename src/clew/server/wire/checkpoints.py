"""Checkpoints on the wire."""

from __future__ import annotations

import msgspec

from clew.model import Checkpoint, Json


class Checkpoints(msgspec.Struct, frozen=True):
    """The names of points on the path, oldest first."""

    data: list[Checkpoint]


class CheckpointBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept with a checkpoint."""

    state: Json = None
    """Any JSON value."""
    files: str | None = None
    """A directory on the machine of the server: its content is kept too. Needs the scope files, and a server
    that was started with `--allow files`."""
    include: tuple[str, ...] = ()
    """Patterns as in `.gitignore`: files that are kept although they are ignored."""
    exclude: tuple[str, ...] = ()
    """More patterns of what is left out."""
