"""What the index of words forgets with a log."""

from __future__ import annotations

import apsw

from clew.backends.sqlite.rows import POSITION_MASK, key
from clew.backends.sqlite.statements_search import (
    DROP_PLACE,
    DROP_UPTO,
    DROP_WORDS,
    FORGET_TREE,
    PLACES,
)


def forget_texts(connection: apsw.Connection, branch: int) -> None:
    """Let nothing of a branch be found, and all sessions that may show it be searched anew."""
    places = connection.execute(PLACES, (key(branch, 0), key(branch, POSITION_MASK))).fetchall()
    if places:
        connection.executemany(DROP_WORDS, places)
        connection.executemany(DROP_PLACE, places)
    connection.execute(FORGET_TREE, (branch,))
    connection.execute(DROP_UPTO, (branch,))
