"""What the fields of stored rows and records may hold. msgspec refuses anything else when it decodes them."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

MOST: Final = 2**63 - 1
"""What every storage can hold as a number."""
MAX_POSITION: Final = 2**32 - 1
FIRST_TIME: Final = -62_135_596_800_000_000
"""The begin of the year 1,"""
LAST_TIME: Final = 253_402_300_799_999_999
"""and the end of the year 9999: what a `datetime` can show."""
STATUS_COUNT: Final = 7
MAX_TITLE: Final = 500
"""Characters."""
DIGEST_SIZE: Final = 32

Time: TypeAlias = Annotated[int, Meta(ge=FIRST_TIME, le=LAST_TIME)]
"""Microseconds since 1970 UTC."""
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]
"""Of things, or the number of one."""
Integer: TypeAlias = Annotated[int, Meta(ge=-MOST - 1, le=MOST)]
Position: TypeAlias = Annotated[int, Meta(ge=-1, le=MAX_POSITION)]
"""Of an entry; -1: of none."""
StatusNumber: TypeAlias = Annotated[int, Meta(ge=0, lt=STATUS_COUNT)]
Digest: TypeAlias = Annotated[bytes, Meta(min_length=DIGEST_SIZE, max_length=DIGEST_SIZE)]


def is_time(moment: int) -> bool:
    """Whether it can be shown as a `datetime`."""
    return FIRST_TIME <= moment <= LAST_TIME
