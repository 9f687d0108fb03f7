"""The values of `watch`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from clew.model.run import Status
from clew.model.session import Head

ChangeKind: TypeAlias = Literal["created", "changed", "deleted"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened in a session. Several things that happened soon after each other may be one."""

    kind: ChangeKind
    """created: no entry was written yet; deleted: it is in the trash."""
    session: str
    at: datetime
    head: Head
    messages: int
    """On its path."""
    status: Status
    cursor: str
    """Pass it as `after=` to go on from here, in this process or another."""
