"""Values that tests of several subjects use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

# Times, in microseconds where nothing else is said
SECOND: Final = 1_000_000
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
ONE_DAY: Final = timedelta(days=1)

BAD_IDS: dict[str, Any] = {
    "empty": "",
    "NUL": "a\0b",
    "513 bytes": "ü" * 256 + "x",
    "lone surrogate": "\ud83d",
    "None": None,
    "number": 7,
    "bytes": b"a",
}
VALUES: list[Any] = [
    None, True, False, 0, -1, 10**40, 1.5, -0.0, 1e300, "", "\0", "ü\U0001f600\u2028", [], {}, [[[]]],
    {"z": 1, "a": [None, {"": 0}]},
]  # fmt: skip
