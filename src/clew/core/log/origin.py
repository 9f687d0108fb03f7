"""Where an imported session came from: the format and path of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from clew.model import Json

ORIGIN: Final = "imported_from"
"""The metadata that say of a session that it came from elsewhere, and from where."""


class Origin(NamedTuple):
    format: str
    path: str


def origin_of(metadata: Mapping[str, Json]) -> Origin | None:
    """None: it was not imported."""
    found = metadata.get(ORIGIN)
    if not found:
        return None
    told = found if isinstance(found, dict) else {}
    format, path = told.get("format"), told.get("path")
    return Origin(format if isinstance(format, str) else "", path if isinstance(path, str) else "")
