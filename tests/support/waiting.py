"""Waiting for what tells of itself by no event: polled without a limit, because pytest has the only one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE = 0.01
"""Seconds between two looks."""


def until(condition: Callable[[], T], *, pause: float = PAUSE) -> T:
    """Look again and again until `condition()` is true, and return what it returned."""
    while not (value := condition()):
        time.sleep(pause)
    return value
