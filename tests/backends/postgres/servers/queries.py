"""What is sent to the server, counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from clew.backends.postgres.connection import ServerConnection


class Traffic:
    """The statements of each round trip."""

    def __init__(self) -> None:
        self.trips: list[list[str]] = []

    @property
    def statements(self) -> list[str]:
        return [sql for trip in self.trips for sql in trip]


@contextmanager
def traffic() -> Iterator[Traffic]:
    """Watch every connection of this process."""
    seen = Traffic()
    run, ask = ServerConnection.run, ServerConnection.ask

    def watched_run(self: ServerConnection, statements: Sequence[Any]) -> None:
        seen.trips.append([sql for sql, _ in statements])
        run(self, statements)

    def watched_ask(
        self: ServerConnection, sql: str, given: Sequence[Any], *, after: Sequence[Any] = ()
    ) -> Any:
        seen.trips.append([*(before for before, _ in after), sql])
        return ask(self, sql, given, after=after)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerConnection, "run", watched_run)
        patch.setattr(ServerConnection, "ask", watched_ask)
        yield seen
