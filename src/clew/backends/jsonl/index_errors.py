"""By which errors an index that can not be used is known: it is a cache, and made anew."""

from __future__ import annotations

import struct
from typing import Final

import apsw
import msgspec

from clew.errors import CorruptError, CorruptSessionError, InvalidUrlError, SchemaTooNewError

_WRONG: Final = (
    apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError,
)  # fmt: skip
BROKEN: Final = (*_WRONG, CorruptError, InvalidUrlError, SchemaTooNewError)
"""When it is opened."""
NONSENSE: Final = (
    *_WRONG, msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError, StopIteration,
    struct.error,
)  # fmt: skip
"""When it catches up: of rows that nobody wrote. The logs can not be the cause, their lines are checked."""
MEANINGLESS: Final = (
    apsw.SQLError, msgspec.MsgspecError, UnicodeDecodeError, struct.error, CorruptSessionError,
)  # fmt: skip
"""When it is read."""
