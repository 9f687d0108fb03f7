"""A session as a file in the JSONL format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clew.core.transfer.jsonl_file import export_lines
from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.redact.jsonl import redacted_lines

if TYPE_CHECKING:
    from clew.store import Store


def pieces(store: Store, id: str, *, redact: bool | Redactor = False) -> Iterator[bytes]:
    """The lines.

    Args:
        store: Where the session is.
        id: Its id or alias.
        redact: Without secrets, and with new hashes. A `Redactor` of yours can report what it replaced.
    """
    found = export_lines(store._scope, store.get(id)._access.sid)
    redactor = redactor_of(redact)
    return found if redactor is None else redacted_lines(found, redactor)
