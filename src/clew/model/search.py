"""The values of `search`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, TypeAlias, overload

import msgspec

SearchRole: TypeAlias = Literal["user", "assistant", "tool", "system", "other"]
SearchOrder: TypeAlias = Literal["newest", "best"]


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was found, by its text or by a note beside it."""

    session: str
    """A session that can show it: one on whose path it is, if there is one."""
    title: str | None
    """Of that session."""
    entry_id: str
    position: int
    on_path: bool
    """False: the session was rewound past it; `rewind(entry_id)` goes back to it."""
    role: SearchRole
    at: datetime
    snippet: str
    """The text around the first hit, as it was written: untrusted, with whatever characters it had."""
    marks: tuple[tuple[int, int], ...]
    """Where in `snippet` the hits are: (start, end)."""
    in_tool: bool
    """The hit is in the arguments or the result of a tool call, not in the text of a message."""
    in_note: bool = False
    """The hit, and so the snippet, is in the note beside the message, not in the message."""
    copies: int = 0
    """So many more messages that say the same are left out of this page: copies in sessions that a program
    forked or resumed, and calls that quote what a subagent was told or answered."""


class SearchPage(msgspec.Struct, frozen=True):
    """One page of hits. Pass `cursor` to `search()` for the next one; None: this was the last."""

    hits: tuple[Hit, ...]
    cursor: str | None

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]
