"""The kinds of stores that copies, backups and repairs go between. A new backend is one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import clew

KINDS = ("memory", "sqlite", "jsonl", "postgresql")
ROUND = tuple(zip(KINDS, KINDS[1:] + KINDS[:1], strict=True))
"""Every kind once on either side: what a copy asks of one it asks whatever the other is."""
OTHERS = tuple((one, other) for one in KINDS for other in KINDS if (one, other) not in ROUND)

Address: TypeAlias = Callable[[str], str]
Open: TypeAlias = Callable[[str], clew.Store]
