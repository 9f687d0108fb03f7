"""A session as a file in the JSONL format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clew.interchange import export_lines

if TYPE_CHECKING:
    from clew.store import Store


def pieces(store: Store, id: str) -> Iterator[bytes]:
    return export_lines(store._engine, store.get(id)._access.sid)
