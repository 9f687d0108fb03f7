"""The latest messages of a session, and the way back to before one of them."""

from __future__ import annotations

from itertools import islice
from typing import Final

import clew

BEGINNING: Final = clew.Head("", -1)
"""Where a session stands that has no entries."""


def newest(session: clew.Session, count: int) -> list[clew.Entry]:
    """The latest entries that are messages, newest first."""
    latest = list(session.entries(last=count, newest_first=True))
    messages = [entry for entry in latest if entry.kind == "message"]
    if len(messages) == len(latest):
        return messages
    # There are marks among them, as a summary is: look further.
    path = (entry for entry in session.entries(newest_first=True) if entry.kind == "message")
    return list(islice(path, count))


def rewind_before(session: clew.Session, entry: clew.Entry) -> None:
    """Let an entry of the path, and all behind it, be on a branch that was left."""
    session.rewind(entry.position - 1 if entry.position else BEGINNING)
