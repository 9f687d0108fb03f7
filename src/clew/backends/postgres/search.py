"""Finding entries by their words."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.backends.postgres.ids import home_of
from clew.backends.postgres.statements_search import (
    SEARCHED_UPTO,
    UNSEARCHED,
    finding,
    is_sure,
)
from clew.backends.postgres.streams import StreamReader
from clew.backends.scanned_texts import is_match
from clew.core.messages.texts import TextPlace, TextQuery
from clew.core.rows import NOWHERE

MOST_AT_ONCE: Final = 1000


class TextReader(StreamReader):
    def unsearched_trees(self) -> list[int]:
        return [tree for (tree,) in self.ask(UNSEARCHED)]

    def searched_upto(self, branch: int) -> int:
        rows = self.ask(SEARCHED_UPTO, home_of(branch), branch)
        return int(rows[0][0]) if rows else NOWHERE

    def find_texts(self, query: TextQuery) -> list[TextPlace]:
        """What the words alone do not decide is decided by a look at the text."""
        found: list[TextPlace] = []
        sure = is_sure(query.query)
        asked = query
        while len(found) < query.limit:
            sql, given = finding(asked)
            rows = self.ask(sql, *given)
            for time, branch, position, slices in rows:
                place = TextPlace(time, branch, position)
                if (sure and slices == 1) or is_match(self, place, query):  # type: ignore[arg-type]
                    found.append(place)
            if len(rows) < asked.limit:
                break
            last = TextPlace(*rows[-1][:3])
            asked = msgspec.structs.replace(asked, before=last, limit=min(asked.limit * 2, MOST_AT_ONCE))
        return found[: query.limit]
